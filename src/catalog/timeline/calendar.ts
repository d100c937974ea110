import { DOCIDS_PER_SECOND, docidAt } from '../../mail/docid.ts';
import { localMoment, wallTime } from '../../search/dates.ts';

/** What a bar of the spine stands for. */
export type SpineUnit = 'month' | 'week' | 'day';

/** A month, week or day of a zone; weeks begin on Mondays. */
export interface CalendarPeriod {
  /** Its first day: `2026-03-01`. */
  readonly key: string;
  /** Docids of its messages, from `low` (included) to `high` (excluded). */
  readonly low: number;
  readonly high: number;
}

/** Milliseconds. */
const DAY = 86_400_000;
/** Up to here bars are days, and up to there weeks. */
const DAYS_UP_TO = 62 * DAY;
const WEEKS_UP_TO = 731 * DAY;

/** Returns what bars over a stretch of time stand for. */
export function unitFor(low: number, high: number): SpineUnit {
  const length = timeOf(high) - timeOf(low);
  if (length <= DAYS_UP_TO) return 'day';
  return length <= WEEKS_UP_TO ? 'week' : 'month';
}

/** Returns when the messages of a docid's second were received: milliseconds since the epoch. */
export function timeOf(docid: number): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

/**
 * Returns the period that a docid lies in.
 *
 * @param timeZone IANA name; absent: this machine's
 */
export function periodOf(
  unit: SpineUnit,
  docid: number,
  timeZone: string | undefined,
): CalendarPeriod {
  const { year, month, day } = wallTime(timeOf(docid), timeZone);
  const weekday = (new Date(Date.UTC(year, month - 1, day)).getUTCDay() + 6) % 7;
  const first = unit === 'month' ? 1 : unit === 'week' ? day - weekday : day;
  const begin = (count: number) =>
    unit === 'month'
      ? { year, month: month + count, day: 1 }
      : { year, month, day: first + count * (unit === 'week' ? 7 : 1) };
  const docidOf = (count: number) => docidAt(localMoment(begin(count), timeZone));
  // Where clocks are set back at midnight, a day's last hour comes after the next day has begun.
  const later = docid >= docidOf(1) ? 1 : 0;
  const { year: y, month: m, day: d } = begin(later);
  return {
    key: new Date(Date.UTC(y, m - 1, d)).toISOString().slice(0, 10),
    low: docidOf(later),
    high: docidOf(later + 1),
  };
}
