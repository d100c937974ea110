import { statSync } from 'node:fs';
import { archiveError } from '../archive/errors.ts';
import { fileSystemOf, realFiles } from '../archive/file-system.ts';
import { formatPath, logFolder } from '../archive/format.ts';
import { acquireLock, tryLock } from '../archive/lock.ts';
import {
  type LogReader,
  type LogReaderOptions,
  lastCommitNumber,
  openLogReader,
} from '../archive/log-reader.ts';
import type { SegmentStore } from '../archive/segment-files.ts';
import type { ConfigWarning } from '../core/config.ts';
import { locateDataDir, type Surroundings } from '../core/config-locate.ts';
import { usageError } from '../core/error-tables.ts';
import { errnoOf, hasCode, MailkeepError } from '../core/errors.ts';
import { nearestAddress, nearestFolder } from '../core/names.ts';
import type { Place } from '../core/types.ts';
import { type Catalog, openCatalogReader } from './catalog.ts';
import { type CatalogOptions, catalogFile } from './database.ts';
import type { Finding } from './findings.ts';
import { type FolderFilter, isMailbox, matchingFolders, namesIn } from './folders.ts';
import type { UnknownName } from './resolve-query.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Whether the user takes the risk of a network file system. */
export function allowsNetwork(env: Environment): boolean {
  return env.MAILKEEP_NETWORK_FILE_SYSTEM === 'allow';
}

/**
 * Refuses to write to an archive that is reached over a network.
 *
 * @throws network-file-system, unless MAILKEEP_NETWORK_FILE_SYSTEM is `allow`
 */
export function refuseNetworkFileSystem(dataDir: string, env: Environment): void {
  if (allowsNetwork(env)) return;
  const found = fileSystemOf(dataDir);
  if (found?.network !== true) return;
  const { type, mountPoint } = found;
  throw archiveError('network-file-system', { dir: dataDir, type, mountPoint });
}

/**
 * Holds the one writer's lock of an archive for as long as `act` takes.
 *
 * @throws archive-in-use, and what `act` throws
 */
export async function withLock<T>(dataDir: string, act: () => Promise<T>): Promise<T> {
  const lock = acquireLock(dataDir);
  try {
    return await act();
  } finally {
    lock.release();
  }
}

/** Of these the system says that there is nothing at a path, or that there cannot be. */
const ABSENT = new Set(['ENOENT', 'ENOTDIR']);

/**
 * Returns whether a folder holds an archive.
 *
 * @param damaged whether a log without its FORMAT counts
 * @throws archive-unreadable where the system does not let us look
 */
export function holdsArchive(dataDir: string, damaged = false): boolean {
  const exists = (file: string): boolean => {
    try {
      statSync(file);
      return true;
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === undefined) throw error;
      if (ABSENT.has(errno)) return false;
      throw archiveError('archive-unreadable', { dir: dataDir, errno }, error);
    }
  };
  return exists(formatPath(dataDir)) || (damaged && exists(logFolder(dataDir)));
}

/** @throws usage-no-archive; archive-unreadable */
export function requireArchive(dataDir: string, damaged = false): void {
  if (!holdsArchive(dataDir, damaged)) throw usageError('usage-no-archive', { dataDir });
}

/**
 * Refuses a query that names a folder, mailbox or account that never was: an empty answer would look like a finding.
 *
 * @throws usage-unknown-name
 */
export function refuseNeverNamed(unknown: readonly UnknownName[]): void {
  for (const { kind, found, suggestion, candidates, never } of unknown) {
    if (kind !== 'message' && never)
      throw usageError('usage-unknown-name', { kind, found, suggestion, candidates });
  }
}

/** Mailboxes and folders to read, and whether only what is at the service now counts. */
interface Choice extends FolderFilter {
  readonly deleted?: boolean | undefined;
  readonly asOf?: unknown;
}

/**
 * Refuses a mailbox or a folder that never was, and a folder that is gone where only what is at the service now is
 * asked for. With several mailboxes, a folder that one of them has is enough.
 *
 * @throws usage-unknown-name, usage-folder-gone
 */
