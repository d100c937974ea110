import { hasCode, MailkeepError } from '../core/errors.ts';
import { failureOfAccount, type SyncFailure, type SyncResult } from '../sync/result.ts';
import { daemonError } from './errors.ts';
import type { AccountFailure, AccountTrouble, Aim, RunKind, WatchedMailbox } from './ports.ts';
import type { Run } from './runs.ts';

/** What comes first, by what it is for. A pass that takes long is backlog, whatever it began as. */
export const RANKS: readonly RunKind[] = ['hint', 'hand', 'sync', 'backlog', 'sweep'];

/** A pass over a mailbox that is to be made, and the runs that wait for it. */
export interface Task {
  readonly mailbox: WatchedMailbox;
  readonly aim: Aim;
  rank: RunKind;
  /** When a pass with this aim was first begun; undefined before that. */
  begunAt: number | undefined;
  readonly runs: Set<Run>;
}

/** A pass under way. */
export interface Underway {
  readonly task: Task;
  /** By the clock that never goes back. */
  readonly startedAt: number;
  stopping: boolean;
}

/** The origin's name of a mailbox: two accounts that reach the same one must not write it at the same time. */
export function mailboxKey({ host, resourceId }: WatchedMailbox): string {
  return `${host}/${resourceId}`;
}

/** A pass that began as anything better is backlog from this age on. */
export const SLICE_MS = 30_000;
/** From this age on a pass makes room for another that waits in its class. */
export const ROTATE_MS = 600_000;
/** Passes of an account that may be under way, by what they are now. Requests are paced by the limiter, whatever these are. */
export const SLOTS: Readonly<Record<RunKind, number>> = {
  hint: 4,
  hand: 4,
  sync: 4,
  backlog: 4,
  sweep: 1,
};

export function classOf({ task, startedAt }: Underway, monotonic: number): RunKind {
  if (task.rank === 'sweep' || monotonic - startedAt < SLICE_MS) return task.rank;
  return 'backlog';
}

interface Decision {
  readonly start: readonly Task[];
  readonly stop: readonly Underway[];
}

/**
 * Returns what to start and what to interrupt now. A mailbox has one pass at a time. An interrupted pass resumes later
 * where it stopped, after whatever took precedence over it.
 *
 * @param isOpen whether passes of an account may be started at all
 */
export function decide(
  waiting: readonly Task[],
  underway: readonly Underway[],
  monotonic: number,
  isOpen: (account: string) => boolean,
): Decision {
  const busy = new Map(underway.map((one) => [mailboxKey(one.task.mailbox), one]));
  const counts = new Map<string, number>();
  const count = (account: string, kind: RunKind): number => counts.get(slot(account, kind)) ?? 0;
  const add = (account: string, kind: RunKind): void => {
    counts.set(slot(account, kind), count(account, kind) + 1);
  };
  for (const one of underway) add(one.task.mailbox.account, classOf(one, monotonic));
  const oldest = oldestByClass(underway, monotonic);
  const stop = new Set<Underway>();
  const start: Task[] = [];
  for (const rank of RANKS) {
    for (const task of waiting) {
      const { account } = task.mailbox;
      if (task.rank !== rank || !isOpen(account)) continue;
      const other = busy.get(mailboxKey(task.mailbox));
      if (other !== undefined) {
        if (isBetter(rank, classOf(other, monotonic))) stop.add(other);
      } else if (count(account, rank) < SLOTS[rank]) {
        add(account, rank);
        start.push(task);
        busy.set(mailboxKey(task.mailbox), { task, startedAt: monotonic, stopping: false });
      } else {
        const first = oldest.get(slot(account, rank));
        if (first !== undefined && monotonic - first.startedAt >= ROTATE_MS) stop.add(first);
      }
    }
  }
  for (const { task } of underway) {
    const { account } = task.mailbox;
    if (count(account, 'backlog') <= SLOTS.backlog) continue;
    const first = oldest.get(slot(account, 'backlog'));
    if (first !== undefined) stop.add(first);
  }
  return { start, stop: [...stop].filter(({ stopping }) => !stopping) };
}

/** Returns whether the waiting run of a mailbox is worth interrupting the one in progress. */
function isBetter(waiting: RunKind, running: RunKind): boolean {
  if (running !== 'backlog' && running !== 'sweep') return false;
  return waiting === 'hint' || waiting === 'hand' || waiting === 'sync';
}

function slot(account: string, kind: RunKind): string {
  return `${account} ${kind}`;
}

/** Of each account and class the pass that was started first. */
function oldestByClass(underway: readonly Underway[], monotonic: number): Map<string, Underway> {
  const oldest = new Map<string, Underway>();
  for (const one of underway) {
    const key = slot(one.task.mailbox.account, classOf(one, monotonic));
    const known = oldest.get(key);
    if (known === undefined || one.startedAt < known.startedAt) oldest.set(key, one);
  }
  return oldest;
}

/** A refused token is tried again so slowly that nobody blocks us for it; a changed token file is seen at once. */
const REFUSED = { firstMs: 600_000, longestMs: 3_600_000 };
/** A lost network is usually back soon. */
const AWAY = { firstMs: 5_000, longestMs: 300_000 };

/** An account that waits, and how often it was tried in vain. */
export interface Waiting {
  readonly trouble: AccountTrouble;
  readonly tries: number;
}

/** What ended a pass for the whole account, if something did: such a failure names no mailbox. */
export function accountFailure(result: SyncResult): AccountFailure | undefined {
  return result.failures.find(({ mailbox }) => mailbox === null);
}

/**
 * How long to wait after an account failed, for the first time or again: doubling, with up to half of it left to
 * chance, so that many daemons do not come back at once.
 *
 * @param random from 0 to 1
 */
export function waitAfter(
  failure: Pick<AccountFailure, 'code' | 'family'>,
  before: Waiting | undefined,
  now: number,
  random: number,
): Waiting {
  const state = failure.family === 'auth' || failure.family === 'config' ? 'refused' : 'away';
  const again = before?.trouble.state === state ? before : undefined;
  const tries = (again?.tries ?? 0) + 1;
  const { firstMs, longestMs } = state === 'refused' ? REFUSED : AWAY;
  const bound = Math.min(longestMs, firstMs * 2 ** Math.min(tries - 1, 20));
  const since = again === undefined || again.trouble.since > now ? now : again.trouble.since;
  const retryAt = now + Math.round(bound * (0.5 + random / 2));
  return { trouble: { state, code: failure.code, since, retryAt }, tries };
}

/** True for a disk that may be better in a while; a log whose end is not known to be durable is not written to again. */
export function isOfTheDisk(error: unknown): error is MailkeepError {
  return (
    error instanceof MailkeepError &&
    error.family === 'disk' &&
    !hasCode(error, 'log-sync-failed') &&
    !hasCode(error, 'log-thread-ended') &&
    !hasCode(error, 'log-copy-failed')
  );
}

/** What ended a pass for the whole archive, as a named failure. Mistakes of the program stay in the daemon's log. */
export function archiveFailure(account: string, error: unknown): SyncFailure {
  const known = error instanceof MailkeepError ? error : daemonError('daemon-failed', {});
  return failureOfAccount(account, known);
}
