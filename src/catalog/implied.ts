import { MailkeepError } from '../core/errors.ts';
import {
  affectedMessages,
  compareRows,
  findContradictions,
  findMiscountedRows,
  findMiscountedSums,
  matchesSettledRows,
  type PauseMarker,
  type RowDifference,
  type SettledCounts,
  type SpannedRecord,
  toSpannedRecord,
} from './comparison.ts';
import {
  type Connection,
  catalogFile,
  openForReading,
  openForWriting,
  RECORD_MESSAGE,
} from './database.ts';
import { type CatalogHead, type ComparedBatch, catalogHead, Fold } from './fold.ts';
import { locator } from './messages.ts';
import { type Row, selectBy, sqlQuery } from './query.ts';

/** SQLite's name for a temporary database, which it deletes on close. */
const TEMPORARY = '';

/** Indexes that only searches and syncs need. Here they would slow down every insert. */
const UNUSED = [
  'commits_by_time',
  'messages_pending',
  'messages_ended',
  'places_current',
  'places_ended',
  'places_ended_by_docid',
  'places_unread',
  'places_starred',
  'places_by_fingerprint',
  'places_by_stable_id',
  'places_assumed',
  'places_held',
  'messages_by_commit',
  'places_by_end',
  'spans_by_folder',
  'spans_resumed',
];

const SEGMENTS = sqlQuery<object, { segment: number; messages: number; last: number }>(
  `SELECT segment, count(*) AS messages, max(ordinal) AS last FROM records
   WHERE kind = ${RECORD_MESSAGE} AND segment IS NOT NULL GROUP BY segment ORDER BY segment`,
);
const MESSAGES_IN = sqlQuery<
  { segment: number; from: number },
  Pick<Row<'records'>, 'hash' | 'ordinal'>
>(
  `SELECT hash, ordinal FROM records
   WHERE kind = ${RECORD_MESSAGE} AND segment = :segment AND ordinal >= :from ORDER BY ordinal`,
);
const WITHOUT_BYTES = selectBy(
  'records',
  'kind, hash, docid',
  '',
  'AND segment IS NULL ORDER BY kind, hash',
);

const NO_ARRIVALS = `SELECT EXISTS (SELECT 1 FROM meta WHERE orphans > 0)
  OR EXISTS (SELECT 1 FROM tombstones) OR EXISTS (SELECT 1 FROM forgotten)
  OR EXISTS (SELECT 1 FROM records WHERE segment IS NULL)`;

/**
 * Reports whether every fact that changed a row was folded. Facts about unknown places are counted as orphans, a purge
 * leaves a tombstone, and missing bytes leave a record without a segment.
 */
function hasOnlyArrivals(connection: Connection): boolean {
  return connection.first<number>(NO_ARRIVALS, []) === 0;
}

/** The message records in a segment. `end` is the ordinal after the last one. */
export interface StoredSegment {
  readonly segment: number;
  readonly messages: number;
  readonly end: number;
}

export interface StoredMessage {
  readonly id: string;
  readonly ordinal: number;
}

export async function openImpliedCatalog() {
  const connection = await openForWriting(TEMPORARY);
  connection.guard(() => {
    // Any failure ends the verification, so nothing is ever rolled back. SQLite allows this mode only in unsafe mode.
    connection.db.unsafeMode(true);
    connection.db.pragma('journal_mode = OFF');
    connection.db.unsafeMode(false);
    connection.db.pragma('synchronous = OFF');
    // In KiB. Rows arrive in hash order, so pages that do not fit are written and read repeatedly.
    connection.db.pragma('cache_size = -65536');
    for (const index of UNUSED) connection.db.exec(`DROP INDEX IF EXISTS ${index}`);
    // One transaction that is never committed: a commit would visit every page written.
    connection.db.exec('BEGIN');
  });
  const fold = new Fold(connection, 'rows');
  return {
    ...affectedMessages(connection),
    locator: locator(connection),
    reached: (): CatalogHead => catalogHead(connection),
    fold: (batches: readonly ComparedBatch[], acrossGap: boolean): void =>
      connection.guard(() => fold.within(batches, acrossGap)),
    /** Yields messages and blobs that facts mention but whose bytes no readable record contains. */
    *withoutBytes(): IterableIterator<SpannedRecord> {
      for (const row of connection.rows(WITHOUT_BYTES, {})) yield toSpannedRecord(connection, row);
    },
    /**
     * Reports whether the catalog consists of exactly these rows and the settled ones. Both must be at the same commit.
     * False is inconclusive. True says nothing about the index: see `findContradictingTables`.
     */
    *agrees(
      actual: ComparedCatalog,
      settled: SettledCounts,
    ): Generator<PauseMarker, boolean, undefined> {
      if (fold.misplaced > 0 || !hasOnlyArrivals(connection)) return false;
      return yield* matchesSettledRows(connection, actual.connection, settled);
    },
    /** Yields the catalog's differences and contradictions. Both must be at the same commit. */
    *differences(actual: ComparedCatalog): Generator<RowDifference | PauseMarker, void, undefined> {
      yield* compareRows(connection, actual.connection);
      yield* findContradictions(actual.connection);
      yield* findMiscountedSums(actual.connection);
      yield* findMiscountedRows(actual.connection);
    },
    close: (): void => connection.close(),
  };
}

