import { type FlagSet, flagSet, type Listing, sameFlags } from '../../mail/words.ts';

/** What the mirror knows of the uids that an answer covers. */
export interface KnownUids {
  readonly open: ReadonlyMap<number, { readonly flags: FlagSet; readonly fingerprint: string }>;
  /** Returns whether a uid needs no fetch although no place is open: quarantined, forgotten, or being fetched. */
  readonly settled: (uid: number) => boolean;
}

/** How an answer differs from what is known. */
export interface Observation {
  /** Listed and not known: to be fetched. */
  readonly appeared: readonly Listing[];
  readonly flagsChanged: readonly { readonly uid: number; readonly flags: FlagSet }[];
  /** Open places in the interval that the answer lacks. This alone proves nothing. */
  readonly missing: readonly number[];
  /** Open places whose uid answers with another listing than the one it appeared with. */
  readonly contradicted: readonly Listing[];
}

/**
 * Compares one answer with what is known of its interval. Pure: callers decide what follows.
 *
 * @param fingerprint hex over the immutable fields of a listing, as stored with the place
 */
export function observe(
  items: readonly Listing[],
  known: KnownUids,
  fingerprint: (listing: Listing) => string,
): Observation {
  const appeared: Listing[] = [];
  const flagsChanged: { uid: number; flags: FlagSet }[] = [];
  const contradicted: Listing[] = [];
  const answered = new Set<number>();
  for (const item of items) {
    answered.add(item.uid);
    const place = known.open.get(item.uid);
    if (place === undefined) {
      if (!known.settled(item.uid)) appeared.push(item);
    } else if (place.fingerprint !== fingerprint(item)) {
      contradicted.push(item);
    } else {
      const flags = flagSet(item.flags);
      if (!sameFlags(flags, place.flags)) flagsChanged.push({ uid: item.uid, flags });
    }
  }
  const missing = [...known.open.keys()].filter((uid) => !answered.has(uid));
  return { appeared, flagsChanged, missing, contradicted };
}