export function refuseUnknownChoice(
  { catalog }: Pick<Reader, 'catalog'>,
  { mailbox, folder, deleted, asOf }: Choice,
): void {
  if (mailbox === undefined && folder === undefined) return;
  const { folders, mailboxes } = catalog.folders.everNamed();
  for (const found of namesIn(mailbox)) {
    if (mailboxes.some((box) => isMailbox(box, found))) continue;
    const candidates = mailboxes.map(({ address }) => address);
    const suggestion = nearestAddress(found, candidates);
    throw usageError('usage-unknown-name', { kind: 'mailbox', found, suggestion, candidates });
  }
  const live = catalog.folders.all().map((seen) => ({ ...seen, path: seen.folder }));
  for (const found of namesIn(folder)) {
    const wanted = { mailbox, folder: found };
    if (matchingFolders(folders, wanted).length === 0) {
      const near = folders.filter((name) => isMailbox(name, mailbox));
      const suggestion = nearestFolder(found, near);
      throw usageError('usage-unknown-name', { kind: 'folder', found, suggestion, candidates: [] });
    }
    if (deleted !== true && asOf === undefined && matchingFolders(live, wanted).length === 0)
      throw usageError('usage-folder-gone', { folder: found });
  }
}

/**
 * Returns a reader whose `streamMessage` waits for segments that are elsewhere. Its other methods throw `segment-elsewhere`,
 * as those of the reader do that it is made of.
 */
function fetchingReader(reader: LogReader, segments: SegmentStore): LogReader {
  return {
    readMessage: (id) => reader.readMessage(id),
    readSource: (id, maxBytes) => reader.readSource(id, maxBytes),
    readBlob: (hash) => reader.readBlob(hash),
    sizeOf: (id) => reader.sizeOf(id),
    factsOf: (commit) => reader.factsOf(commit),
    refresh: () => reader.refresh(),
    close: () => reader.close(),
    async *streamMessage(id) {
      let given = 0;
      for (;;) {
        let toSkip = given;
        try {
          for await (const piece of reader.streamMessage(id)) {
            const rest = piece.subarray(Math.min(toSkip, piece.length));
            toSkip -= piece.length - rest.length;
            if (rest.length === 0) continue;
            given += rest.length;
            yield rest;
          }
          return;
        } catch (error) {
          // A message refers to parts that may be in any segment: it is begun again, as far as it came.
          if (!hasCode(error, 'segment-elsewhere')) throw error;
          const segment = Number(error.facts.segment);
          await segments.fetch([segment]);
          if (!segments.present(segment)) throw error;
        }
      }
    },
  };
}

/** What is left of a message that was purged, if that is what an id, or the beginning of one, names. */
export function purgedMessage({ catalog }: Pick<Reader, 'catalog'>, typed: string) {
  if (catalog.messages.byPrefix(typed).match !== 'none') return undefined;
  const [purged, other] = catalog.messages.purgedByPrefix(typed);
  if (purged === undefined || other !== undefined) return undefined;
  const { id, reason, time } = purged;
  return { id, reason, time: time === null ? null : new Date(time).toISOString() };
}

/** How far a catalog is behind its log. */
export interface CatalogLag {
  readonly reached: number;
  readonly last: number;
}

/**
 * Returns how far the catalog of an archive is behind its log, or null where it is not, or where a writer is about to
 * bring it along. A damaged log is no reason here: a verification reports it.
 *
 * @param reachedNow returns the number of the commit that the catalog has reached
 */
export function catalogLag(dataDir: string, reachedNow: () => number): CatalogLag | null {
  const last = lastCommitNumber(dataDir, realFiles);
  if (last === undefined || last <= reachedNow() || hasWriter(dataDir)) return null;
  // A writer may have finished meanwhile.
  const reached = reachedNow();
  return last > reached ? { reached, last } : null;
}

/** The lock is only tried where the catalog is behind. */
function hasWriter(dataDir: string): boolean {
  try {
    tryLock(dataDir);
    return false;
  } catch (error) {
    if (hasCode(error, 'archive-in-use')) return true;
    if (error instanceof MailkeepError) return false;
    throw error;
  }
}

/** The archive, opened for reading only: with or without a concurrent writer, without configuration or network. */
export interface Reader {
  readonly dataDir: string;
  readonly catalog: Catalog;
  /** Null where the catalog has all that the log has, or a writer is about to bring it along. */
  readonly catalogBehind: CatalogLag | null;
  /** Opened when first asked for. */
  sources(): LogReader;
  /** Lets go of segments that are held open: they may have been replaced. */
  refresh(): void;
  close(): void;
}

