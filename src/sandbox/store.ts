import { createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import Database from 'better-sqlite3';
import { z } from 'zod';
import { type FlagSet, flagSet } from '../core/types.ts';
import { type ImmutableRecord, readListingRecord } from '../service/message-view.ts';
import { type FileRange, hasFlag, type UidOrder } from '../service/surface.ts';
import { serviceError } from './errors.ts';

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

/** Deletes a source's bytes along with its last message. The trigger is not stored in the file. */
const RELEASE_SOURCES = `
  CREATE INDEX IF NOT EXISTS messages_source ON messages (source);
  CREATE TEMP TRIGGER release_source AFTER DELETE ON main.messages BEGIN
    DELETE FROM sources
      WHERE id = old.source AND NOT EXISTS (SELECT 1 FROM messages WHERE source = old.source);
  END;
`;

/** @throws MailkeepError `sandbox-state-unusable` */
function openDatabase(file: string): Database.Database {
  let db: Database.Database | null = null;
  try {
    db = new Database(file);
    db.pragma('journal_mode = WAL');
    // A power cut can lose this development server's last changes, but not corrupt its data.
    db.pragma('synchronous = NORMAL');
    if (db.pragma('application_id', { simple: true }) === APPLICATION_ID) {
      const version = db.pragma('user_version', { simple: true });
      if (version !== SCHEMA_VERSION) throw new Error(`schema version ${String(version)}`);
    } else {
      if (db.prepare('SELECT count(*) FROM sqlite_schema').pluck().get() !== 0) {
        throw new Error('a database of another program');
      }
      db.exec(SCHEMA);
      db.pragma(`application_id = ${APPLICATION_ID}`);
      db.pragma(`user_version = ${SCHEMA_VERSION}`);
    }
    db.exec(RELEASE_SOURCES);
    return db;
  } catch (error) {
    db?.close();
    const reason = error instanceof Error ? error.message : String(error);
    throw serviceError('sandbox-state-unusable', { file, reason }, error);
  }
}

type MessageRow = readonly [uid: number, source: number, flags: string];

interface FolderRow {
  readonly id: number;
  readonly mailbox: string;
  readonly path: string;
  readonly specialUse: string | null;
  readonly nextUid: number;
  readonly count: number;
  readonly unread: number;
}

type Statements = ReturnType<typeof prepareStatements>;

function prepareStatements(db: Database.Database) {
  return {
    mailboxes: db.prepare<[], Omit<Mailbox, 'folders'>>(
      'SELECT resource_id AS resourceId, address, order_id AS orderId FROM mailboxes ORDER BY rowid',
    ),
    addMailbox: db.prepare<[resourceId: string, address: string, orderId: string]>(
      'INSERT INTO mailboxes (resource_id, address, order_id) VALUES (?, ?, ?)',
    ),
    folders: db.prepare<[], FolderRow>(
      `SELECT id, mailbox, path, special_use AS specialUse, next_uid AS nextUid, count(uid) AS count,
         count(uid) FILTER (WHERE instr(flags, '"\\\\Seen"') = 0) AS unread
       FROM folders LEFT JOIN messages ON folder = id GROUP BY id ORDER BY id`,
    ),
    addFolder: db.prepare<[mailbox: string, path: string, specialUse: string | null]>(
      'INSERT INTO folders (mailbox, path, special_use, next_uid) VALUES (?, ?, ?, 1)',
    ),
    renameFolder: db.prepare<[path: string, id: number]>(
      'UPDATE folders SET path = ? WHERE id = ?',
    ),
    setNextUid: db.prepare<[uid: number, id: number]>(
      'UPDATE folders SET next_uid = ? WHERE id = ?',
    ),
    removeFolder: db.prepare<[id: number]>('DELETE FROM folders WHERE id = ?'),
    addMessage: db.prepare<[folder: number, uid: number, source: number, flags: string]>(
      'INSERT INTO messages (folder, uid, source, flags) VALUES (?, ?, ?, ?)',
    ),
    setFlags: db.prepare<[flags: string, folder: number, uid: number]>(
      'UPDATE messages SET flags = ? WHERE folder = ? AND uid = ?',
    ),
    setUid: db.prepare<[uid: number, folder: number, before: number]>(
      'UPDATE messages SET uid = ? WHERE folder = ? AND uid = ?',
    ),
    removeMessage: db.prepare<[folder: number, uid: number]>(
      'DELETE FROM messages WHERE folder = ? AND uid = ?',
    ),
    removeMessages: db.prepare<[folder: number]>('DELETE FROM messages WHERE folder = ?'),
    lastUid: db
      .prepare<[folder: number], number>(
        'SELECT coalesce(max(uid), 0) FROM messages WHERE folder = ?',
      )
      .pluck(),
    countBetween: db
      .prepare<[folder: number, low: number, high: number], number>(
        'SELECT count(*) FROM messages WHERE folder = ? AND uid BETWEEN ? AND ?',
      )
      .pluck(),
    between: db
      .prepare<
        [folder: number, low: number, high: number, limit: number, skip: number],
        MessageRow
      >(
        `SELECT uid, source, flags FROM messages WHERE folder = ? AND uid BETWEEN ? AND ?
         ORDER BY uid LIMIT ? OFFSET ?`,
      )
      .raw(),
    lastSource: db.prepare<[], number>('SELECT coalesce(max(id), 0) FROM sources').pluck(),
    addSource: db.prepare<[id: number, size: number, received: number, bytes: Buffer]>(
      'INSERT INTO sources (id, size, received, bytes) VALUES (?, ?, ?, ?)',
    ),
    size: db.prepare<[id: number], number>('SELECT size FROM sources WHERE id = ?').pluck(),
    received: db.prepare<[id: number], number>('SELECT received FROM sources WHERE id = ?').pluck(),
    bytes: db.prepare<[id: number], Buffer>('SELECT bytes FROM sources WHERE id = ?').pluck(),
    documents: db
      .prepare<[kind: string], readonly [id: string, body: string]>(
        'SELECT id, body FROM documents WHERE kind = ? ORDER BY rowid',
      )
      .raw(),
    putDocument: db.prepare<[kind: string, id: string, body: string]>(
      'INSERT INTO documents (kind, id, body) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body',
    ),
    removeDocument: db.prepare<[kind: string, id: string]>(
      'DELETE FROM documents WHERE kind = ? AND id = ?',
    ),
  };
}

/**
 * Sources that were added together: a folder's files, an mbox or generated mail. They are not kept in memory. Numbers
 * start at 0 in each block.
 */
export interface SourceBlock {
  readonly count: number;
  /** Size of a source in bytes. May have to read or generate the source. */
  size(number: number): number;
  /** @throws MailkeepError `sandbox-source-changed` if the underlying file has changed */
  read(number: number): Buffer;
  /** Milliseconds since the epoch. May have to read the header of the source. */
  received(number: number): number;
  /** Location of the unchanged bytes in a file, for streaming large sources. */
  file(number: number): FileRange | null;
}

/** The sources of all messages: in the database, or in a block whose sources are read on demand. */
class Sources {
  /** Sorted by the number of their first source. */
  readonly #blocks: { readonly first: number; readonly block: SourceBlock }[] = [];
  #next: number;

  /** @param copies copies blocks into the database, so that the state file is complete */
  constructor(
    private readonly sql: Statements,
    private readonly copies: boolean,
  ) {
    this.#next = (sql.lastSource.get() ?? 0) + 1;
  }

  add(bytes: Buffer, received: number): number {
    const number = this.#next;
    this.#next += 1;
    this.sql.addSource.run(number, bytes.length, received, bytes);
    return number;
  }

  /** @returns the number of the block's first source; the others follow consecutively */
  addBlock(block: SourceBlock): number {
    const first = this.#next;
    if (this.copies) {
      for (let at = 0; at < block.count; at += 1) this.add(block.read(at), block.received(at));
    } else if (block.count > 0) {
      this.#blocks.push({ first, block });
      this.#next += block.count;
    }
    return first;
  }

  size(source: number): number {
    const found = this.#find(source);
    return found === null ? known(this.sql.size.get(source)) : found.block.size(found.number);
  }

  /** Milliseconds since the epoch. */
  received(source: number): number {
    const found = this.#find(source);
    return found === null
      ? known(this.sql.received.get(source))
      : found.block.received(found.number);
  }

  /** @throws RangeError if the source's last message has been removed */
  read(source: number): Buffer {
    const found = this.#find(source);
    return found === null ? known(this.sql.bytes.get(source)) : found.block.read(found.number);
  }

  /** Null if the source must be read instead. */
  file(source: number): FileRange | null {
    const found = this.#find(source);
    return found === null ? null : found.block.file(found.number);
  }

  #find(source: number): { readonly block: SourceBlock; readonly number: number } | null {
    const found = this.#blocks.findLast(({ first }) => first <= source);
    if (found === undefined || source >= found.first + found.block.count) return null;
    return { block: found.block, number: source - found.first };
  }
}

