import { localMoment, wallTime } from '../catalog/query-dates.ts';
import { shortMonth, twoDigits } from '../core/text.ts';

export type ProofState = 'recent' | 'earlier' | 'partly' | 'never' | 'open' | 'damaged';

export interface StoredBytes {
  readonly name: string;
  readonly series: number | null;
  readonly bytes: number;
  readonly messages: number | null;
  /** Null for combined rows, or if no query can describe them. */
  readonly query: string | null;
}

export const RANGES = ['30d', '90d', '1y', 'all'] as const;
export type Range = (typeof RANGES)[number];

export type Unit = 'hour' | 'day' | 'week' | 'month';

/** A period in the reader's time zone. Times are milliseconds since the epoch. */
export interface Period {
  readonly from: number;
  readonly to: number;
  readonly label: string;
}

export interface Periods {
  readonly unit: Unit;
  readonly list: readonly Period[];
}

const LENGTHS = { '30d': ['day', 30], '90d': ['day', 90], '1y': ['week', 53] } as const;
/** Maximum periods in a chart. Charts for older archives show only the latest ones. */
const MAX_PERIODS = 1_200;

/** Returns periods up to the one that contains `now`. @param oldest start of the range `all`, ms since the epoch */
export function periodsOf(
  range: Range,
  now: number,
  oldest: number,
  zone: string | undefined,
): Periods {
  if (range !== 'all') {
    const [unit, count] = LENGTHS[range];
    return { unit, list: consecutive(unit, count, now, zone) };
  }
  const count = Math.min(monthsFrom(Math.min(now, oldest), now, zone), MAX_PERIODS);
  return { unit: 'month', list: consecutive('month', count, now, zone) };
}

/** Returns the latest hours, up to the current one. They follow UTC, so in some zones they start at half past. */
export function lastHours(count: number, now: number, zone: string | undefined): Periods {
  const hour = 3_600_000;
  const end = Math.floor(now / hour) * hour + hour;
  const list = Array.from({ length: count }, (_, at) => {
    const from = end - (count - at) * hour;
    return { from, to: from + hour, label: timeText(from, zone) };
  });
  return { unit: 'hour', list };
}

export function boundsOf({ list }: Periods): number[] {
  const last = list.at(-1);
  return last === undefined ? [] : [...list.map(({ from }) => from), last.to];
}

function monthsFrom(first: number, now: number, zone: string | undefined): number {
  const [start, end] = [wallTime(first, zone), wallTime(now, zone)];
  return (end.year - start.year) * 12 + end.month - start.month + 1;
}

function consecutive(
  unit: Exclude<Unit, 'hour'>,
  count: number,
  now: number,
  zone: string | undefined,
): Period[] {
  const { year, month, day } = wallTime(now, zone);
  // Weeks start on Monday.
  const weekday = (new Date(Date.UTC(year, month - 1, day)).getUTCDay() + 6) % 7;
  const startOf = (back: number): number => {
    if (unit === 'month') return localMoment({ year, month: month - back, day: 1 }, zone);
    const days = unit === 'week' ? weekday + back * 7 : back;
    return localMoment({ year, month, day: day - days }, zone);
  };
  return Array.from({ length: count }, (_, at) => {
    const from = startOf(count - 1 - at);
    const to = startOf(count - 2 - at);
    const day = dayText(from, zone);
    const month = day.slice(day.indexOf(' ') + 1);
    return { from, to, label: { day, week: `week of ${day}`, month }[unit] };
  });
}

/**
 * Returns a term for messages received in a period: dates for whole days, otherwise moments.
 *
 * @param zone in which the query will be read; undefined for this machine's zone
 */
export function dateTerm(
  { from, to }: Pick<Period, 'from' | 'to'>,
  zone: string | undefined,
): string {
  const days = daysText(from, to, zone);
  return days === undefined ? `after:${momentText(from)} before:${momentText(to)}` : `date:${days}`;
}

export function observedTerm(
  operator: 'added' | 'deleted',
  { from, to }: Pick<Period, 'from' | 'to'>,
  zone: string | undefined,
): string {
  // A range includes its last second.
  const value = daysText(from, to, zone) ?? `${momentText(from)}..${momentText(to - 1_000)}`;
  return `${operator}:${value}`;
}

function daysText(from: number, to: number, zone: string | undefined): string | undefined {
  const first = wallTime(from, zone);
  const last = wallTime(to - 1, zone);
  const isDays =
    localMoment({ year: first.year, month: first.month, day: first.day }, zone) === from &&
    localMoment({ year: last.year, month: last.month, day: last.day + 1 }, zone) === to;
  if (!isDays) return undefined;
  const [start, end] = [dayName(from, zone), dayName(to - 1, zone)];
  if (start === end) return start;
  const isMonth =
    first.day === 1 &&
    localMoment({ year: first.year, month: first.month + 1, day: 1 }, zone) === to;
  return isMonth ? start.slice(0, 7) : `${start}..${end}`;
}

export function asOfTerm(end: number, zone: string | undefined): string {
  const { year, month, day } = wallTime(end - 1, zone);
  const isMidnight = localMoment({ year, month, day: day + 1 }, zone) === end;
  return `asof:${isMidnight ? dayName(end - 1, zone) : momentText(end - 1_000)}`;
}

/** Returns a day such as `2026-11-22`. @param zone IANA name; undefined for this machine's zone */
export function dayName(ms: number, zone?: string): string {
  const { year, month, day } = wallTime(ms, zone);
  return [String(year).padStart(4, '0'), twoDigits(month), twoDigits(day)].join('-');
}

function momentText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Returns a day such as `22 Nov 2026`. */
export function dayText(ms: number, zone: string | undefined): string {
  const { year, month, day } = wallTime(ms, zone);
  return `${day} ${shortMonth(month)} ${year}`;
}

/** Returns a moment such as `22 Nov 2026 14:05`. */
export function timeText(ms: number, zone: string | undefined): string {
  const { hour, minute } = wallTime(ms, zone);
  return `${dayText(ms, zone)} ${twoDigits(hour)}:${twoDigits(minute)}`;
}
