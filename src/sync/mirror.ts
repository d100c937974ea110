import type { CommittedBatch } from '../archive/format.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import type {
  BlobHash,
  CountedFlag,
  FolderKey,
  MailboxKey,
  MessageId,
  Place,
} from '../core/types.ts';
import { NO_PLACES } from './plan/folder-evidence.ts';
import type { UidInterval } from './plan/plan-folder.ts';

type OpenPlace =
  ReturnType<WritableCatalog['places']['open']> extends Iterable<infer P> ? P : never;

/** The catalog's knowledge. Synchronous: a local index that the sync run itself keeps current. */
export type Mirror = ReturnType<typeof catalogMirror>;

/** Returns the catalog as a sync run reads it. */
export function catalogMirror(catalog: WritableCatalog) {
  const { folders, places, quarantine, messages, relinking } = catalog;
  /** Reads from a folder by its number; returns `nothing` for an unknown folder. */
  const inFolder = <T>(at: FolderKey, nothing: T, read: (folder: number) => T): T => {
    const folder = folders.find(at)?.id;
    return folder === undefined ? nothing : read(folder);
  };
  const inGeneration =
    <T>(nothing: T, read: (folder: number, generation: number) => T) =>
    (at: FolderKey, generation: number): T =>
      inFolder(at, nothing, (folder) => read(folder, generation));
  /** Quarantined and forgotten uids, unordered. */
  const unplaced = inGeneration<number[]>([], (folder, generation) => [
    ...relinking.quarantinedUids(folder, generation),
    ...relinking.forgottenUids(folder, generation),
  ]);
  return {
    mailboxAddress: (at: MailboxKey) => folders.mailbox(at)?.address,
    folder: (at: FolderKey) => folders.find(at),
    /** Current folders of a mailbox in the archive. */
    folders: (mailbox: MailboxKey) => folders.all({ mailbox }),
    /** Open places with uids in the interval, including those held although the service lacks them. */
    openPlaces: (at: FolderKey, generation: number, { lo, hi }: UidInterval) =>
      inFolder<ReadonlyMap<number, OpenPlace>>(at, new Map(), (folder) => {
        const range = { folder, generation, from: lo, ...(Number.isFinite(hi) ? { to: hi } : {}) };
        return new Map([...places.open(range)].map((place) => [place.uid, place]));
      }),
    /** The open place of a uid with its message, or undefined. */
    placed: (at: FolderKey, generation: number, uid: number) =>
      inFolder(at, undefined, (folder) => relinking.placed(folder, generation, uid)),
    /** The fingerprint of a deleted message's place, or undefined. */
    endedFingerprint: (at: FolderKey, generation: number, uid: number) =>
      inFolder(at, undefined, (folder) => {
        const place = places.at(folder, generation, uid);
        return place?.state === 'ended' ? place.fingerprint : undefined;
      }),
    /** True if an open place of the mailbox, older than commit `before`, has this fingerprint. */
    isOpenSomewhere: (mailbox: MailboxKey, print: string, before: number) =>
      relinking.isOpenSomewhere(mailbox, print, before),
    /** Uids that the service should list: open and not held, quarantined, forgotten. Ascending. */
    expectedUids: inGeneration<readonly number[]>([], relinking.expectedUids),
    /** Uids of all open places of a UID epoch, including held ones, ascending. */
    openUids: inGeneration<readonly number[]>([], relinking.openUids),
    /** Number of open places of a UID epoch without `\\Seen`. */
    unread: inGeneration(0, relinking.unread),
    /** Uids of open places with a flag, ascending. */
    uidsFlagged: (at: FolderKey, generation: number, flag: CountedFlag) =>
      inFolder<readonly number[]>(at, [], (folder) =>
        relinking.uidsFlagged(folder, generation, flag),
      ),
    /** True if the user acknowledged that a message is incomplete: it is counted, but not reported again. */
    isAcknowledged: (at: FolderKey, { generation, uid }: Place) =>
      inFolder(at, false, (folder) => quarantine.isAcknowledged(folder, generation, uid)),
    /** Unverified open places of a mailbox from commits up to `before`, oldest first. */
    assumed: (mailbox: MailboxKey, before: number, limit: number) =>
      places.assumed(mailbox, before, limit),
    /** Uids of open places that the deletion guard holds, unordered. */
    heldUids: inGeneration<readonly number[]>([], relinking.heldUids),
    /** Older UID epochs of a folder that the deletion guard keeps open. */
    olderGenerations(at: FolderKey): readonly number[] {
      const folder = folders.find(at);
      if (folder === undefined) return [];
      return places.openGenerations(folder.id).filter((number) => number !== folder.generation);
    },
    /** The state of a uid without an open place, or undefined. */
    settledAs: (at: FolderKey, generation: number, uid: number) =>
      inFolder(at, undefined, (folder) => {
        const state = places.at(folder, generation, uid)?.state;
        return state === 'open' ? undefined : state;
      }),
    /** The highest uid in any fact of this UID epoch; 0 for none. */
    highestUid: inGeneration(0, folders.highestUid),
    /** Uids in quarantine, ascending. */
    quarantined: inGeneration<readonly number[]>([], relinking.quarantinedUids),
    /** Forgotten uids of a UID epoch, unordered. */
    forgottenUids: inGeneration<readonly number[]>([], relinking.forgottenUids),
    /** Quarantined or forgotten uids of the interval: listed without an open place. */
    unplaced: (at: FolderKey, generation: number, { lo, hi }: UidInterval): readonly number[] =>
      unplaced(at, generation).filter((uid) => uid >= lo && uid <= hi),
    /** The places of a folder in all UID epochs; the deletion guard alone keeps those of older ones open. */
    sumsOf: (at: FolderKey) =>
      inFolder(at, NO_PLACES, (folder) => {
        const { open, assumed, held, quarantined, forgotten } = folders.counts(folder);
        return { stored: open - assumed - held, assumed, quarantined, held, forgotten };
      }),
    message: (id: MessageId) => messages.find(id),
    hasBlob: (hash: BlobHash) => messages.hasBlob(hash),
    /** True for a forgotten message: its bytes must not be stored again, at any place. */
    isForgotten: (id: MessageId) => messages.purgedFor(id) === 'forgotten',
    /** Returns the first free docid at or above this one; each is returned once. */
    docidFor: (base: number) => catalog.docidFor(base),
    /** Applies a durable batch to all of the above. */
    fold: (batch: CommittedBatch) => catalog.foldBatch(batch),
  };
}
