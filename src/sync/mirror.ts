import type { CommittedBatch } from '../archive/format.ts';
import type { WritableCatalog } from '../catalog/catalog.ts';
import type {
  BlobHash,
  CountedFlag,
  FolderKey,
  Listing,
  MailboxKey,
  MessageId,
  Place,
} from '../core/types.ts';
import { NO_PLACES } from '../core/types.ts';
import { fingerprint, stableIdKey } from '../mail/identity.ts';
import type { UidInterval } from './plan/plan-folder.ts';

type OpenPlace =
  ReturnType<WritableCatalog['places']['open']> extends Iterable<infer P> ? P : never;

/** A message whose bytes the archive has, or is about to have, and a place where it is or was. */
export interface KnownMessage {
  readonly place: Place;
  readonly id: MessageId;
  readonly docid: number;
  /** Size of the raw source, in bytes. */
  readonly size: number;
}

/** Catalog queries for a sync run. Synchronous: the catalog is a local index that the run itself updates. */
export type Mirror = ReturnType<typeof catalogMirror>;

/** Returns the catalog's queries for a sync run, by folder path and UID epoch. */
export function catalogMirror(catalog: WritableCatalog) {
  const { folders, places, quarantine, messages, relinking } = catalog;
  /** Reads from a folder by number. Returns `fallback` if the folder is unknown. */
  const readFolder = <T>(at: FolderKey, fallback: T, read: (folder: number) => T): T => {
    const folder = folders.find(at)?.id;
    return folder === undefined ? fallback : read(folder);
  };
  const readEpoch =
    <T>(fallback: T, read: (folder: number, generation: number) => T) =>
    (at: FolderKey, generation: number): T =>
      readFolder(at, fallback, (folder) => read(folder, generation));
  /** Quarantined and forgotten uids, unordered. */
  const unplaced = readEpoch<number[]>([], (folder, generation) => [
    ...relinking.quarantinedUids(folder, generation),
    ...relinking.forgottenUids(folder, generation),
  ]);
  return {
    mailboxAddress: (at: MailboxKey) => folders.mailbox(at)?.address,
    /** Mailboxes that are an account of their own. */
    accountMailboxes: () => folders.accountMailboxes(),
    folder: (at: FolderKey) => folders.find(at),
    epoch: (at: FolderKey) => folders.epoch(at),
    folders: (mailbox: MailboxKey) => folders.all({ mailbox }),
    /** Open places with uids in the interval. Includes held places, which the service no longer has. */
    openPlaces: (at: FolderKey, generation: number, { lo, hi }: UidInterval) =>
      readFolder<ReadonlyMap<number, OpenPlace>>(at, new Map(), (folder) => {
        const range = { folder, generation, from: lo, ...(Number.isFinite(hi) ? { to: hi } : {}) };
        return new Map([...places.open(range)].map((place) => [place.uid, place]));
      }),
    /** Returns a uid's open place with its message, or undefined. */
    placed: (at: FolderKey, generation: number, uid: number) =>
      readFolder(at, undefined, (folder) => relinking.placed(folder, generation, uid)),
    /** Returns the fingerprint of a deleted message's place, or undefined. */
    endedFingerprint: (at: FolderKey, generation: number, uid: number) =>
      readFolder(at, undefined, (folder) => {
        const place = places.at(folder, generation, uid);
        return place?.state === 'ended' ? place.fingerprint : undefined;
      }),
    isOpenSomewhere: (mailbox: MailboxKey, print: string, before: number) =>
      relinking.isOpenSomewhere(mailbox, print, before),
    /**
     * Returns the message with the listing's stable id, from a current or ended place, if the archive has its bytes. Every
     * listed field must match too: the catalog has only a hash of the id, and a server can derive its ids from the
     * Message-ID.
     */
    knownMessage: (at: MailboxKey, listing: Listing) => {
      const key = stableIdKey(listing);
      if (key === null) return undefined;
      return relinking
        .byStableId(at, key)
        .filter((place) => {
          return (
            place.fingerprint === fingerprint(listing) && messages.find(place.id) !== undefined
          );
        })
        .map(({ folder, generation, uid, id, docid, size }): KnownMessage => {
          const { host, mailbox } = at;
          return { place: { host, mailbox, folder, generation, uid }, id, docid, size };
        })
        .at(0);
    },
    arrivedSince: relinking.arrivedSince,
    /** Uids that the service should list, ascending: open but not held, quarantined, or forgotten. */
    expectedUids: readEpoch<readonly number[]>([], relinking.expectedUids),
    /** Uids of the open places in a UID epoch, including held ones, ascending. */
    openUids: readEpoch<readonly number[]>([], relinking.openUids),
    unread: readEpoch(0, relinking.unread),
    /** Reports whether as many messages can be unread. The flags of incomplete and forgotten ones are unknown. */
    hasUnread: (at: FolderKey, generation: number, unread: number) =>
      readFolder(at, unread === 0, (folder) => {
        const least = relinking.unread(folder, generation);
        const { quarantined, forgotten } = folders.counts(folder);
        return unread >= least && unread <= least + quarantined + forgotten;
      }),
    /** Uids of open places with a flag, ascending. */
    uidsFlagged: (at: FolderKey, generation: number, flag: CountedFlag) =>
      readFolder<readonly number[]>(at, [], (folder) =>
        relinking.uidsFlagged(folder, generation, flag),
      ),
    /** True if the user has acknowledged that a message is incomplete. It still counts, but is not reported. */
    isAcknowledged: (at: FolderKey, { generation, uid }: Place) =>
      readFolder(at, false, (folder) => quarantine.isAcknowledged(folder, generation, uid)),
    /** A mailbox's unverified open places from commits up to `before`, oldest first. */
    assumed: (mailbox: MailboxKey, before: number, limit: number) =>
      places.assumed(mailbox, before, limit),
    /** Uids of open places held by the deletion guard, unordered. */
    heldUids: readEpoch<readonly number[]>([], relinking.heldUids),
    /** Older UID epochs with places kept open by the deletion guard. */
    olderGenerations(at: FolderKey): readonly number[] {
      const folder = folders.find(at);
      if (folder === undefined) return [];
      return places.openGenerations(folder.id).filter((number) => number !== folder.generation);
    },
    /** Returns the state of a uid without an open place, or undefined. */
    settledAs: (at: FolderKey, generation: number, uid: number) =>
      readFolder(at, undefined, (folder) => {
        const state = places.at(folder, generation, uid)?.state;
        return state === 'open' ? undefined : state;
      }),
    /** Highest uid in any fact about this UID epoch, or 0. */
    highestUid: readEpoch(0, folders.highestUid),
    /** Uids in quarantine, ascending. */
    quarantined: readEpoch<readonly number[]>([], relinking.quarantinedUids),
    forgottenUids: readEpoch<readonly number[]>([], relinking.forgottenUids),
    /** Uids in the interval that are quarantined or forgotten: listed, but without an open place. */
    unplaced: (at: FolderKey, generation: number, { lo, hi }: UidInterval): readonly number[] =>
      unplaced(at, generation).filter((uid) => uid >= lo && uid <= hi),
    /** Counts the folder's places in all UID epochs. In older epochs, only held places are open. */
    sumsOf: (at: FolderKey) =>
      readFolder(at, NO_PLACES, (folder) => {
        const { open, assumed, held, quarantined, forgotten } = folders.counts(folder);
        return { stored: open - assumed - held, assumed, quarantined, held, forgotten };
      }),
    /** Returns the archive's last commit, with its time in milliseconds since the epoch. */
    lastCommit: () => {
      const { number, time } = catalog.reached();
      return { number, time };
    },
    /** Reports whether the archive has a commit. It does not if it was restored from an earlier copy. */
    hasCommit: (commit: { readonly number: number; readonly time: number } | null) =>
      commit?.number === 0 ||
      (commit !== null && catalog.commitTime(commit.number) === commit.time),
    message: (id: MessageId) => messages.find(id),
    hasBlob: (hash: BlobHash) => messages.hasBlob(hash),
    /**
     * Returns the id under which a message was forgotten, in a mailbox or everywhere, or undefined. The mailbox must not
     * get it again. Others may have a message that was forgotten in one mailbox.
     */
    forgottenAs: (id: MessageId, mailbox: MailboxKey) => messages.forgottenAs(id, mailbox),
    /** Returns the first free docid at or above `base`. Each docid is returned only once. */
    docidFor: (base: number) => catalog.docidFor(base),
    /** Applies a durable batch to the catalog. */
    fold: (batch: CommittedBatch) => catalog.foldBatch(batch),
  };
}