function known<T>(value: T | undefined): T {
  if (value === undefined) throw new RangeError('no such source');
  return value;
}

export interface Entry {
  readonly uid: number;
  readonly source: number;
  readonly flags: FlagSet;
}

/** Flag sets, keyed by their JSON. Many messages share a few distinct sets. */
const FLAG_SETS = new Map<string, FlagSet>();

function parseFlags(json: string): FlagSet {
  const parsed = FLAG_SETS.get(json) ?? z.array(z.string()).parse(JSON.parse(json));
  FLAG_SETS.set(json, parsed);
  return parsed;
}

/** A folder's messages in uid order. A new message always has the highest uid. Only the store changes a folder. */
export class Folder implements UidOrder<Entry> {
  readonly id: number;
  path: string;
  readonly specialUse: string | null;
  /** A uid that was never used in this folder. */
  nextUid: number;
  count: number;
  unread: number;

  constructor(
    private readonly sql: Statements,
    row: Omit<FolderRow, 'mailbox'>,
  ) {
    this.id = row.id;
    this.path = row.path;
    this.specialUse = row.specialUse;
    this.nextUid = row.nextUid;
    this.count = row.count;
    this.unread = row.unread;
  }

  get lastUid(): number {
    return this.sql.lastUid.get(this.id) ?? 0;
  }

