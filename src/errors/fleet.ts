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
}

export const fleetError = errorsOf<FleetFacts>('config');
