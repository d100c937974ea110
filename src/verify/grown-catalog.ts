import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FileLayer } from '../archive/files/file-layer.ts';
import { SegmentCache } from '../archive/read/segment-cache.ts';
import type { RowDifference } from '../catalog/comparison.ts';
import type { Concerns } from '../catalog/concerned.ts';
import { type ComparedCatalog, type ImpliedCatalog, openCompared } from '../catalog/implied.ts';
import type { CatalogCode } from '../errors/catalog.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { Findings } from './findings.ts';

/**
 * Compares the catalog with what the log implies, row by row, and returns how many rows differ. Lets others have their
 * turn now and then.
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
      const message = findings.keeps ? concerned(row, [catalog, implied]) : null;
      const { table, difference, columns, key } = row;
      findings.add({ what: 'catalog', table, difference, columns, key, message });
    }
  } finally {
    segments.forget();
  }
  return differing;
}

/** The catalog may remember where bytes were that a purge took out of the log since. */
function isPurged(segments: SegmentCache, { table, difference, position }: RowDifference): boolean {
  if (table !== 'records' || difference !== 'surplus' || position === null) return false;
  try {
    return segments.fetch({ ...position, offset: 0 }).state === 'purged';
  } catch (error) {
    if (error instanceof MailkeepError) return false;
    throw error;
  }
}

function concerned(
  { docid, key }: RowDifference,
  asked: readonly [ComparedCatalog, ImpliedCatalog],
) {
  for (const catalog of asked) {
    const found = docid === null ? undefined : catalog.byDocid(docid);
    if (found !== undefined) return found;
  }
  const { folder_id: folder, uid } = key;
  if (typeof folder !== 'number' || typeof uid !== 'number') return null;
  return (
    asked.map((catalog) => catalog.atPlace(folder, uid)).find((at) => at !== undefined) ?? null
  );
}

/**
 * How the catalog was compared: `missing` and `other-version` are no damage, since it can be made again. `unreadable`
 * says nothing about it: the system did not let us look.
 */
export type CatalogState =
  | 'equal'
  | 'different'
  | 'missing'
  | 'other-version'
  | 'damaged'
  | 'unreadable'
  | 'behind';

export interface Grown {
  readonly catalog: ComparedCatalog | undefined;
  readonly state: CatalogState | undefined;
  /** Why it cannot be read, where that is so: a name of the system's or of SQLite's. */
  readonly unread: string | null;
  /** What it had reached by now: the log has to hold it. */
  readonly reached: ReturnType<ComparedCatalog['reached']> | undefined;
}

/** Opens the catalog to check; returns what keeps it from being read, and adds damage to the findings. */
export function openGrown(dir: string, findings: Findings): Grown {
  const without = (state: CatalogState, unread: string | null = null) => ({
    catalog: undefined,
    state,
    unread,
    reached: undefined,
  });
  let catalog: ComparedCatalog | undefined;
  try {
    catalog = openCompared(dir);
    return { catalog, state: undefined, unread: null, reached: catalog.reached() };
  } catch (error) {
    catalog?.close();
    if (hasCode(error, 'catalog-missing')) return without('missing');
    if (hasCode(error, 'catalog-version')) return without('other-version');
    const { state, detail } = troubleOf(error);
    if (state === 'unreadable') return without(state, detail);
    findings.add({ what: 'catalog-file', detail });
    return without(state);
  }
}

/**
 * A catalog that names what a finding concerns, as long as it can be read. An error of its own ends that: it is kept
 * in `trouble` for whoever judges the catalog, and later findings about the log carry no names.
 */
export class Witness implements Concerns {
  trouble: CatalogTrouble | undefined;

  constructor(private readonly catalog: Concerns) {}

  byDocid(docid: number) {
    return this.#asked(() => this.catalog.byDocid(docid), undefined);
  }

  byId(id: string) {
    return this.#asked(() => this.catalog.byId(id), undefined);
  }

  atPlace(folder: number, uid: number) {
    return this.#asked(() => this.catalog.atPlace(folder, uid), undefined);
  }

  recordsIn(...span: Parameters<Concerns['recordsIn']>) {
    return this.#asked(() => this.catalog.recordsIn(...span), []);
  }

  openPlaces(id: string) {
    return this.#asked(() => this.catalog.openPlaces(id), []);
  }

  #asked<T>(ask: () => T, nothing: T): T {
    if (this.trouble !== undefined) return nothing;
    try {
      return ask();
    } catch (error) {
      this.trouble = troubleOf(error);
      return nothing;
    }
  }
}

/** What keeps a catalog from being compared. */
export interface CatalogTrouble {
  readonly state: 'damaged' | 'unreadable';
  readonly detail: string;
}

const UNREADABLE: ReadonlySet<string> = new Set<CatalogCode>([
  'catalog-io',
  'catalog-busy',
  'catalog-disk-full',
]);

/** Returns the catalog's own trouble that an error stands for; rethrows other errors. */
export function troubleOf(error: unknown): CatalogTrouble {
  if (!(error instanceof MailkeepError)) throw error;
  const detail = String(error.facts.reason ?? error.code);
  if (error.family === 'damage') return { state: 'damaged', detail };
  if (UNREADABLE.has(error.code)) return { state: 'unreadable', detail };
  throw error;
}
