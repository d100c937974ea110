import type { ParseContext } from './query-ast.ts';

/** Local date and time. The month counts from 1, and fields can overflow as in `Date.UTC`. */
interface WallTime {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour?: number;
  readonly minute?: number;
  readonly second?: number;
}

/**
 * Returns the time of a local date and time, in milliseconds since the epoch. A time that the clock skips is moved by
 * the length of the skip. If a time occurs twice, the first is used.
 *
 * @param timeZone IANA name; defaults to this machine's
 * @throws RangeError for an unknown zone
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

interface Zone {
  readonly format: Intl.DateTimeFormat;
  /** Offsets from UTC in milliseconds, by time. */
  readonly offsets: Map<number, number>;
}

/** Each page needs the starts of the same months, weeks and days. For 15 years, calculating them takes 15 ms. */
const zones = new Map<string, Zone>();
/** Clients choose zone names, so the caches are limited. */
const MAX_ZONES = 32;
const MAX_OFFSETS = 4_096;

/** In milliseconds. Without a zone, returns this machine's offset. */
export function offsetAt(moment: number, timeZone: string | undefined): number {
  if (timeZone === undefined) return -60_000 * new Date(moment).getTimezoneOffset();
  const { format, offsets } = zoneOf(timeZone);
  const cached = offsets.get(moment);
  if (cached !== undefined) return cached;
  const parts = new Map(
    format.formatToParts(moment).map(({ type, value }) => [type, Number(value)]),
  );
  const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0;
  const local = utc(
    part('year'),
    part('month'),
    part('day'),
    part('hour'),
    part('minute'),
    part('second'),
  );
  const offset = local - Math.floor(moment / 1000) * 1000;
  if (offsets.size >= MAX_OFFSETS) offsets.clear();
  offsets.set(moment, offset);
  return offset;
}

