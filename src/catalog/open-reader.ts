import { realFiles, requireArchive } from '../archive/file-system.ts';
import { readHolder, tryLock } from '../archive/lock.ts';
import { type LogReader, lastCommitNumber, openLogReader } from '../archive/log-reader.ts';
import type { ConfigWarning } from '../core/config.ts';
import { locateDataDir, type ProcessEnvironment } from '../core/config-locate.ts';
import { catalogError, usageError } from '../core/error-tables.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { nearestAddress, nearestFolder } from '../core/names.ts';
import type { Place } from '../core/types.ts';
import { type Catalog, openCatalogReader } from './catalog.ts';
import { type CatalogOptions, catalogFile, openForReading, rebuildFile } from './database.ts';
import type { Finding } from './findings.ts';
import { asList, type FolderFilter, hasMailboxName, matchingFolders } from './folders.ts';
import type { UnknownName } from './resolve-query.ts';
import { reachedCommit } from './sql.ts';

/**
 * Refuses a query for a folder, mailbox or account that never existed, because an empty result would look like an
 * answer.
 *
 * @throws usage-unknown-name
 */
export function refuseUnknownNames(unknown: readonly UnknownName[]): void {
  for (const { kind, found, suggestion, candidates, never } of unknown) {
    if (kind !== 'message' && never)
      throw usageError('usage-unknown-name', { kind, found, suggestion, candidates });
  }
}

interface Choice extends FolderFilter {
  readonly deleted?: boolean | undefined;
  readonly asOf?: unknown;
}

/**
 * Refuses a mailbox or folder that never existed, and a deleted folder if only the present matters. With several
 * mailboxes, at least one of them must contain the folder.
 *
 * @throws usage-unknown-name, usage-folder-gone
 */
export function refuseUnknownFolder(
  { catalog }: Pick<Reader, 'catalog'>,
  { mailbox, folder, deleted, asOf }: Choice,
): void {
  if (mailbox === undefined && folder === undefined) return;
  const { folders, mailboxes } = catalog.folders.everNamed();
  for (const found of asList(mailbox)) {
    if (mailboxes.some((box) => hasMailboxName(box, found))) continue;
    const candidates = mailboxes.map(({ address }) => address);
    const suggestion = nearestAddress(found, candidates);
    throw usageError('usage-unknown-name', { kind: 'mailbox', found, suggestion, candidates });
  }
  const live = catalog.folders.all().map((entry) => ({ ...entry, path: entry.folder }));
  for (const found of asList(folder)) {
    const filter = { mailbox, folder: found };
    if (matchingFolders(folders, filter).length === 0) {
      const inMailbox = folders.filter((name) => hasMailboxName(name, mailbox));
      const suggestion = nearestFolder(found, inMailbox);
      throw usageError('usage-unknown-name', { kind: 'folder', found, suggestion, candidates: [] });
    }
    if (deleted !== true && asOf === undefined && matchingFolders(live, filter).length === 0)
      throw usageError('usage-folder-gone', { folder: found });
  }
}

/** Returns the purged message with this ID or prefix; undefined if none or several match. */
export function findPurgedMessage({ catalog }: Pick<Reader, 'catalog'>, typed: string) {
  if (catalog.messages.byPrefix(typed).match !== 'none') return undefined;
  const [purged, other] = catalog.messages.purgedByPrefix(typed);
  if (purged === undefined || other !== undefined) return undefined;
  const { id, reason, time } = purged;
  return { id, reason, time: time === null ? null : new Date(time).toISOString() };
}

export interface CatalogLag {
  readonly reached: number;
  readonly last: number;
}

/**
 * Returns how far a catalog lags behind its log, or null if it is up to date or a writer will update it. Ignores damage
 * to the log, which verification reports.
 *
 * @param reachedNow returns the number of the catalog's last commit
 */
export function catalogLag(dataDir: string, reachedNow: () => number): CatalogLag | null {
  const last = lastCommitNumber(dataDir, realFiles);
  if (last === undefined || last <= reachedNow() || hasWriter(dataDir)) return null;
  // A writer may have just finished.
  const reached = reachedNow();
  return last > reached ? { reached, last } : null;
}

/** Reports whether a writer holds the lock. Used only if the catalog is behind. */
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

