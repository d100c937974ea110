import type { MessageId } from '../core/types.ts';
import type { PlaceLine, SearchLine } from '../mail/identity.ts';

/** A folder known to the archive. */
export interface ArchivedFolder {
  readonly path: string;
  /** Special use (RFC 6154), such as `\Sent`. */
  readonly specialUse: string | null;
  /** Number of current messages. */
  readonly messages: number;
  /** True if the service has deleted the folder. Its messages remain in the archive. */
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
  /** Selects messages deleted at the service instead of current ones. */
  readonly deleted?: boolean | undefined;
  /** Selects the archive's state at this time. */
  readonly asOf?: Date | undefined;
  /** Includes only messages received at or after this time. */
  readonly after?: Date | undefined;
  /** Includes only messages received before this time. */
  readonly before?: Date | undefined;
  /** Default: `newest`. */
  readonly sort?: 'newest' | 'oldest' | undefined;
}

export interface SearchOptions {
  /** Maximum number of messages; 20 by default. */
  readonly limit?: number | undefined;
  /** Default: `newest`. */
  readonly sort?: 'newest' | 'oldest' | 'relevance' | undefined;
  /** Selects the archive's state at this time. */
  readonly asOf?: Date | undefined;
  /** Continues after this message, the last of the previous page. Cannot be combined with `relevance`. */
  readonly after?: MessageId | undefined;
}

/** A difference between stored data and the data originally written. */
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
  /** Ids of the affected messages, if known. */
  readonly messages: readonly MessageId[];
}

export interface VerifyReport {
  /** True if no problem was found and the catalog was compared. */
  readonly sound: boolean;
  /** Number of distinct messages in the log, and how many of them were rebuilt and hashed. */
  readonly messages: number;
  readonly rebuilt: number;
  /** Last commit read; null for an empty archive. */
  readonly commit: { readonly number: number; readonly hash: string } | null;
  readonly catalog:
    | 'equal'
    | 'behind'
    | 'different'
    | 'missing'
    | 'other-version'
    | 'damaged'
    | 'unreadable';
  /** Up to 10,000 problems. */
  readonly problems: readonly Problem[];
  /** Total number of problems. */
  readonly found: number;
}

export interface VerifyOptions {
  /** If false, checks only structure, checksums and catalog, and hashes no messages. */
  readonly full?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * An archive that is open for reading. It needs no configuration or network, never writes, and works while another
 * program writes. Methods throw a `MailkeepError` whose message is a sentence.
 */
export interface Archive {
  readonly dataDir: string;
  /** Returns how many commits the catalog is behind the log; 0 in an idle archive. Lists and searches omit them. */
  commitsBehind(): number;
  mailboxes(): readonly ArchivedMailbox[];
  /**
   * Lists messages by place, newest first. Holds a read transaction open until the iteration ends.
   * @throws MailkeepError: argument-invalid, usage-unknown-name, usage-folder-gone
   */
  list(options?: ListOptions): IterableIterator<PlaceLine>;
  /**
   * @param query in the language described in docs/search.md; `@name` and `account:` work only on the command line
   * @throws MailkeepError: argument-invalid, usage-unknown-name, usage-unknown-message, and errors for an invalid query
   * (`search-…`)
   */
  search(query: string, options?: SearchOptions): readonly SearchLine[];
  /**
   * Reads a message's source. Its SHA-256 is compared with the id at the end, so do not trust the bytes until the
   * iteration completes.
   * @param id as returned by `list` and `search`, or a prefix
   * @throws MailkeepError: argument-invalid, usage-unknown-message, usage-ambiguous-id, message-purged,
   * message-damaged, blob-damaged
   */
  read(id: MessageId): AsyncGenerator<Buffer, void, undefined>;
  /**
   * Verifies the whole archive. Reports damage instead of throwing.
   * @throws AbortError if `signal` aborts; MailkeepError archive-format-newer
   */
  verify(options?: VerifyOptions): Promise<VerifyReport>;
  close(): void;
}

/**
 * Opens an archive for reading. Loads its dependencies on demand, so that programs that use only the clients load no
 * database.
 * @param dataDir the archive's folder
 * @throws MailkeepError: argument-invalid, usage-no-archive, archive-unreadable, catalog-missing, catalog-version,
 * catalog-damaged
 */
export async function openArchive(dataDir: string): Promise<Archive> {
  const { ReadOnlyArchive } = await import('./library-read-only.ts');
  return ReadOnlyArchive.open(dataDir);
}
