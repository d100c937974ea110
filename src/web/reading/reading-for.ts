import type { SpareReader } from '../../mime/reading-thread.ts';

/** How a message is read for a request. */
export interface ReadingFor {
  readonly spare: SpareReader;
  /** Aborted when nobody waits for it any more: the reading ends, and throws the signal's reason. */
  readonly signal: AbortSignal;
}
