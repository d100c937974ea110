import { createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { type FlagSet, flagSet } from '../../mail/words.ts';
import { hasFlag } from '../../mailbox-surface/criteria.ts';
import { type FolderRow, MemoryBlock, type SourceBlock, type StoreBackend } from './backend.ts';
import { FlagTable, Folder, type SourceFacts } from './folder.ts';
import {
  DELIMITER,
  type Mailbox,
  STANDING_FOLDERS,
  specialUseOf,
  withSubfolders,
} from './mailbox.ts';
import { RecordCache } from './record-cache.ts';

/** Mail that came in from outside or from another mailbox; moves and seeds are none. */
export interface Arrival {
  readonly mailbox: Mailbox;
  readonly folder: Folder;
  readonly uid: number;
}

interface StoreEvents {
  arrived: [Arrival];
}

/** A message of a block that is to be placed in a folder. */
export interface Placement {
  /** Number of the source within its block. */
  readonly number: number;
  readonly flags: Iterable<string>;
}

/**
 * The state of the service: mailboxes, folders, messages, raw sources. Every change goes through it, and
 * through its backend before it returns.
 */
export class Store implements SourceFacts {
  readonly events = new EventEmitter<StoreEvents>();
  readonly mailboxes = new Map<string, Mailbox>();
  readonly records: RecordCache;
  readonly #flagTable = new FlagTable();
  /** How many places a source has, where it is more than one. */
  readonly #shared = new Map<number, number>();
  #nextFolder = 1;

  constructor(private readonly backend: StoreBackend) {
    this.records = new RecordCache(backend);
    this.#open();
  }

  /** Adds a mailbox with its standing folders. The resource id follows from seed and address, so a new start is the same origin. */
  addMailbox(address: string, orderId: string, seed: number): Mailbox {
    const resourceId = resourceIdOf('AC', `${seed}/${orderId}/${address}`);
    const mailbox: Mailbox = { resourceId, address, orderId, folders: new Map() };
    this.atomically(() => {
      this.backend.addMailbox({ resourceId, address, orderId });
      this.mailboxes.set(resourceId, mailbox);
      for (const path of STANDING_FOLDERS.keys()) this.createFolder(mailbox, path);
    });
    return mailbox;
  }

  mailboxByAddress(address: string): Mailbox | null {
    const wanted = address.toLowerCase();
    for (const mailbox of this.mailboxes.values()) {
      if (mailbox.address.toLowerCase() === wanted) return mailbox;
    }
    return null;
  }

  /** Creates a folder; the caller has made sure that the path is free. */
  createFolder(mailbox: Mailbox, path: string): Folder {
    const folder = new Folder(this.#nextFolder, path, specialUseOf(path), 1, this.#flagTable);
    this.#nextFolder += 1;
    this.backend.addFolder(folderRow(mailbox, folder));
    mailbox.folders.set(path, folder);
    return folder;
  }

  folderFor(mailbox: Mailbox, path: string): Folder {
    return mailbox.folders.get(path) ?? this.createFolder(mailbox, path);
  }

  /** The folder of a path. One that is not there is created, with the folders above it. */
  folderWithParents(mailbox: Mailbox, path: string): Folder {
    const end = path.lastIndexOf(DELIMITER);
    if (end > 0 && !mailbox.folders.has(path)) {
      this.folderWithParents(mailbox, path.slice(0, end));
    }
    return this.folderFor(mailbox, path);
  }

  /** Renames a folder and everything below it; uids stay. The caller has made sure that the new paths are free. */
  renameFolder(mailbox: Mailbox, from: string, to: string): void {
    this.atomically(() => {
      for (const folder of withSubfolders(mailbox, from)) {
        mailbox.folders.delete(folder.path);
        folder.path = to + folder.path.slice(from.length);
        mailbox.folders.set(folder.path, folder);
        this.backend.changeFolder(folderRow(mailbox, folder));
      }
    });
  }

  /** Deletes a folder, everything below it, and all their messages. */
  deleteFolder(mailbox: Mailbox, path: string): void {
    this.atomically(() => {
      for (const folder of withSubfolders(mailbox, path)) {
        for (const entry of folder.entries()) this.#release(entry.source);
        mailbox.folders.delete(folder.path);
        this.backend.removeFolder(folder.id);
      }
    });
  }

  /** Places messages of a block under the next uids, in the order given. @returns the first source number */
  place(block: SourceBlock, placements: Iterable<Placement & { readonly folder: Folder }>): number {
    return this.atomically(() => {
      const first = this.backend.addSources(block);
      for (const { folder, number, flags } of placements) {
        this.#append(folder, first + number, flags);
      }
      return first;
    });
  }

  /** Puts one new message into a folder, silently: a draft, a sent copy. @returns its uid */
  add(folder: Folder, source: Buffer, received: number, flags: Iterable<string>): number {
    return this.addEverywhere([{ folder, flags }], source, received)[0] ?? 0;
  }

  /** One new message in several places, its bytes kept once. @returns its uids, in the order of the places */
  addEverywhere(
    places: readonly { readonly folder: Folder; readonly flags: Iterable<string> }[],
    source: Buffer,
    received: number,
  ): number[] {
    return this.atomically(() => {
      const number = this.backend.addSources(new MemoryBlock([source], [received]));
      if (places.length > 1) this.#shared.set(number, places.length);
      return places.map(({ folder, flags }) => this.#append(folder, number, flags));
    });
  }

  /** Tells everybody that asked to know that this message is new mail. */
  announce(mailbox: Mailbox, folder: Folder, uid: number): void {
    this.events.emit('arrived', { mailbox, folder, uid });
  }

  /** @returns the new flags, or null when there is no such message */
  changeFlags(
    folder: Folder,
    uid: number,
    add: readonly string[],
    remove: readonly string[],
  ): FlagSet | null {
    const entry = folder.get(uid);
    if (entry === null) return null;
    const kept = entry.flags.filter((flag) => !hasFlag(remove, flag));
    const flags = flagSet([...kept, ...add.filter((flag) => !hasFlag(kept, flag))]);
    this.backend.setFlags(folder.id, uid, flags);
    folder.setFlags(uid, flags);
    return flags;
  }

  /** Removes a message for good. @returns false when there is none */
  remove(folder: Folder, uid: number): boolean {
    const entry = folder.get(uid);
    if (entry === null) return false;
    this.backend.removeMessage(folder.id, uid);
    folder.remove(uid);
    this.#release(entry.source);
    return true;
  }

  removeAll(folder: Folder): void {
    this.atomically(() => {
      for (const entry of [...folder.entries()]) this.remove(folder, entry.uid);
    });
  }

  /** Moves a message; it gets a new uid in the target. @returns that uid, or null when there is no such message */
  move(from: Folder, uid: number, to: Folder): number | null {
    const entry = from.get(uid);
    if (entry === null) return null;
    return this.atomically(() => {
      from.remove(uid);
      this.backend.removeMessage(from.id, uid);
      return this.#append(to, entry.source, entry.flags);
    });
  }

  /** Copies a message, its bytes kept once. @returns the uid in the target, or null when there is no such message */
  copy(from: Folder, uid: number, to: Folder): number | null {
    const entry = from.get(uid);
    if (entry === null) return null;
    return this.atomically(() => {
      const copied = this.#append(to, entry.source, entry.flags);
      this.#shared.set(entry.source, (this.#shared.get(entry.source) ?? 1) + 1);
      return copied;
    });
  }

  /** The same messages under new uids from `firstUid` on, as after a folder was deleted and made again. */
  renumber(folder: Folder, firstUid: number): void {
    this.atomically(() => {
      const entries = folder.renumber(firstUid);
      for (const entry of entries) this.backend.removeMessage(folder.id, entry.uid);
      for (const entry of entries) this.#append(folder, entry.source, entry.flags);
    });
  }

  /** What a mailbox holds, counted when it is asked for. */
  usage(mailbox: Mailbox): { readonly bytes: number; readonly messages: number } {
    let bytes = 0;
    let messages = 0;
    for (const folder of mailbox.folders.values()) {
      messages += folder.count;
      for (const entry of folder.entries()) bytes += this.backend.sourceSize(entry.source);
    }
    return { bytes, messages };
  }

  /** Bytes of a raw source. */
  size(source: number): number {
    return this.backend.sourceSize(source);
  }

  received(source: number): number {
    return this.backend.sourceReceived(source);
  }

  read(source: number): Buffer {
    return this.backend.readSource(source);
  }

  file(source: number): ReturnType<StoreBackend['sourceFile']> {
    return this.backend.sourceFile(source);
  }

  documents(kind: string): ReturnType<StoreBackend['documents']> {
    return this.backend.documents(kind);
  }

  putDocument(kind: string, id: string, body: unknown): void {
    this.backend.putDocument(kind, id, body);
  }

  removeDocument(kind: string, id: string): void {
    this.backend.removeDocument(kind, id);
  }

  /** All of `act` is kept by the backend, or nothing. `act` must not fail half way for reasons of its own. */
  atomically<T>(act: () => T): T {
    return this.backend.atomically(act);
  }

  close(): void {
    this.events.removeAllListeners();
    this.backend.close();
  }

  #append(folder: Folder, source: number, flags: Iterable<string>): number {
    const uid = folder.nextUid;
    const set = flagSet(flags);
    this.backend.addMessage(folder.id, { uid, source, flags: set });
    folder.append(uid, source, set);
    return uid;
  }

  #release(source: number): void {
    const places = this.#shared.get(source) ?? 1;
    if (places > 2) this.#shared.set(source, places - 1);
    else if (places === 2) this.#shared.delete(source);
    else {
      this.records.forget(source);
      this.backend.releaseSource(source);
    }
  }

  #open(): void {
    for (const row of this.backend.mailboxes()) {
      this.mailboxes.set(row.resourceId, { ...row, folders: new Map() });
    }
    const seen = new Set<number>();
    for (const row of this.backend.folders()) {
      const mailbox = this.mailboxes.get(row.mailbox);
      if (mailbox === undefined) continue;
      const folder = new Folder(row.id, row.path, row.specialUse, 1, this.#flagTable);
      for (const message of this.backend.messages(row.id)) {
        folder.append(message.uid, message.source, message.flags);
        if (seen.has(message.source)) {
          this.#shared.set(message.source, (this.#shared.get(message.source) ?? 1) + 1);
        } else seen.add(message.source);
      }
      folder.reserve(row.nextUid);
      mailbox.folders.set(row.path, folder);
      this.#nextFolder = Math.max(this.#nextFolder, row.id + 1);
    }
  }
}

function folderRow(mailbox: Mailbox, folder: Folder): FolderRow {
  return {
    id: folder.id,
    mailbox: mailbox.resourceId,
    path: folder.path,
    specialUse: folder.specialUse,
    nextUid: folder.nextUid,
  };
}

/** A stable identifier in the service's style: a prefix and 24 characters that follow from `name`. */
export function resourceIdOf(prefix: string, name: string): string {
  return prefix + createHash('sha256').update(name).digest('hex').slice(0, 24).toUpperCase();
}
