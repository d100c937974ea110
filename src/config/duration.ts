/** A DURATION as the command line and the configuration write it: `90s 15m 26h 7d`. */
export const DURATION_PATTERN = /^(\d{1,9})(s|m|h|d)$/;

const MS_PER_UNIT: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Milliseconds of a duration, or undefined when the text is none. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION_PATTERN.exec(text);
  const unit = MS_PER_UNIT[match?.[2] ?? ''];
  return match === null || unit === undefined ? undefined : Number(match[1]) * unit;
}
