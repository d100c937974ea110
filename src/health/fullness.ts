/** A mailbox's quota of one kind: `STORAGE` in bytes, `MESSAGE` a count; no limit is null. */
export interface QuotaUse {
  readonly name: string;
  readonly usage: number;
  readonly limit: number | null;
}

export interface Fullness {
  /** The quota that is nearest to its limit. */
  readonly name: string;
  /** Share of the limit that is used: 1 is full. */
  readonly share: number;
}

/** How full a mailbox is, by the quota that is nearest to its limit; null where none has a limit. */
export function fullnessOf(quotas: readonly QuotaUse[]): Fullness | null {
  let fullest: Fullness | null = null;
  for (const { name, usage, limit } of quotas) {
    if (limit === null || limit <= 0) continue;
    const share = usage / limit;
    if (fullest === null || share > fullest.share) fullest = { name, share };
  }
  return fullest;
}

/** A share in whole percent, rounded down: what is nearly full is not called full. */
export function percentOf(share: number): number {
  return Math.floor(share * 100);
}
