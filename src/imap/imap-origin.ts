import { createHash, randomUUID } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, systemClock } from '../core/concurrency.ts';
import { errnoOf, hasCode, MailkeepError } from '../core/errors.ts';
import type { CountedFlag, FolderKey, ListedFolder, Listing } from '../core/types.ts';
import { originError } from '../service/errors.ts';
import {
  allUids,
  bothSettled,
  changedSince,
  examine,
  type FolderStatus,
  fetchFolderBytes,
  fetchListings,
  fetchPiece,
  fetchQuota,
  fetchSourceStarts,
  listFolders,
  type ServerFolder,
  searchUids,
  wireNameOf,
} from './commands.ts';
import type { ImapSession, SelectedFolder } from './connection.ts';
import { PIECE_BYTES } from './connection-errors.ts';
import type { ImapConnections } from './connections.ts';
import { imapError } from './errors.ts';
import { formatUidSet, MAX_UINT32 } from './response.ts';

/** How long a folder's list of uids serves further pages. */
const SNAPSHOT_MS = 30_000;
/** Folders whose uids are kept in memory. */
const SNAPSHOTS = 2;
/** Sources requested by one command. A round trip to a distant server takes as long as many small messages. */
const SOURCES_AT_ONCE = 128;
/** Bytes requested by one command, if it requests several sources. */
const BYTES_AT_ONCE = 2 * 1024 * 1024;
/** Assumed for a message whose size was not listed recently. */
const UNKNOWN_SIZE = 64 * 1024;
/** Sizes kept in memory, for messages whose sources are requested after their listing. */
const MAX_SIZES = 10_000;
/** Pages read with one command once a folder is read page after page. */
const PAGES_AHEAD = 10;
/** No real message is as large. Bounds the disk space that a message without an end can take. */
const MAX_SOURCE_BYTES = 1024 * 1024 * 1024;
/** Times that a page is filled up after messages on it turn out to be gone. */
const REFILLS = 3;
/** Connections that a command about messages may break before it is divided, or its message counts as refused. */
const BREAKS = 2;
/** Messages remembered because their ENVELOPE does not parse. */
const MAX_ODD = 10_000;
/** Beyond this number of changed flags, reading all of them takes less memory. */
const MAX_CHANGES = 200_000;

interface Snapshot {
  readonly uidValidity: string;
  readonly highestModSeq: string | null;
  readonly mailboxId: string | null;
  /** Ascending. */
  uids: Uint32Array;
  /** Milliseconds since the epoch when the folder was opened. Only later sessions show the same messages. */
  readonly at: number;
  /** The last uid of the last page in its order, and messages listed beyond it. */
  walk?: { readonly end: number; readonly ahead: ReadonlyMap<number, Listing> };
}

interface Page {
  readonly items: readonly Listing[];
  readonly total: number;
  /** Uids that SEARCH returns and FETCH leaves out, twice. */
  readonly omitted: readonly number[];
  readonly uidValidity: string;
  readonly mailboxId: string | null;
  readonly hasModSeqs: boolean;
}

type Source =
  | { readonly kind: 'buffer'; readonly bytes: Buffer }
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly size: number;
      readonly sha256: string;
    };

interface WaitingSource {
  readonly uid: number;
  readonly signal: AbortSignal;
  readonly resolve: (source: Source) => void;
  readonly reject: (error: unknown) => void;
}

interface SourceQueue {
  readonly waiting: WaitingSource[];
  runners: number;
}

type Order = 'ascending' | 'descending';

export interface ImapOriginOptions {
  readonly connections: ImapConnections;
  /** The mailbox's permanent key in the archive, and its address. */
  readonly mailbox: { readonly id: string; readonly address: string };
  /** Selects from shared folders and those of other users, by path. By default, none is listed. */
  readonly isForeignWanted?: (path: string) => boolean;
  /** Whether the server has ever said which folders are shared or other users'. Later, it must not seem to have none. */
  readonly namespaces?: { areKnown(): boolean; remember(): void };
  /** Directory for messages over 1 MiB. */
  readonly spoolDir: string;
  readonly clock?: Clock;
}

