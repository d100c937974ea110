import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const hello = z.object({
  url: z.string(),
  tokens: z.object({ mailbox: z.string(), platform: z.string() }),
  mailboxes: z.array(z.object({ resourceId: z.string(), address: z.string() })).min(1),
  orderId: z.string(),
});
export type Hello = z.output<typeof hello>;

const state = z.object({
  /** Bytes of heap and buffers after a full collection. */
  heap: z.number(),
  rss: z.number(),
  requests: z.object({ total: z.number(), byStatus: z.record(z.string(), z.number()) }),
  /** What the service could not answer for reasons of its own. */
  failures: z.array(z.string()),
});
export type State = z.output<typeof state>;

export interface Service {
  readonly hello: Hello;
  state(): Promise<State>;
  stop(): Promise<void>;
}

/** Starts the service in a process of its own. @param stateFile SQLite file; memory where it is undefined */
export async function startService(stateFile: string | undefined): Promise<Service> {
  const child = fork(
    fileURLToPath(new URL('server.ts', import.meta.url)),
    stateFile === undefined ? [] : [stateFile],
    {
      execArgv: ['--import', 'tsx', '--expose-gc'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    },
  );
  const died = once(child, 'exit').then(([code]) => {
    throw new Error(`the service ended with ${String(code)}`);
  });
  // Whoever waits hears of it; nobody has to wait.
  died.catch(() => {});
  const answer = async (): Promise<unknown> => {
    const [message]: unknown[] = await Promise.race([once(child, 'message'), died]);
    return message;
  };
  return {
    hello: hello.parse(await answer()),
    state: async () => {
      child.send('state');
      return state.parse(await answer());
    },
    stop: async () => {
      const ended = once(child, 'exit');
      child.send('stop');
      await ended;
    },
  };
}
