import Database from 'better-sqlite3';
import { z } from 'zod';
import type { FlagSet } from '../core/types.ts';
import { serviceError } from './errors.ts';
import type { Entry } from './folder.ts';
import type { SourceBlock, Sources } from './store.ts';

const APPLICATION_ID = 0x4d4b7362;
const SCHEMA_VERSION = 1;

const SCHEMA = `
  CREATE TABLE mailboxes (resource_id TEXT PRIMARY KEY, address TEXT NOT NULL, order_id TEXT NOT NULL);
  CREATE TABLE folders (
    id INTEGER PRIMARY KEY, mailbox TEXT NOT NULL, path TEXT NOT NULL, special_use TEXT, next_uid INTEGER NOT NULL
  );
  CREATE TABLE messages (
    folder INTEGER NOT NULL, uid INTEGER NOT NULL, source INTEGER NOT NULL, flags TEXT NOT NULL,
    PRIMARY KEY (folder, uid)
  ) WITHOUT ROWID;
  CREATE TABLE sources (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, received INTEGER NOT NULL, bytes BLOB NOT NULL);
  CREATE TABLE documents (
    kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, id)
  );
`;

const mailboxRow = z.object({ resourceId: z.string(), address: z.string(), orderId: z.string() });
const folderRow = z.object({
  id: z.number(),
  mailbox: z.string(),
  path: z.string(),
  specialUse: z.string().nullable(),
  nextUid: z.number(),
});
export type FolderRow = Readonly<z.output<typeof folderRow>>;
const messageTuple = z.tuple([z.number(), z.number(), z.string()]);
const documentRow = z.object({ kind: z.string(), id: z.string(), body: z.string() });

/** Stores the whole state in one SQLite file. Copies sources from the seed into BLOBs. */
export class StateFile implements Sources {
  readonly #db: Database.Database;
  readonly #statements = new Map<string, Database.Statement<unknown[]>>();
  #nextSource: number;

  /** @throws MailkeepError `sandbox-state-unusable` */
  constructor(file: string) {
    this.#db = openState(file);
    this.#nextSource = Number(this.#pluck('SELECT coalesce(max(id), 0) FROM sources')) + 1;
  }

  mailboxes(): z.output<typeof mailboxRow>[] {
    const sql =
      'SELECT resource_id AS resourceId, address, order_id AS orderId FROM mailboxes ORDER BY rowid';
    return z.array(mailboxRow).parse(this.#prepare(sql).all());
  }

  folders(): FolderRow[] {
    const sql =
      'SELECT id, mailbox, path, special_use AS specialUse, next_uid AS nextUid FROM folders ORDER BY id';
    return z.array(folderRow).parse(this.#prepare(sql).all());
  }

  /** Yields each message's uid, source and flags (as JSON), in uid order. */
  *messages(folder: number): Generator<z.output<typeof messageTuple>> {
    const rows = this.#prepare(
      'SELECT uid, source, flags FROM messages WHERE folder = ? ORDER BY uid',
    );
    for (const row of rows.raw().iterate(folder)) yield messageTuple.parse(row);
  }

  documents(): z.output<typeof documentRow>[] {
    const sql = 'SELECT kind, id, body FROM documents ORDER BY rowid';
    return z.array(documentRow).parse(this.#prepare(sql).all());
  }

  addMailbox(row: z.output<typeof mailboxRow>): void {
    this.#run(
      'INSERT INTO mailboxes (resource_id, address, order_id) VALUES (@resourceId, @address, @orderId)',
      row,
    );
  }

  putFolder(row: FolderRow): void {
    this.#run(
      `INSERT INTO folders (id, mailbox, path, special_use, next_uid)
       VALUES (@id, @mailbox, @path, @specialUse, @nextUid) ON CONFLICT DO UPDATE SET path = excluded.path`,
      row,
    );
  }

  removeFolder(folder: number): void {
    this.#run('DELETE FROM messages WHERE folder = ?', folder);
    this.#run('DELETE FROM folders WHERE id = ?', folder);
  }

