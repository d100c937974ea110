import type { WritableCatalog } from '../../catalog/catalog.ts';
import type { FolderKey } from '../../mail/words.ts';
import type { FolderCounts, KnownPlace, Mirror } from './ports.ts';

const NOTHING: FolderCounts = { stored: 0, assumed: 0, quarantined: 0, held: 0, forgotten: 0 };

/** The catalog, as a pass asks it. */
export function catalogMirror(catalog: WritableCatalog): Mirror {
  const { folders, places, quarantine, messages } = catalog;
  const numberOf = (at: FolderKey): number | undefined => folders.find(at)?.id;
  return {
    mailboxAddress: (at) =>
      folders.mailboxes().find(({ host, mailbox }) => host === at.host && mailbox === at.mailbox)
        ?.address,
    folder: (at) => folders.find(at),
    openPlaces(at, generation, range) {
      const known = new Map<number, KnownPlace>();
      const folder = numberOf(at);
      if (folder === undefined) return known;
      const to = Number.isFinite(range.hi) ? { to: range.hi } : {};
      for (const place of places.open({ folder, generation, from: range.lo, ...to })) {
        known.set(place.uid, place);
      }
      return known;
    },
    settledAs(at, generation, uid) {
      const folder = numberOf(at);
      if (folder === undefined) return undefined;
      const state = places.at(folder, generation, uid)?.state;
      return state === 'open' ? undefined : state;
    },
    highestUid(at, generation) {
      const folder = numberOf(at);
      return folder === undefined ? 0 : folders.highestUid(folder, generation);
    },
    quarantined(at, generation) {
      const folder = numberOf(at);
      if (folder === undefined) return [];
      return quarantine
        .open(folder)
        .filter((entry) => entry.generation === generation)
        .map(({ uid }) => uid);
    },
    counts(at) {
      const folder = numberOf(at);
      if (folder === undefined) return NOTHING;
      const { open, assumed, held, quarantined, forgotten } = folders.counts(folder);
      return { stored: open - assumed - held, assumed, held, quarantined, forgotten };
    },
    message: (id) => messages.find(id),
    hasBlob: (hash) => messages.hasBlob(hash),
    docidFor: (base) => catalog.docidFor(base),
    fold: (batch) => catalog.foldBatch(batch),
  };
}
