import { errorsOf } from './mailkeep-error.ts';

/** How an object differs from what was sealed; `wording/offsite.ts` has the sentences. */
export type ObjectDamage =
  /** The header is none of ours, or was changed. */
  | 'header'
  | 'other-copy'
  | 'other-kind'
  /** The header was changed, or the object was moved to another name. */
  | 'key'
  /** Bytes were changed, left out or moved. */
  | 'chunk'
  | 'cut'
  | 'appended'
  /** It is complete, and not the one that the manifest lists. */
  | 'other-bytes'
  /** It is not the one that this machine stored. */
  | 'replaced'
  /** Authentic bytes with a wrong length or padding: sealed by something else than mailkeep. */
  | 'frame';

/** How an object below `keys/` differs from what was written. */
export type KeyDamage =
  | 'shape'
  /** It was moved to another name. */
  | 'name'
  /** Its scrypt parameters are beyond what anybody should compute. */
  | 'cost'
  /** What is not encrypted was changed. */
  | 'clear';

/** How an object below `signers/` differs from what was written. */
export type SignerDamage =
  | 'shape'
  | 'name'
  | 'other-copy'
  /** It was changed, or made by somebody who cannot read the copy. */
  | 'mac'
  /** It was made with a private key that a rotation replaced. */
  | 'older-key';

/** How the keys of a copy are wrapped for somebody. */
export type RecipientType = 'passphrase' | 'recovery' | 'age';

/** How a manifest differs from what was written. */
export type ManifestDamage =
  | 'shape'
  | 'too-large'
  /** It was changed, or none of the keys that are trusted signed it. */
  | 'signature'
  | 'other-copy'
  | 'name'
  /** Its clear part and its encrypted part contradict each other. */
  | 'disagree';

/** Codes of the format of encrypted off-site copies, with the facts that fill their sentences. */
export interface OffsiteFacts {
  readonly 'copy-object-damaged': { readonly name: string; readonly reason: ObjectDamage };
  /** None of the private keys at hand belongs to the public key that the object was sealed to. */
  readonly 'copy-key-unknown': { readonly name: string; readonly keyId: string };
  readonly 'copy-key-damaged': { readonly name: string; readonly reason: KeyDamage };
  /** None of the recipients of a type opens; `tried` may be 0. */
  readonly 'copy-key-refused': { readonly type: RecipientType; readonly tried: number };
  /** Two recipients open and contain different keys: one of them was not made by the owner of the copy. */
  readonly 'copy-keys-differ': { readonly names: readonly string[] };
  readonly 'copy-keys-too-many': { readonly type: RecipientType; readonly found: number };
  readonly 'copy-signer-damaged': { readonly name: string; readonly reason: SignerDamage };
  /** What was typed is not four lines of eight characters. */
  readonly 'copy-recovery-shape': { readonly lines: number; readonly characters: number };
  /** One line of the recovery key is wrong; `seems` is the number of the line that it may be. */
  readonly 'copy-recovery-line': {
    readonly line: number;
    readonly reason: 'length' | 'character' | 'checksum' | 'order';
    readonly seems: number | null;
  };
  readonly 'copy-age-recipient': { readonly found: string };
  /** A line of a file of identities is none; null if there is no identity at all. */
  readonly 'copy-age-identity': { readonly line: number | null };
  readonly 'copy-manifest-damaged': { readonly name: string; readonly reason: ManifestDamage };
  /** More objects than a manifest can list. */
  readonly 'copy-too-many-objects': { readonly found: number; readonly most: number };
  /** The object that describes the copy; `newer`: of a later version of mailkeep. */
  readonly 'copy-file-damaged': {
    readonly reason: 'shape' | 'signature' | 'newer';
    /** The format that a newer version wrote, such as `copy 2`; null otherwise. */
    readonly found: string | null;
  };
  /** What was to be sealed has another length than was announced: it changed meanwhile. */
  readonly 'copy-source-changed': {
    readonly name: string;
    readonly announced: number;
    readonly found: number;
  };
}

/** An error of the format of off-site copies. */
export const offsiteError = errorsOf<OffsiteFacts>(
  'damage',
  {
    'copy-key-unknown': 'usage',
    'copy-key-refused': 'usage',
    'copy-recovery-shape': 'usage',
    'copy-recovery-line': 'usage',
    'copy-age-recipient': 'usage',
    'copy-age-identity': 'usage',
    'copy-too-many-objects': 'usage',
    'copy-source-changed': 'disk',
  },
  ['copy-source-changed'],
);
