import type { ManifestEntry } from './manifest.ts';
import type { PlannedPlace } from './plan.ts';
import type { Source } from './source.ts';

/** One format: takes the places in the order of the plan. */
export interface FormatWriter {
  /** How many places may be under way at a time. */
  readonly width: number;
  /** True when a source must be proven before its first byte is written. */
  readonly provenFirst: boolean;
  /**
   * Writes one place, and settles it in the plan.
   *
   * @param open throws when the archive cannot give the source: then nothing of the place is written
   */
  put(rank: number, place: PlannedPlace, open: () => Promise<Source>): Promise<'written' | 'there'>;
  /** Keeps a place of an earlier export. */
  keep(rank: number, entry: ManifestEntry): Promise<void>;
  /** Everything was put; the manifest follows. Gives what is unfinished its final name. */
  finish(): Promise<void>;
  /** Gives up: nothing unfinished stays. */
  discard(): Promise<void>;
}
