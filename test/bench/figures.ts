/** The middle value; the mean of the two middle ones of an even number. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.floor((sorted.length - 1) / 2)];
  if (upper === undefined || lower === undefined) throw new RangeError('no values');
  return (upper + lower) / 2;
}

/** The smallest value that so many percent of them do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)];
  if (value === undefined) throw new RangeError('no values');
  return value;
}

/** `1.23 s`, `45.6 ms`, `0.061 ms`. */
export function formatMs(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return `${ms >= 1 ? ms.toFixed(1) : ms.toFixed(3)} ms`;
}

/** Decimal megabytes. */
export function formatMB(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes >= 1e8 ? 0 : 1)} MB`;
}

export function formatCount(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}

export function formatRatio(ratio: number): string {
  return ratio.toFixed(ratio >= 10 ? 1 : 2);
}
