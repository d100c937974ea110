import type { CommittedBatch, FoldedRecord } from '../archive/format/records.ts';
import type { MailboxKey, MessageId } from '../mail/words.ts';
import {
  type AttachmentWriter,
  attachmentQueries,
  attachmentWriter,
  noticeAttachmentVersion,
} from './attachment-texts.ts';
import type { Catalog, Totals } from './catalog-shape.ts';
import { catalogWithin } from './catalog-within.ts';
import type { Connection } from './connection.ts';
import { conversationSizes } from './conversation-sizes.ts';
import { endedQueries } from './ended.ts';
import { fileQueries } from './files/files.ts';
import { Fold, reached } from './fold/batch.ts';
import { folderQueries } from './folders.ts';
import { type IndexWriter, indexQueries, indexWriter, noticeExtractor } from './indexing.ts';
import { KnownHashes } from './known-hashes.ts';
import { list, listPlaces } from './list.ts';
import { ALL_POSITIONS } from './list-positions.ts';
import { history, lastSeen } from './message-history.ts';
import { locator, messageQueries } from './messages.ts';
import { commitAt, timeOf } from './moments.ts';
import {
  CATALOG_VERSION,
  type CatalogOptions,
  catalogFile,
  openForReading,
  openForWriting,
} from './open.ts';
import { originQueries } from './origin-places.ts';
import { placeQueries } from './places.ts';
import { quarantineQueries } from './quarantine.ts';
import { query } from './query.ts';
import { relinkQueries } from './relinking.ts';
import { idsWithin, sees } from './scope.ts';
import { viewOf } from './search/conditions.ts';
import { searchQueries } from './search/search.ts';
import { snapshotInto } from './snapshot.ts';
import { chartQueries } from './stats/charts.ts';
import { statsQueries } from './stats/stats.ts';
import { threadMessages, threadWithin } from './threads.ts';
import { afterwards } from './timeline/afterwards.ts';
import { changeQueries } from './timeline/changes.ts';
import { spine } from './timeline/spine.ts';

export type { Catalog };

const TAKEN_FROM = query<{ docid: number; limit: number }>()((db, p) =>
  db
    .selectFrom('messages')
    .select('docid')
    .where('docid', '>=', p.docid)
    .orderBy('docid')
    .limit(p.limit),
);

const CHUNK = 256;
/** Bases remembered with the docid after their last: mail imported at once may share one second by the thousand. */
const REMEMBERED = 1_000;

/** Hands out docids for messages whose facts are about to be written. */
export class Docids {
  /** Handed out, and not in the catalog yet. */
  readonly #handed = new Set<number>();
  readonly #next = new Map<number, number>();

  constructor(
    private readonly connection: Connection,
    private readonly known: KnownHashes,
  ) {}

