import { statSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { logFolder } from '../archive/format.ts';
import { catalogFile } from '../catalog/database.ts';
import { openReaderAt, type Reader } from '../catalog/open-reader.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import { readSavedSearches, type SavedSearch } from '../catalog/saved-searches.ts';
import { mailboxKey } from '../core/state.ts';
import { SpareReader } from '../mail/mime-threads.ts';

/** More, such as SQLite's default of 16 MB, is no faster for a million messages: the system's cache suffices. */
const OPEN = { cacheKib: 4_096 };

export interface ServedReader extends Reader {
  /**
   * Keys of the mailboxes that the browser may read; null for all. The catalog hides all other mailboxes. Callers must
   * limit or omit other data, such as `state.sqlite` or the log.
   */
  readonly mailboxes: readonly string[] | null;
}

interface Opened {
  readonly reader: Reader;
  readonly file: string;
  logChangedAt: bigint;
  users: number;
  retired: boolean;
}

/** Keeps an archive open for reading while the server runs, even if its catalog is replaced. */
export class ServedArchive {
  #current: Opened | undefined;
  readonly spare = new SpareReader();

  constructor(readonly dataDir: string) {}

  /**
   * @param mailboxes keys of the mailboxes that may be read; null for all
   * @throws errors from `openReaderAt` and `act`
   */
  async use<T>(
    mailboxes: readonly string[] | null,
    act: (reader: ServedReader) => T | Promise<T>,
  ): Promise<T> {
    const { reader, release } = this.hold(mailboxes);
    try {
      return await act(reader);
    } finally {
      release();
    }
  }

  hold(mailboxes: readonly string[] | null): {
    readonly reader: ServedReader;
    readonly release: () => void;
  } {
    const opened = this.#openCurrent();
    const logChangedAt = changedAt(logFolder(this.dataDir));
    // A purge replaces segments. Removed data remains on disk as long as the old ones are open.
    if (logChangedAt !== opened.logChangedAt) opened.reader.refresh();
    opened.logChangedAt = logChangedAt;
    opened.users += 1;
    let held = true;
    return {
      reader: limitReader(opened.reader, mailboxes),
      release: () => {
        if (!held) return;
        held = false;
        opened.users -= 1;
        if (opened.retired && opened.users === 0) opened.reader.close();
      },
    };
  }

  async close(): Promise<void> {
    this.#retire();
    await this.spare.close();
  }

  #openCurrent(): Opened {
    const file = identityOf(catalogFile(this.dataDir));
    if (this.#current?.file === file) return this.#current;
    this.#retire();
    const reader = openReaderAt(this.dataDir, OPEN);
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

/** Returns a reader whose catalog appears to contain only these mailboxes; null for no limit. */
export function limitReader(reader: Reader, mailboxes: readonly string[] | null): ServedReader {
  if (mailboxes === null) return { ...reader, mailboxes };
  const known = reader.catalog.folders.mailboxes();
  const allowed = known.filter((mailbox) => mailboxes.includes(mailboxKey(mailbox)));
  return { ...reader, catalog: reader.catalog.within(allowed), mailboxes };
}

function changedAt(folder: string): bigint {
  return statSync(folder, { throwIfNoEntry: false, bigint: true })?.mtimeNs ?? 0n;
}

function identityOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? '' : `${stat.dev}/${stat.ino}`;
}

/** Returns the hosts of configured accounts by lower-case name, for a query that contains one. */
export type AccountsOf = (node: SearchNode) => ReadonlyMap<string, string>;

/** Limited readers get no accounts, so account terms match only hosts. */
export function accountsFor(
  { mailboxes }: Pick<ServedReader, 'mailboxes'>,
  accounts: AccountsOf,
  node: SearchNode,
): ReadonlyMap<string, string> {
  return mailboxes === null ? accounts(node) : new Map();
}

/** Caches values for one version of the archive, and drops the oldest beyond `most`. */
export class VersionCache<K, V> {
  #version = -1;
  #size = 0;
  readonly #values = new Map<K, V>();

  /** @param sizeOf how much a value counts towards `most` */
  constructor(
    private readonly most: number,
    private readonly sizeOf: (value: V) => number = () => 1,
  ) {}

  find(version: number, key: K): V | undefined {
    if (version !== this.#version) {
      this.#values.clear();
      this.#size = 0;
      this.#version = version;
    }
    return this.#values.get(key);
  }

  keep(key: K, value: V): V {
    this.#values.set(key, value);
    this.#size += this.sizeOf(value);
    for (const [oldest, old] of this.#values) {
      if (this.#size <= this.most || oldest === key) break;
      this.#values.delete(oldest);
      this.#size -= this.sizeOf(old);
    }
    return value;
  }
}

export interface ReadingFor {
  readonly spare: SpareReader;
  /** Aborted when the result is no longer needed. Reading then throws the signal's reason. */
  readonly signal: AbortSignal;
}

/** Saved searches can refer to any mailbox, so a limited reader gets none. */
export function searchesFor({
  dataDir,
  mailboxes,
}: Pick<ServedReader, 'dataDir' | 'mailboxes'>): SavedSearch[] {
  return mailboxes === null ? readSavedSearches(dataDir) : [];
}

/** Bytes of a source to read before other requests run, because reading, inflating and hashing are synchronous. */
const TURN_BYTES = 1024 * 1024;

/** Lets other requests run between the pieces of a source. @throws the signal's reason once it is aborted */
export async function* yieldBetween(
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

export function machineZone(): string {
  return new Intl.DateTimeFormat('en').resolvedOptions().timeZone;
}

const MAX_ZONE = 64;

/**
 * Returns a zone's canonical name, because formats are cached by name. Returns undefined, meaning this machine's zone,
 * if the zone is unknown.
 */
export function canonicalZone(typed: string | undefined): string | undefined {
  if (typed === undefined || typed.length > MAX_ZONE) return undefined;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: typed }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
