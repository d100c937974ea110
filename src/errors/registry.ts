import { errorsOf } from './mailkeep-error.ts';

/** The registry as people know it, such as `postgresql://mailkeep@db:5432/fleet`, never with a password. */
type OfRegistry = { readonly registry: string };

/** `transaction` is the name of ours that failed; `condition` is PostgreSQL's five-character code. */
type OfTransaction = OfRegistry & { readonly transaction: string; readonly condition: string };

/** Codes of the registry of a fleet, with the facts that fill their sentences. */
export interface RegistryFacts {
  /**
   * Nobody knows whether the transaction happened: its answer is lost, or it has not reached the replicas it has to reach.
   * `reason` is an errno, a code of PostgreSQL, `replicas`, or `no answer`.
   */
  readonly 'outcome-unknown': OfRegistry & {
    readonly transaction: string;
    readonly reason: string;
  };
  /** There is no connection, or it was lost before anything was to be kept. Nothing was changed. */
  readonly 'registry-unreachable': OfRegistry & { readonly reason: string };
  /** The server's certificate is not to be trusted. Nothing was sent. */
  readonly 'registry-certificate': OfRegistry & { readonly reason: string };
  /** The server does not accept the user, or does not let it do this. */
  readonly 'registry-access-denied': OfRegistry & { readonly condition: string };
  readonly 'registry-no-database': OfRegistry;
  /** Too slow, or in the way of another transaction. Nothing was changed. */
  readonly 'registry-busy': OfTransaction;
  readonly 'registry-full': OfTransaction;
  /** Too much for a limit of PostgreSQL itself, such as the size of a row. Nothing was changed. */
  readonly 'registry-limit': OfTransaction;
  /** The server is a replica, or lets nothing be written. */
  readonly 'registry-read-only': OfTransaction;
  /** PostgreSQL refused a statement. Nothing was changed. */
  readonly 'registry-refused': OfTransaction & { readonly constraint: string | null };
  readonly 'registry-version': OfRegistry & { readonly found: number; readonly needed: number };
  /** A setting of the server under which an acknowledged commit can be lost. */
  readonly 'registry-unsafe': OfRegistry & { readonly setting: string; readonly found: string };
  /** The tables were made by a newer program: `found` is a step that this one does not know. */
  readonly 'registry-schema-newer': OfRegistry & {
    readonly found: string;
    readonly known: string;
  };
  /** The tables are not there, or lack a step. */
  readonly 'registry-schema-older': OfRegistry & {
    readonly found: string | null;
    readonly needed: string;
  };
  /** The fleet no longer takes programs this old. */
  readonly 'registry-program-old': OfRegistry & { readonly own: number; readonly needed: number };
  /** A setting of the connection; neither fact holds a password. */
  readonly 'registry-setting-invalid': { readonly source: string; readonly problem: string };
}

/** An error of the registry. Apart from `outcome-unknown`, nothing was changed. */
export const registryError = errorsOf<RegistryFacts>(
  'origin',
  {
    'registry-access-denied': 'auth',
    'registry-no-database': 'config',
    'registry-busy': 'in-use',
    'registry-full': 'disk',
    'registry-version': 'config',
    'registry-unsafe': 'config',
    'registry-schema-newer': 'config',
    'registry-schema-older': 'config',
    'registry-program-old': 'config',
    'registry-setting-invalid': 'config',
  },
  ['registry-unreachable', 'registry-busy', 'registry-full', 'registry-read-only'],
);
