import Database from 'better-sqlite3';
import { z } from 'zod';
import type { FlagSet } from '../core/types.ts';
import type { FileRange } from '../service/surface.ts';
import { serviceError } from './errors.ts';
import {
  type DocumentRow,
  type FolderRow,
  folderRow,
  type MailboxRow,
  type MessageRow,
  mailboxRow,
  type SourceBlock,
  type StoreBackend,
} from './store.ts';

interface PlacedBlock {
  readonly first: number;
  readonly block: SourceBlock;
}

/** Keeps nothing but sources: the state dies with the process. */
export class MemoryBackend implements StoreBackend {
  /** Blocks of many sources, in order of their first number. */
  readonly #blocks: PlacedBlock[] = [];
  /** Blocks of one source, which can be let go of. */
  readonly #singles = new Map<number, SourceBlock>();
  readonly #documents = new Map<string, Map<string, unknown>>();
  #nextSource = 1;

  mailboxes(): [] {
    return [];
  }

  folders(): [] {
    return [];
  }

  messages(): [] {
    return [];
  }

  *documents(kind: string): Generator<{ id: string; body: unknown }> {
    for (const [id, body] of this.#documents.get(kind) ?? []) yield { id, body };
  }

  addMailbox(): void {}
  addFolder(): void {}
  changeFolder(): void {}
  removeFolder(): void {}
  addMessage(): void {}
  setFlags(): void {}
  removeMessage(): void {}

  putDocument(kind: string, id: string, body: unknown): void {
    const documents = this.#documents.get(kind) ?? new Map<string, unknown>();
    this.#documents.set(kind, documents.set(id, body));
  }

  removeDocument(kind: string, id: string): void {
    this.#documents.get(kind)?.delete(id);
  }

  addSources(block: SourceBlock): number {
    const first = this.#nextSource;
    this.#nextSource += block.count;
    if (block.count === 1) this.#singles.set(first, block);
    else if (block.count > 1) this.#blocks.push({ first, block });
    return first;
  }

  releaseSource(source: number): void {
    this.#singles.delete(source);
  }

  sourceSize(source: number): number {
    const { block, number } = this.#locate(source);
    return block.size(number);
  }

  sourceReceived(source: number): number {
    const { block, number } = this.#locate(source);
    return block.received(number);
  }

  readSource(source: number): Buffer {
    const { block, number } = this.#locate(source);
    return block.read(number);
  }

  sourceFile(source: number): FileRange | null {
    const { block, number } = this.#locate(source);
    return block.file(number);
  }

  atomically<T>(act: () => T): T {
    return act();
  }

  close(): void {}

  #locate(source: number): { readonly block: SourceBlock; readonly number: number } {
    const single = this.#singles.get(source);
    if (single !== undefined) return { block: single, number: 0 };
    let low = 0;
    let high = this.#blocks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#blocks[middle]?.first ?? 0) <= source) low = middle + 1;
      else high = middle;
    }
    const placed = this.#blocks[low - 1];
    if (placed === undefined || source >= placed.first + placed.block.count) {
      throw new RangeError(`no source ${source}`);
    }
    return { block: placed.block, number: source - placed.first };
  }
}

/** SQLite's application_id of a state file: "MKsb". */
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

const messageTuple = z.tuple([z.number(), z.number(), z.string()]);
const flagList = z.array(z.string());
const documentRow = z.object({ id: z.string(), body: z.string() });

/** Keeps the whole state in one SQLite file, raw sources as BLOBs: a copy of what it was filled from. */
export class SqliteBackend implements StoreBackend {
  readonly #db: Database.Database;
  readonly #statements = new Map<string, Database.Statement<unknown[]>>();
  #nextSource: number;

  /** @throws MailkeepError `sandbox-state-unusable` */
  constructor(file: string) {
    this.#db = openState(file);
    this.#nextSource = Number(this.#pluck('SELECT coalesce(max(id), 0) FROM sources')) + 1;
  }

