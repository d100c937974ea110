import { EXIT_OF_FAMILY, type ExitCode } from '../../../errors/exit-codes.ts';
import type { MailkeepError } from '../../../errors/mailkeep-error.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';

/** One thing that was looked at. */
export interface Check {
  /** Stable, for programs: `config`, `token`, `clock`. */
  readonly name: string;
  /** Which account or webhook it is about; null for the whole. */
  readonly about: string | null;
  /** `warning`: it works, and should be mended. `skipped`: it could not be looked at, or is not in use. */
  readonly state: 'ok' | 'warning' | 'failed' | 'skipped';
  readonly message: string;
  readonly remedy: string | null;
  /** How the process ends when this is the worst. */
  readonly exit: ExitCode;
}

type Plain = Omit<Check, 'state' | 'exit' | 'remedy'> & { readonly remedy?: string };

export function well(check: Plain): Check {
  return { remedy: null, ...check, state: 'ok', exit: 0 };
}

export function warned(check: Plain): Check {
  return { remedy: null, ...check, state: 'warning', exit: 0 };
}

export function skipped(check: Plain): Check {
  return { remedy: null, ...check, state: 'skipped', exit: 0 };
}

/** What was thrown, as a check: its sentence, its hint, its exit code. */
export function failed(name: string, about: string | null, error: MailkeepError): Check {
  const { message, hint } = sentenceOf(error);
  return {
    name,
    about,
    state: 'failed',
    message,
    remedy: hint,
    exit: EXIT_OF_FAMILY[error.family],
  };
}
