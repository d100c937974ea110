/** Heap and buffers of the service after full collections, in bytes, in the order taken. */
export interface MemoryVerdict {
  /** Middle of the samples of the second quarter, once everything has warmed up. */
  readonly before: number;
  /** Middle of the samples of the last quarter. */
  readonly after: number;
  readonly flat: boolean;
}

/** Caches and logs may still fill up to their ceilings: this share and so many bytes are no leak. */
const SHARE = 0.1;
const ALLOWANCE_BYTES = 8 * 1024 * 1024;

export function judgeMemory(samples: readonly number[]): MemoryVerdict {
  const quarter = Math.max(1, Math.floor(samples.length / 4));
  const before = middle(samples.slice(quarter, quarter * 2));
  const after = middle(samples.slice(-quarter));
  return { before, after, flat: after <= before * (1 + SHARE) + ALLOWANCE_BYTES };
}

function middle(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
