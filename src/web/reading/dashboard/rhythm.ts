import type { Quarters } from '../../../catalog/stats/hours.ts';
import { wallTime } from '../../../search/dates.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/**
 * Returns how many messages came in each hour of the week: seven weekdays from Monday, 24 hours each, as clocks of a
 * zone show them.
 *
 * @param zone IANA name; absent: this machine's
 */
export function hoursOfWeek(
  { counts }: Pick<Quarters, 'counts'>,
  zone: string | undefined,
): number[][] {
  const week = Array.from({ length: 7 }, () => new Array<number>(24).fill(0));
  const offsetAt = offsets(zone);
  for (const [time, messages] of counts) {
    const local = time + offsetAt(time);
    // 1 January 1970 was a Thursday.
    const weekday = (((Math.floor(local / DAY_MS) + 3) % 7) + 7) % 7;
    const hour = Math.floor((((local % DAY_MS) + DAY_MS) % DAY_MS) / HOUR_MS);
    const row = week[weekday];
    if (row !== undefined) row[hour] = (row[hour] ?? 0) + messages;
  }
  return week;
}

/**
 * Returns a function from a time to what clocks of a zone are ahead of UTC, in milliseconds. Asking the calendar takes
 * microseconds, so it is asked for the ends of a UTC day, and within the day only where they differ.
 */
function offsets(zone: string | undefined): (time: number) => number {
  const known = new Map<number, number>();
  const ask = (time: number): number => {
    const found = known.get(time);
    if (found !== undefined) return found;
    const { year, month, day, hour, minute, second } = wallTime(time, zone);
    const shown = Date.UTC(2000, month - 1, day, hour, minute, second);
    const offset = new Date(shown).setUTCFullYear(year, month - 1, day) - time;
    known.set(time, offset);
    return offset;
  };
  return (time) => {
    const start = Math.floor(time / DAY_MS) * DAY_MS;
    const [first, next] = [ask(start), ask(start + DAY_MS)];
    return first === next ? first : ask(time);
  };
}
