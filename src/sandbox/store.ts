import { createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { z } from 'zod';
import { type FlagSet, flagSet } from '../core/types.ts';
import { type ImmutableRecord, readListingRecord } from '../service/message-view.ts';
import { type FileRange, hasFlag } from '../service/surface.ts';
import { type Entry, Folder } from './folder.ts';
import type { FolderRow, StateFile } from './state-file.ts';

/**
 * Sources that were added together: a folder's files, an mbox, generated mail or one delivery. They are not kept in
 * memory. Numbers start at 0 in each block.
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

export class MemoryBlock implements SourceBlock {
  constructor(
    private readonly sources: readonly Buffer[],
    private readonly dates: readonly number[],
  ) {}

  get count(): number {
    return this.sources.length;
  }

  size(number: number): number {
    return this.read(number).length;
  }

  read(number: number): Buffer {
    const source = this.sources[number];
    if (source === undefined) throw new RangeError(`no source ${number} in this block`);
    return source;
  }

  received(number: number): number {
    return this.dates[number] ?? 0;
  }

  file(): null {
    return null;
  }
}

export interface Sources {
  /** @returns the number of the block's first source; the others follow consecutively */
  add(block: SourceBlock): number;
  /** Called when the last message that used a source is gone. */
  release(source: number): void;
  size(source: number): number;
  /** Milliseconds since the epoch. */
  received(source: number): number;
  read(source: number): Buffer;
  /** Null if the source must be read instead. */
  file(source: number): FileRange | null;
}

class BlockSources implements Sources {
  /** Blocks of several sources, sorted by their first numbers. */
  readonly #blocks: { readonly first: number; readonly block: SourceBlock }[] = [];
  readonly #singles = new Map<number, SourceBlock>();
  #next = 1;

  add(block: SourceBlock): number {
    const first = this.#next;
    this.#next += block.count;
    if (block.count === 1) this.#singles.set(first, block);
    else if (block.count > 1) this.#blocks.push({ first, block });
    return first;
  }

  release(source: number): void {
    this.#singles.delete(source);
  }

  size(source: number): number {
    return this.#from(source, (block, number) => block.size(number));
  }

  received(source: number): number {
    return this.#from(source, (block, number) => block.received(number));
  }

  read(source: number): Buffer {
    return this.#from(source, (block, number) => block.read(number));
  }

  file(source: number): FileRange | null {
    return this.#from(source, (block, number) => block.file(number));
  }

  #from<T>(source: number, read: (block: SourceBlock, number: number) => T): T {
    const block = this.#singles.get(source);
    if (block !== undefined) return read(block, 0);
    const entry = this.#blocks.findLast(({ first }) => first <= source);
    if (entry === undefined || source >= entry.first + entry.block.count) {
      throw new RangeError(`no source ${source}`);
    }
    return read(entry.block, source - entry.first);
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

/** Maximum characters of JSON to cache: about 100,000 records. */
const DEFAULT_CEILING = 64 * 1024 * 1024;

/** Caches listing records as JSON text, which is smaller than objects and ready to send. Drops the oldest first. */
class RecordCache {
  readonly #fragments = new Map<number, string>();
  #characters = 0;

  constructor(
    private readonly sources: Sources,
    private readonly ceiling: number = DEFAULT_CEILING,
  ) {}

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
    if (this.#characters > this.ceiling) this.#shrink();
    return fragment;
  }

  forget(source: number): void {
    this.#characters -= this.#fragments.get(source)?.length ?? 0;
    this.#fragments.delete(source);
  }

  #shrink(): void {
    for (const source of this.#fragments.keys()) {
      if (this.#characters <= this.ceiling * 0.9) return;
      this.forget(source);
    }
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
  readonly number: number;
  readonly flags: Iterable<string>;
}

/** The service's state. Changes are written to the state file, if any, before a call returns. */
export class Store {
  readonly events = new EventEmitter<StoreEvents>();
  readonly mailboxes = new Map<string, Mailbox>();
  readonly records: RecordCache;
  readonly sources: Sources;
  /** Flag sets by their JSON. Many messages share a few distinct sets. */
  readonly #flagSets = new Map<string, FlagSet>();
  readonly #documents = new Map<string, Map<string, unknown>>();
  /** Number of messages that use a source, if more than one. */
  readonly #shared = new Map<number, number>();
  #nextFolder = 1;