/** The catalog that the log implies, folded into a temporary database outside the archive. */
export type ImpliedCatalog = Awaited<ReturnType<typeof openImpliedCatalog>>;

/** @throws see `openForReading` */
export function openComparedCatalog(dataDir: string) {
  const connection = openForReading(catalogFile(dataDir));
  return {
    ...affectedMessages(connection),
    reached: (): CatalogHead => catalogHead(connection),
    /** Returns a value that changes when another connection changes the catalog. */
    version: (): unknown => connection.version(),
    /**
     * Reports whether messages can be settled by their rows. After a purge, missing bytes or a fact about an unknown
     * place, facts about messages that are not folded would be lost.
     */
    // Each thread would load an in-memory database again.
    settles: (): boolean => !connection.db.memory && hasOnlyArrivals(connection),
    /** Freezes the catalog in its current state, hiding later writes. */
    freeze: (): void => {
      connection.guard(() => connection.db.exec('BEGIN'));
      // A deferred transaction starts with the first read.
      catalogHead(connection);
    },
    locator: locator(connection),
    segments: (): StoredSegment[] =>
      connection
        .all(SEGMENTS, {})
        .map(({ segment, messages, last }) => ({ segment, messages, end: last + 1 })),
    /** Returns the messages whose latest record is in a segment, at or after an ordinal. */
    messagesIn: (segment: number, from: number): StoredMessage[] =>
      connection
        .all(MESSAGES_IN, { segment, from })
        .map(({ hash, ordinal }) => ({ id: connection.hex(hash), ordinal: ordinal ?? 0 })),
    close: (): void => connection.close(),
    connection,
  };
}

export type ComparedCatalog = ReturnType<typeof openComparedCatalog>;

/** Returns the last commit in a catalog of this or an earlier version; undefined if it is unreadable. */
export function readCatalogHead(dir: string): CatalogHead | undefined {
  try {
    const connection = openForReading(catalogFile(dir), { mayBeOlder: true });
    try {
      return catalogHead(connection);
    } finally {
      connection.close();
    }
  } catch (error) {
    if (error instanceof MailkeepError) return undefined;
    throw error;
  }
}

const MAX_REPORTED = 20;

/**
 * Returns the problems that SQLite finds. Takes as long as reading the file. Opens a separate connection, so that it
 * can run on another thread.
 *
 * @throws see `openForReading`
 */
export function checkStructure(dataDir: string): readonly string[] {
  const connection = openForReading(catalogFile(dataDir));
  try {
    return connection.guard(() => {
      const sql = `PRAGMA quick_check(${MAX_REPORTED})`;
      const rows = connection.db.prepare<unknown[], string>(sql).pluck().all();
      return rows.filter((row) => row !== 'ok');
    });
  } finally {
    connection.close();
  }
}

/**
 * Returns the first table that contradicts another. Opens a separate connection, so that it can run on another thread.
 *
 * @throws see `openForReading`
 */
export function findContradictingTables(dataDir: string): readonly string[] {
  const connection = openForReading(catalogFile(dataDir));
  try {
    // A concurrent write must not look like a contradiction.
    return connection.snapshot(() => {
      for (const { table } of findContradictions(connection)) return [table];
      for (const { table } of findMiscountedSums(connection)) return [table];
      for (const found of findMiscountedRows(connection))
        if (found !== 'turn') return [found.table];
      return [];
    });
  } finally {
    connection.close();
  }
}
