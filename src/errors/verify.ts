import { type ErrorFamily, MailkeepError } from './mailkeep-error.ts';

/** Codes of bringing a second copy level, with the facts that fill their sentences. */
export interface CopyFacts {
  /** The folder holds another archive. */
  readonly 'copy-other-archive': {
    readonly to: string;
    readonly found: string;
    readonly wanted: string;
  };
  /** Files there that look like a log cannot be read: they may be of another archive. */
  readonly 'copy-unreadable': { readonly to: string };
  /** The copy has commits that this archive lacks: it would become shorter. */
  readonly 'copy-ahead': { readonly to: string; readonly number: number; readonly here: number };
  /** The copy has another commit under a number: somebody wrote to it. */
  readonly 'copy-diverged': { readonly to: string; readonly number: number; readonly here: number };
  /** The folder holds no archive, but other files. */
  readonly 'copy-elsewhere': { readonly to: string; readonly stranger: string };
  /** The log of the copy is a link: it would be written, and tidied, somewhere else than in the folder that was named. */
  readonly 'copy-linked': { readonly file: string };
  /** The folder is the archive itself, or lies in it. */
  readonly 'copy-onto-itself': { readonly to: string };
}

export type CopyCode = keyof CopyFacts;

/** Nothing was changed when one of these is thrown. */
export function copyError<C extends CopyCode>(
  code: C,
  facts: CopyFacts[C],
): MailkeepError<C, CopyFacts[C]> {
  return new MailkeepError('usage', code, facts);
}

/** Codes of verification, checkpoints and copies, with the facts that fill their sentences. */
export interface VerifyFacts {
  /** The file is no checkpoint of mailkeep's, or, with a reason of the system, cannot be read. */
  readonly 'checkpoint-unreadable': { readonly file: string; readonly reason?: string };
  /** The checkpoint's signature does not hold: the file was changed. */
  readonly 'checkpoint-forged': { readonly file: string };
  /** A checkpoint was signed with another key than the one that was named; fingerprints. */
  readonly 'checkpoint-other-key': {
    readonly file: string;
    readonly found: string;
    readonly wanted: string;
  };
  /** What was given is neither an Ed25519 public key nor a file that holds one. */
  readonly 'checkpoint-public-key': { readonly given: string };
  /** The file holds no Ed25519 key that can sign. */
  readonly 'checkpoint-key': { readonly file: string; readonly reason: string };
  /** A copy that a repair was to take bytes from is of another archive. Nothing was changed. */
  readonly 'repair-other-archive': {
    readonly copy: string;
    readonly found: string;
    readonly wanted: string;
  };
  /** Nothing in the damaged archive shows whether the copy is of it. Nothing was changed. */
  readonly 'repair-archive-unknown': { readonly dir: string; readonly copy: string };
  /** A verification found that bytes are not what was written; `found` is how often, `findings` are the first ones. */
  readonly 'archive-damaged': { readonly found: number; readonly findings?: readonly string[] };
  /** A verification ended before it had read everything. */
  readonly 'verification-not-made': { readonly reason: string };
}

export type VerifyCode = keyof VerifyFacts;

const VERIFY_FAMILY: { readonly [C in VerifyCode]: ErrorFamily } = {
  'checkpoint-unreadable': 'usage',
  'checkpoint-forged': 'damage',
  'checkpoint-other-key': 'damage',
  'checkpoint-public-key': 'usage',
  'checkpoint-key': 'usage',
  'repair-other-archive': 'usage',
  'repair-archive-unknown': 'usage',
  'archive-damaged': 'damage',
  'verification-not-made': 'disk',
};

export function verifyError<C extends VerifyCode>(
  code: C,
  facts: VerifyFacts[C],
  cause?: unknown,
): MailkeepError<C, VerifyFacts[C]> {
  return new MailkeepError(VERIFY_FAMILY[code], code, facts, cause === undefined ? {} : { cause });
}
