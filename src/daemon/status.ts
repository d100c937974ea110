import { z } from 'zod';
import type { Accounts } from './accounts.ts';
import type { Dispatcher } from './dispatcher.ts';
import { SCHEDULED, type Timetable } from './timetable.ts';

const time = z.string().nullable();
const count = z.number();

/** What only a running daemon knows, as reported over its control socket. Times in ISO 8601 UTC. */
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

/** The daemon's state as reported to others. */
export function describe(daemon: {
  readonly startedAt: number;
  readonly now: number;
  readonly timetable: Timetable;
  readonly dispatcher: Dispatcher;
  readonly accounts: Accounts;
}): DaemonStatus {
  const { timetable, dispatcher, accounts } = daemon;
  return {
    pid: process.pid,
    startedAt: new Date(daemon.startedAt).toISOString(),
    now: new Date(daemon.now).toISOString(),
    schedule: SCHEDULED.map((name) => ({
      name,
      lastAt: iso(timetable.lastAt(name)),
      nextAt: iso(timetable.nextAt(name)),
    })),
    waiting: dispatcher.waiting(),
    underway: dispatcher.underway().map(({ mailbox, kind, forMs }) => ({
      account: mailbox.account,
      mailbox: mailbox.address,
      kind,
      forMs: Math.round(forMs),
    })),
    accounts: accounts.names.map((name) => {
      const trouble = accounts.trouble(name);
      const { round, everyMs } = accounts.freshness(name);
      return {
        name,
        state: trouble?.state ?? 'ok',
        code: trouble?.code ?? null,
        since: iso(trouble?.since),
        retryAt: iso(trouble?.retryAt),
        mailboxes: accounts.mailboxes(name).length,
        roundAt: iso(round?.startedAt),
        roundMs: round?.durationMs ?? null,
        everyMs: everyMs ?? null,
      };
    }),
  };
}

function iso(at: number | null | undefined): string | null {
  return at === null || at === undefined ? null : new Date(at).toISOString();
}