function zoneOf(timeZone: string): Zone {
  const cached = zones.get(timeZone);
  if (cached !== undefined) return cached;
  const format = new Intl.DateTimeFormat('en-US-u-ca-iso8601-nu-latn', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  const zone = { format, offsets: new Map<number, number>() };
  if (zones.size >= MAX_ZONES) zones.clear();
  zones.set(timeZone, zone);
  return zone;
}

/** Like `Date.UTC`, but takes years below 100 literally. */
function utc(y: number, month: number, day: number, h: number, m: number, s: number): number {
  const date = new Date(Date.UTC(2000, month - 1, day, h, m, s));
  date.setUTCFullYear(y, month - 1, day);
  return date.getTime();
}

/** The period that a date in a query denotes: a day, month, year or single moment. Half-open. */
export interface Period {
  readonly from: number;
  readonly to: number;
}

type DateReading = { readonly period: Period } | { readonly problem: 'ambiguous' | 'unreadable' };

const DATE = /^(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?$/;
const TIME =
  /^(\d{4})-(\d{1,2})-(\d{1,2})[Tt ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(Z|z|[+-]\d{2}:?\d{2})?$/;
const AGO = /^(\d{1,6})(s|min|h|d|w|mo|y)$/;
const EPOCH = /^@(\d{1,11})$/;
const UNCLEAR = /^\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}$/;

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  min: 60_000,
  h: 3_600_000,
};

/**
 * Parses a date: `2024`, `2024-05`, `2024-05-17` (or with slashes), `2024-05-17T10:30` with or without seconds and
 * zone, `today`, `yesterday`, `@` followed by seconds since the epoch, or an age: `90s 15min 6h 3d 2w 1mo 1y`. Days,
 * months and years are in the context's zone. Refuses a bare `m`, because other programs disagree on it.
 */
export function readDate(text: string, context: ParseContext): DateReading {
  const word = text.toLowerCase();
  if (word === 'today') return { period: dayBefore(0, context) };
  if (word === 'yesterday') return { period: dayBefore(1, context) };
  const epoch = EPOCH.exec(text);
  if (epoch !== null) return moment(Number(epoch[1]) * 1000, 1000);
  const date = DATE.exec(text);
  if (date !== null) return readDay(date, context);
  const time = TIME.exec(text);
  if (time !== null) return readTime(time, context);
  const ago = AGO.exec(word);
  if (ago !== null) return moment(timeAgo(Number(ago[1]), ago[2] ?? '', context), 1);
  return { problem: UNCLEAR.test(text) ? 'ambiguous' : 'unreadable' };
}

/** Returns the time `count` units ago. Days and longer units follow the calendar of the zone. */
function timeAgo(count: number, unit: string, context: ParseContext): number {
  const ms = UNIT_MS[unit];
  if (ms !== undefined) return context.now - count * ms;
  const wall = wallTime(context.now, context.timeZone);
  const shifted: WallTime =
    unit === 'y'
      ? { ...wall, year: wall.year - count, day: clampDay(wall.year - count, wall.month, wall.day) }
      : unit === 'mo'
        ? monthsBefore(wall, count)
        : { ...wall, day: wall.day - count * (unit === 'w' ? 7 : 1) };
  // No message is older than the year 0, and dates much earlier than that are invalid.
  return localMoment({ ...shifted, year: Math.max(0, shifted.year) }, context.timeZone);
}

/** Returns the time that an age such as `3d` refers to; undefined for any other text. */
export function parseAge(text: string, context: ParseContext): number | undefined {
  const ago = AGO.exec(text.toLowerCase());
  return ago === null ? undefined : timeAgo(Number(ago[1]), ago[2] ?? '', context);
}

function moment(from: number, length: number): DateReading {
  return { period: { from, to: from + length } };
}

function dayBefore(days: number, { now, timeZone }: ParseContext): Period {
  const { year, month, day } = wallTime(now, timeZone);
  return {
    from: localMoment({ year, month, day: day - days }, timeZone),
    to: localMoment({ year, month, day: day - days + 1 }, timeZone),
  };
}

function readDay(match: RegExpExecArray, { timeZone }: ParseContext): DateReading {
  const year = Number(match[1]);
  const month = match[2] === undefined ? undefined : Number(match[2]);
  const day = match[3] === undefined ? undefined : Number(match[3]);
  if (!isCalendarDay(year, month ?? 1, day ?? 1)) return { problem: 'unreadable' };
  const next: WallTime =
    month === undefined
      ? { year: year + 1, month: 1, day: 1 }
      : day === undefined
        ? { year, month: month + 1, day: 1 }
        : { year, month, day: day + 1 };
  return {
    period: {
      from: localMoment({ year, month: month ?? 1, day: day ?? 1 }, timeZone),
      to: localMoment(next, timeZone),
    },
  };
}

function readTime(match: RegExpExecArray, { timeZone }: ParseContext): DateReading {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((field) => Number(field ?? 0));
  if (!isCalendarDay(year, month, day) || hour > 24 || minute > 59 || second > 60)
    return { problem: 'unreadable' };
  const length = match[6] === undefined ? 60_000 : 1_000;
  const zone = match[7];
  if (zone === undefined)
    return moment(localMoment({ year, month, day, hour, minute, second }, timeZone), length);
  const utc = Date.UTC(year, month - 1, day, hour, minute, second);
  return moment(utc - zoneOffset(zone), length);
}

function zoneOffset(zone: string): number {
  if (zone.toUpperCase() === 'Z') return 0;
  const digits = zone.replace(':', '');
  const minutes = Number(digits.slice(1, 3)) * 60 + Number(digits.slice(3, 5));
  return (digits.startsWith('-') ? -minutes : minutes) * 60_000;
}

function isCalendarDay(year: number, month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month);
}

function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
}

function clampDay(year: number, month: number, day: number): number {
  return Math.min(day, daysIn(year, month));
}

function monthsBefore(wall: Required<WallTime>, count: number): WallTime {
  const months = wall.year * 12 + (wall.month - 1) - count;
  const year = Math.floor(months / 12);
  const month = months - year * 12 + 1;
  return { ...wall, year, month, day: clampDay(year, month, wall.day) };
}
