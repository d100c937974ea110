/** A moment as a clock on the wall shows it; month counts from 1, and fields may overflow as in `Date.UTC`. */
export interface WallTime {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour?: number;
  readonly minute?: number;
  readonly second?: number;
}

/**
 * The moment (milliseconds since the epoch) at which clocks of a zone show a wall time. Where clocks skip it,
 * the moment of the skip's length later; where they show it twice, the first.
 *
 * @param timeZone IANA name; absent: this machine's
 * @throws RangeError for a zone nobody knows
 */
export function localMoment(wall: WallTime, timeZone?: string): number {
  const { year, month, day, hour = 0, minute = 0, second = 0 } = wall;
  if (timeZone === undefined) {
    const date = new Date(2000, month - 1, day, hour, minute, second);
    date.setFullYear(year, month - 1, day);
    return date.getTime();
  }
  const asUtc = utc(year, month, day, hour, minute, second);
  const before = asUtc - offsetAt(asUtc - 86_400_000, timeZone);
  const after = asUtc - offsetAt(asUtc + 86_400_000, timeZone);
  for (const moment of [Math.min(before, after), Math.max(before, after)])
    if (moment + offsetAt(moment, timeZone) === asUtc) return moment;
  return before;
}

/** What clocks of a zone show at a moment. */
export function wallTime(moment: number, timeZone?: string): Required<WallTime> {
  if (timeZone === undefined) {
    const date = new Date(moment);
    return {
      year: date.getFullYear(),
      month: date.getMonth() + 1,
      day: date.getDate(),
      hour: date.getHours(),
      minute: date.getMinutes(),
      second: date.getSeconds(),
    };
  }
  const shifted = new Date(moment + offsetAt(moment, timeZone));
  return {
    year: shifted.getUTCFullYear(),
    month: shifted.getUTCMonth() + 1,
    day: shifted.getUTCDate(),
    hour: shifted.getUTCHours(),
    minute: shifted.getUTCMinutes(),
    second: shifted.getUTCSeconds(),
  };
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Milliseconds that clocks of a zone are ahead of UTC at a moment. */
function offsetAt(moment: number, timeZone: string): number {
  let format = formats.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US-u-ca-iso8601-nu-latn', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    formats.set(timeZone, format);
  }
  const parts = new Map(
    format.formatToParts(moment).map(({ type, value }) => [type, Number(value)]),
  );
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0;
  const shown = utc(
    part('year'),
    part('month'),
    part('day'),
    part('hour'),
    part('minute'),
    part('second'),
  );
  return shown - Math.floor(moment / 1000) * 1000;
}

/** `Date.UTC` without its reading of years below 100 as of the last century. */
function utc(y: number, month: number, day: number, h: number, m: number, s: number): number {
  const date = new Date(Date.UTC(2000, month - 1, day, h, m, s));
  date.setUTCFullYear(y, month - 1, day);
  return date.getTime();
}
