import { errorsOf } from './mailkeep-error.ts';

/** Codes of the objects of a fleet, with the facts that fill their sentences. */
export interface FleetObjectFacts {
  /**
   * The registry did not take the sealed file of a segment. `covered`: it has another one, or the commits of this one are not
   * exactly those it replaces. `purged`: the file holds what a purge removes. `collected`: the upload was taken for
   * abandoned. `open`: the segment is still appended to. `moved`: the lease got another epoch meanwhile.
   */
  readonly 'seal-refused': {
    readonly segment: number;
    readonly generation: number;
    readonly reason: 'covered' | 'purged' | 'collected' | 'open' | 'moved';
  };
}

/** Nothing that the registry has was changed, and the local files stay. */
export const fleetObjectError = errorsOf<FleetObjectFacts>('in-use', {}, ['seal-refused']);