  get(uid: number): Entry | null {
    return this.between(uid, uid, 0, 1)[0] ?? null;
  }

  countBetween(low: number, high: number): number {
    // Counting takes time proportional to the range.
    if (low <= 1 && high >= this.lastUid) return this.count;
    return this.sql.countBetween.get(this.id, low, high) ?? 0;
  }

  between(low: number, high: number, skip: number, limit: number): Entry[] {
    return this.sql.between
      .all(this.id, low, high, limit, skip)
      .map(([uid, source, flags]) => ({ uid, source, flags: parseFlags(flags) }));
  }

  entries(): Entry[] {
    return this.between(1, Number.MAX_SAFE_INTEGER, 0, this.count);
  }
}

export interface Mailbox {
  readonly resourceId: string;
  readonly address: string;
  readonly orderId: string;
  readonly folders: Map<string, Folder>;
}

export const DELIMITER = '.';

/** Folders that every mailbox keeps, with their RFC 6154 attributes. */
export const PERMANENT_FOLDERS: ReadonlyMap<string, string | null> = new Map([
  ['INBOX', null],
  ['INBOX.Sent', '\\Sent'],
  ['INBOX.Drafts', '\\Drafts'],
  ['INBOX.Trash', '\\Trash'],
]);

function specialUseOf(path: string): string | null {
  const standing = PERMANENT_FOLDERS.get(path);
  if (standing !== undefined) return standing;
  if (path === 'INBOX.Junk' || path === 'INBOX.Spam') return '\\Junk';
  return path === 'INBOX.Archive' ? '\\Archive' : null;
}

/** Returns a folder and its subfolders, parents first. */
export function withSubfolders(mailbox: Mailbox, path: string): Folder[] {
  return [...mailbox.folders.values()]
    .filter((folder) => folder.path === path || folder.path.startsWith(path + DELIMITER))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Maximum number of JSON characters to cache: about 100,000 records. */
const MAX_CACHED = 64 * 1024 * 1024;

/** Caches listing records as JSON text, which is smaller than objects and ready to send. */
class RecordCache {
  readonly #fragments = new Map<number, string>();
  #characters = 0;

  constructor(private readonly sources: Sources) {}

  messageJson(folder: Folder, entry: Entry): string {
    const unseen = !entry.flags.includes('\\Seen');
    return `{"uid":${entry.uid},"path":${JSON.stringify(folder.path)},"flags":${JSON.stringify(entry.flags)},"unseen":${unseen},${this.#fragment(entry.source)}}`;
  }

  #fragment(source: number): string {
    const cached = this.#fragments.get(source);
    if (cached !== undefined) return cached;
    const date = new Date(this.sources.received(source)).toISOString();
    const record: { date: string } & ImmutableRecord = {
      date,
      ...readListingRecord(this.sources.read(source)),
    };
    const fragment = JSON.stringify(record).slice(1, -1);
    this.#fragments.set(source, fragment);
    this.#characters += fragment.length;
    if (this.#characters > MAX_CACHED) {
      this.#fragments.clear();
      this.#characters = 0;
    }
    return fragment;
  }
}

/** Mail from outside or from another mailbox, excluding moves and seeds. */
export interface Arrival {
  readonly mailbox: Mailbox;
  readonly folder: Folder;
  readonly uid: number;
}

