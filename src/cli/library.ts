import type { MessageId } from '../core/types.ts';
import type { PlaceLine, SearchLine } from '../mail/identity.ts';

/** A folder that the archive has seen. */
export interface ArchivedFolder {
  readonly path: string;
  /** As in RFC 6154, such as `\Sent`; null for a folder without one. */
  readonly specialUse: string | null;
  /** Messages that are in it now. */
  readonly messages: number;
  /** True once the service no longer has it; its deleted messages stay. */
  readonly gone: boolean;
}

export interface ArchivedMailbox {
  readonly address: string;
  readonly host: string;
  readonly resourceId: string;
  readonly folders: readonly ArchivedFolder[];
}

export interface ListOptions {
  /** An address or a resource id. */
  readonly mailbox?: string | undefined;
  /** A path, a pattern with `*`, or a purpose such as `sent`. */
  readonly folder?: string | undefined;
  /** Messages deleted at the service, instead of those still there. */
  readonly deleted?: boolean | undefined;
  /** What the archive had observed at this time. */
  readonly asOf?: Date | undefined;
  /** Only what was received at this time or later. */
  readonly after?: Date | undefined;
  /** Only what was received before this time. */
  readonly before?: Date | undefined;
  /** `newest` if left out. */
  readonly sort?: 'newest' | 'oldest' | undefined;
}

export interface SearchOptions {
  /** The most messages to return: 20 if left out. */
  readonly limit?: number | undefined;
  /** `newest` if left out. */
  readonly sort?: 'newest' | 'oldest' | 'relevance' | undefined;
  /** What the archive had observed at this time. */
  readonly asOf?: Date | undefined;
  /** The last message of the page before: continue after it. Not with `relevance`. */
  readonly after?: MessageId | undefined;
}

/** Something that is not as it was written. */
export interface Problem {
  readonly what:
    | 'log'
    | 'message'
    | 'missing'
    | 'catalog'
    | 'catalog-file'
    | 'state-file'
    | 'commit'
    | 'format';
  /** What was found, on one line. */
  readonly sentence: string;
  /** Ids of the messages that are affected, as far as known. */
  readonly messages: readonly MessageId[];
}

export interface VerifyReport {
  /** True if nothing was found and the catalog could be compared. */
  readonly sound: boolean;
  /** Distinct messages in the log, and how many of them were rebuilt and hashed. */
  readonly messages: number;
  readonly rebuilt: number;
  /** The last commit that was read; null in an empty archive. */
  readonly commit: { readonly number: number; readonly hash: string } | null;
  readonly catalog:
    | 'equal'
    | 'behind'
    | 'different'
    | 'missing'
    | 'other-version'
    | 'damaged'
    | 'unreadable';
  /** The first 10,000 problems. */
  readonly problems: readonly Problem[];
  /** How many there are. */
  readonly found: number;
}

export interface VerifyOptions {
  /** False checks the structure, checksums and catalog, and hashes no message. */
  readonly full?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * An archive, open for reading. It needs neither configuration nor network, never writes, and works while another
 * program writes to the archive. Every method throws `MailkeepError`, whose message is a sentence.
 */
export interface Archive {
  readonly dataDir: string;
  /** How many commits the catalog is behind the log: a list or a search lacks what they added. 0 in a mirror at rest. */
  commitsBehind(): number;
  mailboxes(): readonly ArchivedMailbox[];
  /**
   * Lists places of messages, newest first. A read transaction is open until the iteration ends.
   *
   * @throws MailkeepError: argument-invalid, usage-unknown-name, usage-folder-gone
   */
  list(options?: ListOptions): IterableIterator<PlaceLine>;
  /**
   * Finds messages.
   *
   * @param query in the language of docs/search.md; `@name` and `account:` need the command line
   * @throws MailkeepError: argument-invalid, usage-unknown-name, usage-unknown-message, and those of a query that
   *   cannot be parsed (`search-…`)
   */
  search(query: string, options?: SearchOptions): readonly SearchLine[];
  /**
   * Reads the raw source of a message. Its SHA-256 is compared with its id at the end: the bytes are proven once the
   * iteration has ended.
   *
   * @param id as `list` and `search` return it, or its beginning
   * @throws MailkeepError: argument-invalid, usage-unknown-message, usage-ambiguous-id, message-purged,
   *   message-damaged, blob-damaged
   */
  read(id: MessageId): AsyncGenerator<Buffer, void, undefined>;
  /**
   * Reads the archive from the first byte to the last. Damage is in the report and never thrown.
   *
   * @throws AbortError if `signal` aborts; MailkeepError archive-format-newer
   */
  verify(options?: VerifyOptions): Promise<VerifyReport>;
  close(): void;
}

/**
 * Opens an archive for reading. What this needs is loaded now, so that programs which import only the clients do not
 * load a database.
 *
 * @param dataDir the archive's folder
 * @throws MailkeepError: argument-invalid, usage-no-archive, archive-unreadable, catalog-missing, catalog-version,
 *   catalog-damaged
 */
export async function openArchive(dataDir: string): Promise<Archive> {
  const { ReadOnlyArchive } = await import('./library-read-only.ts');
  return ReadOnlyArchive.open(dataDir);
}
