import type { FleetKeyFacts } from '../errors/fleet-keys.ts';
import { reasonText, type Sentences, say, some } from './sentence.ts';

const SHAPE = 'a name, a space, and 64 hexadecimal digits';

const PROBLEMS: Readonly<Record<FleetKeyFacts['fleet-key-invalid']['problem'], string>> = {
  shape: `is not a key: ${SHAPE}`,
  repeated: 'has the name of an earlier key',
  none: 'has no key',
};

export const FLEET_KEY_SENTENCES: Sentences<FleetKeyFacts> = {
  'fleet-key-invalid': ({ source, line, problem }) =>
    say(
      line === 0
        ? `${source} ${PROBLEMS[problem]}.`
        : `${source}, line ${line}, ${PROBLEMS[problem]}.`,
      `Each line is one key of the fleet: ${SHAPE}. The first one encrypts.`,
    ),
  'fleet-key-file-unreadable': ({ file, reason }) =>
    say(
      `The keys of the fleet cannot be read from ${file}: ${reasonText(reason)}.`,
      reason === 'ENOENT'
        ? 'Copy the file from another node. For a new fleet, "mailkeep fleet init" makes it.'
        : null,
    ),
  'fleet-key-file-unwritable': ({ file, reason }) =>
    say(`The keys of the fleet cannot be written to ${file}: ${reasonText(reason)}.`),
  'fleet-key-file-busy': ({ file, temporary }) =>
    say(
      `${file} is being changed: there is ${temporary}. Nothing was changed.`,
      'If no other command is running, one was interrupted: remove that file and try again.',
    ),
  'fleet-key-exists': ({ file, name }) =>
    say(
      `${file} has a key ${name} already, and another key encrypts. Nothing was changed.`,
      'Choose another name, or move its line to the top and leave --new out.',
    ),
  'fleet-keys-elsewhere': ({ file, found, keyIds }) =>
    say(
      `The registry has secrets that were encrypted by ${keyIds.length === 1 ? 'the key' : 'the keys'} ${some(keyIds)}, ${found ? `which ${file} does not have` : `and there is no file ${file}`}.`,
      'Copy the file of keys from another node.',
    ),
  'fleet-key-unknown': ({ archive, purpose, keyId }) =>
    say(
      `The secret "${purpose}" of archive ${archive} needs the key ${keyId}, which is not among the keys of the fleet here.`,
      'Add that key to the file of keys on this machine.',
    ),
  'fleet-secret-damaged': ({ archive, purpose, keyId }) =>
    say(
      `The secret "${purpose}" of archive ${archive} cannot be decrypted by the key ${keyId}: it was changed, or that key is another one.`,
      'Compare the file of keys with that of another machine; if it is the same, set the secret again.',
    ),
};