/**
 * Returns an IMAP account as a source: one mailbox. It only reads, with EXAMINE and PEEK. Has the methods of `Origin` in
 * `src/sync`, which is above this room. The caller closes the connections.
 */
export function imapOrigin(options: ImapOriginOptions) {
  const reader = new ImapReader(options);
  return {
    host: reader.host,
    mailboxes: reader.mailboxes.bind(reader),
    folders: reader.folders.bind(reader),
    list: reader.list.bind(reader),
    search: reader.search.bind(reader),
    source: reader.source.bind(reader),
    quota: reader.quota.bind(reader),
    uids: reader.uids.bind(reader),
    folderBytes: reader.folderBytes.bind(reader),
    changedSince: reader.changedSince.bind(reader),
  };
}

class ImapReader {
  readonly host: string;
  readonly #options: ImapOriginOptions;
  readonly #clock: Clock;
  /** UIDVALIDITY of each folder, as of the last listing or, without one, of the folder's first answer. */
  readonly #epochs = new Map<string, string>();
  readonly #snapshots = new Map<string, Snapshot>();
  readonly #queues = new Map<string, SourceQueue>();
  readonly #withoutEnvelope = new Set<string>();
  /** Listed sizes in bytes, by uid and folder, oldest first. */
  readonly #sizes = new Map<string, number>();
  /** Messages in each folder, as last listed. */
  readonly #expected = new Map<string, number>();

  constructor(options: ImapOriginOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.host = options.connections.host.toLowerCase();
  }

  /** Signs in, unless a connection is open, so that a refusal shows before any work. */
  async mailboxes(signal: AbortSignal) {
    await this.#options.connections.use(async () => {}, signal);
    const { id, address } = this.#options.mailbox;
    return [{ resourceId: id, address }];
  }

  /** @throws errors of `listFolders` */
  async folders(_mailbox: string, signal: AbortSignal) {
    const { connections, isForeignWanted, namespaces } = this.#options;
    const {
      folders: found,
      leftOut,
      refused,
    } = await connections.use(async (session) => {
      const listing = await listFolders(session, isForeignWanted, namespaces?.areKnown());
      if (session.knowsForeign && session.has('NAMESPACE')) namespaces?.remember();
      return listing;
    }, signal);
    this.#epochs.clear();
    this.#snapshots.clear();
    this.#expected.clear();
    for (const { path, status } of found) {
      if (status.uidValidity !== null) this.#epochs.set(path, status.uidValidity);
      this.#expected.set(path, status.messages);
    }
    const problem =
      refused === 0
        ? {}
        : { problem: imapError('imap.folders-refused', { host: this.host, refused }) };
    return {
      folders: found.map(listedFolder),
      complete: refused === 0,
      leftOut,
      states: new Map<string, FolderStatus>(found.map(({ path, status }) => [path, status])),
      ...problem,
    };
  }

  /** @throws imap.renumbered if the folder's UID epoch has changed since the last listing of folders */
  async list(
    at: FolderKey,
    { page, perPage, order }: { page: number; perPage: number; order: Order },
    signal: AbortSignal,
  ): Promise<Page> {
    const snapshot = await this.#snapshot(at, signal, page === 1);
    return this.#page(at, snapshot, [1, MAX_UINT32], { page, perPage, order }, signal);
  }

