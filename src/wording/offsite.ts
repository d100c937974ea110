import type { ObjectDamage, OffsiteFacts } from '../errors/offsite.ts';
import { type Sentences, say } from './sentence.ts';

const OBJECT_DAMAGE: Readonly<Record<ObjectDamage, string>> = {
  header: 'its header was changed, or mailkeep did not write it',
  'other-copy': 'it belongs to another copy',
  'other-kind': 'it contains another kind of data than its name says',
  key: 'its header was changed, or it was moved to another name',
  chunk: 'bytes were changed, lost or moved',
  cut: 'its end is missing',
  appended: 'bytes were added after its end',
  frame: 'its length and padding are wrong; mailkeep did not write it',
};

export const OFFSITE_SENTENCES: Sentences<OffsiteFacts> = {
  'copy-object-damaged': ({ name, reason }) =>
    say(`${name} in the copy is damaged: ${OBJECT_DAMAGE[reason]}.`),
  'copy-key-unknown': ({ name, keyId }) =>
    say(
      `${name} in the copy was encrypted for another key (${keyId}).`,
      'The keys of the copy were rotated, or this key is of another copy. Use a newer key.',
    ),
  'copy-source-changed': ({ name, announced, found }) =>
    say(
      `A file of the archive changed while it was copied as ${name}: ${found} bytes instead of ${announced}.`,
      'Run the same command again.',
    ),
};
