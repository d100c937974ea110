import type { Rhythm } from '../config/copies.ts';
import type { KnownCopy } from '../state/copies.ts';
import { cronTimes } from './timetable.ts';

const DAY_MS = 24 * 3_600_000;

/** Of a cron expression: how many of its times are compared to find the longest gap. */
const COMPARED = 10;
/** After a failure, the next try comes so soon; each further one after twice as long. */
const FIRST_RETRY_MS = 60_000;
const LONGEST_RETRY_MS = 3_600_000;
/** One minute doubled so often is more than the longest wait. */
const MOST_DOUBLINGS = 6;

/** When something that is done again and again is due. */
export interface CopyTimes {
  /** The first time after the last one, in milliseconds since the epoch; null where there is none. */
  next(last: number): number | null;
  /** The longest time between two of them. */
  readonly longestMs: number;
  /** Done only if there is something to do; a cron expression is always heeded. */
  readonly isInterval: boolean;
}

/** @param timezone IANA name, or `local` */
export function copyTimes(rhythm: Rhythm, timezone: string, now: number): CopyTimes {
  if ('everyMs' in rhythm) {
    const { everyMs } = rhythm;
    return { next: (last) => last + everyMs, longestMs: everyMs, isInterval: true };
  }
  const times = cronTimes(rhythm.cron, timezone);
  let longestMs = 0;
  let before = times.next(now);
  for (let n = 1; before !== null && n < COMPARED; n += 1) {
    const after = times.next(before);
    if (after !== null) longestMs = Math.max(longestMs, after - before);
    before = after;
  }
  return { next: (last) => times.next(last), longestMs, isInterval: false };
}

/** Returns how long to wait after so many failures in a row. */
export function retryAfterMs(tries: number): number {
  const doublings = Math.min(Math.max(0, tries - 1), MOST_DOUBLINGS);
  return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** doublings);
}

/** Returns when a copy is due, in milliseconds since the epoch; null where it never is. */
export function copyDueAt(
  times: CopyTimes,
  { made, failed, plan }: KnownCopy,
  now: number,
): number | null {
  // A time in the future comes from a clock that was set back meanwhile.
  if (failed !== null) return Math.min(failed.at, now) + retryAfterMs(failed.tries);
  if (made !== null) return times.next(Math.min(made.at, now));
  return times.isInterval ? now : times.next(Math.min(plan?.since ?? now, now));
}

/** Returns when all of a copy is to be read back; null where it never is. */
export function checkDueAt(
  times: CopyTimes | null,
  { made, checked, plan }: KnownCopy,
  now: number,
): number | null {
  if (times === null || made === null) return null;
  return times.next(Math.min(checked?.fullAt ?? plan?.since ?? now, now));
}

/**
 * Whether a copy is to be made to extend its locks, though nothing is new: it extends those of which less than half is
 * left.
 */
export function areLocksDue(lockDays: number | null, madeAt: number, now: number): boolean {
  return lockDays !== null && now - madeAt >= (lockDays * DAY_MS) / 4;
}
