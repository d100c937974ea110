import {
  accessSync,
  closeSync,
  constants,
  openSync,
  readFileSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { catalogError } from '../core/error-tables.ts';
import { errnoOf, hasCode } from '../core/errors.ts';
import { makePrivateFile } from '../core/files.ts';
import { convertSqliteError } from '../core/sqlite.ts';
import type { Query } from './query.ts';

/**
 * The tables, created by `migrations/catalog.ts` and explained in docs/catalog.md. Hashes are BLOBs, commits are commit
 * numbers, dates are milliseconds since the epoch, and booleans are 0 and 1.
 */
export interface CatalogTables {
  /** A single row describing the last commit, updated in the same transaction as that commit's rows (invariant 2). */
  meta: {
    id: 1;
    commit_number: number;
    commit_hash: Buffer;
    commit_time: number;
    /** Number of facts about unknown places, which only a damaged log contains. */
    orphans: number;
    messages: number;
    message_bytes: number;
    /** Version of the extractor that wrote the index. */
    extractor: number;
    /** Version of the attachment text reader. */
    attachment_version: number;
  };
  commits: {
    number: number;
    time: number;
  };
  mailboxes: {
    id: number;
    host: string;
    mailbox: string;
    address: string;
    /** Name of the account that is this mailbox (IMAP), or null. */
    account: string | null;
    from_commit: number;
  };
  folders: {
    id: number;
    mailbox_id: number;
    path: string;
    name: string;
    delimiter: string;
    special_use: string | null;
    generation: number;
    gone_commit: number | null;
  };
  folder_spans: {
    folder_id: number;
    from_commit: number;
    to_commit: number | null;
    path: string;
    special_use: string | null;
  };
  generations: {
    folder_id: number;
    generation: number;
    from_commit: number;
    highest_uid: number;
    reason: string | null;
    /** UIDVALIDITY at an IMAP server; null if the service reports none. */
    uid_validity: string | null;
  };
  flag_sets: {
    id: number;
    /** Sorted JSON array. */
    flags: string;
    /** Combination of the bits in `MARK`; see `sql.ts`. */
    marks: number;
  };
  messages: Listed & {
    docid: number;
    id: Buffer;
    first_commit: number;
    open_places: number;
    place_set: number;
    /** Version of the extractor that wrote its index rows; 0 if never indexed, negative if it must be reindexed. */
    extractor: number;
  };
  /** JSON arrays of numbers; see `PlaceSet`. */
  place_sets: {
    id: number;
    current: string;
    last: string;
    mailboxes: string;
  };
  places: {
    id: number;
    folder_id: number;
    generation: number;
    uid: number;
    docid: number;
    from_commit: number;
    to_commit: number | null;
    first_commit: number;
    flag_set: number;
    marks: number;
    fingerprint: Buffer;
    /** See `stableIdKey`; null if the server has no such ids. */
    stable_id: number | null;
    /** Received date if it differs from the message's. */
    date: number | null;
    assumed: number;
    held: number;
    reason: string | null;
  };
  spans: {
    id: number;
    place_id: number;
    folder_id: number;
    docid: number;
    from_commit: number;
    to_commit: number;
    flag_set: number;
    date: number | null;
    /** Commit at which the place came back, if the span ended with its place. */
    resumed: number | null;
    reason: string | null;
  };
  records: {
    kind: number;
    hash: Buffer;
    size: number;
    /** Null while no readable record contains the bytes. */
    segment: number | null;
    ordinal: number | null;
    offset: number | null;
    docid: number | null;
  };
  quarantine: Listed & {
    id: number;
    folder_id: number;
    generation: number;
    uid: number;
    /** Position in lists, sorted like a docid. */
    position: number;
    from_commit: number;
    to_commit: number | null;
    first_commit: number;
    flag_set: number;
    fingerprint: Buffer;
    reason: string;
    detail: string;
    kept: Buffer | null;
    acknowledged: number;
  };
  certificates: {
    folder_id: number;
    commit_number: number;
    generation: number;
    origin_total: number;
    stored: number;
    assumed: number;
    quarantined: number;
    held: number;
    forgotten: number;
    complete: number;
    since: string;
  };
  tombstones: {
    id: Buffer;
    reason: string;
    commit_number: number;
  };
  forgotten: {
    folder_id: number;
    generation: number;
    uid: number;
    id: Buffer;
  };
  events: {
    id: number;
    commit_number: number;
    folder_id: number;
    generation: number;
    uid: number;
    event: string;
    /** Canonical JSON of the fact without its place. */
    detail: string;
  };
  received_days: {
    place_set: number;
    /** Days since the epoch; see `utcDayOf`. */
    day: number;
    messages: number;
    bytes: number;
  };
  /** Places that each commit opened and ended, by folder. */
  commit_changes: {
    commit_number: number;
    folder_id: number;
    /** Includes places that came back. */
    came: number;
    ended: number;
  };
  /** Separate from `messages`, whose rows must not grow once their page is full. */
  texts: {
    docid: number;
    unparsed: string | null;
    /** The start of the text, packed by `mail/normalise.ts`. */
    text: Buffer | null;
  };
  /** Threads; see `threads.ts`. Nodes, threads and subjects are 47-bit hashes. */
  thread_members: {
    docid: number;
    thread: number;
    node: number;
    /** Hash of its base subject; null if the subject is empty. */
    subject: number | null;
    /** 1 for a reply without references, which joins the nearest earlier message with the same subject. */
    joins: 0 | 1;
    /** Nodes of the messages that it references, 6 bytes each. */
    ancestors: Buffer | null;
  };
  thread_nodes: {
    node: number;
    thread: number;
  };
  /** Attachment text: one row for each distinct attachment and each way of reading it. */
  attachment_texts: {
    id: number;
    hash: Buffer;
    form: string;
    /** Reader version; 0 if unread, negative if it must be reread. After a timeout, minus the number of attempts. */
    version: number;
    failure: string | null;
    truncated: number;
    /** Packed by `mail/normalise.ts`. */
    text: Buffer | null;
  };
  attachments: {
    docid: number;
    /** Counts from 1 within the message. */
    number: number;
    filename: string | null;
    /** In lower case. */
    type: string;
    /** Decoded size in bytes. */
    size: number;
    /** SHA-256 of its bytes, or a unique value if the attachment is truncated. */
    hash: Buffer;
    inline: 0 | 1;
    /** Null if no text can be read from it, for example from an image or an archive. */
    text_id: number | null;
  };
  attachment_types: {
    type: string;
    contents: number;
    bytes: number;
  };
  /** Sender and recipient addresses in lower case, and sender domains with a leading @. */
  addresses: {
    id: number;
    address: string;
  };
  /** Lists are JSON arrays of numbers. */
  message_people: {
    docid: number;
    /** Mailboxes of the message when it was indexed. */
    mailboxes: string;
    /** Addresses in From, and their domains. */
    senders: string;
    recipients: string;
  };
  correspondents: {
    address_id: number;
    role: number;
    /** The docid's year, in UTC. */
    year: number;
    mailboxes: string;
    messages: number;
    last_docid: number;
  };
  msg_fts: {
    rowid: number;
    /** A UTF-8 Buffer avoids creating a string. */
    body: string | Buffer;
    subject: string;
    from_: string;
    rcpt: string;
    cc: string;
    bcc: string;
    delivered: string;
    att_name: string;
    att_text: string;
    meta: string;
  };
}

interface Listed {
  size: number;
  date: number | null;
  subject: string | null;
  sender_name: string | null;
  sender_address: string | null;
  message_id: string | null;
}

export const RECORD_BLOB = 1;
export const RECORD_MESSAGE = 2;

/** A prepared query. SQLite errors become catalog errors. */
interface Statement<P, R> {
  run(params: P): { readonly changes: number; readonly lastInsertRowid: number };
  get(params: P): R | undefined;
  all(params: P): R[];
  /** Holds a read transaction, which blocks writes on this connection until the iterator is drained or closed. */
  iterate(params: P): IterableIterator<R>;
}

/** The mailboxes that a reader may see. Results are as if the archive held no others. */
export interface Scope {
  readonly mailboxes: readonly number[];
}

/** Preparing a statement takes as long as running it, so idle statements are kept. */
const IDLE_STATEMENTS = 64;
const MAX_SCOPES = 16;

interface Shared {
  readonly number: number;
  readonly statements: Map<object, unknown>;
  /** Statements for one-off SQL. */
  readonly idle: Map<string, Database.Statement<unknown[], unknown>>;
}

export class Connection {
  static #opened = 0;
  readonly #limited = new Map<string, Connection>();

  /**
   * @param scope limits all queries that a reader limited to some mailboxes may use; null for none
   * @param shared used by all connections to the same `db`
   */
  constructor(
    readonly db: Database.Database,
    readonly file: string,
    readonly scope: Scope | null = null,
    private readonly shared: Shared = {
      number: ++Connection.#opened,
      statements: new Map(),
      idle: new Map(),
    },
  ) {}

  /** Returns this connection for a reader limited to a scope. */
  within(scope: Scope): Connection {
    const key = scope.mailboxes.join();
    const limited =
      this.#limited.get(key) ?? new Connection(this.db, this.file, scope, this.shared);
    if (!this.#limited.has(key) && this.#limited.size >= MAX_SCOPES) this.#limited.clear();
    this.#limited.set(key, limited);
    return limited;
  }

  statement<P, R>(query: Query<P, R>): Statement<P, R> {
    let cached = this.shared.statements.get(query);
    if (cached === undefined) {
      cached = this.#prepare(query);
      this.shared.statements.set(query, cached);
    }
    // The query that serves as the key has these types.
    return cached as Statement<P, R>;
  }

  run<P>(query: Query<P, unknown>, params: NoInfer<P>): ReturnType<Statement<P, unknown>['run']> {
    return this.statement(query).run(params);
  }

  get<P, R>(query: Query<P, R>, params: NoInfer<P>): R | undefined {
    return this.statement(query).get(params);
  }

  all<P, R>(query: Query<P, R>, params: NoInfer<P>): R[] {
    return this.statement(query).all(params);
  }

  /** Uses a separate statement, so that several walks can be open at once. Close the iterator unless it is drained. */
  rows<P, R>(query: Query<P, R>, params: P): IterableIterator<R> {
    return this.#prepare(query).iterate(params);
  }

  /** Yields the rows of one-off SQL. Close the iterator unless it is drained. */
  text<R>(sql: string, params: readonly unknown[]): IterableIterator<R> {
    return this.#reused<R>(sql, params);
  }

  /** Returns the first column of every row, in a third of the time that a walk takes. */
  column<T>(sql: string, params: readonly unknown[]): T[] {
    // The SQL selects this type.
    return this.#plucked(sql, (prepared) => prepared.all(...params)) as T[];
  }

  first<T>(sql: string, params: readonly unknown[]): T | undefined {
    return this.#plucked(sql, (prepared) => prepared.get(...params)) as T | undefined;
  }

  #plucked(sql: string, act: (prepared: Database.Statement<unknown[], unknown>) => unknown) {
    const cached = this.shared.idle.get(sql);
    this.shared.idle.delete(sql);
    return this.guard(() => {
      const prepared = cached ?? this.db.prepare<unknown[], unknown>(sql);
      const found = act(prepared.pluck(true));
      this.#keep(sql, prepared.pluck(false));
      return found;
    });
  }

  #keep(sql: string, prepared: Database.Statement<unknown[], unknown>): void {
    const oldest = this.shared.idle.keys().next();
    if (this.shared.idle.size >= IDLE_STATEMENTS && oldest.done !== true)
      this.shared.idle.delete(oldest.value);
    this.shared.idle.set(sql, prepared);
  }

  *#reused<R>(sql: string, params: readonly unknown[]): Generator<R, void, undefined> {
    const cached = this.shared.idle.get(sql);
    this.shared.idle.delete(sql);
    const prepared = cached ?? this.guard(() => this.db.prepare<unknown[], unknown>(sql));
    try {
      yield* this.#walk(() => prepared.iterate(...params) as IterableIterator<R>);
    } finally {
      this.#keep(sql, prepared);
    }
  }

  /** Yields rows as arrays. Close the iterator unless it is drained. */
  values<R>(sql: string): Generator<R, void, undefined> {
    return this.#walk(() => this.db.prepare<unknown[], R>(sql).raw().iterate());
  }

  pluck<T>(sql: string): Generator<T, void, undefined> {
    return this.#walk(() => this.db.prepare<unknown[], T>(sql).pluck().iterate());
  }

  *#walk<R>(open: () => IterableIterator<R>): Generator<R, void, undefined> {
    const rows = this.guard(open);
    try {
      for (;;) {
        const next = this.guard(() => rows.next());
        if (next.done === true) return;
        yield next.value;
      }
    } finally {
      rows.return?.();
    }
  }

  /** Runs reads against a single snapshot of the database. */
  snapshot<T>(act: () => T): T {
    return this.db.inTransaction ? act() : this.guard(() => this.db.transaction(act).deferred());
  }

  #prepare<P, R>(query: Query<P, R>): Statement<P, R> {
    const { sql, bind } = query.compiled();
    const prepared = this.guard(() => this.db.prepare<unknown[], R>(sql));
    // This avoids `guard`: with dozens of calls per millisecond, closures would take a tenth of the time.
    const safely =
      <T>(act: (...args: unknown[]) => T) =>
      (params: P): T => {
        try {
          return act(...bind(params));
        } catch (error) {
          throw convertSqliteError(error, this.file) ?? error;
        }
      };
    return {
      run: safely((...args) => {
        const { changes, lastInsertRowid } = prepared.run(...args);
        return { changes, lastInsertRowid: Number(lastInsertRowid) };
      }),
      get: safely((...args) => prepared.get(...args)),
      all: safely((...args) => prepared.all(...args)),
      iterate: (params) => this.#walk(() => prepared.iterate(...bind(params))),
    };
  }

  /** Returns a value that changes whenever the database does. Not comparable between connections. */
  version(): number {
    // Unlike `db.pragma`, a SELECT is allowed while rows are being read.
    const sql = 'SELECT data_version + total_changes() FROM pragma_data_version';
    return this.shared.number * 2 ** 32 + (this.first<number>(sql, []) ?? 0);
  }

  /** Converts SQLite's errors to catalog errors. */
  guard<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw convertSqliteError(error, this.file) ?? error;
    }
  }

  transaction<T>(act: () => T): T {
    return this.guard(() => this.db.transaction(act).immediate());
  }

  /**
   * Returns a column's bytes in hex.
   *
   * @throws `catalog-damaged` if a damaged page contains a value of another type
   */
  hex(bytes: Buffer): string {
    if (Buffer.isBuffer(bytes)) return bytes.toString('hex');
    throw catalogError('catalog-damaged', { file: this.file, reason: 'a row without its hash' });
  }

  close(): void {
    this.shared.statements.clear();
    this.shared.idle.clear();
    this.db.close();
  }
}

