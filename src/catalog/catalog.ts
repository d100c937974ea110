import type { CommittedBatch } from '../archive/format.ts';
import type { MailboxKey, MessageId } from '../core/types.ts';
import type { PlaceLine } from '../mail/identity.ts';
import {
  attachmentQueries,
  attachmentWriter,
  resetOutdatedAttachments,
} from './attachment-texts.ts';
import { chartQueries } from './charts.ts';
import {
  CATALOG_VERSION,
  type CatalogOptions,
  type Connection,
  catalogFile,
  openForReading,
  openForWriting,
} from './database.ts';
import { fileQueries } from './files.ts';
import { catalogHead, Fold } from './fold.ts';
import { folderQueries } from './folders.ts';
import { indexQueries, indexWriter, markOutdatedMessages } from './indexing.ts';
import {
  type ListedPlace,
  type ListFilter,
  listMessages,
  listPlaces,
  listPositions,
  placeQueries,
} from './list.ts';
import {
  deletedQueries,
  history,
  lastSeen,
  locator,
  messageQueries,
  quarantineQueries,
} from './messages.ts';
import { originQueries, relinkQueries } from './origin-places.ts';
import { countBy, selectBy, sqlQuery } from './query.ts';
import { createView } from './resolve-query.ts';
import { scopedCatalog } from './scoped-catalog.ts';
import { type CountRequest, searchQueries } from './search.ts';
import { commitAt, commitTime } from './sql.ts';
import { statsQueries } from './stats.ts';
import { conversationSizes, threadMessages } from './threads.ts';
import { changeQueries, changesSince, countTimeline, type TimelineRequest } from './timeline.ts';

const TAKEN_FROM = sqlQuery<{ docid: number; limit: number }, { docid: number }>(
  'SELECT docid FROM messages WHERE docid >= :docid ORDER BY docid LIMIT :limit',
);

const CHUNK = 256;
/** Maximum number of base docids to cache. Thousands of imported messages can share the same second. */
const REMEMBERED = 1_000;
/** Maximum number of long runs of taken docids to cache. */
const RUNS = 64;

class Docids {
  /** Allocated, but not in the catalog yet. */
  readonly #allocated = new Set<number>();
  readonly #next = new Map<number, number>();
  /**
   * Taken docids `[from, to)`, longer than a chunk. Migrated mail can have thousands of messages in one second, whose
   * docids fill the seconds after it; messages of those seconds must not read through all of them.
   */
  readonly #runs: { readonly from: number; to: number }[] = [];

  constructor(private readonly connection: Connection) {}

