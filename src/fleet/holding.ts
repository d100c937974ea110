import type { HeldArchive } from './held-archive.ts';
import type { KeptArchive } from './kept-archive.ts';
import type { FleetPurges } from './purges.ts';
import { Readings } from './reading/readings.ts';

/** An archive that the session holds: being opened, kept fresh, or to be tried again. */
export interface Holding {
  readonly held: HeldArchive;
  /** Ends what opens it. */
  readonly controller: AbortController;
  opening: Promise<void> | undefined;
  kept: KeptArchive | undefined;
  purges: FleetPurges | undefined;
  /** Those who read it since it was opened. */
  readings: Readings;
  /** Why it was closed last. */
  failure: unknown;
  failures: number;
  /** By the clock that never goes back; it was opened once when `openedAt` is not null. */
  readonly claimedAt: number;
  openedAt: number | null;
  retryAt: number;
}

/** Returns what a session has once it has claimed an archive, at a moment of the clock that never goes back. */
export function newHolding(held: HeldArchive, claimedAt: number): Holding {
  return {
    held,
    controller: new AbortController(),
    ...{ opening: undefined, kept: undefined, purges: undefined },
    ...{ readings: new Readings(), failure: undefined },
    ...{ failures: 0, claimedAt, openedAt: null, retryAt: 0 },
  };
}
