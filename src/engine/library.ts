import { type LogReader, openLogReader } from '../archive/read/log-reader.ts';
import { type Catalog, openCatalogReader } from '../catalog/catalog.ts';
import type { ListFilter, PlaceLine } from '../catalog/list.ts';
import type { SearchLine } from '../catalog/search/hit.ts';
import type { MessageId } from '../mail/words.ts';
import { parseQuery } from '../search/parse.ts';
import type { VerifyProgress } from '../verify/read-log.ts';
import type { Verification } from '../verify/verify-archive.ts';
import { requireArchive } from './archive/archive-folder.ts';
import { readArchive } from './verify/read-archive.ts';

/** A mailbox with the folders that the archive has of it. */
export interface ArchivedMailbox {
  readonly address: string;
  readonly host: string;
  readonly resourceId: string;
  readonly folders: readonly {
    readonly path: string;
    /** As in RFC 6154, such as `\Sent`; null for none. */
    readonly specialUse: string | null;
    /** Messages that are in it now. */
    readonly messages: number;
    /** Whether the service has it no more. */
    readonly gone: boolean;
  }[];
}

export interface SearchOptions {
  /** At most so many messages: 20 where it is not given. */
  readonly limit?: number;
  /** `newest` where it is not given. */
  readonly sort?: 'newest' | 'oldest' | 'relevance';
  /** What relative dates in the query are relative to, milliseconds since the epoch: now where it is not given. */
  readonly now?: number;
}

/**
 * An archive, open for reading. It needs no configuration and no network, and works next to a program that writes to
 * the archive. Close it.
 */
export class Archive {
  readonly dataDir: string;
  readonly #catalog: Catalog;
  #sources: LogReader | undefined;

  private constructor(dataDir: string, catalog: Catalog) {
    this.dataDir = dataDir;
    this.#catalog = catalog;
  }

  /**
   * Opens an archive.
   *
   * @param dataDir its folder
   * @throws MailkeepError: usage-no-archive, archive-unreadable, catalog-missing, catalog-version, catalog-damaged
   */
  static open(dataDir: string): Archive {
    requireArchive(dataDir);
    return new Archive(dataDir, openCatalogReader(dataDir));
  }

  /** Returns every mailbox with its folders. */
  mailboxes(): ArchivedMailbox[] {
    const { folders } = this.#catalog;
    return this.#catalog.snapshot(() => {
      const byMailbox = Map.groupBy(folders.all(), ({ host, mailbox }) => `${host} ${mailbox}`);
      return folders.mailboxes().map(({ address, host, mailbox }) => ({
        address,
        host,
        resourceId: mailbox,
        folders: (byMailbox.get(`${host} ${mailbox}`) ?? []).map((known) => ({
          path: known.folder,
          specialUse: known.specialUse,
          messages: folders.counts(known.id).open,
          gone: known.gone,
        })),
      }));
    });
  }

  /** Returns the places of messages as `mailkeep list --json` prints them; a read transaction lasts until the end. */
  list(filter: ListFilter = {}): IterableIterator<PlaceLine> {
    return this.#catalog.list(filter);
  }

  /**
   * Finds messages as `mailkeep search --json` prints them.
   *
   * @param query see docs/search.md
   * @throws MailkeepError of family `usage` for a query that cannot be parsed
   */
  search(query: string, options: SearchOptions = {}): SearchLine[] {
    const { limit = 20, sort = 'newest', now = Date.now() } = options;
    const { node, asOf } = parseQuery(query, { now });
    const moment = asOf === null ? {} : { asOf };
    const { hits } = this.#catalog.search({ node, limit, sort, ...moment });
    return hits.map(({ line }) => line);
  }

  /**
   * Returns the raw source of a message in pieces. Its SHA-256 is compared with its id at the end: the bytes are proven
   * when the iteration ends without an error.
   *
   * @param id 64 hexadecimal digits, as `list` and `search` return them
   * @throws MailkeepError: bytes-unknown, bytes-purged, message-damaged, blob-damaged
   */
  read(id: MessageId): AsyncGenerator<Buffer, void, undefined> {
    this.#sources ??= openLogReader({ dir: this.dataDir, locator: this.#catalog.locator });
    return this.#sources.streamMessage(id);
  }

  /**
   * Reads the archive from its first byte to its last, and changes nothing. Damage is in the result, and never thrown.
   *
   * @param options.full false checks structure and catalog only
   * @throws AbortError when `options.signal` is aborted; MailkeepError archive-format-newer; system errors of reading
   */
  verify(
    options: {
      readonly full?: boolean;
      readonly signal?: AbortSignal;
      readonly progress?: (progress: VerifyProgress) => void;
    } = {},
  ): Promise<Verification> {
    const { full = true, signal = new AbortController().signal, progress = () => {} } = options;
    return readArchive(this.dataDir, { full, vouched: [], signal, progress });
  }

  close(): void {
    this.#sources?.close();
    this.#catalog.close();
  }
}
