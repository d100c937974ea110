/**
 * Places of a folder by what the archive has of them; each place is in one sum only. They add up when the origin's total
 * equals stored + assumed + quarantined + forgotten: it does not count the held ones.
 */
export interface FolderSums {
  /** Open places with bytes that were fetched and hashed. */
  readonly stored: number;
  /** Open places that share the bytes of another place; their own source was not fetched yet. */
  readonly assumed: number;
  /** Places whose source was fetched and not accepted, or refused. */
  readonly quarantined: number;
  /** Open places that the brake keeps although the origin lacks them. */
  readonly held: number;
  /** Places at which the origin still shows a message that was forgotten here. */
  readonly forgotten: number;
}

export const NO_PLACES: FolderSums = {
  stored: 0,
  assumed: 0,
  quarantined: 0,
  held: 0,
  forgotten: 0,
};

/** Returns how many places the archive accounts for: the sum of all five. */
export function accountedFor(sums: FolderSums): number {
  return expectedAtOrigin(sums) + sums.held;
}

/** Returns how many places the origin should count: all but the held ones, which it has lost. */
export function expectedAtOrigin({ stored, assumed, quarantined, forgotten }: FolderSums): number {
  return stored + assumed + quarantined + forgotten;
}

/** Returns how many places are open, which means current: with a message, and not deleted at the origin. */
export function openPlaces({ stored, assumed, held }: FolderSums): number {
  return stored + assumed + held;
}

/** Returns how many of the origin's messages the archive does not account for; 0 when it accounts for more. */
export function notAccountedFor(originTotal: number, sums: FolderSums): number {
  return Math.max(0, originTotal - accountedFor(sums));
}

/** Returns whether everything adds up except the held places: only the brake's decision is missing then. */
export function differsByHeldOnly(originTotal: number, sums: FolderSums): boolean {
  return sums.held > 0 && expectedAtOrigin(sums) === originTotal;
}

/** Adds up the sums of several folders. */
export function addSums(folders: readonly FolderSums[]): FolderSums {
  return folders.reduce<FolderSums>(
    (total, sums) => ({
      stored: total.stored + sums.stored,
      assumed: total.assumed + sums.assumed,
      quarantined: total.quarantined + sums.quarantined,
      held: total.held + sums.held,
      forgotten: total.forgotten + sums.forgotten,
    }),
    NO_PLACES,
  );
}