/**
 * Writes a compact copy of the committed catalog to a new file, even while others read. The copy is complete but not
 * synced to disk. Takes about a second for 200 MB.
 *
 * @throws `catalog-io` if the file exists or cannot be created; a failure leaves no file
 */
export function snapshotInto(connection: Connection, file: string): void {
  try {
    // SQLite would create the file with the process's umask.
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    throw catalogError('catalog-io', { file, reason: errnoOf(error) ?? 'unknown' }, error);
  }
  try {
    connection.db.prepare('VACUUM INTO ?').run(file);
  } catch (error) {
    rmSync(file, { force: true });
    throw convertSqliteError(error, file) ?? error;
  }
}

/** Schema version. Catalogs with earlier versions are rebuilt from the log. */
export const CATALOG_VERSION = 12;

/** Returns the path of the catalog. While it is open, SQLite keeps `-wal` and `-shm` files next to it. */
export function catalogFile(dataDir: string): string {
  return join(dataDir, 'catalog.sqlite');
}

/** Returns the path at which a new catalog is built before it replaces the old one. */
export function rebuildFile(dataDir: string): string {
  return `${catalogFile(dataDir)}.rebuild`;
}

/** Time to wait for another process's short write, such as a checkpoint, in milliseconds. */
const BUSY_TIMEOUT = 5_000;

