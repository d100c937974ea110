import { MailkeepError } from './mailkeep-error.ts';

/** A port of the daemon's that cannot be listened on; `section` is the one of the configuration that names it. */
export interface ListenFacts {
  readonly 'cannot-listen': {
    readonly section: string;
    readonly host: string;
    readonly port: number;
    readonly reason: string;
  };
}

/** Exit code 2: the configuration names an address that is taken, not this machine's, or not allowed. */
export function cannotListen(
  facts: ListenFacts['cannot-listen'],
  cause: unknown,
): MailkeepError<'cannot-listen', ListenFacts['cannot-listen']> {
  return new MailkeepError('config', 'cannot-listen', facts, { cause });
}
