import type { Accounts } from './accounts.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { DaemonStatus } from './status.ts';
import type { Scheduled, Timetable } from './timetable.ts';

const NAMES: readonly Scheduled[] = ['sync', 'sweep', 'verify', 'prune'];

/** The daemon's state as it tells it to others. */
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
    schedule: NAMES.map((name) => ({
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
