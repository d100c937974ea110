import { fitColumns } from '../core/terminal-safe.ts';
import type {
  KeyDamage,
  ManifestDamage,
  ObjectDamage,
  OffsiteFacts,
  RecipientType,
  SignerDamage,
} from '../errors/offsite.ts';
import { count, counted } from './amounts.ts';
import { capital, type Sentences, say, some } from './sentence.ts';

const OBJECT_DAMAGE: Readonly<Record<ObjectDamage, string>> = {
  header: 'its header was changed, or mailkeep did not write it',
  'other-copy': 'it belongs to another copy',
  'other-kind': 'it contains another kind of data than its name says',
  key: 'its header was changed, or it was moved to another name',
  chunk: 'bytes were changed, lost or moved',
  cut: 'its end is missing',
  appended: 'bytes were added after its end',
  'other-bytes': 'it is not the object that the manifest lists',
  replaced: 'it is not the object that was stored there',
  frame: 'its length and padding are wrong; mailkeep did not write it',
};

const KEY_DAMAGE: Readonly<Record<KeyDamage, string>> = {
  shape: 'it is not what mailkeep writes',
  name: 'it was moved to another name',
  cost: 'its parameters for scrypt are too large or too small',
  clear: 'the part that is not encrypted was changed',
};

const SIGNER_DAMAGE: Readonly<Record<SignerDamage, string>> = {
  shape: 'it is not what mailkeep writes',
  name: 'it was moved to another name',
  'other-copy': 'it belongs to another copy',
  mac: 'it was changed, or was not made by somebody who can read the copy',
  'older-key': 'it was made with a key that was replaced by a rotation',
};

const MANIFEST_DAMAGE: Readonly<Record<ManifestDamage, string>> = {
  shape: 'it is not what mailkeep writes',
  'too-large': 'it is larger than any manifest that mailkeep writes',
  signature: 'it was changed, or no key that is trusted signed it',
  'other-copy': 'it belongs to another copy',
  name: 'it was moved to another name',
  disagree: 'its encrypted part contradicts its list of objects',
};

const FILE_DAMAGE = {
  shape: 'it is not what mailkeep writes',
  signature: 'its signature is invalid',
} as const;

const OPENERS: Readonly<Record<RecipientType, string>> = {
  passphrase: 'the passphrase',
  recovery: 'the recovery key',
  age: 'the age identity',
};

const LINE_PROBLEMS = {
  length: 'has too few or too many characters; there must be eight',
  character: 'contains a character that recovery keys do not have',
  checksum: 'contains a wrong character',
} as const;

export const OFFSITE_SENTENCES: Sentences<OffsiteFacts> = {
  'copy-object-damaged': ({ name, reason }) =>
    say(`${name} in the copy is damaged: ${OBJECT_DAMAGE[reason]}.`),
  'copy-key-unknown': ({ name, keyId }) =>
    say(
      `${name} in the copy was encrypted for another key (${keyId}).`,
      'The keys of the copy were rotated, or this key is of another copy. Use a newer key.',
    ),
  'copy-key-damaged': ({ name, reason }) =>
    say(
      `${name} in the copy is damaged: ${KEY_DAMAGE[reason]}.`,
      'Use another recipient of the copy, such as the recovery key.',
    ),
  'copy-key-refused': ({ type, tried }) =>
    tried === 0
      ? say(
          `The copy cannot be opened with ${OPENERS[type]}: no recipient of this kind was added.`,
          'Use the recovery key, or another recipient of the copy.',
        )
      : say(
          `${capital(OPENERS[type])} does not open the copy.`,
          'Check whether it belongs to this copy, and whether it was typed correctly.',
        ),
  'copy-keys-differ': ({ names }) =>
    say(
      `Recipients of the copy contain different keys: ${some(names)}. One of them was not made by the owner of the copy.`,
      'Use the recovery key or the passphrase: only the owner can make their recipients.',
    ),
  'copy-keys-too-many': ({ type, found }) =>
    say(
      `The copy has ${counted(found, 'recipient')} for ${OPENERS[type]}, more than mailkeep tries.`,
      'Somebody may have added them. Delete those that are not yours.',
    ),
  'copy-signer-damaged': ({ name, reason }) =>
    say(`${name} in the copy is not valid: ${SIGNER_DAMAGE[reason]}.`),
  'copy-recovery-shape': ({ lines, characters }) =>
    say(
      `This is not a recovery key: ${counted(lines, 'line')} with ${counted(characters, 'character')} in all.`,
      'A recovery key has four lines such as "ABCD-EFGH".',
    ),
  'copy-recovery-line': ({ line, reason, seems }) =>
    reason === 'order'
      ? say(
          `Line ${line} of the recovery key is wrong; it seems to be line ${seems}.`,
          'Type the lines in their order.',
        )
      : say(
          `Line ${line} of the recovery key ${LINE_PROBLEMS[reason]}.`,
          'Compare the line with what you wrote down.',
        ),
  'copy-age-recipient': ({ found }) =>
    say(
      `"${fitColumns(found, 80)}" is not an age recipient.`,
      'Give what "age-keygen -y" prints; it begins with "age1".',
    ),
  'copy-age-identity': ({ line }) =>
    say(
      line === null
        ? 'The file contains no age identity.'
        : `Line ${line} of the file is not an age identity.`,
      'Give a file that "age-keygen" wrote. Its keys begin with "AGE-SECRET-KEY-".',
    ),
  'copy-manifest-damaged': ({ name, reason }) =>
    say(`${name} in the copy is not valid: ${MANIFEST_DAMAGE[reason]}.`),
  'copy-too-many-objects': ({ found, most }) =>
    say(`The copy would have ${count(found)} objects; a manifest can list ${count(most)}.`),
  'copy-file-damaged': ({ reason, found }) =>
    reason === 'newer'
      ? say(
          `The copy has format "${found ?? '?'}"; this version supports formats up to "copy 1". Nothing was changed.`,
          'A newer mailkeep wrote it: use that version.',
        )
      : say(
          `The description of the copy ("mailkeep-copy") cannot be used: ${FILE_DAMAGE[reason]}.`,
          'Check the address. The description is for people; keys and manifests are checked without it.',
        ),
  'copy-source-changed': ({ name, announced, found }) =>
    say(
      `A file of the archive changed while it was copied as ${name}: ${found} bytes instead of ${announced}.`,
      'Run the same command again.',
    ),
};
