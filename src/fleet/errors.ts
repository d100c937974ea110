import { defineErrors, reasonText, shortList } from '../core/errors.ts';

export const fleetLinkError = defineErrors({
  config: {
    /** `reason` is an errno. */
    'fleet-cannot-listen': (f: { host: string; port: number; reason: string }) => [
      `The worker cannot listen on ${f.host}:${f.port}: ${f.reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(f.reason)}.`,
      'Set fleet.address to where other nodes reach this one, and fleet.listen if it listens elsewhere, such as behind a translation of addresses.',
    ],
  },
  origin: {
    /** `reason` is an errno, `no address`, or `no answer`. */
    'fleet-node-unreachable': (f: { node: string; address: string; reason: string }) =>
      f.reason === 'no address'
        ? [
            `The node ${f.node} holds the account, and its configuration names no address.`,
            'Set fleet.address there, and start its worker again.',
          ]
        : [
            `The node ${f.node} holds the account and does not answer at ${f.address} (${f.reason}).`,
            'If it is gone, another node takes the account within a minute: try again. Otherwise check fleet.address there, and the firewall.',
          ],
    /** Nobody holds the account, and no worker could claim it. `full`: those that run take no more accounts. */
    'fleet-no-reader': ({ account, full }: { account: string; full: boolean }) =>
      full
        ? [
            `Nobody holds the account ${account}, and no worker has room for it.`,
            'Raise fleet.capacity, or start another worker.',
          ]
        : [
            `Nobody holds the account ${account}, and no worker is running that could take it.`,
            'Start one with "mailkeep fleet worker"; it needs fleet.address.',
          ],
    /** Who holds the account changed more often than it was looked up again. */
    'fleet-reading-moved': ({ account }: { account: string }) => [
      `The account ${account} went from node to node while it was looked for.`,
      'Try again.',
    ],
    /** The holder cannot open the account: `code` is its error. */
    'fleet-reading-unready': (f: { node: string; account: string; code: string }) => [
      `The node ${f.node} holds the account ${f.account} and cannot open it (${f.code}).`,
      'The log of its worker has the reason.',
    ],
    /** The link, the node or its reader ended before the answer did. */
    'fleet-answer-cut': ({ node }: { node: string }) => [
      `The answer of the node ${node} ended too early: what was printed is not complete.`,
      'Try again: if the node is gone, another one takes the account within a minute.',
    ],
  },
  retryable: [
    'fleet-node-unreachable',
    'fleet-no-reader',
    'fleet-reading-moved',
    'fleet-answer-cut',
  ],
});

const SHAPE = 'a name, a space, and 64 hexadecimal digits';

const KEY_PROBLEMS = {
  shape: `is not a key: ${SHAPE}`,
  repeated: 'has the name of an earlier key',
  none: 'has no key',
};

export const fleetKeyError = defineErrors({
  config: {
    /** `line` counts from 1; 0 where it is about all of them. */
    'fleet-key-invalid': (f: {
      source: string;
      line: number;
      problem: 'shape' | 'repeated' | 'none';
    }) => [
      f.line === 0
        ? `${f.source} ${KEY_PROBLEMS[f.problem]}.`
        : `${f.source}, line ${f.line}, ${KEY_PROBLEMS[f.problem]}.`,
      `Each line is one key of the fleet: ${SHAPE}. The first one encrypts.`,
    ],
    /** `reason` is an errno. */
    'fleet-key-file-unreadable': ({ file, reason }: { file: string; reason: string }) => [
      `The keys of the fleet cannot be read from ${file}: ${reasonText(reason)}.`,
      reason === 'ENOENT'
        ? 'Copy the file from another node. For a new fleet, "mailkeep fleet init" makes it.'
        : null,
    ],
    /** The registry has secrets of keys that are not in the file. `found` is whether there is a file. */
    'fleet-keys-elsewhere': (f: { file: string; found: boolean; keyIds: readonly string[] }) => [
      `The registry has secrets that were encrypted by ${f.keyIds.length === 1 ? 'the key' : 'the keys'} ${shortList(f.keyIds)}, ${f.found ? `which ${f.file} does not have` : `and there is no file ${f.file}`}.`,
      'Copy the file of keys from another node.',
    ],
    /** The secret was encrypted by a key that this machine does not have. */
    'fleet-key-unknown': (f: { archive: number; purpose: string; keyId: string }) => [
      `The secret "${f.purpose}" of archive ${f.archive} needs the key ${f.keyId}, which is not among the keys of the fleet here.`,
      'Add that key to the file of keys on this machine.',
    ],
  },
  disk: {
    'fleet-key-file-unwritable': ({ file, reason }: { file: string; reason: string }) =>
      `The keys of the fleet cannot be written to ${file}: ${reasonText(reason)}.`,
  },
  'in-use': {
    /** Another process writes the file, or one was interrupted: `temporary` is what it writes to. */
    'fleet-key-file-busy': ({ file, temporary }: { file: string; temporary: string }) => [
      `${file} is being changed: there is ${temporary}. Nothing was changed.`,
      'If no other command is running, one was interrupted: remove that file and try again.',
    ],
  },
  usage: {
    /** A key of that name is in the file, and is not the one that encrypts. */
    'fleet-key-exists': ({ file, name }: { file: string; name: string }) => [
      `${file} has a key ${name} already, and another key encrypts. Nothing was changed.`,
      'Choose another name, or move its line to the top and leave --new out.',
    ],
  },
  damage: {
    /** It was changed, moved from another archive, or encrypted by another key of that id. */
    'fleet-secret-damaged': (f: { archive: number; purpose: string; keyId: string }) => [
      `The secret "${f.purpose}" of archive ${f.archive} cannot be decrypted by the key ${f.keyId}: it was changed, or that key is another one.`,
      'Compare the file of keys with that of another machine; if it is the same, set the secret again.',
    ],
  },
});
