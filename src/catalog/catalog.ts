import type { CommittedBatch, FoldedRecord } from '../archive/format.ts';
import type { MailboxKey, MessageId } from '../core/types.ts';
import type { PlaceLine } from '../mail/identity.ts';
import {
  attachmentQueries,
  attachmentWriter,
  noticeAttachmentVersion,
} from './attachment-texts.ts';
import { chartQueries } from './charts.ts';
import {
  CATALOG_VERSION,
  type CatalogOptions,
  type Connection,
  catalogFile,
  openForReading,
  openForWriting,
  snapshotInto,
} from './database.ts';
import { fileQueries } from './files.ts';
import { Fold, reached } from './fold.ts';
import { folderQueries } from './folders.ts';
import { indexQueries, indexWriter, noticeExtractor } from './indexing.ts';
import {
  ALL_POSITIONS,
  type ListedPlace,
  type ListFilter,
  list,
  listPlaces,
  placeQueries,
} from './list.ts';
import {
  endedQueries,
  history,
  KnownHashes,
  lastSeen,
  locator,
  messageQueries,
  quarantineQueries,
} from './messages.ts';
import { originQueries, relinkQueries } from './origin-places.ts';
import { query } from './query.ts';
import { viewOf } from './resolve-query.ts';
import { scopedCatalog } from './scoped-catalog.ts';
import { type CountRequest, searchQueries } from './search.ts';
import { commitAt, type Scope, sees, timeOf } from './sql.ts';
import { statsQueries } from './stats.ts';
import { conversationSizes, threadMessages, threadWithin } from './threads.ts';
import { afterwards, changeQueries, type SpineRequest, spine } from './timeline.ts';

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
class Docids {
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
function makeDurable(connection: Connection): void {
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
function checkpoint(connection: Connection): boolean {
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
function totals(connection: Connection) {
  const meta = connection.get(META, {});
  return {
    /** Distinct messages, and the bytes of their raw sources. */
    messages: meta?.messages ?? 0,
    bytes: meta?.message_bytes ?? 0,
    /** Messages not indexed yet, or due again. */
    pending: indexQueries(connection).pendingCount(),
    unparsed: connection.get(UNPARSED_COUNT, {})?.n ?? 0,
  };
}

interface FoldOptions {
  /** Accept a batch that does not follow the reached commit: only for rebuilding from a damaged log. */
  readonly acrossGap?: boolean;
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
) {
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
    /**
     * Folds one batch, in one transaction with the commit it reaches; live and in a rebuild alike.
     *
     * @throws `catalog-out-of-step` when the batch does not follow the reached commit; nothing changes then
     */
    foldBatch: (batch: CommittedBatch, options?: FoldOptions) => foldAll([batch], options),
    /** The same for several batches in one transaction: for catching up and rebuilding, some dozens at a time. */
    foldBatches: foldAll,
    /** The first docid at or above `base` that is neither in the catalog nor handed out before. */
    docidFor: (base: number) => docids.next(base),
    /** Makes durable what was written so far. Otherwise a power cut may take the last of it, which the log has. */
    makeDurable: () => makeDurable(connection),
    /** Moves the write-ahead log into the database file; false when a reader prevents it from moving all of it. */
    checkpoint: () => checkpoint(connection),
    /**
     * Rewrites the whole database without its gaps: after a first sync, a rebuild, an import. Newest-first
     * work leaves pages half full, and merging the index leaves free ones, so this about halves a fresh catalog.
     * Takes seconds for hundreds of megabytes, and needs the same room again while it runs.
     *
     * @throws `catalog-busy` while another connection reads
     */
    compact() {
      connection.guard(() => connection.db.exec('VACUUM'));
      checkpoint(connection);
    },
    /**
     * Writes all of the catalog into a new file, without gaps: what is committed at this moment, also while others read. It
     * is a catalog of its own, but not synced. Takes about a second for 200 MB.
     *
     * @throws `catalog-io` when there is a file already, or it cannot be made; nothing is left of one that failed
     */
    snapshotInto: (snapshot: string) => snapshotInto(connection, snapshot),
  };
}

/** The catalog of the one writer. */
export type WritableCatalog = Awaited<ReturnType<typeof openCatalog>>;

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

type ViewRequest = Pick<CountRequest, 'asOf' | 'scope'>;

function unlimited(connection: Connection, known?: KnownHashes) {
  const places = placeQueries(connection);
  const messages = messageQueries(connection, known);
  const search = searchQueries(connection, places, messages.docidsByPrefix);
  return {
    /** The commit it has reached; number 0 and an empty hash before the first. */
    reached: () => reached(connection),
    /**
     * Changes with each commit of the archive and each row of its index: what is made of the catalog can be kept as long
     * as it stays. It shows changes of all mailboxes, so no answer shows it.
     */
    version: () => connection.version(),
    /** Facts that name unknown places; non-zero only if the log is damaged. */
    orphans: () => reached(connection).orphans,
    folders: folderQueries(connection),
    places,
    /** What the origin showed, by folder and uid. */
    origin: originQueries(connection, places),
    messages,
    locator: locator(connection),
    quarantine: quarantineQueries(connection),
    ended: endedQueries(connection),
    relinking: relinkQueries(connection),
    index: indexQueries(connection),
    attachments: attachmentQueries(connection),
    totals: () => totals(connection),
    /** See `list.ts`: newest first; a read transaction is open until it is drained or returned. */
    list: (filter: ListFilter): IterableIterator<PlaceLine> => list(connection, places, filter),
    /** The same places, with what names them in facts. */
    listPlaces: (filter: ListFilter): IterableIterator<ListedPlace> =>
      listPlaces(connection, places, filter),
    /** Runs reads that must agree with each other on one state of the catalog. */
    snapshot: <T>(act: () => T) => connection.snapshot(act),
    /** What stands for docids in addresses. */
    positions: ALL_POSITIONS,
    /** The commit in force at a time (milliseconds since the epoch), and when it was made; null before the first. */
    commitAt(time: number) {
      const number = commitAt(connection, time);
      const made = timeOf(connection, number);
      return made === undefined ? null : { number, time: made };
    },
    ...search,
    files: fileQueries(connection, search),
    stats: statsQueries(connection, search),
    /** What came and ended, and when. */
    changes: changeQueries(connection),
    /** When the messages that a query finds were received. */
    spine: (request: SpineRequest, mayContinue: () => boolean) =>
      spine(connection, search, request, mayContinue),
    charts: chartQueries(connection),
    /** Ids of the messages in a message's thread, the oldest first; itself alone before it is indexed. */
    threadOf(id: MessageId, scope?: Scope): MessageId[] {
      const docid = messages.docidOf(id);
      if (scope !== undefined) {
        if (docid === undefined || !sees(connection, scope, docid)) return [];
        return threadWithin(connection, scope, docid).flatMap((one) => idOf(connection, one) ?? []);
      }
      const found = docid === undefined ? [] : threadMessages(connection, docid);
      return found.length === 0 ? [id] : found;
    },
    /** See `conversationSizes`: as a request's moment and scope show them. */
    conversationSizes: (docids: readonly number[], request: ViewRequest) =>
      connection.snapshot(() => conversationSizes(connection, docids, viewOf(connection, request))),
    /** See `afterwards`: what became of messages since a request's moment. */
    afterwards: (docids: readonly number[], request: ViewRequest) =>
      connection.snapshot(() => afterwards(connection, docids, viewOf(connection, request))),
    /** Everything that happened to a message, oldest first; empty for an unknown message. */
    history(id: MessageId, scope?: Scope) {
      const docid = messages.docidOf(id);
      return docid === undefined ? [] : history(connection, places, docid, id, scope);
    },
    /** See `lastSeen`: when a message was last known to be where it was found gone later. */
    lastSeen(id: MessageId, scope?: Scope) {
      const docid = messages.docidOf(id);
      return docid === undefined ? [] : lastSeen(connection, places, docid, scope);
    },
    /** What a reader of these mailboxes may know; mailboxes that the catalog does not have give nothing. */
    scopeOf: (mailboxes: readonly MailboxKey[]): Scope => ({
      mailboxes: mailboxes.flatMap((key) => connection.get(MAILBOX_NUMBER, key)?.id ?? []),
    }),
    close: () => connection.close(),
  };
}

/** The catalog for reading, on one connection. Close it when done. */
export interface Catalog extends ReturnType<typeof unlimited> {
  /** The same catalog for a reader of these mailboxes, as if there were no others. */
  within(mailboxes: readonly MailboxKey[]): Catalog;
}

function reading(connection: Connection, known?: KnownHashes): Catalog {
  const catalog: Catalog = {
    ...unlimited(connection, known),
    within: (mailboxes) => scopedCatalog(connection, catalog, mailboxes),
  };
  return catalog;
}

function idOf(connection: Connection, docid: number): MessageId | undefined {
  const row = connection.get(ID, { docid });
  return row === undefined ? undefined : connection.hex(row.id);
}