/** @throws usage-no-archive, archive-unreadable, catalog-missing, catalog-version, catalog-damaged */
export function openReader({ globals, surroundings, report, only }: LocatingContext): Reader {
  const dataDir = only?.dataDir ?? locateDataDir(globals, surroundings);
  report({ event: 'archive-located', dataDir });
  const reader = openReaderOf(dataDir, {}, only?.segments);
  const { catalogBehind } = reader;
  if (catalogBehind !== null) report({ event: 'catalog-behind', dataDir, ...catalogBehind });
  return reader;
}

/**
 * The same for a folder that is known.
 *
 * @param segments where segments are that are not in the folder; without it, all are
 */
export function openReaderOf(
  dataDir: string,
  options: CatalogOptions = {},
  segments?: SegmentStore,
): Reader {
  requireArchive(dataDir);
  const catalog = openCatalogReader(dataDir, catalogFile(dataDir), options);
  let sources: LogReader | undefined;
  return {
    dataDir,
    catalog,
    catalogBehind: catalogLag(dataDir, () => catalog.reached().number),
    sources() {
      sources ??= readerOf({ dir: dataDir, locator: catalog.locator }, segments);
      return sources;
    },
    refresh() {
      sources?.refresh();
    },
    close() {
      sources?.close();
      catalog.close();
    },
  };
}

function readerOf(options: LogReaderOptions, segments: SegmentStore | undefined): LogReader {
  if (segments === undefined) return openLogReader(options);
  return fetchingReader(openLogReader({ ...options, segments }), segments);
}

/** What the engine reports while it works. A front end puts it into words, or drops it. */
export type EngineEvent =
  /** The file of the configuration that was read. */
  | { readonly event: 'config-located'; readonly file: string }
  | { readonly event: 'config-warning'; readonly warning: ConfigWarning }
  /** The folder of the archive that was chosen. */
  | { readonly event: 'archive-located'; readonly dataDir: string }
  /** A reader found the catalog at commit `reached` of `last`, with no writer to bring it up to date. */
  | {
      readonly event: 'catalog-behind';
      readonly dataDir: string;
      readonly reached: number;
      readonly last: number;
    }
  /** A writer folded commits that the catalog lacked. */
  | { readonly event: 'catalog-caught-up'; readonly commits: number }
  /** `bytes` behind the last commit were moved to a file: the previous writer was cut off. */
  | { readonly event: 'tail-put-aside'; readonly file: string; readonly bytes: number }
  /** A damaged state.sqlite was moved to `file`. */
  | { readonly event: 'state-put-aside'; readonly file: string }
  /** The archive's state could not be written; the command's result stands all the same. */
  | { readonly event: 'state-not-written'; readonly what: Remembered; readonly error: unknown }
  /** A purge that was decided is being carried out. */
  | { readonly event: 'purging'; readonly messages: number }
  | { readonly event: 'rebuilding-catalog'; readonly because: 'purge' | 'repair' | 'version' }
  /** A message could not be fetched again during a repair. */
  | { readonly event: 'not-fetched'; readonly place: Place; readonly error: unknown };

/** What could not be written to the state. */
export type Remembered = 'result' | 'damage' | 'sample' | 'segments' | 'run' | 'copy';

/** What finding the configuration and the archive takes. */
export type LocatingContext = Pick<EngineContext, 'globals' | 'surroundings' | 'report' | 'only'>;

/** What the engine works with: nothing of the process is reached in other ways. */
export interface EngineContext {
  /** The configuration file and the archive that the user named, if any. */
  readonly globals: { readonly config: string | undefined; readonly data: string | undefined };
  readonly surroundings: Surroundings;
  /** The one archive that may be read, and what brings its segments: no configuration is looked for. */
  readonly only?: { readonly dataDir: string; readonly segments: SegmentStore } | undefined;
  /** Aborted when the work is to stop. */
  readonly signal: AbortSignal;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  readonly report: (event: EngineEvent) => void;
  /** The front end's words, for what is kept as text: in the state, or within the facts of another error. */
  readonly words: {
    readonly finding: (finding: Finding) => string;
    readonly error: (error: unknown) => string;
  };
}
