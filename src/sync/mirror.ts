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

/** What the catalog knows. Synchronous: it is a local index that the pass itself keeps up to date. */
export type Mirror = ReturnType<typeof catalogMirror>;

/** Returns the catalog in the form that a pass reads it. */
export function catalogMirror(catalog: WritableCatalog) {
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
  /** Quarantined and forgotten uids, in no order. */
  const unplaced = inGeneration<number[]>([], (folder, generation) => [
    ...relinking.quarantinedUids(folder, generation),
    ...relinking.forgottenUids(folder, generation),
  ]);
  return {
    mailboxAddress: (at: MailboxKey) => folders.mailbox(at)?.address,
    folder: (at: FolderKey) => folders.find(at),
    /** Current folders of a mailbox, as the archive knows them. */
    folders: (mailbox: MailboxKey) => folders.all({ mailbox }),
    /** Open places whose uids are in the interval; held are those that the brake keeps although the origin lacks them. */
    openPlaces: (at: FolderKey, generation: number, { lo, hi }: UidInterval) =>
      inFolder<ReadonlyMap<number, OpenPlace>>(at, new Map(), (folder) => {
        const range = { folder, generation, from: lo, ...(Number.isFinite(hi) ? { to: hi } : {}) };
        return new Map([...places.open(range)].map((place) => [place.uid, place]));
      }),
    /** The open place of a uid with its message; undefined where none is open. */
    placed: (at: FolderKey, generation: number, uid: number) =>
      inFolder(at, undefined, (folder) => relinking.placed(folder, generation, uid)),
    /** The fingerprint of a place that has ended; undefined where none has. */
    endedFingerprint: (at: FolderKey, generation: number, uid: number) =>
      inFolder(at, undefined, (folder) => {
        const place = places.at(folder, generation, uid);
        return place?.state === 'ended' ? place.fingerprint : undefined;
      }),
    /** True when an open place of the mailbox, older than commit `before`, shows this fingerprint. */
    isOpenSomewhere: (mailbox: MailboxKey, print: string, before: number) =>
      relinking.isOpenSomewhere(mailbox, print, before),
    /** Uids the origin should answer for: open and not held, quarantined, forgotten. Ascending. */
    expectedUids: inGeneration<readonly number[]>([], relinking.expectedUids),
    /** Uids of all open places of a generation, held ones included, ascending. */
    openUids: inGeneration<readonly number[]>([], relinking.openUids),
    /** Open places of a generation without `\\Seen`. */
    unread: inGeneration(0, relinking.unread),
    /** Uids of open places that carry a flag, ascending. */
    uidsFlagged: (at: FolderKey, generation: number, flag: CountedFlag) =>
      inFolder<readonly number[]>(at, [], (folder) =>
        relinking.uidsFlagged(folder, generation, flag),
      ),
    /** True when the user has acknowledged that a place is in quarantine: it is counted, and not reported again. */
    isAcknowledged: (at: FolderKey, { generation, uid }: Place) =>
      inFolder(at, false, (folder) => quarantine.isAcknowledged(folder, generation, uid)),
    /** Open places of a mailbox whose bytes were assumed in commits up to `before`, the oldest first. */
    assumed: (mailbox: MailboxKey, before: number, limit: number) =>
      places.assumed(mailbox, before, limit),
    /** Uids of open places that the brake holds, in no order. */
    heldUids: inGeneration<readonly number[]>([], relinking.heldUids),
    /** Older generations of a folder that the brake keeps open. */
    olderGenerations(at: FolderKey): readonly number[] {
      const folder = folders.find(at);
      if (folder === undefined) return [];
      return places.openGenerations(folder.id).filter((number) => number !== folder.generation);
    },
    /** What is known of a uid without an open place; undefined when nothing is. */
    settledAs: (at: FolderKey, generation: number, uid: number) =>
      inFolder(at, undefined, (folder) => {
        const state = places.at(folder, generation, uid)?.state;
        return state === 'open' ? undefined : state;
      }),
    /** The highest uid in any fact of this generation; 0 for none. */
    highestUid: inGeneration(0, folders.highestUid),
    /** Uids in quarantine, ascending. */
    quarantined: inGeneration<readonly number[]>([], relinking.quarantinedUids),
    /** Forgotten uids of a generation, in no order. */
    forgottenUids: inGeneration<readonly number[]>([], relinking.forgottenUids),
    /** Uids of the interval that the origin should answer for without an open place: quarantined or forgotten. */
    unplaced: (at: FolderKey, generation: number, { lo, hi }: UidInterval): readonly number[] =>
      unplaced(at, generation).filter((uid) => uid >= lo && uid <= hi),
    /** The places of a folder, all generations together: an older one has open places only while the brake holds them. */
    sumsOf: (at: FolderKey) =>
      inFolder(at, NO_PLACES, (folder) => {
        const { open, assumed, held, quarantined, forgotten } = folders.counts(folder);
        return { stored: open - assumed - held, assumed, quarantined, held, forgotten };
      }),
    message: (id: MessageId) => messages.find(id),
    hasBlob: (hash: BlobHash) => messages.hasBlob(hash),
    /** True when the message was forgotten: its bytes must not be stored again, whatever place shows it. */
    isForgotten: (id: MessageId) => messages.purgedFor(id) === 'forgotten',
    /** The first free docid at or above this one; each is returned once. */
    docidFor: (base: number) => catalog.docidFor(base),
    /** Folds a durable batch: after it, everything above answers with its facts. */
    fold: (batch: CommittedBatch) => catalog.foldBatch(batch),
  };
}
