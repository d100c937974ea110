/** Milliseconds. */
export interface WorkerIntervals {
  /** Between two looks for archives to claim, and for those to give back. */
  readonly claimMs: number;
  /** Between two rounds of upkeep, collection and wiping. */
  readonly upkeepMs: number;
  /** After an archive could not be opened, or failed, doubled each time up to the longest. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
}

export const WORKER_INTERVALS: WorkerIntervals = {
  claimMs: 2_000,
  upkeepMs: 60_000,
  retryMs: 15_000,
  longestRetryMs: 600_000,
};
