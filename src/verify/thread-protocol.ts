import type { Thrown } from '../errors/mailkeep-error.ts';
import type { MessagesJob, SegmentJob, SegmentReport } from './segment-report.ts';

/** What a thread is asked for, one at a time. */
export type ThreadJob =
  | { readonly what: 'segment'; readonly job: SegmentJob }
  | { readonly what: 'messages'; readonly job: MessagesJob }
  | { readonly what: 'structure'; readonly dir: string };

/** Reports come one by one while a segment is read; what a job found ends it, and so does an error. */
export type ThreadAnswer =
  | { readonly report: SegmentReport }
  | { readonly found: readonly string[] }
  | { readonly thrown: Thrown };
