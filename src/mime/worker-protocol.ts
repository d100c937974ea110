import type { Extraction, UnparsedReason } from './extraction.ts';
import type { MimeLimits } from './limits.ts';

/** What a worker thread is started with. */
export interface ExtractWorkerData {
  readonly mode: 'extract';
  readonly limits: MimeLimits;
  /** One Int32: the sequence number of the message the worker is on, 0 while it is on none. */
  readonly current: SharedArrayBuffer;
}

/** One message of a group; its source lies in the group's buffer, or apart where it is large. */
export interface GroupedJob {
  readonly seq: number;
  readonly offset: number;
  readonly length: number;
  readonly cut: boolean;
  /** Set when the message ended a worker: only its headers are wanted, as unparsed for this reason. */
  readonly unparsed: UnparsedReason | null;
}

/** Messages travel in groups: posting each alone would cost as much as parsing a short one. */
export interface JobGroup {
  readonly buffer: ArrayBuffer | SharedArrayBuffer;
  readonly jobs: readonly GroupedJob[];
}

export interface GroupResults {
  readonly results: readonly { readonly seq: number; readonly extraction: Extraction }[];
}