  /** Returns the first docid at or above `base` that is neither used nor allocated. */
  next(base: number): number {
    const docid = this.#firstFree(this.#next.get(base) ?? base);
    this.#allocated.add(docid);
    // Drop the least recently used base. All undated messages share one, which is needed constantly.
    this.#next.delete(base);
    if (this.#next.size >= REMEMBERED) this.#next.delete(this.#next.keys().next().value ?? base);
    this.#next.set(base, docid + 1);
    return docid;
  }

  /** Releases a docid that is now in the catalog or will not be used. */
  settled(docid: number): void {
    this.#allocated.delete(docid);
  }

  /** Drops all allocations after a failed batch. */
  reset(): void {
    this.#allocated.clear();
    this.#next.clear();
    this.#runs.length = 0;
  }

  #firstFree(from: number): number {
    const run = this.#runs.find(({ from: first, to }) => first <= from && from < to);
    const docid = this.#read(run?.to ?? from);
    if (run !== undefined) run.to = docid;
    else if (docid - from > CHUNK) {
      if (this.#runs.length >= RUNS) this.#runs.shift();
      this.#runs.push({ from, to: docid });
    }
    return docid;
  }

  #read(from: number): number {
    let docid = from;
    // Most docids are free, so check a single row before reading many.
    for (let limit = 1; ; limit = CHUNK) {
      const rows = this.connection.all(TAKEN_FROM, { docid, limit });
      for (const row of rows) {
        while (docid < row.docid && this.#allocated.has(docid)) docid += 1;
        if (docid < row.docid) return docid;
        docid = row.docid + 1;
      }
      while (this.#allocated.has(docid)) docid += 1;
      if (rows.length < limit) return docid;
    }
  }
}

/** Readers can block a checkpoint, but syncing a commit makes the whole write-ahead log durable. */
function makeDurable(connection: Connection): void {
  const set = (pragma: string) => connection.guard(() => connection.db.pragma(pragma));
  set('synchronous = FULL');
  try {
    // Force a commit: SQLite does not write an unchanged row.
    set(`user_version = ${CATALOG_VERSION}`);
  } finally {
    set('synchronous = NORMAL');
  }
}

function checkpoint(connection: Connection): boolean {
  const rows = connection.guard(() => connection.db.pragma('wal_checkpoint(TRUNCATE)'));
  const row: unknown = Array.isArray(rows) ? rows[0] : undefined;
  return typeof row === 'object' && row !== null && 'busy' in row && row.busy === 0;
}

const MAILBOX_NUMBER = selectBy('mailboxes', 'id', 'host, mailbox');
const META = selectBy('meta', 'messages, message_bytes', '');
const UNPARSED_COUNT = countBy('texts', '', 'AND unparsed IS NOT NULL');

/** Returns the totals for `status`. The cost does not depend on the size of the archive. */
function totals(connection: Connection) {
  const meta = connection.get(META, {});
  return {
    /** Number of distinct messages, and the total size of their sources in bytes. */
    messages: meta?.messages ?? 0,
    bytes: meta?.message_bytes ?? 0,
    /** Messages waiting to be indexed or reindexed. */
    pending: indexQueries(connection).pendingCount(),
    unparsed: connection.get(UNPARSED_COUNT, {})?.n ?? 0,
  };
}

interface FoldOptions {
  /** Accepts a batch that does not follow the last commit. Used only to rebuild from a damaged log. */
  readonly acrossGap?: boolean;
}

/**
 * Opens the catalog in a data directory for writing, creating it if necessary. The caller holds the archive's lock.
 *
 * @throws see `openForWriting`
 */
export async function openCatalog(dataDir: string, file: string = catalogFile(dataDir)) {
  const connection = await openForWriting(file);
  markOutdatedMessages(connection);
  resetOutdatedAttachments(connection);
  const fold = new Fold(connection);
  const docids = new Docids(connection);
  const foldAll = (batches: readonly CommittedBatch[], options: FoldOptions = {}) => {
    try {
      fold.batches(batches, options.acrossGap ?? false);
    } catch (error) {
      docids.reset();
      throw error;
    }
    for (const { records } of batches)
      for (const record of records)
        if (record.kind === 'fact' && 'docid' in record.fact) docids.settled(record.fact.docid);
  };
  return {
    ...createReader(connection),
    index: indexWriter(connection),
    attachments: attachmentWriter(connection),
    /**
     * Folds a batch and its commit in one transaction.
     *
     * @throws `catalog-out-of-step` if the batch does not follow the last commit; nothing is changed
     */
    foldBatch: (batch: CommittedBatch, options?: FoldOptions) => foldAll([batch], options),
    /** Folds a few dozen batches in one transaction, to catch up or rebuild. */
    foldBatches: foldAll,
    /** Returns the first docid at or above `base` that is neither used nor allocated. */
    docidFor: (base: number) => docids.next(base),
    /** Returns a commit's time in milliseconds since the epoch, or undefined. */
    commitTime: (number: number) => commitTime(connection, number),
    /** Makes previous writes durable. Until then, a power cut can lose the latest ones, which remain in the log. */
    makeDurable: () => makeDurable(connection),
    /** Moves the write-ahead log into the database. Returns false if a reader prevents it. */
    checkpoint: () => checkpoint(connection),
    /**
     * Compacts the database after a first sync, rebuild or import. Writing newest first leaves pages half full and
     * merging the index leaves free pages, so a new catalog shrinks by about half. Takes seconds for hundreds of
     * megabytes, and temporarily needs as much free space again.
     *
     * @throws `catalog-busy` while another connection reads
     */
    compact() {
      connection.guard(() => connection.db.exec('VACUUM'));
      checkpoint(connection);
    },
  };
}

export type WritableCatalog = Awaited<ReturnType<typeof openCatalog>>;

/**
 * Opens the catalog read-only, even if a writer has it open.
 *
 * @throws see `openForReading`
 */
export function openCatalogReader(
  dataDir: string,
  file: string = catalogFile(dataDir),
  options: CatalogOptions = {},
): Catalog {
  return createReader(openForReading(file, options));
}

type ViewRequest = Pick<CountRequest, 'asOf'>;

/** All queries, limited to the connection's scope as far as a limited reader may use them. See `scopedCatalog`. */
function catalogQueries(connection: Connection) {
  const places = placeQueries(connection);
  const messages = messageQueries(connection);
  const search = searchQueries(connection, places, messages.docidsByPrefix);
  return {
    /** Returns the last commit, or number 0 and an empty hash if there is none. */
    reached: () => catalogHead(connection),
    /** Changes with each commit or index row. Reveals activity in all mailboxes: do not return it to clients. */
    version: () => connection.version(),
    folders: folderQueries(connection),
    places,
    /** The service's last known state, by folder and UID. */
    origin: originQueries(connection, places),
    messages,
    locator: locator(connection),
    quarantine: quarantineQueries(connection),
    ended: deletedQueries(connection),
    relinking: relinkQueries(connection),
    index: indexQueries(connection),
    attachments: attachmentQueries(connection),
    totals: () => totals(connection),
    /** Lists places; see `list.ts`. Holds a read transaction until the list is drained or closed. */
    list: (filter: ListFilter): IterableIterator<PlaceLine> =>
      listMessages(connection, places, filter),
    listPlaces: (filter: ListFilter): IterableIterator<ListedPlace> =>
      listPlaces(connection, places, filter),
    /** Runs reads against a single snapshot of the catalog. */
    snapshot: <T>(act: () => T) => connection.snapshot(act),
    positions: listPositions(connection),
    /** Returns the last commit at or before a time. Times are in milliseconds since the epoch. */
    commitAt(time: number) {
      const number = commitAt(connection, time);
      const made = commitTime(connection, number);
      return made === undefined ? null : { number, time: made };
    },
    ...search,
    files: fileQueries(connection, search),
    stats: statsQueries(connection, search),
    changes: changeQueries(connection),
    timeline: (request: TimelineRequest, mayContinue: () => boolean) =>
      countTimeline(connection, search, request, mayContinue),
    charts: chartQueries(connection, search),
    /** Returns the IDs of the messages in a message's thread, oldest first; only its own until it is indexed. */
    threadOf(id: MessageId): MessageId[] {
      const docid = messages.docidOf(id);
      const found = docid === undefined ? [] : threadMessages(connection, docid);
      return found.length === 0 && (docid !== undefined || connection.scope === null)
        ? [id]
        : found;
    },
    conversationSizes: (docids: readonly number[], request: ViewRequest) =>
      connection.snapshot(() =>
        conversationSizes(connection, docids, createView(connection, request)),
      ),
    /** Returns what happened to messages after the request's time; see `changesSince`. */
    changesSince: (docids: readonly number[], request: ViewRequest) =>
      connection.snapshot(() => changesSince(connection, docids, createView(connection, request))),
    history(id: MessageId) {
      const docid = messages.docidOf(id);
      return docid === undefined ? [] : history(connection, places, docid, id);
    },
    lastSeen(id: MessageId) {
      const docid = messages.docidOf(id);
      return docid === undefined ? [] : lastSeen(connection, places, docid);
    },
    close: () => connection.close(),
  };
}

/** The catalog, opened for reading on one connection. Close it after use. */
export interface Catalog extends ReturnType<typeof catalogQueries> {
  /** Returns a view of the catalog limited to these mailboxes. Ignores unknown mailboxes. */
  within(mailboxes: readonly MailboxKey[]): Catalog;
}

function createReader(connection: Connection): Catalog {
  return {
    ...catalogQueries(connection),
    within(keys) {
      const scope = {
        mailboxes: keys.flatMap((key) => connection.get(MAILBOX_NUMBER, key)?.id ?? []),
      };
      const limited = connection.within(scope);
      return scopedCatalog(limited, scope, catalogQueries(limited), keys);
    },
  };
}