  /** @param state null to keep the state only in memory */
  constructor(private readonly state: StateFile | null = null) {
    this.sources = state ?? new BlockSources();
    this.records = new RecordCache(this.sources);
    if (state !== null) this.#open(state);
  }

  /** Adds a mailbox with its permanent folders. Its id depends on seed and address, and so survives restarts. */
  addMailbox(address: string, orderId: string, seed: number): Mailbox {
    const resourceId = resourceIdOf('AC', `${seed}/${orderId}/${address}`);
    const mailbox: Mailbox = { resourceId, address, orderId, folders: new Map() };
    this.atomically(() => {
      this.state?.addMailbox({ resourceId, address, orderId });
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
    const folder = new Folder(this.#nextFolder, path, specialUseOf(path));
    this.#nextFolder += 1;
    this.state?.putFolder(toFolderRow(mailbox, folder));
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
        this.state?.putFolder(toFolderRow(mailbox, folder));
      }
    });
  }

  /** Deletes a folder with its subfolders and messages. */
  deleteFolder(mailbox: Mailbox, path: string): void {
    this.atomically(() => {
      for (const folder of withSubfolders(mailbox, path)) {
        for (const entry of folder.entries()) this.#release(entry.source);
        mailbox.folders.delete(folder.path);
        this.state?.removeFolder(folder.id);
      }
    });
  }

  /** Adds a block's messages in order. @returns the number of the block's first source */
  place(block: SourceBlock, placements: Iterable<Placement & { readonly folder: Folder }>): number {
    return this.atomically(() => {
      const first = this.sources.add(block);
      for (const { folder, number, flags } of placements) {
        this.#append(folder, first + number, flags);
      }
      return first;
    });
  }

  /** Adds a message without announcing it, for example a draft or sent copy. @returns its uid */
  add(folder: Folder, source: Buffer, received: number, flags: Iterable<string>): number {
    return this.addEverywhere([{ folder, flags }], source, received)[0] ?? 0;
  }

