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
import { translate } from '../core/sqlite.ts';
import type { Query } from './query.ts';

/**
 * The rows of the catalog, created by `migrations/catalog.ts`; docs/catalog.md explains them. Hashes are BLOBs,
 * references are integers, commits are commit numbers, dates are milliseconds since the epoch, and booleans are 0 and
 * 1.
 */
export interface CatalogTables {
  /** One row: the last folded commit. It changes in the transaction that adds the rows (invariant 2). */
  meta: {
    id: 1;
    commit_number: number;
    commit_hash: Buffer;
    commit_time: number;
    /** Facts about unknown places; only a damaged log has them. */
    orphans: number;
    messages: number;
    message_bytes: number;
    /** The extractor version of the index's text. */
    extractor: number;
    /** The reader version of the attachment texts. */
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
  };
  flag_sets: {
    id: number;
    /** JSON array, sorted. */
    flags: string;
    /** Bits of `MARK` in `sql.ts`. */
    marks: number;
  };
  messages: Listed & {
    docid: number;
    id: Buffer;
    first_commit: number;
    open_places: number;
    /** Its places. */
    place_set: number;
    /** 0: not indexed; negative: indexed, but due again; positive: the extractor version of the index row. */
    extractor: number;
  };
  /** Sets of places: JSON arrays of numbers, see `PlaceSet`. */
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
    /** Received date, if it differs from the message's. */
    date: number | null;
    assumed: number;
    held: number;
    /** Why it ended. */
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
    /** For a span that ended with its place: the commit at which the place came back. */
    resumed: number | null;
    reason: string | null;
  };
  records: {
    kind: number;
    hash: Buffer;
    size: number;
    /** Null while no readable record has the bytes. */
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
    /** Its index among the docids of its date. */
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
  /** Messages received per day and place set. */
  received_days: {
    place_set: number;
    /** UTC, days since the epoch, see `dayOf`. */
    day: number;
    messages: number;
    bytes: number;
  };
  /** Places that a commit opened and ended in a folder. */
  commit_changes: {
    commit_number: number;
    folder_id: number;
    /** Places that appeared or came back. */
    came: number;
    ended: number;
  };
  /** Index results, separate from the messages, whose rows must not grow once their page is full. */
  texts: {
    docid: number;
    /** Why the message could not be parsed; null if it was. */
    unparsed: string | null;
    /** The start of the text, packed by `mail/normalise.ts`; null if there is none. */
    text: Buffer | null;
  };
  /** A message in its thread; see `threads.ts`. Nodes, threads and subjects are 47-bit hashes. */
  thread_members: {
    docid: number;
    thread: number;
    /** Hash of its Message-ID. */
    node: number;
    /** Hash of its base subject; null if empty. */
    subject: number | null;
    /** 1 for a reply without references: it joins the nearest earlier message with its subject. */
    joins: 0 | 1;
    /** Nodes of the messages that it references, 6 bytes each; null if none. */
    ancestors: Buffer | null;
  };
  /** Every Message-ID that a message has or references, with its thread. */
  thread_nodes: {
    node: number;
    thread: number;
  };
  /** The text of a distinct attachment: distinct by its bytes and reader. */
  attachment_texts: {
    id: number;
    hash: Buffer;
    form: string;
    /**
     * The reader's version; 0 if unread, negative if due again. With a `failure`, minus the number of failed attempts.
     */
    version: number;
    /** Why it has no text; null if it has one or is untried. */
    failure: string | null;
    truncated: number;
    /** Packed by `mail/normalise.ts`; null if there is none. */
    text: Buffer | null;
  };
  /** Every attachment of the indexed messages. */
  attachments: {
    docid: number;
    /** Index among the message's attachments, from 1. */
    number: number;
    filename: string | null;
    /** In lower case. */
    type: string;
    /** Decoded bytes. */
    size: number;
    /** SHA-256 of its bytes; a unique value if the message was cut before their end. */
    hash: Buffer;
    inline: 0 | 1;
    /** Its text; null if it cannot have one, like images and archives. */
    text_id: number | null;
  };
  /** Distinct contents by attached type, and their bytes. */
  attachment_types: {
    type: string;
    contents: number;
    bytes: number;
  };
  /** An address of a sender or recipient, in lower case; or a sender's domain, with @. */
  addresses: {
    id: number;
    address: string;
  };
  /** Senders and recipients of an indexed message: JSON arrays of numbers. */
  message_people: {
    docid: number;
    /** Its mailboxes at the time of indexing. */
    mailboxes: string;
    /** Addresses of From and their domains. */
    senders: string;
    recipients: string;
  };
  /** Messages that an address sent or received per year. */
  correspondents: {
    address_id: number;
    /** See `ROLE` in people.ts. */
    role: number;
    /** Year of the docid, in UTC. */
    year: number;
    /** As in `message_people`. */
    mailboxes: string;
    messages: number;
    last_docid: number;
  };
  msg_fts: {
    rowid: number;
    /** Text, or its UTF-8, which avoids creating a string. */
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

/** The service's listing of a message. */
interface Listed {
  size: number;
  date: number | null;
  subject: string | null;
  sender_name: string | null;
  sender_address: string | null;
  message_id: string | null;
}

/** Values of `records.kind`: the log's record kinds that have a hash. */
export const RECORD_BLOB = 1;
export const RECORD_MESSAGE = 2;

/** A query prepared on one connection. Converts SQLite errors to catalog errors. */
interface Statement<P, R> {
  run(params: P): { readonly changes: number; readonly lastInsertRowid: number };
  get(params: P): R | undefined;
  all(params: P): R[];
  /** Keeps a read transaction open, and this connection from writing, until drained or returned. */
  iterate(params: P): IterableIterator<R>;
}

/** Unused one-off statements to keep: preparing one takes as long as running it. */
const IDLE_STATEMENTS = 64;

export class Connection {
  static #opened = 0;
  readonly #number = ++Connection.#opened;
  readonly #statements = new Map<object, unknown>();
  /** Statements by text that are not in use. */
  readonly #idle = new Map<string, Database.Statement<unknown[], unknown>>();
  /** Statements of `first` by text. */
  readonly #firsts = new Map<string, Database.Statement<unknown[], unknown>>();

  constructor(
    readonly db: Database.Database,
    readonly file: string,
  ) {}

  /** Returns the statement of a query, prepared once per connection. */
  statement<P, R>(query: Query<P, R>): Statement<P, R> {
    let known = this.#statements.get(query);
    if (known === undefined) {
      known = this.#prepare(query);
      this.#statements.set(query, known);
    }
    // Keyed by its query, which has these types.
    return known as Statement<P, R>;
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

  /** Yields a query's rows with a separate statement, so that several walks can be open. Return it if not drained. */
  rows<P, R>(query: Query<P, R>, params: P): IterableIterator<R> {
    return this.#prepare(query).iterate(params);
  }

  /** Yields the rows of one-off SQL. Return it if not drained. */
  text<R>(sql: string, params: readonly unknown[]): IterableIterator<R> {
    return this.#reused<R>(sql, params);
  }

  /** Returns the first column of all rows of one-off SQL, in a third of the time of a walk. */
  column<T>(sql: string, params: readonly unknown[]): T[] {
    const known = this.#idle.get(sql);
    this.#idle.delete(sql);
    return this.guard(() => {
      const prepared = known ?? this.db.prepare<unknown[], unknown>(sql);
      // The SQL selects this type.
      const values = prepared.pluck(true).all(...params) as T[];
      this.#keep(sql, prepared.pluck(false));
      return values;
    });
  }

  /** Returns the first column of the first row of one-off SQL, if any. */
  first<T>(sql: string, params: readonly unknown[]): T | undefined {
    let known = this.#firsts.get(sql);
    if (known === undefined) {
      known = this.guard(() => this.db.prepare<unknown[], unknown>(sql).pluck(true));
      this.#firsts.set(sql, known);
    }
    try {
      // The SQL selects this type.
      return known.get(...params) as T | undefined;
    } catch (error) {
      throw translate(error, this.file) ?? error;
    }
  }

  #keep(sql: string, prepared: Database.Statement<unknown[], unknown>): void {
    const oldest = this.#idle.keys().next();
    if (this.#idle.size >= IDLE_STATEMENTS && oldest.done !== true) this.#idle.delete(oldest.value);
    this.#idle.set(sql, prepared);
  }

  *#reused<R>(sql: string, params: readonly unknown[]): Generator<R, void, undefined> {
    const known = this.#idle.get(sql);
    this.#idle.delete(sql);
    const prepared = known ?? this.guard(() => this.db.prepare<unknown[], unknown>(sql));
    try {
      // The SQL selects this type.
      yield* this.#walk(() => prepared.iterate(...params) as IterableIterator<R>);
    } finally {
      this.#keep(sql, prepared);
    }
  }

  /** Yields the rows of SQL as lists of values. Return it if not drained. */
  values<R>(sql: string): Generator<R, void, undefined> {
    return this.#walk(() => this.db.prepare<unknown[], R>(sql).raw().iterate());
  }

  /** Yields the first column of the rows. */
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

  /** Runs reads on one consistent state of the database. */
  snapshot<T>(act: () => T): T {
    return this.db.inTransaction ? act() : this.guard(() => this.db.transaction(act).deferred());
  }

  #prepare<P, R>(query: Query<P, R>): Statement<P, R> {
    const { sql, bind } = query.compiled();
    const prepared = this.guard(() => this.db.prepare<unknown[], R>(sql));
    // Without `guard`: these run dozens of times per millisecond, and a closure each would take a tenth of that.
    const { file } = this;
    return {
      run: (params) => {
        try {
          const { changes, lastInsertRowid } = prepared.run(...bind(params));
          return { changes, lastInsertRowid: Number(lastInsertRowid) };
        } catch (error) {
          throw translate(error, file) ?? error;
        }
      },
      get: (params) => {
        try {
          return prepared.get(...bind(params));
        } catch (error) {
          throw translate(error, file) ?? error;
        }
      },
      all: (params) => {
        try {
          return prepared.all(...bind(params));
        } catch (error) {
          throw translate(error, file) ?? error;
        }
      },
      iterate: (params) => this.#walk(() => prepared.iterate(...bind(params))),
    };
  }

  /** Returns a number that changes with every change of the database; it differs between connections. */
  version(): number {
    const others = Number(this.guard(() => this.db.pragma('data_version', { simple: true })));
    return (
      this.#number * 2 ** 32 + others + (this.first<number>('select total_changes()', []) ?? 0)
    );
  }

  /** Runs SQLite calls and converts their errors; other errors pass. */
  guard<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw translate(error, this.file) ?? error;
    }
  }

  /** Runs `act` in one write transaction. */
  transaction<T>(act: () => T): T {
    return this.guard(() => this.db.transaction(act).immediate());
  }

  /**
   * Returns a column's bytes in hex.
   *
   * @throws `catalog-damaged` for other values, such as from a damaged page
   */
  hex(bytes: Buffer): string {
    if (Buffer.isBuffer(bytes)) return bytes.toString('hex');
    throw catalogError('catalog-damaged', { file: this.file, reason: 'a row without its hash' });
  }

  close(): void {
    this.#statements.clear();
    this.#idle.clear();
    this.#firsts.clear();
    this.db.close();
  }
}

