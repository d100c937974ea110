import type { FlagSet } from '../../mail/words.ts';
import type { FileRange, SourceBlock } from './source-block.ts';

export interface MailboxRow {
  readonly resourceId: string;
  readonly address: string;
  readonly orderId: string;
}

export interface FolderRow {
  readonly id: number;
  readonly mailbox: string;
  readonly path: string;
  readonly specialUse: string | null;
  readonly nextUid: number;
}

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
