import type { Concerns } from '../catalog/concerned.ts';
import { type ComparedCatalog, openCompared } from '../catalog/implied.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { Findings } from './findings.ts';

/** How the catalog was compared: `missing` and `other-version` are no damage, since it can be made again. */
export type CatalogState =
  | 'equal'
  | 'different'
  | 'missing'
  | 'other-version'
  | 'damaged'
  | 'behind';

export interface Grown {
  readonly catalog: ComparedCatalog | undefined;
  readonly state: CatalogState | undefined;
  /** What it had reached by now: the log has to hold it. */
  readonly reached: ReturnType<ComparedCatalog['reached']> | undefined;
}

/** The catalog to look at; what keeps it from being read is told, and damage is a finding. */
export function openGrown(dir: string, findings: Findings): Grown {
  const without = (state: CatalogState) => ({ catalog: undefined, state, reached: undefined });
  let catalog: ComparedCatalog | undefined;
  try {
    catalog = openCompared(dir);
    return { catalog, state: undefined, reached: catalog.reached() };
  } catch (error) {
    catalog?.close();
    if (hasCode(error, 'catalog-missing')) return without('missing');
    if (hasCode(error, 'catalog-version')) return without('other-version');
    for (const detail of reasonOfDamage(error)) findings.add({ what: 'catalog-file', detail });
    return without('damaged');
  }
}

/**
 * A catalog that is asked what is concerned, as long as it can be read. Damage of its own ends that: it is kept in
 * `damage` for whoever judges the catalog, and what is told of the log goes on without names.
 */
export class Witness implements Concerns {
  damage: readonly string[] = [];

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
    if (this.damage.length > 0) return nothing;
    try {
      return ask();
    } catch (error) {
      this.damage = reasonOfDamage(error);
      return nothing;
    }
  }
}

/** Why a catalog cannot be read, when it is damaged; other errors go on. */
export function reasonOfDamage(error: unknown): readonly string[] {
  if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
  return [String(error.facts.reason ?? error.code)];
}
