import type { Concerns } from '../catalog/concerned.ts';
import { type ComparedCatalog, openCompared } from '../catalog/implied.ts';
import type { CatalogCode } from '../errors/catalog.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { Findings } from './findings.ts';

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

/** The catalog to look at; what keeps it from being read is told, and damage is a finding. */
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
 * A catalog that is asked what is concerned, as long as it can be read. Trouble of its own ends that: it is kept in
 * `trouble` for whoever judges the catalog, and what is told of the log goes on without names.
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

/** The catalog's own trouble that an error tells of; other errors go on. */
export function troubleOf(error: unknown): CatalogTrouble {
  if (!(error instanceof MailkeepError)) throw error;
  const detail = String(error.facts.reason ?? error.code);
  if (error.family === 'damage') return { state: 'damaged', detail };
  if (UNREADABLE.has(error.code)) return { state: 'unreadable', detail };
  throw error;
}
