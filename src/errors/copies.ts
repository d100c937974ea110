import { errorsOf } from './mailkeep-error.ts';
import type { RecipientType } from './offsite.ts';

/** Codes of off-site copies, with the facts that fill their sentences. `to` names the target, never with secrets. */
export interface OffsiteFacts {
  readonly 'offsite-key-unwritable': { readonly file: string; readonly reason: string };
  readonly 'offsite-key-unreadable': { readonly file: string; readonly reason: string };
  /** `copy init` where a copy is already. */
  readonly 'offsite-exists': { readonly to: string };
  /** Nothing there says that it is a copy. */
  readonly 'offsite-no-copy': { readonly to: string };
  /** The target holds the copy of other keys than this machine's. */
  readonly 'offsite-other-copy': {
    readonly to: string;
    readonly found: string;
    /** Where its keys would be. */
    readonly folder: string;
  };
  /** Another process of this archive writes to the copy. */
  readonly 'offsite-in-use': { readonly to: string };
  /** Objects were to be locked where nothing can be. */
  readonly 'offsite-no-locks': { readonly to: string };
  /** Manifests are there, and none of them is valid. */
  readonly 'offsite-no-manifest': { readonly to: string; readonly invalid: number };
  /** More objects are named like manifests than a copy ever has. */
  readonly 'offsite-too-many-manifests': { readonly to: string; readonly most: number };
  /** The newest manifest is older than one that was seen before. */
  readonly 'offsite-rolled-back': {
    readonly to: string;
    readonly number: number;
    readonly seen: number;
  };
  /** The copy has commits that this archive lacks. */
  readonly 'offsite-ahead': { readonly to: string; readonly number: number; readonly here: number };
  /** The copy has another commit under this number. */
  readonly 'offsite-diverged': { readonly to: string; readonly number: number };
  /** The manifest is signed by a key that is not the one of this archive's checkpoints. */
  readonly 'offsite-other-signer': { readonly to: string; readonly signer: string };
  /** No manifest is of the commit that was asked for; `nearest` are numbers of commits. */
  readonly 'offsite-no-commit': {
    readonly to: string;
    readonly number: number;
    readonly nearest: readonly string[];
  };
  /** The folder to bring an archive back into is not empty. */
  readonly 'offsite-not-empty': { readonly dir: string; readonly stranger: string };
  /** An object that the manifest does not list, or does not list completely. */
  readonly 'offsite-gap': { readonly to: string; readonly name: string; readonly from: number };
  /** A segment does not continue the one before, or the last does not end with the manifest's commit. */
  readonly 'offsite-broken-chain': { readonly to: string; readonly segment: number };
  readonly 'offsite-too-large': {
    readonly to: string;
    readonly name: string;
    readonly most: number;
  };
  /** This machine holds keys for writing only. */
  readonly 'offsite-write-only': { readonly to: string };
  /** Nothing was given that opens the copy, and nobody can be asked. `variable` is that of the environment. */
  readonly 'offsite-no-way': { readonly variable: string };
  /** The recovery key can be shown to nobody. */
  readonly 'offsite-no-witness': Readonly<Record<string, never>>;
  /** What was given opens the copy with other keys than those that this machine writes with. */
  readonly 'offsite-key-unfit': { readonly to: string };
  /** Not exactly one object below `keys/` has an id that begins like this. */
  readonly 'offsite-no-recipient': {
    readonly to: string;
    readonly id: string;
    readonly found: number;
  };
  /** A reader would not try so many. */
  readonly 'offsite-too-many-recipients': {
    readonly to: string;
    readonly type: RecipientType;
    readonly most: number;
  };
  /** A reader would not take so many private keys. */
  readonly 'offsite-too-many-rotations': { readonly to: string; readonly most: number };
  /** What was written there is not what is there now. */
  readonly 'offsite-not-kept': { readonly to: string; readonly name: string };
  /** What was given opens the copy, but not the newest keys; `ids` are of recipients that have newer ones. */
  readonly 'offsite-key-older': { readonly to: string; readonly ids: readonly string[] };
  /** An age identity opened the copy, and the user named no signer to compare: `found` is the one that its keys name. */
  readonly 'offsite-signer-unnamed': { readonly to: string; readonly found: string };
  /** Another key began the copy than the one that the user named. */
  readonly 'offsite-signer-differs': {
    readonly to: string;
    readonly found: string;
    readonly wanted: string;
  };
  /** Without those to remove, nobody could open what is copied from now on. */
  readonly 'offsite-last-recipient': { readonly to: string };
  /** None of the recipients there opens what is copied now. */
  readonly 'offsite-no-recipients': { readonly to: string };
  /** The object is missing that makes another machine's key sign for the copy. */
  readonly 'offsite-signer-lost': { readonly to: string };
  /** Objects are damaged there that have to be intact first. */
  readonly 'offsite-mend-first': { readonly to: string; readonly names: readonly string[] };
  /** No copy of this address is known. */
  readonly 'offsite-unknown': { readonly to: string };
  /** The daemon's configuration has the copy that was to be dropped. */
  readonly 'offsite-planned': { readonly to: string };
  /** A readable copy ends before a commit that it had. */
  readonly 'offsite-cut-off': {
    readonly to: string;
    readonly number: number;
    readonly seen: number;
  };
  /** The process of a copy ended without a result. */
  readonly 'offsite-not-made': { readonly to: string; readonly reason: string };
  /** A folder that had a readable copy has none. */
  readonly 'offsite-target-gone': { readonly to: string };
  /** A copy was made, next to manifests that are not valid. */
  readonly 'offsite-invalid-manifests': { readonly to: string; readonly invalid: number };
  /** Objects that were to be removed, and that the bucket keeps locked. */
  readonly 'offsite-kept-locked': {
    readonly to: string;
    readonly locked: number;
    /** When the last of the locks ends, ISO 8601; null where the store does not say. */
    readonly until: string | null;
  };
  /** Reading a copy back found damage. */
  readonly 'offsite-damaged': { readonly to: string; readonly found: number };
  /** The daemon could not bring a copy up to date for long. */
  readonly 'offsite-stale': {
    readonly to: string;
    readonly behind: number | null;
    /** ISO 8601; null where it was never made. */
    readonly copiedAt: string | null;
  };
  /** The archive has no commit yet. */
  readonly 'offsite-nothing': { readonly dir: string };
}

/** An error about an off-site copy. */
export const copiesError = errorsOf<OffsiteFacts>('usage', {
  'offsite-in-use': 'in-use',
  'offsite-key-unwritable': 'disk',
  'offsite-key-unreadable': 'disk',
  'offsite-no-manifest': 'damage',
  'offsite-rolled-back': 'damage',
  'offsite-diverged': 'damage',
  'offsite-other-signer': 'damage',
  'offsite-gap': 'damage',
  'offsite-not-kept': 'damage',
  'offsite-signer-differs': 'damage',
  'offsite-broken-chain': 'damage',
  'offsite-too-large': 'damage',
  'offsite-too-many-manifests': 'damage',
  'offsite-cut-off': 'damage',
  'offsite-no-recipients': 'damage',
  'offsite-signer-lost': 'damage',
  'offsite-mend-first': 'damage',
  'offsite-not-made': 'origin',
  'offsite-invalid-manifests': 'damage',
  'offsite-kept-locked': 'origin',
  'offsite-damaged': 'damage',
  'offsite-stale': 'origin',
});