/** An archive opened read-only, with or without a writer. Needs no configuration and no network. */
export interface Reader {
  readonly dataDir: string;
  readonly catalog: Catalog;
  /** Lag of the catalog; null if it is up to date, or a writer will update it. */
  readonly catalogBehind: CatalogLag | null;
  sources(): LogReader;
  /** Closes open segments, which may have been replaced. */
  refresh(): void;
  close(): void;
}

/** @throws usage-no-archive, archive-unreadable, catalog-missing, catalog-version, catalog-rebuilding, catalog-damaged */
export function openReader({ globals, environment, report }: LocatingContext): Reader {
  const dataDir = locateDataDir(globals, environment);
  report({ event: 'archive-located', dataDir });
  const reader = openReaderAt(dataDir);
  const { catalogBehind } = reader;
  if (catalogBehind !== null) report({ event: 'catalog-behind', dataDir, ...catalogBehind });
  return reader;
}

/** Opens the archive in a directory read-only. */
export function openReaderAt(dataDir: string, options: CatalogOptions = {}): Reader {
  requireArchive(dataDir);
  const catalog = openCurrentCatalog(dataDir, options);
  let sources: LogReader | undefined;
  return {
    dataDir,
    catalog,
    catalogBehind: catalogLag(dataDir, () => catalog.reached().number),
    sources() {
      sources ??= openLogReader({ dir: dataDir, locator: catalog.locator });
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

/** @throws catalog-rebuilding if a writer is replacing a catalog of an earlier version */
function openCurrentCatalog(dataDir: string, options: CatalogOptions): Catalog {
  const file = catalogFile(dataDir);
  try {
    return openCatalogReader(dataDir, file, options);
  } catch (error) {
    const isOlder = hasCode(error, 'catalog-version') && error.facts.remedy === 'write';
    if (!isOlder || readHolder(dataDir) === null) throw error;
    const reached = rebuiltCommit(dataDir);
    const last = lastCommitNumber(dataDir, realFiles);
    if (reached === undefined || last === undefined) throw error;
    throw catalogError('catalog-rebuilding', { file, reached, last }, error);
  }
}

/** Returns the last commit in a catalog being rebuilt, or undefined if none is readable yet. */
function rebuiltCommit(dataDir: string): number | undefined {
  try {
    const connection = openForReading(rebuildFile(dataDir));
    try {
      return reachedCommit(connection);
    } finally {
      connection.close();
    }
  } catch (error) {
    if (error instanceof MailkeepError) return undefined;
    throw error;
  }
}

/** Progress and incidents. A front end displays or drops them. */
export type EngineEvent =
  | { readonly event: 'config-located'; readonly file: string }
  | { readonly event: 'config-warning'; readonly warning: ConfigWarning }
  | { readonly event: 'archive-located'; readonly dataDir: string }
  /** The catalog is at commit `reached` of `last`, and no writer will update it. */
  | {
      readonly event: 'catalog-behind';
      readonly dataDir: string;
      readonly reached: number;
      readonly last: number;
    }
  /** A writer folded commits that the catalog lacked. */
  | { readonly event: 'catalog-caught-up'; readonly commits: number }
  /** `bytes` after the last commit were moved to a file, because the previous writer was interrupted. */
  | { readonly event: 'tail-put-aside'; readonly file: string; readonly bytes: number }
  /** A damaged state.sqlite was moved to `file`. */
  | { readonly event: 'state-put-aside'; readonly file: string }
  /** The archive's state could not be written. The result of the command is still valid. */
  | { readonly event: 'state-not-written'; readonly what: UnwrittenState; readonly error: unknown }
  /** A purge that was decided earlier is being completed. */
  | { readonly event: 'purging'; readonly messages: number }
  | { readonly event: 'rebuilding-catalog'; readonly because: 'purge' | 'repair' | 'version' }
  /** A message could not be fetched again during a repair. */
  | { readonly event: 'not-fetched'; readonly place: Place; readonly error: unknown };

export type UnwrittenState = 'result' | 'damage' | 'sample' | 'segments' | 'run' | 'copy';

export type LocatingContext = Pick<EngineContext, 'globals' | 'environment' | 'report'>;

/** Process state for code below the front end, which must not access the process directly. */
export interface EngineContext {
  readonly globals: { readonly config: string | undefined; readonly data: string | undefined };
  readonly environment: ProcessEnvironment;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly report: (event: EngineEvent) => void;
  /** Wording supplied by the front end, used in the state and in the facts of other errors. */
  readonly words: {
    readonly finding: (finding: Finding) => string;
    readonly error: (error: unknown) => string;
  };
}
