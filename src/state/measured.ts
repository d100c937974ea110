import { count, fields, listOfAll, number, type Read } from './shape.ts';

/** How long is remembered what the archive asked of its services, in days. */
export const REQUEST_DAYS = 400;
/** How long the size of the archive is remembered, in days: ten years. */
export const DISK_DAYS = 3_653;

const DAY_MS = 86_400_000;

/** How large the archive was, in bytes. */
export interface DiskSample {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly log: number;
  readonly catalog: number;
  /** Raw sources of all messages. */
  readonly mail: number;
}

export const diskSample: Read<DiskSample> = fields({
  at: number,
  log: count,
  catalog: count,
  mail: count,
});

/** What was asked through one gate of the limiter on a UTC day. */
export interface RequestDay {
  /** Requests a minute that the configuration allowed. */
  readonly perMinute: number;
  /** Hour of the day (UTC), status (0 where no answer came), and how many requests. */
  readonly hours: readonly RequestCount[];
}

export interface RequestCount {
  readonly hour: number;
  readonly status: number;
  readonly requests: number;
}

export const requestDay: Read<RequestDay> = fields({
  perMinute: number,
  hours: listOfAll(fields({ hour: count, status: count, requests: count })),
});

/** Returns the UTC day of a time, such as `2026-11-22`. */
export function utcDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Returns the UTC day so many days before a time. */
export function utcDayBefore(ms: number, days: number): string {
  return utcDay(ms - days * DAY_MS);
}

/**
 * Returns the key of a gate's requests on a day. Days come first, so that keys are in the order of time.
 *
 * @param gate as in `LimiterFacts`
 */
export function requestKey(day: string, gate: string): string {
  return `${day} ${gate}`;
}

/** Returns the day and the gate of a key that `requestKey` made. */
export function requestsOf(key: string): { readonly day: string; readonly gate: string } {
  return { day: key.slice(0, 10), gate: key.slice(11) };
}
