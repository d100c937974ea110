import { docidAt } from '../../mail/docid.ts';
import { localMoment, wallTime } from '../../search/dates.ts';

/** A year or month of a time zone. */
export interface Period {
  /** `2026` or `2026-03`. */
  readonly key: string;
  /** Docids of its messages, from `low` (included) to `high` (excluded). */
  readonly low: number;
  readonly high: number;
}

/**
 * Returns the years or months of a zone that a stretch of time touches, the oldest first.
 *
 * @param from milliseconds since the epoch, as is `to`
 * @param timeZone IANA name; absent: this machine's
 */
export function periodsBetween(
  unit: 'year' | 'month',
  from: number,
  to: number,
  timeZone: string | undefined,
): Period[] {
  const periods: Period[] = [];
  const wall = wallTime(from, timeZone);
  const last = wallTime(to, timeZone);
  let { year } = wall;
  let month = unit === 'year' ? 1 : wall.month;
  while (year < last.year || (year === last.year && month <= last.month)) {
    const next =
      unit === 'year' || month === 12 ? { year: year + 1, month: 1 } : { year, month: month + 1 };
    const name = String(year).padStart(4, '0');
    periods.push({
      key: unit === 'year' ? name : `${name}-${String(month).padStart(2, '0')}`,
      low: docidAt(localMoment({ year, month, day: 1 }, timeZone)),
      high: docidAt(localMoment({ ...next, day: 1 }, timeZone)),
    });
    ({ year, month } = next);
  }
  return periods;
}
