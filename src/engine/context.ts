import type { SegmentStore } from '../archive/read/segment-store.ts';
import type { ConfigWarning } from '../config/load.ts';
import type { Surroundings } from '../config/locate.ts';
import type { Place } from '../mail/words.ts';
import type { Finding } from '../verify/findings.ts';

/** What the engine reports while it works. A front end puts it into words, or drops it. */
export type EngineEvent =
  /** The file of the configuration that was read. */
  | { readonly event: 'config-located'; readonly file: string }
  | { readonly event: 'config-warning'; readonly warning: ConfigWarning }
  /** The folder of the archive that was chosen. */
  | { readonly event: 'archive-located'; readonly dataDir: string }
  /** A reader found the catalog at commit `reached` of `last`, with no writer to bring it up to date. */
  | {
      readonly event: 'catalog-behind';
      readonly dataDir: string;
      readonly reached: number;
      readonly last: number;
    }
  /** A writer folded commits that the catalog lacked. */
  | { readonly event: 'catalog-caught-up'; readonly commits: number }
  /** `bytes` behind the last commit were moved to a file: the previous writer was cut off. */
  | { readonly event: 'tail-put-aside'; readonly file: string; readonly bytes: number }
  /** A damaged state.sqlite was moved to `file`. */
  | { readonly event: 'state-put-aside'; readonly file: string }
  /** The archive's state could not be written; the command's result stands all the same. */
  | { readonly event: 'state-not-written'; readonly what: Remembered; readonly error: unknown }
  /** A purge that was decided is being carried out. */
  | { readonly event: 'purging'; readonly messages: number }
  | { readonly event: 'rebuilding-catalog'; readonly because: 'purge' | 'repair' }
  /** A message could not be fetched again during a repair. */
  | { readonly event: 'not-fetched'; readonly place: Place; readonly error: unknown };

/** What could not be written to the state. */
export type Remembered = 'result' | 'damage' | 'sample' | 'segments' | 'run' | 'copy';

/** What finding the configuration and the archive takes. */
export type LocatingContext = Pick<EngineContext, 'globals' | 'surroundings' | 'report' | 'only'>;

/** What the engine works with: nothing of the process is reached in other ways. */
export interface EngineContext {
  /** The configuration file and the archive that the user named, if any. */
  readonly globals: { readonly config: string | undefined; readonly data: string | undefined };
  readonly surroundings: Surroundings;
  /** The one archive that may be read, and what brings its segments: no configuration is looked for. */
  readonly only?: { readonly dataDir: string; readonly segments: SegmentStore } | undefined;
  /** Aborted when the work is to stop. */
  readonly signal: AbortSignal;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  readonly report: (event: EngineEvent) => void;
  /** The front end's words, for what is kept as text: in the state, or within the facts of another error. */
  readonly words: {
    readonly finding: (finding: Finding) => string;
    readonly error: (error: unknown) => string;
  };
}
