import { MailkeepError } from './mailkeep-error.ts';

/**
 * What ended a worker thread: its heap or the host's watch over memory (`memory`), its deadline (`timeout`), an error
 * that it did not catch (`thrown`), its own exit (`exited`), or the host, on purpose (`closed`).
 */
export type ThreadEndCause = 'memory' | 'timeout' | 'thrown' | 'exited' | 'closed';

export type ThreadEnded = ReturnType<typeof threadEnded>;

/**
 * A worker thread ended. `started` is false if it never listened to its port: then the installation is broken, not
 * the work. `detail` is the message of what it threw, or its exit code.
 */
export function threadEnded(
  facts: {
    readonly thread: string;
    readonly file: string;
    readonly reason: ThreadEndCause;
    readonly started: boolean;
    readonly detail: string;
  },
  cause: unknown,
) {
  return new MailkeepError('mail', 'thread-ended', facts, { cause });
}
