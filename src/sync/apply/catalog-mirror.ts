import type { WritableCatalog } from '../../catalog/catalog.ts';
import type { FolderKey } from '../../mail/words.ts';
import { NO_PLACES } from '../plan/folder-sums.ts';
import type { KnownPlace, Mirror } from './ports.ts';

/** Returns the catalog in the form that a pass reads it. */
export function catalogMirror(catalog: WritableCatalog): Mirror {
  const { folders, places, quarantine, messages, relinking } = catalog;
  const numberOf = (at: FolderKey): number | undefined => folders.find(at)?.id;
  return {
    mailboxAddress: (at) => folders.mailbox(at)?.address,
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
    placed(at, generation, uid) {
      const folder = numberOf(at);
      return folder === undefined ? undefined : relinking.placed(folder, generation, uid);
    },
    endedFingerprint(at, generation, uid) {
      const folder = numberOf(at);
      const state = folder === undefined ? undefined : places.at(folder, generation, uid);
      return state?.state === 'ended' ? state.fingerprint : undefined;
    },
    isOpenSomewhere: (mailbox, print, before) => relinking.isOpenSomewhere(mailbox, print, before),
    expectedUids(at, generation) {
      const folder = numberOf(at);
      return folder === undefined ? [] : relinking.expectedUids(folder, generation);
    },
    openUids(at, generation) {
      const folder = numberOf(at);
      return folder === undefined ? [] : relinking.openUids(folder, generation);
    },
    unread(at, generation) {
      const folder = numberOf(at);
      return folder === undefined ? 0 : relinking.unread(folder, generation);
    },
    uidsFlagged(at, generation, flag) {
      const folder = numberOf(at);
      return folder === undefined ? [] : relinking.uidsFlagged(folder, generation, flag);
    },
    isAcknowledged(at, { generation, uid }) {
      const folder = numberOf(at);
      return folder !== undefined && quarantine.isAcknowledged(folder, generation, uid);
    },
    assumed: (mailbox, before, limit) => places.assumed(mailbox, before, limit),
    heldUids(at, generation) {
      const folder = numberOf(at);
      return folder === undefined ? [] : relinking.heldUids(folder, generation);
    },
    olderGenerations(at) {
      const folder = folders.find(at);
      if (folder === undefined) return [];
      return places.openGenerations(folder.id).filter((number) => number !== folder.generation);
    },
    folders: (mailbox) => folders.all({ mailbox }),
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
      return folder === undefined ? [] : relinking.quarantinedUids(folder, generation);
    },
    sumsOf(at) {
      const folder = numberOf(at);
      if (folder === undefined) return NO_PLACES;
      const { open, assumed, held, quarantined, forgotten } = folders.counts(folder);
      return { stored: open - assumed - held, assumed, quarantined, held, forgotten };
    },
    message: (id) => messages.find(id),
    hasBlob: (hash) => messages.hasBlob(hash),
    isForgotten: (id) => messages.purgedFor(id) === 'forgotten',
    forgottenUids(at, generation) {
      const folder = numberOf(at);
      return folder === undefined ? [] : relinking.forgottenUids(folder, generation);
    },
    unplaced(at, generation, { lo, hi }) {
      const folder = numberOf(at);
      if (folder === undefined) return [];
      const quarantined = relinking.quarantinedUids(folder, generation);
      const all = quarantined.concat(relinking.forgottenUids(folder, generation));
      return all.filter((uid) => uid >= lo && uid <= hi);
    },
    docidFor: (base) => catalog.docidFor(base),
    fold: (batch) => catalog.foldBatch(batch),
  };
}