/** See `WritableCatalog.snapshotInto`. */
export function snapshotInto(connection: Connection, file: string): void {
  try {
    // SQLite would use the process's umask.
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    throw catalogError('catalog-io', { file, reason: errnoOf(error) ?? 'unknown' }, error);
  }
  try {
    connection.db.prepare('VACUUM INTO ?').run(file);
  } catch (error) {
    rmSync(file, { force: true });
    throw translate(error, file) ?? error;
  }
}

/** The version of the schema in `migrations/catalog.ts`. Earlier catalogs are rebuilt from the log. */
export const CATALOG_VERSION = 11;

/** The oldest version that a writer opens unchanged. */
export const OLDEST_MIGRATED = CATALOG_VERSION;

/** Returns the path of the catalog in a data directory. SQLite puts `-wal` and `-shm` next to it while it is open. */
export function catalogFile(dataDir: string): string {
  return join(dataDir, 'catalog.sqlite');
}

/** Returns the path of a catalog that is being rebuilt, until it replaces the old one. */
export function rebuildFile(dataDir: string): string {
  return `${catalogFile(dataDir)}.rebuild`;
}

/** Wait for another process's short write (a checkpoint), milliseconds. */
const BUSY_TIMEOUT = 5_000;

export interface CatalogOptions {
  /** Page cache in KiB; default 16 MiB, like SQLite's for a reader. */
  readonly cacheKib?: number;
}

