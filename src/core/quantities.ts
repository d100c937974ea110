/** A duration as written on the command line and in the configuration: `90s 15m 26h 7d`. */
export const DURATION_PATTERN = /^(\d{1,9})(s|m|h|d)$/;

const MS_PER_UNIT: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Returns the milliseconds in a duration, or undefined if it is invalid. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION_PATTERN.exec(text);
  const unit = MS_PER_UNIT[match?.[2] ?? ''];
  return match === null || unit === undefined ? undefined : Number(match[1]) * unit;
}

/** Maximum of `rateLimit.requestsPerMinute`. Only a service on the same machine can be this fast. */
export const MAX_REQUESTS_PER_MINUTE = 10_000_000;
export const DEFAULT_REQUESTS_PER_MINUTE = 60;

const SIZE = /^(\d+(?:\.\d+)?)(b|[kmg]b?|[kmg]ib?)?$/i;
const UNIT: Readonly<Record<string, number>> = {
  k: 1_000,
  m: 1_000_000,
  g: 1_000_000_000,
  ki: 1_024,
  mi: 1_048_576,
  gi: 1_073_741_824,
};

/** Returns the bytes in `10`, `10k`, `1.5MB` (decimal) or `10Ki`, `2MiB` (binary), or undefined for any other text. */
export function readSize(text: string): number | undefined {
  const match = SIZE.exec(text);
  if (match === null) return undefined;
  const unit = (match[2] ?? '').toLowerCase().replace(/b$/, '');
  const bytes = Math.round(Number(match[1]) * (UNIT[unit] ?? 1));
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Returns the bytes per second for a rate such as `500k` or `2M`, or undefined if it is invalid or zero. */
export function parseRate(text: string): number | undefined {
  return readSize(text.replace(/\/s$/, '')) || undefined;
}