  /** Adds a message to several folders, but stores its bytes once. @returns its uids */
  addEverywhere(
    places: readonly { readonly folder: Folder; readonly flags: Iterable<string> }[],
    source: Buffer,
    received: number,
  ): number[] {
    return this.atomically(() => {
      const number = this.sources.add(new MemoryBlock([source], [received]));
      if (places.length > 1) this.#shared.set(number, places.length);
      return places.map(({ folder, flags }) => this.#append(folder, number, flags));
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
    const flags = this.#intern([...remaining, ...add.filter((flag) => !hasFlag(remaining, flag))]);
    this.state?.setFlags(folder.id, uid, flags);
    folder.setFlags(uid, flags);
    return flags;
  }

  /** Removes a message permanently. @returns false if it does not exist */
  remove(folder: Folder, uid: number): boolean {
    const entry = folder.get(uid);
    if (entry === null) return false;
    this.state?.removeMessage(folder.id, uid);
    folder.remove(uid);
    this.#release(entry.source);
    return true;
  }

  removeAll(folder: Folder): void {
    this.atomically(() => {
      for (const { uid, source } of folder.clear()) {
        this.state?.removeMessage(folder.id, uid);
        this.#release(source);
      }
    });
  }

  /** @returns the uid in the target, or null if the message does not exist */
  move(from: Folder, uid: number, to: Folder): number | null {
    const entry = from.get(uid);
    if (entry === null) return null;
    return this.atomically(() => {
      from.remove(uid);
      this.state?.removeMessage(from.id, uid);
      return this.#append(to, entry.source, entry.flags);
    });
  }

  /** Copies a message but not its bytes. @returns the uid in the target, or null if the message does not exist */
  copy(from: Folder, uid: number, to: Folder): number | null {
    const entry = from.get(uid);
    if (entry === null) return null;
    return this.atomically(() => {
      const copied = this.#append(to, entry.source, entry.flags);
      this.#shared.set(entry.source, (this.#shared.get(entry.source) ?? 1) + 1);
      return copied;
    });
  }

  renumber(folder: Folder, firstUid: number): void {
    this.atomically(() => {
      const entries = folder.renumber(firstUid);
      for (const entry of entries) this.state?.removeMessage(folder.id, entry.uid);
      for (const entry of entries) this.#append(folder, entry.source, entry.flags);
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
    return this.#documents.get(kind) ?? new Map<string, unknown>();
  }

  putDocument(kind: string, id: string, body: unknown): void {
    this.state?.putDocument(kind, id, body);
    this.#holdDocument(kind, id, body);
  }

  removeDocument(kind: string, id: string): void {
    this.state?.removeDocument(kind, id);
    this.#documents.get(kind)?.delete(id);
  }

  #holdDocument(kind: string, id: string, body: unknown): void {
    const documents = this.#documents.get(kind) ?? new Map<string, unknown>();
    this.#documents.set(kind, documents.set(id, body));
  }

  /** Runs `act` in a state file transaction. Memory is not rolled back, so `act` must not fail midway. */
  atomically<T>(act: () => T): T {
    return this.state === null ? act() : this.state.atomically(act);
  }

  close(): void {
    this.events.removeAllListeners();
    this.state?.close();
  }

  #append(folder: Folder, source: number, flagNames: Iterable<string>): number {
    const uid = folder.nextUid;
    const flags = this.#intern(flagNames);
    this.state?.addMessage(folder.id, { uid, source, flags });
    folder.append(uid, source, flags);
    return uid;
  }

  #intern(flags: Iterable<string>): FlagSet {
    const set = flagSet(flags);
    const key = JSON.stringify(set);
    const shared = this.#flagSets.get(key) ?? set;
    this.#flagSets.set(key, shared);
    return shared;
  }

  #release(source: number): void {
    const places = this.#shared.get(source) ?? 1;
    if (places > 2) this.#shared.set(source, places - 1);
    else if (places === 2) this.#shared.delete(source);
    else {
      this.records.forget(source);
      this.sources.release(source);
    }
  }

  #open(state: StateFile): void {
    for (const row of state.mailboxes()) {
      this.mailboxes.set(row.resourceId, { ...row, folders: new Map() });
    }
    const used = new Set<number>();
    for (const row of state.folders()) {
      const mailbox = this.mailboxes.get(row.mailbox);
      if (mailbox === undefined) continue;
      const folder = new Folder(row.id, row.path, row.specialUse);
      for (const [uid, source, json] of state.messages(row.id)) {
        folder.append(uid, source, this.#flagSets.get(json) ?? this.#intern(parseFlags(json)));
        if (used.has(source)) this.#shared.set(source, (this.#shared.get(source) ?? 1) + 1);
        else used.add(source);
      }
      folder.reserve(row.nextUid);
      mailbox.folders.set(row.path, folder);
      this.#nextFolder = Math.max(this.#nextFolder, row.id + 1);
    }
    for (const { kind, id, body } of state.documents()) {
      this.#holdDocument(kind, id, JSON.parse(body));
    }
  }
}

function parseFlags(json: string): string[] {
  return z.array(z.string()).parse(JSON.parse(json));
}

function toFolderRow(mailbox: Mailbox, folder: Folder): FolderRow {
  return {
    id: folder.id,
    mailbox: mailbox.resourceId,
    path: folder.path,
    specialUse: folder.specialUse,
    nextUid: folder.nextUid,
  };
}

/** Returns an identifier in the service's style that depends only on `name`. */
export function resourceIdOf(prefix: string, name: string): string {
  return prefix + createHash('sha256').update(name).digest('hex').slice(0, 24).toUpperCase();
}
