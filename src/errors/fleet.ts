import { errorsOf } from './mailkeep-error.ts';

/** The registry and the store as people know them, never with a password. */
export interface FleetFacts {
  /** The registry has the tables of a fleet, and none was made in them. */
  readonly 'fleet-missing': { readonly registry: string };
  /** The registry is that of a fleet whose objects are elsewhere. Nothing was changed. */
  readonly 'fleet-store-other': {
    readonly registry: string;
    readonly found: string;
    readonly wanted: string;
  };
  /** The bucket keeps versions, and nobody said that it may. */
  readonly 'fleet-store-versioned': { readonly store: string };
  /**
   * The store was tried and does not do what a fleet relies on. `read-back`: it returned other bytes than were stored.
   * `call-off`: an upload that was called off could be completed. `delete`: an object was there after it was deleted.
   */
  readonly 'fleet-store-unfit': {
    readonly store: string;
    readonly problem: 'read-back' | 'call-off' | 'delete';
  };
  /** There is one of that name. Nothing was changed. */
  readonly 'fleet-account-exists': { readonly account: string; readonly tenant: string };
  /** `tenant` is null where none was named. */
  readonly 'fleet-account-unknown': { readonly account: string; readonly tenant: string | null };
  /** Several tenants have an account of that name. */
  readonly 'fleet-account-ambiguous': {
    readonly account: string;
    readonly tenants: readonly string[];
  };
  /** No node of that name had a session or has copies; `suggestion` is one that was probably meant. */
  readonly 'fleet-node-unknown': { readonly node: string; readonly suggestion: string | null };
  /** A session of the node lives, so its disk is not destroyed. Nothing was changed. */
  readonly 'fleet-node-alive': { readonly node: string };
  /** Nobody vouched that the disk of the node is destroyed. Nothing was changed. */
  readonly 'fleet-disk-not-destroyed': {
    readonly node: string;
    readonly copies: number;
    readonly purges: number;
  };
  /** Its archive is being imported, and nothing but ending or calling off the import is possible. Nothing was changed. */
  readonly 'fleet-account-importing': { readonly account: string; readonly tenant: string };
  /** The archive in this folder has a purge that is not finished. Nothing was changed. */
  readonly 'fleet-import-purge': { readonly dir: string };
  /** The archive is in the fleet under this name, or is being imported under it. Nothing was changed. */
  readonly 'fleet-log-exists': { readonly account: string; readonly tenant: string };
  /** Another process continued the import of this account, or called it off. What was stored stays, or is collected. */
  readonly 'fleet-import-lost': { readonly account: string; readonly tenant: string };
  /** No import of this account is under way; it may have ended. Nothing was changed. */
  readonly 'fleet-import-none': { readonly account: string; readonly tenant: string };
  /** It has left the fleet, and cannot be paused. */
  readonly 'fleet-account-removed': { readonly account: string; readonly tenant: string };
}

export const fleetError = errorsOf<FleetFacts>('config', {
  'fleet-account-exists': 'usage',
  'fleet-account-unknown': 'usage',
  'fleet-account-ambiguous': 'usage',
  'fleet-account-removed': 'usage',
  'fleet-account-importing': 'usage',
  'fleet-import-purge': 'usage',
  'fleet-log-exists': 'usage',
  'fleet-import-lost': 'in-use',
  'fleet-import-none': 'usage',
  'fleet-node-unknown': 'usage',
  'fleet-node-alive': 'in-use',
  'fleet-disk-not-destroyed': 'usage',
});
