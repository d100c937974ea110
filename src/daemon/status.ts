import { z } from 'zod';

const time = z.string().nullable();
const count = z.number();

/** What only a running daemon knows, as it tells it over its control socket. Times in ISO 8601 UTC. */
export const daemonStatus = z.object({
  pid: count,
  startedAt: z.string(),
  now: z.string(),
  schedule: z.array(z.object({ name: z.string(), lastAt: time, nextAt: time })),
  /** Passes that wait, by what they are for. */
  waiting: z.object({ hint: count, hand: count, sync: count, backlog: count, sweep: count }),
  underway: z.array(
    z.object({ account: z.string(), mailbox: z.string(), kind: z.string(), forMs: count }),
  ),
  accounts: z.array(
    z.object({
      name: z.string(),
      /** `refused`: the token. `away`: the host cannot be reached, or wants to be left alone. */
      state: z.enum(['ok', 'refused', 'away']),
      code: z.string().nullable(),
      since: time,
      retryAt: time,
      mailboxes: count,
      /** The last run over all mailboxes: when it began, and how long it took. */
      roundAt: time,
      roundMs: count.nullable(),
      /** From the start of the last run but one to the start of the last: the freshness that is reached. */
      everyMs: count.nullable(),
    }),
  ),
});
export type DaemonStatus = z.output<typeof daemonStatus>;
