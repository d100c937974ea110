import { errnoOf } from './archive.ts';
import { type ErrorFamily, type Facts, MailkeepError } from './mailkeep-error.ts';

/** An error on its way between threads, which keep no class and no code. */
export interface Thrown {
  readonly message: string;
  readonly code: string;
  /** Of an error of ours. */
  readonly ours?: { readonly family: ErrorFamily; readonly facts: Facts };
}

/** Returns what is left of an error when it is sent to another thread. */
export function thrownBy(error: unknown): Thrown {
  const thrown = {
    message: error instanceof Error ? error.message : String(error),
    code: errnoOf(error),
  };
  if (!(error instanceof MailkeepError)) return thrown;
  const { family, facts } = error;
  return { ...thrown, ours: { family, facts } };
}

/** Returns an error of ours again, or one like the system's own: with its message and code. */
export function rethrown({ message, code, ours }: Thrown): Error {
  if (ours !== undefined) return new MailkeepError(ours.family, code, ours.facts);
  return Object.assign(new Error(message), { code });
}
