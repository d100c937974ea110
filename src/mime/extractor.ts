import type { MessageId } from '../mail/words.ts';
import type { IndexEntry } from './index-entry.ts';

export interface ExtractionJob {
  readonly id: MessageId;
  /** The raw source, or its first bytes where it is larger than the room's ceiling. The buffer is given away (transferred). */
  readonly source: Uint8Array;
  readonly cut: boolean;
}

export interface Extractor {
  /**
   * Returns what the index keeps of a message. Never rejects because of the message: what will not parse comes back
   * as `unparsed`. Rejects only when closed.
   */
  extract(job: ExtractionJob): Promise<IndexEntry>;
  /** How many jobs can usefully be in flight. */
  readonly width: number;
  /** Gives back the memory of what is idle; the next job may take longer to start. */
  rest(): Promise<void>;
  close(): Promise<void>;
}
