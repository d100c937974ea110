import { z } from 'zod';
import type { FlagSet } from '../../mail/words.ts';
import type { FileRange } from '../../mailbox-surface/reply.ts';

/**
 * Raw sources that came together: files of a folder, a range of an mbox, a run of the generator, one delivery.
 * Nothing of a source lies in memory because its block does. Numbers are 0-based within the block.
 */
export interface SourceBlock {
  readonly count: number;
  /** Bytes of the source. May have to read or generate it. */
  size(number: number): number;
  /** The whole source. Throws ServiceError `source-changed` when the file behind it is not what it was. */
  read(number: number): Buffer;
  /** Received date in milliseconds since the epoch. May have to read the source's header. */
  received(number: number): number;
  /** Where the bytes lie as they are in a file, for sending a large one without holding it in memory. */
  file(number: number): FileRange | null;
}

/** A block of sources held in memory. */
export class MemoryBlock implements SourceBlock {
  readonly #sources: readonly Buffer[];
  readonly #received: readonly number[];

  constructor(sources: readonly Buffer[], received: readonly number[]) {
    this.#sources = sources;
    this.#received = received;
  }

  get count(): number {
    return this.#sources.length;
  }

  size(number: number): number {
    return this.read(number).length;
  }

  read(number: number): Buffer {
    const source = this.#sources[number];
    if (source === undefined) throw new RangeError(`no source ${number} in this block`);
    return source;
  }

  received(number: number): number {
    return this.#received[number] ?? 0;
  }

  file(): null {
    return null;
  }
}

export const mailboxRow = z.object({
  resourceId: z.string(),
  address: z.string(),
  orderId: z.string(),
});
export type MailboxRow = Readonly<z.output<typeof mailboxRow>>;

export const folderRow = z.object({
  id: z.number(),
  mailbox: z.string(),
  path: z.string(),
  specialUse: z.string().nullable(),
  nextUid: z.number(),
});
export type FolderRow = Readonly<z.output<typeof folderRow>>;

export interface MessageRow {
  readonly uid: number;
  readonly source: number;
  readonly flags: FlagSet;
}

/** A record of another concern (tokens, webhooks, deliveries …), kept as JSON under its kind and id. */
export interface DocumentRow {
  readonly id: string;
  readonly body: unknown;
}

/**
 * What keeps the store's state: memory, or a SQLite file. The store holds the folders' indexes itself and
 * reports every change to the backend before any answer is sent; the backend holds raw sources and gives the
 * rest back when the store is opened.
 */
export interface StoreBackend {
  mailboxes(): readonly MailboxRow[];
  folders(): readonly FolderRow[];
  messages(folder: number): Iterable<MessageRow>;
  documents(kind: string): Iterable<DocumentRow>;

  addMailbox(row: MailboxRow): void;
  addFolder(row: FolderRow): void;
  /** Path, special use or next uid of a folder changed. */
  changeFolder(row: FolderRow): void;
  removeFolder(folder: number): void;
  addMessage(folder: number, row: MessageRow): void;
  setFlags(folder: number, uid: number, flags: FlagSet): void;
  removeMessage(folder: number, uid: number): void;
  putDocument(kind: string, id: string, body: unknown): void;
  removeDocument(kind: string, id: string): void;

  /** Takes over a block's sources. @returns the source number of its first one; the others follow */
  addSources(block: SourceBlock): number;
  /** No message refers to this source any more. */
  releaseSource(source: number): void;
  sourceSize(source: number): number;
  /** Received date in milliseconds since the epoch. */
  sourceReceived(source: number): number;
  readSource(source: number): Buffer;
  /** Where the source lies as it is in a file, or null when it must be read. */
  sourceFile(source: number): FileRange | null;

  /** All changes made by `act` are kept, or none where it throws. May be nested. */
  atomically<T>(act: () => T): T;
  close(): void;
}
