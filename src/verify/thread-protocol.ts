import { errnoOf } from '../errors/archive.ts';
import type { SegmentReport } from './segment-report.ts';

/** An error on its way between threads, which keep no class and no code. */
export interface Thrown {
  readonly message: string;
  readonly code: string;
}

export type ThreadAnswer =
  | { readonly reports: readonly SegmentReport[] }
  | { readonly thrown: Thrown };

export function thrownBy(error: unknown): Thrown {
  return { message: error instanceof Error ? error.message : String(error), code: errnoOf(error) };
}

/** The error as the system's own are: with its message and code. */
export function rethrown({ message, code }: Thrown): Error {
  return Object.assign(new Error(message), { code });
}
