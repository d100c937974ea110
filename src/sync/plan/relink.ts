import type { Listing, Place } from '../../mail/words.ts';

/** A place that this pass found to be gone, one of the generation that was just replaced, or one whose uid shows another message. */
export interface GonePlace {
  readonly place: Place;
  readonly fingerprint: string;
}

/** A new uid whose fingerprint the mailbox has elsewhere. */
export interface NewPlace extends GonePlace {
  readonly listing: Listing;
  /** Drafts are rewritten in place: an equal listing does not guarantee equal bytes. */
  readonly draft: boolean;
}

export interface Relink {
  readonly from: Place;
  readonly to: Place;
  readonly listing: Listing;
}

/**
 * Pairs new places with places that are gone. A new uid gets known bytes without a download only when exactly one place
 * with its fingerprint is gone and exactly one is new, with a Message-ID, and when it is no draft. The two may be in one
 * folder: a service that renumbers may keep some uids. Everything else is fetched.
 */
export function pairMoves(
  gone: readonly GonePlace[],
  appeared: readonly NewPlace[],
): { readonly relinks: readonly Relink[]; readonly fetch: readonly NewPlace[] } {
  const goneBy = grouped(gone);
  const newBy = grouped(appeared);
  const relinks: Relink[] = [];
  const fetch: NewPlace[] = [];
  for (const candidate of appeared) {
    const sources = goneBy.get(candidate.fingerprint) ?? [];
    const [source] = sources;
    const alone = sources.length === 1 && newBy.get(candidate.fingerprint)?.length === 1;
    const allowed =
      source !== undefined &&
      alone &&
      candidate.listing.messageId !== null &&
      !candidate.draft &&
      isMoved(source.place, candidate.place);
    if (allowed) {
      relinks.push({ from: source.place, to: candidate.place, listing: candidate.listing });
    } else {
      fetch.push(candidate);
    }
  }
  return { relinks, fetch };
}

function isMoved(a: Place, b: Place): boolean {
  const isSame = a.folder === b.folder && a.generation === b.generation && a.uid === b.uid;
  return a.host === b.host && a.mailbox === b.mailbox && !isSame;
}

function grouped<T extends { readonly fingerprint: string }>(
  items: readonly T[],
): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(item.fingerprint);
    if (group === undefined) groups.set(item.fingerprint, [item]);
    else group.push(item);
  }
  return groups;
}
