import type { MessageId } from '../core/types.ts';
import type { PlaceLine, SearchLine } from '../mail/identity.ts';

/** A folder known to the archive. */
export interface ArchivedFolder {
  readonly path: string;
  /** As in RFC 6154, such as `\Sent`. */
  readonly specialUse: string | null;
  /** Current messages. */
  readonly messages: number;
  /** True if the service no longer has it. Its deleted messages stay in the archive. */
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
  /** A path, a pattern with `*`, or a special use such as `sent`. */
  readonly folder?: string | undefined;
  /** True for messages deleted at the service instead of current ones. */
  readonly deleted?: boolean | undefined;
  /** The archive's state at this time. */
  readonly asOf?: Date | undefined;
  /** Only messages received at or after this time. */
  readonly after?: Date | undefined;
  /** Only messages received before this time. */
  readonly before?: Date | undefined;
  /** Default: `newest`. */
  readonly sort?: 'newest' | 'oldest' | undefined;
}

export interface SearchOptions {
  /** Maximum number of messages; default: 20. */
  readonly limit?: number | undefined;
  /** Default: `newest`. */
  readonly sort?: 'newest' | 'oldest' | 'relevance' | undefined;
  /** The archive's state at this time. */
  readonly asOf?: Date | undefined;
  /** Continue after this message, the last one of the previous page. Not with `relevance`. */
  readonly after?: MessageId | undefined;
}

/** A difference between the stored and the written data. */
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
  readonly sentence: string;
  /** Ids of the affected messages, as far as known. */
  readonly messages: readonly MessageId[];
}

export interface VerifyReport {
  /** True if nothing was found and the catalog was compared. */
  readonly sound: boolean;
  /** Distinct messages in the log, and how many of them were rebuilt and hashed. */
  readonly messages: number;
  readonly rebuilt: number;
  /** The last commit read; null in an empty archive. */
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
  /** Number of all problems. */
  readonly found: number;
}

export interface VerifyOptions {
  /** If false, checks only structure, checksums and catalog, without hashing messages. */
  readonly full?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * An archive, open for reading. Needs neither configuration nor network, never writes, and works while another program
 * writes. Every method throws a `MailkeepError` whose message is a sentence.
 */
export interface Archive {
  readonly dataDir: string;
  /** Returns how many commits the catalog is behind the log; lists and searches omit them. 0 in an idle archive. */
  commitsBehind(): number;
  mailboxes(): readonly ArchivedMailbox[];
  /**
   * Lists messages by place, newest first. A read transaction stays open until the iteration ends.
   * @throws MailkeepError: argument-invalid, usage-unknown-name, usage-folder-gone
   */
  list(options?: ListOptions): IterableIterator<PlaceLine>;
  /**
   * @param query in the language of docs/search.md; `@name` and `account:` work only on the command line
   * @throws MailkeepError: argument-invalid, usage-unknown-name, usage-unknown-message, and errors of an invalid
   *   query (`search-…`)
   */
  search(query: string, options?: SearchOptions): readonly SearchLine[];
  /**
   * Reads a message's source. Compares its SHA-256 with the id at the end, so trust the bytes only after the
   * iteration has ended.
   * @param id as returned by `list` and `search`, or a prefix
   * @throws MailkeepError: argument-invalid, usage-unknown-message, usage-ambiguous-id, message-purged,
   *   message-damaged, blob-damaged
   */
  read(id: MessageId): AsyncGenerator<Buffer, void, undefined>;
  /**
   * Verifies the complete archive. Damage is reported, never thrown.
   * @throws AbortError if `signal` aborts; MailkeepError archive-format-newer
   */
  verify(options?: VerifyOptions): Promise<VerifyReport>;
  close(): void;
}

/**
 * Opens an archive for reading. Dependencies are loaded here, so that programs that use only the clients do not load
 * a database.
 * @param dataDir the archive's folder
 * @throws MailkeepError: argument-invalid, usage-no-archive, archive-unreadable, catalog-missing, catalog-version,
 *   catalog-damaged
 */
export async function openArchive(dataDir: string): Promise<Archive> {
  const { ReadOnlyArchive } = await import('./library-read-only.ts');
  return ReadOnlyArchive.open(dataDir);
}
