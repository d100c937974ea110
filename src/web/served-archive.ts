import { statSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { realFiles } from '../archive/file-system.ts';
import { logFolder } from '../archive/format.ts';
import { fetchAll, fetching, listSegments, type SegmentStore } from '../archive/segment-files.ts';
import { catalogFile } from '../catalog/database.ts';
import { openReaderOf, type Reader } from '../catalog/open-reader.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import { type SavedSearch, savedSearches } from '../catalog/saved-searches.ts';
import { mailboxKey } from '../core/state.ts';
import { SpareReader } from '../mail/mime-threads.ts';

/**
 * How the catalog is opened. A server runs for months and answers from what the system has cached: with a quarter of SQLite's
 * own 16 MB, pages and searches of a million messages take the same processor time.
 */
const OPEN = { cacheKib: 4_096 };

export interface ServedReader extends Reader {
  /**
   * Keys of the mailboxes that the browser may read; null for all. The catalog knows no others then. Whatever does not
   * come from the catalog, such as `state.sqlite` or the log, is to be left out or limited by these.
   */
  readonly mailboxes: readonly string[] | null;
}

interface Opened {
  readonly reader: Reader;
  /** Which file the catalog is: a rebuild puts another one in its place. */
  readonly file: string;
  /** When a file of the log was last made, replaced or removed, as far as that was looked at. */
  logChangedAt: bigint;
  users: number;
  retired: boolean;
}

/** An archive that is open for reading as long as the server runs, whatever becomes of its catalog meanwhile. */
export class ServedArchive {
  #current: Opened | undefined;
  readonly spare = new SpareReader();

  /** @param segments where segments are that are not in the folder; without it, all are */
  constructor(
    readonly dataDir: string,
    readonly segments?: SegmentStore,
  ) {}

  /**
   * Runs `act` with a reader that stays open until it has ended: again from its beginning where it needs a segment that has
   * to be fetched first.
   *
   * @param mailboxes keys of the mailboxes that may be read; null for all
   * @throws what `openReaderOf` throws, and what `act` throws
   */
  async use<T>(
    mailboxes: readonly string[] | null,
    act: (reader: ServedReader) => T | Promise<T>,
  ): Promise<T> {
    const { reader, release } = this.hold(mailboxes);
    const { segments } = this;
    try {
      return segments === undefined
        ? await act(reader)
        : await fetching(segments, () => act(reader));
    } finally {
      release();
    }
  }

  /** Returns a reader that stays open until it is released: for answers that are sent after the handler has returned. */
  hold(mailboxes: readonly string[] | null): {
    readonly reader: ServedReader;
    readonly release: () => void;
  } {
    const opened = this.#opened();
    const logChangedAt = changedAt(logFolder(this.dataDir));
    // A purge replaces segments: what it removed stays on the disk as long as the old ones are open.
    if (logChangedAt !== opened.logChangedAt) opened.reader.refresh();
    opened.logChangedAt = logChangedAt;
    opened.users += 1;
    let held = true;
    return {
      reader: readerWithin(opened.reader, mailboxes),
      release: () => {
        if (!held) return;
        held = false;
        opened.users -= 1;
        if (opened.retired && opened.users === 0) opened.reader.close();
      },
    };
  }

  /** Brings every segment into the folder, for a thread that reads the folder alone. @throws what fetching throws */
  async bringAll(): Promise<void> {
    const { segments, dataDir } = this;
    if (segments === undefined) return;
    await fetchAll(segments, [...listSegments(realFiles, dataDir).keys()].at(-1) ?? 0);
  }

  async close(): Promise<void> {
    this.#retire();
    await this.spare.close();
  }

  #opened(): Opened {
    const file = identityOf(catalogFile(this.dataDir));
    if (this.#current?.file === file) return this.#current;
    this.#retire();
    const reader = openReaderOf(this.dataDir, OPEN, this.segments);
    const opened = { reader, file, logChangedAt: 0n, users: 0, retired: false };
    this.#current = opened;
    return opened;
  }

  #retire(): void {
    const old = this.#current;
    this.#current = undefined;
    if (old === undefined) return;
    old.retired = true;
    if (old.users === 0) old.reader.close();
  }
}

/** Returns a reader whose catalog answers as if the archive held these mailboxes only; null limits it to none. */
export function readerWithin(reader: Reader, mailboxes: readonly string[] | null): ServedReader {
  if (mailboxes === null) return { ...reader, mailboxes };
  const known = reader.catalog.folders.mailboxes();
  const ours = known.filter((mailbox) => mailboxes.includes(mailboxKey(mailbox)));
  return { ...reader, catalog: reader.catalog.within(ours), mailboxes };
}

function changedAt(folder: string): bigint {
  return statSync(folder, { throwIfNoEntry: false, bigint: true })?.mtimeNs ?? 0n;
}

function identityOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? '' : `${stat.dev}/${stat.ino}`;
}

/** Returns the hosts of configured accounts by their names in lower case, for a query that names one. */
export type AccountsOf = (node: SearchNode) => ReadonlyMap<string, string>;

/**
 * Returns the accounts that a reader may name. The configuration names those of all mailboxes, so a reader that is limited
 * to some has none, and names its accounts by their hosts.
 */
export function accountsFor(
  { mailboxes }: Pick<ServedReader, 'mailboxes'>,
  accounts: AccountsOf,
  node: SearchNode,
): ReadonlyMap<string, string> {
  return mailboxes === null ? accounts(node) : new Map();
}

export interface ReadingFor {
  readonly spare: SpareReader;
  /** Aborted when nobody waits for it any more: the reading ends, and throws the signal's reason. */
  readonly signal: AbortSignal;
}

/** Returns the saved searches of a reader. They may name any mailbox, so one that is limited to some has none. */
export function searchesFor({
  dataDir,
  mailboxes,
}: Pick<ServedReader, 'dataDir' | 'mailboxes'>): SavedSearch[] {
  return mailboxes === null ? savedSearches(dataDir) : [];
}

/** Bytes of a source that are read before others have their turn: reading, inflating and hashing are synchronous. */
const TURN_BYTES = 1024 * 1024;

/**
 * Passes pieces of a source on, and lets other requests have their turn in between.
 *
 * @throws the reason of a signal that is aborted meanwhile
 */
export async function* inTurns(
  pieces: AsyncIterable<Buffer>,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  let read = 0;
  for await (const piece of pieces) {
    yield piece;
    read += piece.length;
    if (read < TURN_BYTES) continue;
    read = 0;
    await nextTurn();
    signal.throwIfAborted();
  }
}

const MOST_ZONE = 64;

/**
 * Returns a zone that there is, under the name that it has; undefined, this machine's, for any other. Formats are kept
 * for each name, so that spellings of one zone must not count as many.
 */
export function knownZone(typed: string | undefined): string | undefined {
  if (typed === undefined || typed.length > MOST_ZONE) return undefined;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: typed }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