  mailboxes(): MailboxRow[] {
    const sql =
      'SELECT resource_id AS resourceId, address, order_id AS orderId FROM mailboxes ORDER BY rowid';
    return z.array(mailboxRow).parse(this.#db.prepare(sql).all());
  }

  folders(): FolderRow[] {
    const sql =
      'SELECT id, mailbox, path, special_use AS specialUse, next_uid AS nextUid FROM folders ORDER BY id';
    return z.array(folderRow).parse(this.#db.prepare(sql).all());
  }

  *messages(folder: number): Generator<MessageRow> {
    const rows = this.#db
      .prepare('SELECT uid, source, flags FROM messages WHERE folder = ? ORDER BY uid')
      .raw()
      .iterate(folder);
    // Few distinct flag sets: each is parsed once.
    const known = new Map<string, FlagSet>();
    for (const row of rows) {
      const [uid, source, text] = messageTuple.parse(row);
      let flags = known.get(text);
      if (flags === undefined) {
        flags = flagList.parse(JSON.parse(text));
        known.set(text, flags);
      }
      yield { uid, source, flags };
    }
  }

  *documents(kind: string): Generator<DocumentRow> {
    const sql = 'SELECT id, body FROM documents WHERE kind = ? ORDER BY rowid';
    for (const row of z.array(documentRow).parse(this.#db.prepare(sql).all(kind))) {
      const body: unknown = JSON.parse(row.body);
      yield { id: row.id, body };
    }
  }

  addMailbox(row: MailboxRow): void {
    this.#run(
      'INSERT INTO mailboxes (resource_id, address, order_id) VALUES (@resourceId, @address, @orderId)',
      row,
    );
  }

  addFolder(row: FolderRow): void {
    this.#run(
      'INSERT INTO folders (id, mailbox, path, special_use, next_uid) VALUES (@id, @mailbox, @path, @specialUse, @nextUid)',
      row,
    );
  }

  changeFolder(row: FolderRow): void {
    this.#run(
      'UPDATE folders SET path = @path, special_use = @specialUse, next_uid = @nextUid WHERE id = @id',
      row,
    );
  }

  removeFolder(folder: number): void {
    this.#run('DELETE FROM messages WHERE folder = ?', folder);
    this.#run('DELETE FROM folders WHERE id = ?', folder);
  }

  addMessage(folder: number, row: MessageRow): void {
    this.#run(
      'INSERT INTO messages (folder, uid, source, flags) VALUES (?, ?, ?, ?)',
      folder,
      row.uid,
      row.source,
      JSON.stringify(row.flags),
    );
    // Uids only grow, over restarts as well, even when the newest message was deleted before one.
    this.#run('UPDATE folders SET next_uid = ? WHERE id = ?', row.uid + 1, folder);
  }

  setFlags(folder: number, uid: number, flags: FlagSet): void {
    this.#run(
      'UPDATE messages SET flags = ? WHERE folder = ? AND uid = ?',
      JSON.stringify(flags),
      folder,
      uid,
    );
  }

  removeMessage(folder: number, uid: number): void {
    this.#run('DELETE FROM messages WHERE folder = ? AND uid = ?', folder, uid);
  }

  putDocument(kind: string, id: string, body: unknown): void {
    this.#run(
      'INSERT INTO documents (kind, id, body) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body',
      kind,
      id,
      JSON.stringify(body),
    );
  }

  removeDocument(kind: string, id: string): void {
    this.#run('DELETE FROM documents WHERE kind = ? AND id = ?', kind, id);
  }

  addSources(block: SourceBlock): number {
    const first = this.#nextSource;
    this.atomically(() => {
      for (let number = 0; number < block.count; number += 1) {
        const bytes = block.read(number);
        this.#run(
          'INSERT INTO sources (id, size, received, bytes) VALUES (?, ?, ?, ?)',
          first + number,
          bytes.length,
          block.received(number),
          bytes,
        );
      }
    });
    this.#nextSource = first + block.count;
    return first;
  }

  releaseSource(source: number): void {
    this.#run('DELETE FROM sources WHERE id = ?', source);
  }

  sourceSize(source: number): number {
    return Number(this.#pluck('SELECT size FROM sources WHERE id = ?', source));
  }

  sourceReceived(source: number): number {
    return Number(this.#pluck('SELECT received FROM sources WHERE id = ?', source));
  }

  readSource(source: number): Buffer {
    const bytes = this.#pluck('SELECT bytes FROM sources WHERE id = ?', source);
    if (!Buffer.isBuffer(bytes)) throw new RangeError(`no source ${source}`);
    return bytes;
  }

  sourceFile(): null {
    return null;
  }

  atomically<T>(act: () => T): T {
    return this.#db.inTransaction ? act() : this.#db.transaction(act).immediate();
  }

  close(): void {
    this.#db.close();
  }

  #run(sql: string, ...values: unknown[]): void {
    this.#prepared(sql).run(...values);
  }

  #pluck(sql: string, ...values: unknown[]): unknown {
    return this.#prepared(sql)
      .pluck()
      .get(...values);
  }

  #prepared(sql: string): Database.Statement<unknown[]> {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare<unknown[]>(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

function openState(file: string): Database.Database {
  let db: Database.Database | null = null;
  try {
    db = new Database(file);
    db.pragma('journal_mode = WAL');
    // A development server: a power cut may cost the last answers, never the file's consistency.
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
