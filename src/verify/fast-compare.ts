import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../archive/file-system.ts';
import { SegmentCache } from '../archive/segment-reader.ts';
import type { AffectedMessages, RowDifference } from '../catalog/comparison.ts';
import type { Findings } from '../catalog/findings.ts';
import {
  type ComparedCatalog,
  type ImpliedCatalog,
  openComparedCatalog,
} from '../catalog/implied.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';

/**
 * Compares the catalog with the log row by row, yielding to the event loop regularly. Returns the number of rows that
 * differ.
 *
 * @throws AbortError; `catalog-damaged`
 */
export async function compareCatalog(options: {
  readonly dir: string;
  readonly files: FileLayer;
  readonly implied: ImpliedCatalog;
  readonly catalog: ComparedCatalog;
  readonly findings: Findings;
  readonly signal: AbortSignal;
}): Promise<number> {
  const { dir, files, implied, catalog, findings, signal } = options;
  const segments = new SegmentCache(files, dir);
  let differing = 0;
  try {
    for (const row of implied.differences(catalog)) {
      if (row === 'turn') {
        await nextTurn();
        signal.throwIfAborted();
        continue;
      }
      if (isPurged(segments, row)) continue;
      differing += 1;
      const message = findings.keeps ? findAffected(row, [catalog, implied]) : null;
      const { table, difference, columns, key } = row;
      findings.add({ what: 'catalog', table, difference, columns, key, message });
    }
  } finally {
    segments.forget();
  }
  return differing;
}

function isPurged(segments: SegmentCache, { table, difference, position }: RowDifference): boolean {
  if (table !== 'records' || difference !== 'surplus' || position === null) return false;
  try {
    return segments.fetch({ ...position, offset: 0 }).state === 'purged';
  } catch (error) {
    if (error instanceof MailkeepError) return false;
    throw error;
  }
}

function findAffected(
  { docid, key }: RowDifference,
  catalogs: readonly [ComparedCatalog, ImpliedCatalog],
) {
  for (const catalog of catalogs) {
    const found = docid === null ? undefined : catalog.byDocid(docid);
    if (found !== undefined) return found;
  }
  const { folder_id: folder, uid } = key;
  if (typeof folder !== 'number' || typeof uid !== 'number') return null;
  return (
    catalogs.map((catalog) => catalog.atPlace(folder, uid)).find((at) => at !== undefined) ?? null
  );
}

/**
 * `missing` and `other-version` are not damage, because the catalog can be rebuilt. `unreadable` means that the system
 * refused access, which says nothing about the catalog.
 */
export type CatalogState =
  | 'equal'
  | 'different'
  | 'missing'
  | 'other-version'
  | 'damaged'
  | 'unreadable'
  | 'behind';

export type OpenedCatalog = ReturnType<typeof openCheckedCatalog>;

/**
 * Opens the catalog for checking, and adds damage to the findings.
 *
 * @returns `unread`: why it cannot be read, as a system or SQLite error name; `reached`: its last commit, which the log
 * must contain
 */
export function openCheckedCatalog(dir: string, findings: Findings) {
  const unavailable = (state: CatalogState, unread: string | null = null) => ({
    ...{ catalog: undefined, state, unread, reached: undefined },
  });
  let catalog: ComparedCatalog | undefined;
  try {
    catalog = openComparedCatalog(dir);
    return { catalog, state: undefined, unread: null, reached: catalog.reached() };
  } catch (error) {
    catalog?.close();
    if (hasCode(error, 'catalog-missing')) return unavailable('missing');
    if (hasCode(error, 'catalog-version')) return unavailable('other-version');
    const { state, detail } = catalogFailure(error);
    if (state === 'unreadable') return unavailable(state, detail);
    findings.add({ what: 'catalog-file', detail });
    return unavailable(state);
  }
}

/**
 * Looks up the messages affected by findings in the catalog. If the catalog fails, `failure` holds the error for the
 * verdict, and later findings have no names.
 */
export class FindingLookup implements AffectedMessages {
  failure: CatalogFailure | undefined;

  constructor(private readonly catalog: AffectedMessages) {}

  readonly byDocid = (docid: number) => this.#lookUp(() => this.catalog.byDocid(docid), undefined);
  readonly byId = (id: string) => this.#lookUp(() => this.catalog.byId(id), undefined);
  readonly atPlace = (...at: Parameters<AffectedMessages['atPlace']>) =>
    this.#lookUp(() => this.catalog.atPlace(...at), undefined);
  readonly recordsIn = (...span: Parameters<AffectedMessages['recordsIn']>) =>
    this.#lookUp(() => this.catalog.recordsIn(...span), []);
  readonly openPlaces = (id: string) => this.#lookUp(() => this.catalog.openPlaces(id), []);

  #lookUp<T>(ask: () => T, fallback: T): T {
    if (this.failure !== undefined) return fallback;
    try {
      return ask();
    } catch (error) {
      this.failure = catalogFailure(error);
      return fallback;
    }
  }
}

export interface CatalogFailure {
  readonly state: 'damaged' | 'unreadable';
  readonly detail: string;
}

const UNREADABLE: ReadonlySet<string> = new Set([
  'catalog-io',
  'catalog-busy',
  'catalog-disk-full',
]);

/** Returns the catalog failure behind an error. Rethrows all other errors. */
export function catalogFailure(error: unknown): CatalogFailure {
  if (!(error instanceof MailkeepError)) throw error;
  const detail = String(error.facts.reason ?? error.code);
  if (error.family === 'damage') return { state: 'damaged', detail };
  if (UNREADABLE.has(error.code)) return { state: 'unreadable', detail };
  throw error;
}
