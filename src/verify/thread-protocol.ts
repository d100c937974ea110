import { errnoOf } from '../errors/archive.ts';
import { type ErrorFamily, type Facts, MailkeepError } from '../errors/mailkeep-error.ts';
import type { MessagesJob, SegmentJob, SegmentReport } from './segment-report.ts';

/** What a thread is asked for, one at a time. */
export type ThreadJob =
  | { readonly what: 'segment'; readonly job: SegmentJob }
  | { readonly what: 'messages'; readonly job: MessagesJob }
  | { readonly what: 'structure'; readonly dir: string };

/** An error on its way between threads, which keep no class and no code. */
export interface Thrown {
  readonly message: string;
  readonly code: string;
  /** Of an error of ours. */
  readonly ours?: { readonly family: ErrorFamily; readonly facts: Facts };
}

/** Reports come one by one while a segment is read; what a job found ends it, and so does an error. */
export type ThreadAnswer =
  | { readonly report: SegmentReport }
  | { readonly found: readonly string[] }
  | { readonly thrown: Thrown };

export function thrownBy(error: unknown): Thrown {
  const thrown = {
    message: error instanceof Error ? error.message : String(error),
    code: errnoOf(error),
  };
  if (!(error instanceof MailkeepError)) return thrown;
  const { family, facts } = error;
  return { ...thrown, ours: { family, facts } };
}

/** An error of ours again, or one as the system's own are: with its message and code. */
export function rethrown({ message, code, ours }: Thrown): Error {
  if (ours !== undefined) return new MailkeepError(ours.family, code, ours.facts);
  return Object.assign(new Error(message), { code });
}
