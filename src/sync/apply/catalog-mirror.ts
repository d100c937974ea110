import type { WritableCatalog } from '../../catalog/catalog.ts';
import type { FolderKey } from '../../mail/words.ts';
import { NO_PLACES } from '../plan/folder-sums.ts';
import type { KnownPlace, Mirror } from './ports.ts';

/** Returns the catalog in the form that a pass reads it. */
export function catalogMirror(catalog: WritableCatalog): Mirror {
  const { folders, places, quarantine, messages, relinking } = catalog;
  /** Reads from a folder by its number; an unknown folder has `nothing`. */
  const inFolder = <T>(at: FolderKey, nothing: T, read: (folder: number) => T): T => {
    const folder = folders.find(at)?.id;
    return folder === undefined ? nothing : read(folder);
  };
  const inGeneration =
    <T>(nothing: T, read: (folder: number, generation: number) => T) =>
    (at: FolderKey, generation: number): T =>
      inFolder(at, nothing, (folder) => read(folder, generation));
  return {
    mailboxAddress: (at) => folders.mailbox(at)?.address,
    folder: (at) => folders.find(at),
    openPlaces: (at, generation, { lo, hi }) =>
      inFolder(at, new Map<number, KnownPlace>(), (folder) => {
        const known = new Map<number, KnownPlace>();
        const to = Number.isFinite(hi) ? { to: hi } : {};
        for (const place of places.open({ folder, generation, from: lo, ...to })) {
          known.set(place.uid, place);
        }
        return known;
      }),
    placed: (at, generation, uid) =>
      inFolder(at, undefined, (folder) => relinking.placed(folder, generation, uid)),
    endedFingerprint: (at, generation, uid) =>
      inFolder(at, undefined, (folder) => {
        const place = places.at(folder, generation, uid);
        return place?.state === 'ended' ? place.fingerprint : undefined;
      }),
    isOpenSomewhere: (mailbox, print, before) => relinking.isOpenSomewhere(mailbox, print, before),
    expectedUids: inGeneration([], relinking.expectedUids),
    openUids: inGeneration([], relinking.openUids),
    unread: inGeneration(0, relinking.unread),
    uidsFlagged: (at, generation, flag) =>
      inFolder(at, [], (folder) => relinking.uidsFlagged(folder, generation, flag)),
    isAcknowledged: (at, { generation, uid }) =>
      inFolder(at, false, (folder) => quarantine.isAcknowledged(folder, generation, uid)),
    assumed: (mailbox, before, limit) => places.assumed(mailbox, before, limit),
    heldUids: inGeneration([], relinking.heldUids),
    olderGenerations(at) {
      const folder = folders.find(at);
      if (folder === undefined) return [];
      return places.openGenerations(folder.id).filter((number) => number !== folder.generation);
    },
    folders: (mailbox) => folders.all({ mailbox }),
    settledAs: (at, generation, uid) =>
      inFolder(at, undefined, (folder) => {
        const state = places.at(folder, generation, uid)?.state;
        return state === 'open' ? undefined : state;
      }),
    highestUid: inGeneration(0, folders.highestUid),
    quarantined: inGeneration([], relinking.quarantinedUids),
    sumsOf: (at) =>
      inFolder(at, NO_PLACES, (folder) => {
        const { open, assumed, held, quarantined, forgotten } = folders.counts(folder);
        return { stored: open - assumed - held, assumed, quarantined, held, forgotten };
      }),
    message: (id) => messages.find(id),
    hasBlob: (hash) => messages.hasBlob(hash),
    isForgotten: (id) => messages.purgedFor(id) === 'forgotten',
    forgottenUids: inGeneration([], relinking.forgottenUids),
    unplaced: (at, generation, { lo, hi }) =>
      inFolder(at, [], (folder) => {
        const quarantined = relinking.quarantinedUids(folder, generation);
        const all = quarantined.concat(relinking.forgottenUids(folder, generation));
        return all.filter((uid) => uid >= lo && uid <= hi);
      }),
    docidFor: (base) => catalog.docidFor(base),
    fold: (batch) => catalog.foldBatch(batch),
  };
}
