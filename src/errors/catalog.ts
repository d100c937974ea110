import { errorsOf } from './mailkeep-error.ts';

/** Codes of the catalog's room, with the facts that fill their sentences. */
export interface CatalogFacts {
  /** There is a log without a catalog: `rebuild` creates one. */
  readonly 'catalog-missing': { readonly file: string };
  /**
   * The catalog was made by another version of the program. `remedy` says what helps: `write` (any command
   * that writes migrates it), `rebuild` (too old to migrate), `upgrade` (made by a newer program).
   */
  readonly 'catalog-version': {
    readonly file: string;
    readonly found: number;
    readonly expected: number;
    readonly remedy: 'write' | 'rebuild' | 'upgrade';
  };
  /** SQLite cannot read the file; `reason` is its result code. The log is not touched by this. */
  readonly 'catalog-damaged': { readonly file: string; readonly reason: string };
  /** A batch does not follow the commit that the catalog has reached. */
  readonly 'catalog-out-of-step': {
    readonly reached: number;
    readonly reachedHash: string;
    readonly batch: number;
    readonly previousHash: string;
  };
  /** Another process holds the database's write lock. */
  readonly 'catalog-busy': { readonly file: string };
  readonly 'catalog-disk-full': { readonly file: string };
  readonly 'catalog-io': { readonly file: string; readonly reason: string };
  /** A folder was named that the archive does not know. */
  readonly 'catalog-unknown-folder': { readonly folder: number };
}

export type CatalogCode = keyof CatalogFacts;

/** An error about the derived database; what the log holds is never in danger by one. */
export const catalogError = errorsOf<CatalogFacts>(
  {
    'catalog-missing': 'usage',
    'catalog-version': 'usage',
    'catalog-damaged': 'damage',
    'catalog-out-of-step': 'damage',
    'catalog-busy': 'in-use',
    'catalog-disk-full': 'disk',
    'catalog-io': 'disk',
    'catalog-unknown-folder': 'usage',
  },
  {},
  ['catalog-busy', 'catalog-disk-full'],
);
