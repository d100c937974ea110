import { errorsOf } from './mailkeep-error.ts';

/** Codes of verification, checkpoints and repair, with the facts that fill their sentences. */
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

export const verifyError = errorsOf<VerifyFacts>({
  'checkpoint-unreadable': 'usage',
  'checkpoint-forged': 'damage',
  'checkpoint-other-key': 'damage',
  'checkpoint-public-key': 'usage',
  'checkpoint-key': 'usage',
  'repair-other-archive': 'usage',
  'repair-archive-unknown': 'usage',
  'archive-damaged': 'damage',
  'verification-not-made': 'disk',
});