const CACHE_KIB = 16_384;

interface ReadingOptions extends CatalogOptions {
  /** Also open an earlier version: every version has the same `meta` row up to `orphans`. */
  readonly mayBeOlder?: boolean;
}

/**
 * Opens the database for the only writer, and creates a missing file.
 *
 * @throws `catalog-version` for another version, `catalog-damaged` for an unreadable database: a rebuild helps in both
 * cases
 */
export async function openForWriting(
  file: string,
  { cacheKib = CACHE_KIB }: CatalogOptions = {},
): Promise<Connection> {
  makePrivateFile(file);
  const connection = connect(file, false);
  try {
    const { db } = connection;
    const found = versionOf(connection);
    if (found !== 0 && found !== CATALOG_VERSION) throw versionError(file, found);
    connection.guard(() => {
      // better-sqlite3 has another default for connections to a WAL database.
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = NORMAL');
      db.pragma('wal_autocheckpoint = 16384');
      db.pragma('journal_size_limit = 67108864');
      db.pragma(`cache_size = -${cacheKib}`);
      // The fold keeps references valid by construction; checking costs a lookup per row.
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
 * Opens the database read-only, with or without a writer. In a read-only directory, SQLite cannot create its `-shm`
 * file. Unless a writer left one, the database is then loaded into memory, without changes after the last checkpoint.
 *
 * @throws `catalog-missing`, `catalog-version` (with the remedy), `catalog-damaged`, `catalog-io`
 */
export function openForReading(
  file: string,
  { cacheKib, mayBeOlder = false }: ReadingOptions = {},
): Connection {
  const stats = statOf(file);
  if (stats === undefined) throw catalogError('catalog-missing', { file });
  // SQLite would wait for ever on a pipe.
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

/** Maximum bytes of a database loaded into memory. */
const MEMORY_LIMIT = 1024 * 1024 * 1024;

function inMemory(file: string): Connection {
  try {
    const bytes = readFileSync(file);
    // The header states WAL mode, which memory does not support; 1 is the rollback journal (file format, offsets 18 and
    // 19).
    if (bytes.length > 19) bytes.fill(1, 18, 20);
    return new Connection(new Database(bytes, { readonly: true }), file);
  } catch (error) {
    throw translate(error, file) ?? error;
  }
}

function connect(file: string, readonly: boolean): Connection {
  try {
    const db = new Database(file, { readonly, fileMustExist: readonly, timeout: BUSY_TIMEOUT });
    return new Connection(db, file);
  } catch (error) {
    const known = translate(error, file) ?? error;
    const reason = hasCode(known, 'catalog-io') ? whyNot(file) : undefined;
    throw reason === undefined ? known : catalogError('catalog-io', { file, reason }, error);
  }
}

/** Returns why a file is unreadable, which SQLite omits. Opening it here would drop this process's locks. */
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