  /** Returns the first docid at or above `base` that no message has and no caller was given. */
  next(base: number): number {
    const next = this.#next.get(base);
    const docid =
      next === undefined && !this.#handed.has(base) && this.known.lacksSecond(base)
        ? base
        : this.#firstFree(next ?? base);
    this.#handed.add(docid);
    // The base that was not used for longest goes: messages without a date share one that is asked for again and again.
    this.#next.delete(base);
    if (this.#next.size >= REMEMBERED) this.#next.delete(this.#next.keys().next().value ?? base);
    this.#next.set(base, docid + 1);
    return docid;
  }

  /** The docid is in the catalog now, or will not be used. */
  settled(docid: number): void {
    this.#handed.delete(docid);
  }

  /** Nothing that was handed out and not folded will come: after a failed batch. */
  reset(): void {
    this.#handed.clear();
    this.#next.clear();
  }

  #firstFree(from: number): number {
    let docid = from;
    // Most are free at once: check one row before reading a stretch of them.
    for (let limit = 1; ; limit = CHUNK) {
      const taken = this.connection.all(TAKEN_FROM, { docid, limit });
      for (const row of taken) {
        while (docid < row.docid && this.#handed.has(docid)) docid += 1;
        if (docid < row.docid) return docid;
        docid = row.docid + 1;
      }
      while (this.#handed.has(docid)) docid += 1;
      if (taken.length < limit) return docid;
    }
  }
}

/**
 * See `WritableCatalog.makeDurable`. A checkpoint may find readers in its way; a commit that is synced takes the whole
 * write-ahead log with it.
 */
export function makeDurable(connection: Connection): void {
  const set = (pragma: string) => connection.guard(() => connection.db.pragma(pragma));
  set('synchronous = FULL');
  try {
    // Changes nothing and is written all the same: a row that stays as it was would not be.
    set(`user_version = ${CATALOG_VERSION}`);
  } finally {
    set('synchronous = NORMAL');
  }
}

/** See `WritableCatalog.checkpoint`. */
export function checkpoint(connection: Connection): boolean {
  const rows = connection.guard(() => connection.db.pragma('wal_checkpoint(TRUNCATE)'));
  const row: unknown = Array.isArray(rows) ? rows[0] : undefined;
  return typeof row === 'object' && row !== null && 'busy' in row && row.busy === 0;
}

const ID = query<{ docid: number }>()((db, p) =>
  db.selectFrom('messages').select('id').where('docid', '=', p.docid),
);
const MAILBOX_NUMBER = query<MailboxKey>()((db, p) =>
  db
    .selectFrom('mailboxes')
    .select('id')
    .where((eb) => eb.and({ host: p.host, mailbox: p.mailbox })),
);
const META = query()((db) => db.selectFrom('meta').select(['messages', 'message_bytes']));
const UNPARSED_COUNT = query()((db) =>
  db
    .selectFrom('texts')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('unparsed', 'is not', null),
);

/** Sums for `status`: from indexes and running sums, so that they cost the same whatever the archive's size. */
export function totals(connection: Connection): Totals {
  const meta = connection.get(META, {});
  return {
    messages: meta?.messages ?? 0,
    bytes: meta?.message_bytes ?? 0,
    pending: indexQueries(connection).pendingCount(),
    unparsed: connection.get(UNPARSED_COUNT, {})?.n ?? 0,
  };
}

export interface FoldOptions {
  /** Accept a batch that does not follow the reached commit: only for rebuilding from a damaged log. */
  readonly acrossGap?: boolean;
}

/** The catalog of the one writer. */
export interface WritableCatalog extends Catalog {
  readonly index: IndexWriter;
  readonly attachments: AttachmentWriter;
  /**
   * Folds one batch, in one transaction with the commit it reaches; live and in a rebuild alike.
   *
   * @throws `catalog-out-of-step` when the batch does not follow the reached commit; nothing changes then
   */
  foldBatch(batch: CommittedBatch, options?: FoldOptions): void;
  /** The same for several batches in one transaction: for catching up and rebuilding, some dozens at a time. */
  foldBatches(batches: readonly CommittedBatch[], options?: FoldOptions): void;
  /** The first docid at or above `base` that is neither in the catalog nor handed out before. */
  docidFor(base: number): number;
  /** Makes durable what was written so far. Otherwise a power cut may take the last of it, which the log has. */
  makeDurable(): void;
  /** Moves the write-ahead log into the database file; false when a reader prevents it from moving all of it. */
  checkpoint(): boolean;
  /**
   * Rewrites the whole database without its gaps: after a first sync, a rebuild, an import. Newest-first
   * work leaves pages half full, and merging the index leaves free ones, so this about halves a fresh catalog.
   * Takes seconds for hundreds of megabytes, and needs the same room again while it runs.
   *
   * @throws `catalog-busy` while another connection reads
   */
  compact(): void;
  /**
   * Writes all of the catalog into a new file, without gaps: what is committed at this moment, also while others read. It
   * is a catalog of its own, but not synced. Takes about a second for 200 MB.
   *
   * @throws `catalog-io` when there is a file already, or it cannot be made; nothing is left of one that failed
   */
  snapshotInto(file: string): void;
}

/**
 * Opens the catalog of a data directory for the writer, who holds the archive's lock. It is made when it does
 * not exist, and brought to this program's version.
 *
 * @throws see `openForWriting`
 */
export async function openCatalog(
  dataDir: string,
  file: string = catalogFile(dataDir),
  options: CatalogOptions = {},
): Promise<WritableCatalog> {
  const connection = await openForWriting(file, options);
  noticeExtractor(connection);
  noticeAttachmentVersion(connection);
  const fold = new Fold(connection);
  const known = new KnownHashes(connection);
  const docids = new Docids(connection, known);
  const foldAll = (batches: readonly CommittedBatch[], options: FoldOptions = {}) => {
    for (const { records } of batches) for (const record of records) note(known, record);
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
    ...reading(connection, known),
    index: indexWriter(connection),
    attachments: attachmentWriter(connection),
    foldBatch: (batch, options) => foldAll([batch], options),
    foldBatches: foldAll,
    docidFor: (base) => docids.next(base),
    makeDurable: () => makeDurable(connection),
    checkpoint: () => checkpoint(connection),
    compact() {
      connection.guard(() => connection.db.exec('VACUUM'));
      checkpoint(connection);
    },
    snapshotInto: (snapshot) => snapshotInto(connection, snapshot),
  };
}

/** Notes the hashes and the docid that a record brings into the catalog. */
function note(known: KnownHashes, record: FoldedRecord): void {
  if (record.kind === 'blob') known.add(record.hash);
  else if (record.kind === 'message') known.add(record.id);
  else if (record.fact.fact === 'missing') known.add(record.fact.hash);
  else if ('message' in record.fact) {
    known.add(record.fact.message);
    if ('docid' in record.fact) known.addDocid(record.fact.docid);
  }
}

/**
 * Opens the catalog for reading only, whether or not a writer has it open.
 *
 * @throws see `openForReading`
 */
export function openCatalogReader(
  dataDir: string,
  file: string = catalogFile(dataDir),
  options: CatalogOptions = {},
): Catalog {
  return reading(openForReading(file, options));
}

function reading(connection: Connection, known?: KnownHashes): Catalog {
  const places = placeQueries(connection);
  const messages = messageQueries(connection, known);
  const search = searchQueries(connection, places, messages.docidsByPrefix);
  const catalog: Catalog = {
    reached: () => reached(connection),
    version: () => connection.version(),
    orphans: () => reached(connection).orphans,
    folders: folderQueries(connection),
    places,
    origin: originQueries(connection, places),
    messages,
    locator: locator(connection),
    quarantine: quarantineQueries(connection),
    ended: endedQueries(connection),
    relinking: relinkQueries(connection),
    index: indexQueries(connection),
    attachments: attachmentQueries(connection),
    totals: () => totals(connection),
    list: (filter) => list(connection, places, filter),
    listPlaces: (filter) => listPlaces(connection, places, filter),
    snapshot: (act) => connection.snapshot(act),
    positions: ALL_POSITIONS,
    commitAt(time) {
      const number = commitAt(connection, time);
      const made = timeOf(connection, number);
      return made === undefined ? null : { number, time: made };
    },
    ...search,
    files: fileQueries(connection, search),
    stats: statsQueries(connection, search),
    changes: changeQueries(connection),
    spine: (request, mayContinue) => spine(connection, search, request, mayContinue),
    charts: chartQueries(connection),
    threadOf(id, scope) {
      const docid = messages.docidOf(id);
      if (scope !== undefined) {
        if (docid === undefined || !sees(connection, scope, docid)) return [];
        return threadWithin(connection, scope, docid).flatMap((one) => idOf(connection, one) ?? []);
      }
      const found = docid === undefined ? [] : threadMessages(connection, docid);
      return found.length === 0 ? [id] : found;
    },
    conversationSizes: (docids, request) =>
      connection.snapshot(() => conversationSizes(connection, docids, viewOf(connection, request))),
    afterwards: (docids, request) =>
      connection.snapshot(() => afterwards(connection, docids, viewOf(connection, request))),
    history(id, scope) {
      const docid = messages.docidOf(id);
      return docid === undefined ? [] : history(connection, places, docid, id, scope);
    },
    lastSeen(id, scope) {
      const docid = messages.docidOf(id);
      return docid === undefined ? [] : lastSeen(connection, places, docid, scope);
    },
    scopeOf: (keys) => ({
      mailboxes: keys.flatMap((key) => connection.get(MAILBOX_NUMBER, key)?.id ?? []),
    }),
    idsWithin: (scope, prefix, limit) =>
      idsWithin(connection, scope, prefix, limit).map(({ id }) => id),
    within: (keys) => catalogWithin(connection, catalog, keys),
    close: () => connection.close(),
  };
  return catalog;
}

function idOf(connection: Connection, docid: number): MessageId | undefined {
  const row = connection.get(ID, { docid });
  return row === undefined ? undefined : connection.hex(row.id);
}