export interface CatalogOptions {
  /** Page cache size in KiB. The default is SQLite's own, 16 MiB. */
  readonly cacheKib?: number;
}

/** A writer's page cache. */
const CACHE_KIB = 16_384;

interface ReadingOptions extends CatalogOptions {
  /** Also accepts an earlier version. All versions share the `meta` columns up to `orphans`. */
  readonly mayBeOlder?: boolean;
}

/**
 * Opens the database for its only writer, creating it if necessary.
 *
 * @throws `catalog-version` for any other version, `catalog-damaged` if it is unreadable; a rebuild fixes both
 */
export async function openForWriting(file: string): Promise<Connection> {
  makePrivateFile(file);
  const connection = connect(file, false);
  try {
    const { db } = connection;
    const found = versionOf(connection);
    if (found !== 0 && found !== CATALOG_VERSION) throw versionError(file, found);
    connection.guard(() => {
      // better-sqlite3 has a different default for WAL databases.
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = NORMAL');
      db.pragma('wal_autocheckpoint = 16384');
      db.pragma('journal_size_limit = 67108864');
      db.pragma(`cache_size = -${CACHE_KIB}`);
      // The fold keeps references valid. Checking them would cost a lookup per row.
      db.pragma('foreign_keys = OFF');
    });
    if (found === 0) {
      const { CATALOG_SCHEMA } = await import('../../migrations/catalog.ts');
      connection.transaction(() => {
        for (const statement of CATALOG_SCHEMA) db.exec(statement);
        db.pragma(`user_version = ${CATALOG_VERSION}`);
      });
    }
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * Opens the database read-only, whether or not a writer has it open. In a read-only directory, SQLite cannot create its
 * `-shm` file. Unless a writer left one, the database is then loaded into memory as of the last checkpoint.
 *
 * @throws `catalog-missing`, `catalog-version` (with the remedy), `catalog-damaged`, `catalog-io`
 */
export function openForReading(
  file: string,
  { cacheKib, mayBeOlder = false }: ReadingOptions = {},
): Connection {
  const stats = statOf(file);
  if (stats === undefined) throw catalogError('catalog-missing', { file });
  // SQLite would wait on a pipe for ever.
  if (!stats.isFile()) throw catalogError('catalog-damaged', { file, reason: 'not a file' });
  let connection = connect(file, true);
  try {
    let found: number;
    try {
      found = versionOf(connection);
    } catch (error) {
      if (!hasCode(error, 'catalog-io') || stats.size > MEMORY_LIMIT) throw error;
      connection.close();
      connection = inMemory(file);
      found = versionOf(connection);
    }
    const isOlder = found > 0 && found < CATALOG_VERSION;
    if (found !== CATALOG_VERSION && !(mayBeOlder && isOlder)) throw versionError(file, found);
    const { db } = connection;
    // The words of the index, for suggestions. Nothing can be created later.
    connection.guard(() => db.exec(INDEX_WORDS));
    connection.guard(() => db.pragma('query_only = ON'));
    if (cacheKib !== undefined) connection.guard(() => db.pragma(`cache_size = -${cacheKib}`));
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

function statOf(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false });
  } catch (error) {
    throw catalogError('catalog-io', { file, reason: errnoOf(error) ?? 'unknown' }, error);
  }
}

const MEMORY_LIMIT = 1024 * 1024 * 1024;
const INDEX_WORDS = 'CREATE VIRTUAL TABLE temp.index_words USING fts5vocab(main, msg_fts, row)';

function inMemory(file: string): Connection {
  try {
    const bytes = readFileSync(file);
    // The header says WAL, which a database in memory cannot use; 1 is the rollback journal (file format, offsets 18
    // and 19).
    if (bytes.length > 19) bytes.fill(1, 18, 20);
    return new Connection(new Database(bytes, { readonly: true }), file);
  } catch (error) {
    throw convertSqliteError(error, file) ?? error;
  }
}

function connect(file: string, readonly: boolean): Connection {
  try {
    const db = new Database(file, { readonly, fileMustExist: readonly, timeout: BUSY_TIMEOUT });
    return new Connection(db, file);
  } catch (error) {
    const failure = convertSqliteError(error, file) ?? error;
    const reason = hasCode(failure, 'catalog-io') ? whyNot(file) : undefined;
    throw reason === undefined ? failure : catalogError('catalog-io', { file, reason }, error);
  }
}

/** Returns why a file is unreadable, which SQLite does not report. Opening it would release this process's locks. */
function whyNot(file: string): string | undefined {
  try {
    accessSync(file, constants.R_OK);
    return undefined;
  } catch (error) {
    return errnoOf(error);
  }
}

function versionOf(connection: Connection): number {
  const version = connection.guard(() => connection.db.pragma('user_version', { simple: true }));
  return typeof version === 'number' ? version : 0;
}

function versionError(file: string, found: number) {
  const remedy = found > CATALOG_VERSION ? 'upgrade' : found === 0 ? 'rebuild' : 'write';
  return catalogError('catalog-version', { file, found, expected: CATALOG_VERSION, remedy });
}
