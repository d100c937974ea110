import { parseDuration } from '../config/duration.ts';
import { usageError } from '../errors/usage.ts';
import { readDate } from '../search/dates.ts';

const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/;

/**
 * A T of the command line: an ISO 8601 time (local where it names no zone), a span such as `3d`, which is that
 * long ago, or a date, which is its last moment in the user's time zone, as for `asof:` in a query.
 *
 * @returns milliseconds since the epoch
 * @throws usage-bad-date
 */
export function moment(option: string, text: string, now: number): number {
  const ago = parseDuration(text);
  if (ago !== undefined) return now - ago;
  const exact = ISO_TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(exact)) return exact;
  const date = readDate(text, { now });
  if ('problem' in date) throw usageError('usage-bad-date', { option, found: text });
  return date.period.to - 1;
}

/**
 * Returns the moment at which a T of `--after` or `--before` begins, as `after:` and `before:` in a query take it: of a
 * date, its first moment in the user's time zone.
 *
 * @returns milliseconds since the epoch
 * @throws usage-bad-date
 */
export function beginning(option: string, text: string, now: number): number {
  const ago = parseDuration(text);
  if (ago !== undefined) return now - ago;
  const date = readDate(text, { now });
  if ('problem' in date) throw usageError('usage-bad-date', { option, found: text });
  return date.period.from;
}
