import { parseDuration } from '../config/duration.ts';
import { usageError } from '../errors/usage.ts';
import { jsonLine } from './json-text.ts';

/**
 * A T of the command line: a date (its first moment in the user's time zone), an ISO 8601 time (local where it
 * names no zone), or a span such as `3d`, which is that long ago.
 *
 * @returns milliseconds since the epoch
 * @throws usage-bad-date
 */
export function moment(option: string, text: string, now: number): number {
  const ago = parseDuration(text);
  if (ago !== undefined) return now - ago;
  const date = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
  if (date !== null) {
    const [year, month, day] = [Number(date[1]), Number(date[2]), Number(date[3])];
    const at = new Date(year, month - 1, day);
    // A day that no month has rolls over into the next one.
    if (at.getMonth() === month - 1 && at.getDate() === day) return at.getTime();
  } else if (/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/.test(text)) {
    const at = Date.parse(text);
    if (!Number.isNaN(at)) return at;
  }
  throw usageError('usage-bad-date', { option, found: jsonLine(text).slice(1, -1) });
}