  addMessage(folder: number, { uid, source, flags }: Entry): void {
    this.#run(
      'INSERT INTO messages (folder, uid, source, flags) VALUES (?, ?, ?, ?)',
      ...[folder, uid, source, JSON.stringify(flags)],
    );
    // A uid is never reused, even after a restart or after deleting the newest message.
    this.#run('UPDATE folders SET next_uid = ? WHERE id = ?', uid + 1, folder);
  }

  setFlags(folder: number, uid: number, flags: FlagSet): void {
    this.#run(
      'UPDATE messages SET flags = ? WHERE folder = ? AND uid = ?',
      ...[JSON.stringify(flags), folder, uid],
    );
  }

  removeMessage(folder: number, uid: number): void {
    this.#run('DELETE FROM messages WHERE folder = ? AND uid = ?', folder, uid);
  }

  putDocument(kind: string, id: string, body: unknown): void {
    this.#run(
      'INSERT INTO documents (kind, id, body) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body',
      ...[kind, id, JSON.stringify(body)],
    );
  }

  removeDocument(kind: string, id: string): void {
    this.#run('DELETE FROM documents WHERE kind = ? AND id = ?', kind, id);
  }

  add(block: SourceBlock): number {
    const first = this.#nextSource;
    this.atomically(() => {
      for (let number = 0; number < block.count; number += 1) {
        const bytes = block.read(number);
        this.#run(
          'INSERT INTO sources (id, size, received, bytes) VALUES (?, ?, ?, ?)',
          ...[first + number, bytes.length, block.received(number), bytes],
        );
      }
    });
    this.#nextSource = first + block.count;
    return first;
  }

  release(source: number): void {
    this.#run('DELETE FROM sources WHERE id = ?', source);
  }

  size(source: number): number {
    return Number(this.#pluck('SELECT size FROM sources WHERE id = ?', source));
  }

  received(source: number): number {
    return Number(this.#pluck('SELECT received FROM sources WHERE id = ?', source));
  }

  read(source: number): Buffer {
    const bytes = this.#pluck('SELECT bytes FROM sources WHERE id = ?', source);
    if (!Buffer.isBuffer(bytes)) throw new RangeError(`no source ${source}`);
    return bytes;
  }

  file(): null {
    return null;
  }

  /** Runs `act` in a transaction. Calls can be nested. */
  atomically<T>(act: () => T): T {
    return this.#db.inTransaction ? act() : this.#db.transaction(act).immediate();
  }

  close(): void {
    this.#db.close();
  }

  #run(sql: string, ...values: unknown[]): void {
    this.#prepare(sql).run(...values);
  }

  #pluck(sql: string, ...values: unknown[]): unknown {
    return this.#prepare(sql)
      .pluck()
      .get(...values);
  }

  #prepare(sql: string): Database.Statement<unknown[]> {
    const statement = this.#statements.get(sql) ?? this.#db.prepare<unknown[]>(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

function openState(file: string): Database.Database {
  let db: Database.Database | null = null;
  try {
    db = new Database(file);
    db.pragma('journal_mode = WAL');
    // A power cut can lose the last changes of this development server, but not its consistency.
    db.pragma('synchronous = NORMAL');
    if (db.pragma('application_id', { simple: true }) === APPLICATION_ID) {
      const version = db.pragma('user_version', { simple: true });
      if (version !== SCHEMA_VERSION) throw new Error(`schema version ${String(version)}`);
      return db;
    }
    if (db.prepare('SELECT count(*) FROM sqlite_schema').pluck().get() !== 0) {
      throw new Error('a database of another program');
    }
    db.exec(SCHEMA);
    db.pragma(`application_id = ${APPLICATION_ID}`);
    db.pragma(`user_version = ${SCHEMA_VERSION}`);
    return db;
  } catch (error) {
    db?.close();
    const reason = error instanceof Error ? error.message : String(error);
    throw serviceError('sandbox-state-unusable', { file, reason }, error);
  }
}