  /** Answers ranges of uids from the folder's recent list, and everything else by asking the server. */
  async search(
    at: FolderKey,
    question: {
      uids: string;
      perPage: number;
      order: Order;
      flag?: CountedFlag;
      since?: string;
      fresh?: boolean;
    },
    signal: AbortSignal,
  ): Promise<Page> {
    const { uids: set, perPage, order, flag, since, fresh = false } = question;
    const request = { page: 1, perPage, order };
    const range = /^(\d+):(\d+|\*)$/.exec(set);
    if (range !== null && flag === undefined && since === undefined && !fresh) {
      const bounds = [Number(range[1]), range[2] === '*' ? MAX_UINT32 : Number(range[2])] as const;
      return this.#page(at, await this.#snapshot(at, signal, false), bounds, request, signal);
    }
    const criteria = {
      ...(flag === undefined ? {} : { flag }),
      ...(since === undefined ? {} : { since }),
    };
    const answer = await this.#onFolder(
      at,
      signal,
      async (session, opening) => {
        const [uids, opened] = await bothSettled(searchUids(session, set, criteria), opening);
        const { uidValidity, highestModSeq, mailboxId, openedAt } = opened;
        return { uidValidity, highestModSeq, mailboxId, uids, at: openedAt };
      },
      { reopen: true, fresh },
    );
    return this.#page(at, answer, [1, MAX_UINT32], request, signal);
  }

  async uids(at: FolderKey, signal: AbortSignal) {
    const { uidValidity, highestModSeq, uids } = await this.#snapshot(at, signal, false);
    return { uidValidity, highestModSeq, uids };
  }

  async changedSince(
    at: FolderKey,
    since: { readonly uidValidity: string; readonly modSeq: string },
    signal: AbortSignal,
  ) {
    return this.#onFolder(
      at,
      signal,
      async (session, opening) => {
        const { uidValidity, highestModSeq, exists } = await opening;
        if (highestModSeq === null || uidValidity !== since.uidValidity) return null;
        const changes = exists === 0 ? [] : await changedSince(session, since.modSeq, MAX_CHANGES);
        return changes === null ? null : { changes, highestModSeq };
      },
      { reopen: true },
    );
  }

  /** Returns the total size of each folder's messages. Empty if the server does not add them up. */
  async folderBytes(_mailbox: string, folders: readonly string[], signal: AbortSignal) {
    const byName = new Map(folders.map((path) => [wireNameOf(path), path]));
    const sizes = await this.#options.connections.use(
      (session) => fetchFolderBytes(session, [...byName.keys()]),
      signal,
    );
    return new Map([...sizes].map(([name, bytes]) => [byName.get(name) ?? name, bytes]));
  }

  async quota(_mailbox: string, signal: AbortSignal) {
    return this.#options.connections.use(fetchQuota, signal);
  }

  /**
   * Fetches a message. Requests for the same folder at the same time share a command.
   *
   * @throws imap.message-gone, imap.message-changed, imap.too-large, spool-failed
   */
  source(at: FolderKey, uid: number, signal: AbortSignal): Promise<Source> {
    const { promise, resolve, reject } = Promise.withResolvers<Source>();
    const queue = this.#queues.get(at.folder) ?? { waiting: [], runners: 0 };
    this.#queues.set(at.folder, queue);
    queue.waiting.push({ uid, signal, resolve, reject });
    if (queue.runners < this.#options.connections.budget) void this.#serve(at, queue);
    return promise;
  }

  async #serve(at: FolderKey, queue: SourceQueue): Promise<void> {
    queue.runners += 1;
    for (;;) {
      // Lets requests of the same turn join.
      await nextTurn();
      const room = Math.floor(this.#options.connections.bytesLeft / PIECE_BYTES);
      const length = this.#batchLength(at, queue.waiting);
      const batch = queue.waiting.splice(0, Math.min(length, Math.max(1, room)));
      if (batch.length === 0) break;
      await this.#serveBatch(at, batch);
    }
    queue.runners -= 1;
    if (queue.runners === 0 && queue.waiting.length === 0) this.#queues.delete(at.folder);
  }

  /** Returns how many of the waiting requests one command answers. */
  #batchLength(at: FolderKey, waiting: readonly WaitingSource[]): number {
    let bytes = 0;
    const tooMany = waiting.findIndex(({ uid }, i) => {
      const size = this.#sizes.get(`${uid} ${at.folder}`) ?? UNKNOWN_SIZE;
      bytes += Math.min(size, PIECE_BYTES);
      return i > 0 && (i >= SOURCES_AT_ONCE || bytes > BYTES_AT_ONCE);
    });
    return tooMany < 0 ? waiting.length : tooMany;
  }

  #noteSizes(at: FolderKey, listings: Iterable<Listing>): void {
    for (const { uid, size } of listings) this.#sizes.set(`${uid} ${at.folder}`, size);
    for (const key of this.#sizes.keys()) {
      if (this.#sizes.size <= MAX_SIZES) break;
      this.#sizes.delete(key);
    }
  }

  async #serveBatch(at: FolderKey, batch: readonly WaitingSource[]): Promise<void> {
    const [first] = batch;
    if (first === undefined) return;
    const { signal } = first;
    const uids = [...new Set(batch.map(({ uid }) => uid))].sort((a, b) => a - b);
    try {
      signal.throwIfAborted();
      const starts = await this.#onFolder(
        at,
        signal,
        (session) => fetchSourceStarts(session, uids),
        { breaks: BREAKS },
      );
      for (const { uid, resolve, reject } of batch) {
        const start = starts.get(uid);
        if (start === undefined) reject(imapError('imap.message-gone', { host: this.host, uid }));
        else if (start.complete) resolve({ kind: 'buffer', bytes: start.bytes });
        else await this.#spool(at, uid, start.bytes, signal).then(resolve, reject);
      }
    } catch (error) {
      // A single message may be the cause. A server that crashes over it breaks the connection.
      if (batch.length > 1 && (isUnreadable(error) || hasCode(error, 'imap.connection-lost'))) {
        for (const one of batch) await this.#serveBatch(at, [one]);
      } else for (const { reject } of batch) reject(error);
    }
  }

  /** Fetches the rest of a long message into a file. Fetches the first piece again at the end, and compares it. */
  async #spool(at: FolderKey, uid: number, start: Buffer, signal: AbortSignal): Promise<Source> {
    const { spoolDir } = this.#options;
    const file = path.join(spoolDir, `imap-${randomUUID()}`);
    const piece = (offset: number) =>
      this.#onFolder(at, signal, (session) => fetchPiece(session, uid, offset), { rest: true });
    try {
      const handle = await open(file, 'wx', 0o600);
      const digest = createHash('sha256');
      let size = 0;
      try {
        for (let bytes = start; ; bytes = await piece(size)) {
          await handle.writeFile(bytes);
          digest.update(bytes);
          size += bytes.length;
          if (bytes.length < PIECE_BYTES) break;
          if (size >= MAX_SOURCE_BYTES) {
            const facts = { host: this.host, command: 'UID FETCH', what: 'message' } as const;
            throw imapError('imap.too-large', { ...facts, limit: MAX_SOURCE_BYTES });
          }
        }
      } finally {
        await handle.close();
      }
      if (!(await piece(0)).equals(start)) {
        throw imapError('imap.message-changed', { host: this.host, uid });
      }
      return { kind: 'file', path: file, size, sha256: digest.digest('hex') };
    } catch (error) {
      await rm(file, { force: true });
      const reason = errnoOf(error);
      if (error instanceof MailkeepError || reason === undefined) throw error;
      throw originError('spool-failed', { dir: spoolDir, reason }, error);
    }
  }

  /** Returns the folder's uids. @param isNewest asks again, even if they are recent */
  async #snapshot(at: FolderKey, signal: AbortSignal, isNewest: boolean): Promise<Snapshot> {
    const known = this.#snapshots.get(at.folder);
    const age = this.#clock.now() - (known?.at ?? 0);
    if (known !== undefined && !isNewest && age >= 0 && age < SNAPSHOT_MS) return known;
    const snapshot = await this.#twice(() =>
      this.#onFolder(
        at,
        signal,
        async (session, opening) => {
          const expected = this.#expected.get(at.folder) ?? null;
          const [uids, opened] = await bothSettled(allUids(session, opening, expected), opening);
          const { uidValidity, highestModSeq, mailboxId, openedAt } = opened;
          return { uidValidity, highestModSeq, mailboxId, uids, at: openedAt };
        },
        { reopen: true },
      ),
    );
    this.#snapshots.delete(at.folder);
    this.#snapshots.set(at.folder, snapshot);
    for (const folder of this.#snapshots.keys()) {
      if (this.#snapshots.size > SNAPSHOTS) this.#snapshots.delete(folder);
    }
    return snapshot;
  }

  /** Repeats a request once if its answer does not add up, because the folder may have changed meanwhile. */
  async #twice<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      if (!hasCode(error, 'imap.count-differs') && !hasCode(error, 'imap.incomplete')) throw error;
      return act();
    }
  }

  /** Lists a page of the snapshot's uids within bounds. Messages that are gone leave the snapshot. */
  async #page(
    at: FolderKey,
    snapshot: Snapshot,
    [lo, hi]: readonly [number, number],
    { page, perPage, order }: { page: number; perPage: number; order: Order },
    signal: AbortSignal,
  ): Promise<Page> {
    for (let refill = 0; ; refill += 1) {
      const { uids, uidValidity, mailboxId } = snapshot;
      const range = uids.subarray(lowerBound(uids, lo), lowerBound(uids, hi + 1));
      const total = range.length;
      const skipped = (page - 1) * perPage;
      const part =
        order === 'ascending'
          ? range.subarray(skipped, skipped + perPage)
          : range.subarray(Math.max(0, total - skipped - perPage), Math.max(0, total - skipped));
      const listings = await this.#walk(at, snapshot, part, order, signal);
      const silent = [...part].filter((uid) => !listings.has(uid));
      const { again, gone } = await this.#askAgain(at, silent, signal);
      if (gone.size > 0) snapshot.uids = uids.filter((uid) => !gone.has(uid));
      if (gone.size > 0 && refill < REFILLS) continue;
      const items = [...part].flatMap((uid) => listings.get(uid) ?? again.get(uid) ?? []);
      if (order === 'descending') items.reverse();
      const omitted = silent.filter((uid) => !gone.has(uid) && !again.has(uid));
      const hasModSeqs = snapshot.highestModSeq !== null;
      return { items, total: total - gone.size, omitted, uidValidity, mailboxId, hasModSeqs };
    }
  }

  /** Asks for messages that FETCH left out. Only SEARCH in a new session can tell that they are gone. */
  async #askAgain(
    at: FolderKey,
    uids: readonly number[],
    signal: AbortSignal,
  ): Promise<{ readonly again: ReadonlyMap<number, Listing>; readonly gone: ReadonlySet<number> }> {
    if (uids.length === 0) return { again: new Map(), gone: new Set() };
    const search = (session: ImapSession) => searchUids(session, formatUidSet(uids), {});
    const listed = new Set(await this.#onFolder(at, signal, search, { fresh: true }));
    const again = await this.#listings(at, [...listed], { fresh: true }, signal);
    return { again, gone: new Set(uids.filter((uid) => !listed.has(uid))) };
  }

  /** Lists a page's messages. Once pages follow each other, lists the messages of several pages with one command. */
  async #walk(
    at: FolderKey,
    snapshot: Snapshot,
    part: Uint32Array,
    order: Order,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<number, Listing>> {
    const { uids, walk } = snapshot;
    const [first, last] = [part[0], part.at(-1)];
    if (first === undefined || last === undefined) return new Map();
    if (walk !== undefined && part.every((uid) => walk.ahead.has(uid))) {
      snapshot.walk = { end: order === 'ascending' ? last : first, ahead: walk.ahead };
      return walk.ahead;
    }
    const [start, end] = [lowerBound(uids, first), lowerBound(uids, last + 1)];
    const isNext =
      walk?.end !== undefined && walk.end === uids[order === 'ascending' ? start - 1 : end];
    const more = isNext ? part.length * (PAGES_AHEAD - 1) : 0;
    const wanted =
      order === 'ascending'
        ? uids.subarray(start, end + more)
        : uids.subarray(Math.max(0, start - more), end);
    const ahead = await this.#listings(at, [...wanted], { since: snapshot.at }, signal);
    this.#noteSizes(at, ahead.values());
    snapshot.walk = { end: order === 'ascending' ? last : first, ahead };
    return ahead;
  }

  /** Lists messages. Divides them if the answer does not parse, until only the unreadable messages lack an ENVELOPE. */
  async #listings(
    at: FolderKey,
    uids: readonly number[],
    how: { readonly since?: number; readonly fresh?: boolean },
    signal: AbortSignal,
  ): Promise<Map<number, Listing>> {
    const isOdd = (uid: number): boolean => this.#withoutEnvelope.has(`${uid} ${at.folder}`);
    const odd = uids.filter(isOdd);
    const usual = uids.filter((uid) => !isOdd(uid));
    const found = new Map<number, Listing>();
    const fetch = (some: readonly number[], withEnvelope: boolean) =>
      this.#onFolder(at, signal, (session) => fetchListings(session, some, withEnvelope), how);
    if (odd.length > 0) for (const [uid, one] of await fetch(odd, false)) found.set(uid, one);
    if (usual.length === 0) return found;
    try {
      for (const [uid, one] of await fetch(usual, true)) found.set(uid, one);
      return found;
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      const [first] = usual;
      if (usual.length === 1 && this.#withoutEnvelope.size < MAX_ODD) {
        this.#withoutEnvelope.add(`${first} ${at.folder}`);
      } else if (usual.length === 1) throw error;
      const half = Math.ceil(usual.length / 2);
      for (const part of [usual.slice(0, half), usual.slice(half)]) {
        if (part.length === 0) continue;
        for (const [uid, one] of await this.#listings(at, part, how, signal)) found.set(uid, one);
      }
      return found;
    }
  }

  /**
   * Runs `act` with the folder open. Does not wait until it is open before sending the first command of `act`, and
   * drops its result if the folder cannot be opened.
   *
   * @param how.reopen opens it again even if it is open, for current counts
   * @param how.since opens it again if it was opened earlier, in milliseconds since the epoch
   * @param how.rest fetches the rest of a message, even if that exceeds the day's limit
   * @param how.breaks see `ImapConnections.use`
   * @throws imap.renumbered
   */
  async #onFolder<T>(
    at: FolderKey,
    signal: AbortSignal,
    act: (session: ImapSession, opening: Promise<SelectedFolder>) => Promise<T>,
    how: {
      readonly reopen?: boolean;
      readonly since?: number;
      readonly fresh?: boolean;
      readonly rest?: boolean;
      readonly breaks?: number;
    } = {},
  ): Promise<T> {
    const { folder } = at;
    const { fresh = false, rest = false, breaks } = how;
    const wireName = wireNameOf(folder);
    return this.#options.connections.use(
      async (session) => {
        const current = session.selected;
        const now = this.#clock.now();
        const isRecent =
          current !== null &&
          current.openedAt >= (how.since ?? 0) &&
          Math.abs(now - current.openedAt) < SNAPSHOT_MS;
        const epoch = this.#epochs.get(folder);
        const isSame = epoch === undefined || epoch === current?.uidValidity;
        const isOpen = current?.wireName === wireName && isRecent && isSame && how.reopen !== true;
        const opening = isOpen
          ? Promise.resolve(current)
          : examine(session, wireName, folder, now).then((selected) => {
              this.#requireEpoch(folder, selected.uidValidity);
              return selected;
            });
        const acting = act(session, opening);
        // Nothing else may use the session before both have ended.
        await Promise.allSettled([opening, acting]);
        await opening;
        return acting;
      },
      signal,
      { wireName, fresh, rest, ...(breaks === undefined ? {} : { breaks }) },
    );
  }

  #requireEpoch(folder: string, uidValidity: string): void {
    const known = this.#epochs.get(folder);
    if (known === undefined) this.#epochs.set(folder, uidValidity);
    else if (known !== uidValidity) {
      this.#snapshots.delete(folder);
      throw imapError('imap.renumbered', { folder });
    }
  }
}

/** Reports whether an answer could not be read, as opposed to refused. */
function isUnreadable(error: unknown): boolean {
  return hasCode(error, 'imap.malformed') || hasCode(error, 'imap.too-large');
}

function listedFolder(folder: ServerFolder): ListedFolder {
  const { path, delimiter, specialUse, status } = folder;
  const name = delimiter === '' ? path : (path.split(delimiter).at(-1) ?? path);
  const { messages, unseen } = status;
  return { path, name, delimiter, specialUse, messageCount: messages, unreadCount: unseen };
}

/** Returns the position of the first uid that is at least `value`. */
function lowerBound(uids: Uint32Array, value: number): number {
  let lo = 0;
  let hi = uids.length;
  while (lo < hi) {
    const middle = (lo + hi) >>> 1;
    if ((uids[middle] ?? 0) < value) lo = middle + 1;
    else hi = middle;
  }
  return lo;
}
