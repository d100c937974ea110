import { capitalise, defineErrors, shortList } from '../../core/errors.ts';
import { fitColumns } from '../../core/terminal-safe.ts';
import { count, counted } from '../../core/text.ts';

/** Ways in which an object can differ from the sealed original. */
const OBJECT_DAMAGE = {
  header: 'its header was changed, or mailkeep did not write it',
  'other-copy': 'it belongs to another copy',
  'other-kind': 'it contains another kind of data than its name says',
  key: 'its header was changed, or it was moved to another name',
  chunk: 'bytes were changed, lost or moved',
  cut: 'its end is missing',
  appended: 'bytes were added after its end',
  /** The object is complete, but not the expected one. */
  'other-bytes': 'it is not the object that the manifest lists',
  /** The object is not the one that this machine stored. */
  replaced: 'it is not the object that was stored there',
  /** The bytes are authentic, so another program sealed them. */
  frame: 'its length and padding are wrong; mailkeep did not write it',
} as const;
export type ObjectDamage = keyof typeof OBJECT_DAMAGE;

/** Ways in which an object under `keys/` can differ from the original. */
const KEY_DAMAGE = {
  shape: 'it is not what mailkeep writes',
  name: 'it was moved to another name',
  /** The parameters are invalid, or too expensive to compute with. */
  cost: 'its parameters for scrypt are too large or too small',
  clear: 'the part that is not encrypted was changed',
} as const;
export type KeyDamage = keyof typeof KEY_DAMAGE;

/** Types of recipients for which a copy's keys can be wrapped. */
const OPENERS = {
  passphrase: 'the passphrase',
  recovery: 'the recovery key',
  age: 'the age identity',
} as const;
export type RecipientType = keyof typeof OPENERS;

/** Ways in which an object under `signers/` can differ from the original. */
const SIGNER_DAMAGE = {
  shape: 'it is not what mailkeep writes',
  name: 'it was moved to another name',
  'other-copy': 'it belongs to another copy',
  mac: 'it was changed, or was not made by somebody who can read the copy',
  'older-key': 'it was made with a key that was replaced by a rotation',
} as const;
export type SignerDamage = keyof typeof SIGNER_DAMAGE;

const LINE_PROBLEMS = {
  length: 'has too few or too many characters; there must be eight',
  character: 'contains a character that recovery keys do not have',
  checksum: 'contains a wrong character',
} as const;

/** Ways in which a manifest can differ from the original. */
const MANIFEST_DAMAGE = {
  shape: 'it is not what mailkeep writes',
  'too-large': 'it is larger than any manifest that mailkeep writes',
  signature: 'it was changed, or no key that is trusted signed it',
  'other-copy': 'it belongs to another copy',
  name: 'it was moved to another name',
  disagree: 'its encrypted part contradicts its list of objects',
} as const;
export type ManifestDamage = keyof typeof MANIFEST_DAMAGE;

const FILE_DAMAGE = {
  shape: 'it is not what mailkeep writes',
  signature: 'its signature is invalid',
} as const;

export const offsiteError = defineErrors({
  damage: {
    'copy-object-damaged': ({ name, reason }: { name: string; reason: ObjectDamage }) =>
      `${name} in the copy is damaged: ${OBJECT_DAMAGE[reason]}.`,
    'copy-key-damaged': ({ name, reason }: { name: string; reason: KeyDamage }) => [
      `${name} in the copy is damaged: ${KEY_DAMAGE[reason]}.`,
      'Use another recipient of the copy, such as the recovery key.',
    ],
    'copy-keys-differ': ({ names }: { names: readonly string[] }) => [
      `Recipients of the copy contain different keys: ${shortList(names)}. One of them was not made by the owner of the copy.`,
      'Use the recovery key or the passphrase: only the owner can make their recipients.',
    ],
    'copy-keys-too-many': ({ type, found }: { type: RecipientType; found: number }) => [
      `The copy has ${counted(found, 'recipient')} for ${OPENERS[type]}, more than mailkeep tries.`,
      'Somebody may have added them. Delete those that are not yours.',
    ],
    'copy-signer-damaged': ({ name, reason }: { name: string; reason: SignerDamage }) =>
      `${name} in the copy is not valid: ${SIGNER_DAMAGE[reason]}.`,
    'copy-manifest-damaged': ({ name, reason }: { name: string; reason: ManifestDamage }) =>
      `${name} in the copy is not valid: ${MANIFEST_DAMAGE[reason]}.`,
    'copy-file-damaged': (f: {
      reason: 'shape' | 'signature' | 'newer';
      /** Format written by a newer version, such as `copy 2`; null otherwise. */
      found: string | null;
    }) =>
      f.reason === 'newer'
        ? [
            `The copy has format "${f.found ?? '?'}"; this version supports formats up to "copy 1". Nothing was changed.`,
            'A newer mailkeep wrote it: use that version.',
          ]
        : [
            `The description of the copy ("mailkeep-copy") cannot be used: ${FILE_DAMAGE[f.reason]}.`,
            'Check the address. The description is for people; keys and manifests are checked without it.',
          ],
  },
  usage: {
    'copy-key-unknown': ({ name, keyId }: { name: string; keyId: string }) => [
      `${name} in the copy was encrypted for another key (${keyId}).`,
      'The keys of the copy were rotated, or this key is of another copy. Use a newer key.',
    ],
    'copy-key-refused': ({ type, tried }: { type: RecipientType; tried: number }) =>
      tried === 0
        ? [
            `The copy cannot be opened with ${OPENERS[type]}: no recipient of this kind was added.`,
            'Use the recovery key, or another recipient of the copy.',
          ]
        : [
            `${capitalise(OPENERS[type])} does not open the copy.`,
            'Check whether it belongs to this copy, and whether it was typed correctly.',
          ],
    'copy-recovery-shape': ({ lines, characters }: { lines: number; characters: number }) => [
      `This is not a recovery key: ${counted(lines, 'line')} with ${counted(characters, 'character')} in all.`,
      'A recovery key has four lines such as "ABCD-EFGH".',
    ],
    /** A line of the recovery key is wrong. `seems` is the number of the line that was probably typed instead. */
    'copy-recovery-line': (f: {
      line: number;
      reason: 'length' | 'character' | 'checksum' | 'order';
      seems: number | null;
    }) =>
      f.reason === 'order'
        ? [
            `Line ${f.line} of the recovery key is wrong; it seems to be line ${f.seems}.`,
            'Type the lines in their order.',
          ]
        : [
            `Line ${f.line} of the recovery key ${LINE_PROBLEMS[f.reason]}.`,
            'Compare the line with what you wrote down.',
          ],
    'copy-age-recipient': ({ found }: { found: string }) => [
      `"${fitColumns(found, 80)}" is not an age recipient.`,
      'Give what "age-keygen -y" prints; it begins with "age1".',
    ],
    'copy-age-identity': ({ line }: { line: number | null }) => [
      line === null
        ? 'The file contains no age identity.'
        : `Line ${line} of the file is not an age identity.`,
      'Give a file that "age-keygen" wrote. Its keys begin with "AGE-SECRET-KEY-".',
    ],
    'copy-too-many-objects': ({ found, most }: { found: number; most: number }) =>
      `The copy would have ${count(found)} objects; a manifest can list ${count(most)}.`,
  },
  disk: {
    'copy-source-changed': (f: { name: string; announced: number; found: number }) => [
      `A file of the archive changed while it was copied as ${f.name}: ${f.found} bytes instead of ${f.announced}.`,
      'Run the same command again.',
    ],
  },
  retryable: ['copy-source-changed'],
});
