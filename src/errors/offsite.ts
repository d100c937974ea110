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
  /** Authentic bytes with a wrong length or padding: sealed by something else than mailkeep. */
  | 'frame';

/** Codes of the format of encrypted off-site copies, with the facts that fill their sentences. */
export interface OffsiteFacts {
  readonly 'copy-object-damaged': { readonly name: string; readonly reason: ObjectDamage };
  /** None of the private keys at hand belongs to the public key that the object was sealed to. */
  readonly 'copy-key-unknown': { readonly name: string; readonly keyId: string };
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
  { 'copy-key-unknown': 'usage', 'copy-source-changed': 'disk' },
  ['copy-source-changed'],
);