interface StoreEvents {
  arrived: [Arrival];
}

interface Placement {
  readonly folder: Folder;
  readonly flags: Iterable<string>;
}

/** The service's state, in a SQLite database. Changes are written to the state file, if any, before a call returns. */
export class Store {
  readonly events = new EventEmitter<StoreEvents>();
  readonly mailboxes = new Map<string, Mailbox>();
  readonly records: RecordCache;
  readonly sources: Sources;
  readonly #db: Database.Database;
  readonly #sql: Statements;

  /**
   * @param stateFile undefined to keep the state only in memory
   * @throws MailkeepError `sandbox-state-unusable`
   */
  constructor(stateFile?: string) {
    this.#db = openDatabase(stateFile ?? ':memory:');
    this.#sql = prepareStatements(this.#db);
    this.sources = new Sources(this.#sql, stateFile !== undefined);
    this.records = new RecordCache(this.sources);
    for (const row of this.#sql.mailboxes.all()) {
      this.mailboxes.set(row.resourceId, { ...row, folders: new Map() });
    }
    for (const row of this.#sql.folders.all()) {
      this.mailboxes.get(row.mailbox)?.folders.set(row.path, new Folder(this.#sql, row));
    }
  }

  /** Adds a mailbox with its permanent folders. Its id depends on the seed and address, so it survives restarts. */
  addMailbox(address: string, orderId: string, seed: number): Mailbox {
    const resourceId = resourceIdOf('AC', `${seed}/${orderId}/${address}`);
    const mailbox: Mailbox = { resourceId, address, orderId, folders: new Map() };
    this.atomically(() => {
      this.#sql.addMailbox.run(resourceId, address, orderId);
      this.mailboxes.set(resourceId, mailbox);
      for (const path of PERMANENT_FOLDERS.keys()) this.createFolder(mailbox, path);
    });
    return mailbox;
  }

  mailboxByAddress(address: string): Mailbox | null {
    const key = address.toLowerCase();
    for (const mailbox of this.mailboxes.values()) {
      if (mailbox.address.toLowerCase() === key) return mailbox;
    }
    return null;
  }

  /** @param path must be free */
  createFolder(mailbox: Mailbox, path: string): Folder {
    const specialUse = specialUseOf(path);
    const { lastInsertRowid } = this.#sql.addFolder.run(mailbox.resourceId, path, specialUse);
    const id = Number(lastInsertRowid);
    const folder = new Folder(this.#sql, { id, path, specialUse, nextUid: 1, count: 0, unread: 0 });
    mailbox.folders.set(path, folder);
    return folder;
  }

  folderFor(mailbox: Mailbox, path: string): Folder {
    return mailbox.folders.get(path) ?? this.createFolder(mailbox, path);
  }

  folderWithParents(mailbox: Mailbox, path: string): Folder {
    const end = path.lastIndexOf(DELIMITER);
    if (end > 0 && !mailbox.folders.has(path)) {
      this.folderWithParents(mailbox, path.slice(0, end));
    }
    return this.folderFor(mailbox, path);
  }

  /** Renames a folder and its subfolders. The new paths must be free. */
  renameFolder(mailbox: Mailbox, from: string, to: string): void {
    this.atomically(() => {
      for (const folder of withSubfolders(mailbox, from)) {
        mailbox.folders.delete(folder.path);
        folder.path = to + folder.path.slice(from.length);
        mailbox.folders.set(folder.path, folder);
        this.#sql.renameFolder.run(folder.path, folder.id);
      }
    });
  }

  /** Deletes a folder with its subfolders and messages. */
  deleteFolder(mailbox: Mailbox, path: string): void {
    this.atomically(() => {
      for (const folder of withSubfolders(mailbox, path)) {
        this.removeAll(folder);
        mailbox.folders.delete(folder.path);
        this.#sql.removeFolder.run(folder.id);
      }
    });
  }

  /** Adds a block's messages in order. @returns the number of the block's first source */
  place(block: SourceBlock, placements: Iterable<Placement & { readonly number: number }>): number {
    return this.atomically(() => {
      const first = this.sources.addBlock(block);
      for (const { folder, number, flags } of placements) {
        this.#append(folder, first + number, flagSet(flags));
      }
      return first;
    });
  }

  /** Adds a message without announcing it, for example a draft or sent copy. @returns its uid */
  add(folder: Folder, source: Buffer, received: number, flags: Iterable<string>): number {
    return this.addEverywhere([{ folder, flags }], source, received)[0] ?? 0;
  }

  /** Adds a message to several folders, but stores its bytes once. @returns its uids */
  addEverywhere(places: readonly Placement[], source: Buffer, received: number): number[] {
    return this.atomically(() => {
      const number = this.sources.add(source, received);
      return places.map(({ folder, flags }) => this.#append(folder, number, flagSet(flags)));
    });
  }

  announce(mailbox: Mailbox, folder: Folder, uid: number): void {
    this.events.emit('arrived', { mailbox, folder, uid });
  }

  /** @returns the new flags, or null if the message does not exist */
  changeFlags(
    folder: Folder,
    uid: number,
    add: readonly string[],
    remove: readonly string[],
  ): FlagSet | null {
    const entry = folder.get(uid);
    if (entry === null) return null;
    const remaining = entry.flags.filter((flag) => !hasFlag(remove, flag));
    const flags = flagSet([...remaining, ...add.filter((flag) => !hasFlag(remaining, flag))]);
    this.#sql.setFlags.run(JSON.stringify(flags), folder.id, uid);
    folder.unread += unread(flags) - unread(entry.flags);
    return flags;
  }

  /** Removes a message permanently. @returns false if it does not exist */
  remove(folder: Folder, uid: number): boolean {
    const entry = folder.get(uid);
    if (entry === null) return false;
    this.#sql.removeMessage.run(folder.id, uid);
    folder.count -= 1;
    folder.unread -= unread(entry.flags);
    return true;
  }

  removeAll(folder: Folder): void {
    this.#sql.removeMessages.run(folder.id);
    folder.count = 0;
    folder.unread = 0;
  }

  /** @returns the uid in the target, or null if the message does not exist */
  move(from: Folder, uid: number, to: Folder): number | null {
    return this.atomically(() => {
      const moved = this.copy(from, uid, to);
      this.remove(from, uid);
      return moved;
    });
  }

  /** Copies a message but not its bytes. @returns the uid in the target, or null if the message does not exist */
  copy(from: Folder, uid: number, to: Folder): number | null {
    const entry = from.get(uid);
    return entry === null ? null : this.#append(to, entry.source, entry.flags);
  }

  renumber(folder: Folder, firstUid: number): void {
    this.atomically(() => {
      const entries = folder.entries();
      // Negative numbers are free, so the old and new uids cannot collide.
      for (const { uid } of entries) this.#sql.setUid.run(-uid, folder.id, uid);
      folder.nextUid = firstUid;
      for (const { uid } of entries) this.#sql.setUid.run(folder.nextUid++, folder.id, -uid);
      this.#sql.setNextUid.run(folder.nextUid, folder.id);
    });
  }

  usage(mailbox: Mailbox): { readonly bytes: number; readonly messages: number } {
    let bytes = 0;
    let messages = 0;
    for (const folder of mailbox.folders.values()) {
      messages += folder.count;
      for (const entry of folder.entries()) bytes += this.sources.size(entry.source);
    }
    return { bytes, messages };
  }

  documents(kind: string): ReadonlyMap<string, unknown> {
    return new Map(this.#sql.documents.all(kind).map(([id, body]) => [id, JSON.parse(body)]));
  }

  putDocument(kind: string, id: string, body: unknown): void {
    this.#sql.putDocument.run(kind, id, JSON.stringify(body));
  }

  removeDocument(kind: string, id: string): void {
    this.#sql.removeDocument.run(kind, id);
  }

  /**
   * Runs `act` in a transaction. Calls can be nested. Mailboxes and folders in memory are not rolled back, so `act` must
   * not fail midway.
   */
  atomically<T>(act: () => T): T {
    return this.#db.inTransaction ? act() : this.#db.transaction(act).immediate();
  }

  close(): void {
    this.events.removeAllListeners();
    this.#db.close();
  }

  #append(folder: Folder, source: number, flags: FlagSet): number {
    const uid = folder.nextUid;
    this.#sql.addMessage.run(folder.id, uid, source, JSON.stringify(flags));
    // A uid is never reused, even after a restart or after deleting the newest message.
    this.#sql.setNextUid.run(uid + 1, folder.id);
    folder.nextUid = uid + 1;
    folder.count += 1;
    folder.unread += unread(flags);
    return uid;
  }
}

function unread(flags: FlagSet): number {
  return flags.includes('\\Seen') ? 0 : 1;
}

/** Returns an identifier in the service's style that depends only on `name`. */
export function resourceIdOf(prefix: string, name: string): string {
  return prefix + createHash('sha256').update(name).digest('hex').slice(0, 24).toUpperCase();
}
