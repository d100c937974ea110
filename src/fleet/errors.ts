/** The errors of a fleet. Any process can receive one, so this file imports only core. */
import { defineErrors, didYouMean, reasonText, shortList } from '../core/errors.ts';
import { bytes, counted } from '../core/text.ts';

const NOTHING = 'Nothing was changed.';

/** The registry as people know it, such as `postgresql://mailkeep@db:5432/fleet`, never with a password. */
type OfRegistry = { registry: string };
/** `transaction` is the name of ours that failed; `condition` is PostgreSQL's five-character code. */
type OfTransaction = OfRegistry & { transaction: string; condition: string };

/** What PostgreSQL means by its codes, where a person can do something about it. */
const CONDITIONS: Readonly<Record<string, string>> = {
  '28000': 'the user may not connect',
  '28P01': 'wrong password',
  '40001': 'another transaction changed the same rows',
  '40P01': 'a deadlock with another transaction',
  '42501': 'the user lacks a permission',
  '53100': 'its disk is full',
  '53200': 'it is out of memory',
  '53300': 'it has too many connections',
  '55P03': 'another transaction holds a lock',
  '57014': 'it took too long',
  '57P01': 'the server is shutting down',
  '57P03': 'the server is starting',
  replicas: 'it did not wait for its replicas',
};

function conditionText(code: string): string {
  const known = CONDITIONS[code];
  if (known === undefined) return reasonText(code);
  return /^[0-9A-Z]{5}$/.test(code) ? `${known} (${code})` : known;
}

/** Errors of the registry. Except for `outcome-unknown`, nothing was changed. */
export const registryError = defineErrors({
  origin: {
    /**
     * Nobody knows whether the transaction happened: its answer is lost, or it has not reached the replicas it has to reach.
     * `reason` is an errno, a code of PostgreSQL, `replicas`, or `no answer`.
     */
    'outcome-unknown': (f: OfRegistry & { transaction: string; reason: string }) => [
      `The answer of ${f.registry} to "${f.transaction}" is lost: ${conditionText(f.reason)}. It may have happened or not.`,
      'A worker finds out before it continues. A command can be run again.',
    ],
    /** There is no connection, or it was lost before anything was to be kept. */
    'registry-unreachable': ({ registry, reason }: OfRegistry & { reason: string }) => [
      `${registry} cannot be reached: ${conditionText(reason)}. ${NOTHING}`,
      'Check that PostgreSQL runs, and the host and port.',
    ],
    'registry-certificate': ({ registry, reason }: OfRegistry & { reason: string }) => [
      `The certificate of ${registry} cannot be trusted: ${reasonText(reason)}. Nothing was sent.`,
      'For a certificate authority of your own, name its file in sslrootcert.',
    ],
    /** Too much for a limit of PostgreSQL itself, such as the size of a row. */
    'registry-limit': ({ registry, transaction, condition }: OfTransaction) => [
      `"${transaction}" is too large for ${registry}: it exceeds a limit of PostgreSQL (${condition}). ${NOTHING}`,
      'More room on the server does not help. Please report it as a bug in mailkeep, with the words in quotes and the code.',
    ],
    'registry-read-only': ({ registry, transaction }: OfTransaction) => [
      `${registry} is read-only: "${transaction}" was refused. ${NOTHING}`,
      'It is probably a replica. Check that the address leads to the primary.',
    ],
    'registry-refused': (f: OfTransaction & { constraint: string | null }) => [
      `${f.registry} refused "${f.transaction}": ${conditionText(f.condition)}${f.constraint === null ? '' : `, constraint ${f.constraint}`}. ${NOTHING}`,
      'Trying again does not help. Please report it as a bug in mailkeep, with the words in quotes and the code.',
    ],
  },
  auth: {
    'registry-access-denied': ({ registry, condition }: OfRegistry & { condition: string }) => [
      `${registry} refused the user: ${conditionText(condition)}.`,
      'Check the user, the password (PGPASSWORD or .pgpass), and the grants of the database.',
    ],
  },
  config: {
    'registry-no-database': ({ registry }: OfRegistry) => [
      `There is no database at ${registry}.`,
      'Create it, or check its name.',
    ],
    'registry-version': (f: OfRegistry & { found: number; needed: number }) =>
      `${f.registry} is PostgreSQL ${f.found}; ${f.needed} or newer is needed.`,
    /** A setting of the server under which an acknowledged commit can be lost. */
    'registry-unsafe': (f: OfRegistry & { setting: string; found: string }) => [
      `${f.registry} has ${f.setting} = ${f.found}: it would acknowledge commits that a crash takes back.`,
      f.setting === 'fsync'
        ? 'Set fsync = on in postgresql.conf and reload the configuration: it cannot be set for a database or a user.'
        : `Set ${f.setting} to on for the database and the user of the fleet.`,
    ],
    'registry-schema-newer': (f: OfRegistry & { found: string; known: string }) => [
      `The tables of ${f.registry} were made by a newer mailkeep: they have the version ${f.found}, and this one knows ${f.known}. ${NOTHING}`,
      'Install the version that the other machines of the fleet run.',
    ],
    /** `found` is null where there are no tables. */
    'registry-schema-older': (f: OfRegistry & { found: string | null; needed: string }) => [
      f.found === null
        ? `${f.registry} has no tables of a fleet.`
        : `The tables of ${f.registry} have the version ${f.found}; this mailkeep needs ${f.needed}.`,
      f.found === null
        ? 'Check that the address names the database of the fleet. For a new fleet, "mailkeep fleet init" makes the tables.'
        : 'Install the version that the other machines of the fleet run.',
    ],
    'registry-program-old': (f: OfRegistry & { own: number; needed: number }) => [
      `The fleet of ${f.registry} needs programs of version ${f.needed} or newer; this one is ${f.own}.`,
      'Install the version that the other machines of the fleet run.',
    ],
    /** Neither fact holds a password. */
    'registry-setting-invalid': ({ source, problem }: { source: string; problem: string }) =>
      `${source} cannot be used: ${problem}.`,
  },
  'in-use': {
    /** Too slow, or in the way of another transaction. */
    'registry-busy': ({ registry, transaction, condition }: OfTransaction) => [
      `${registry} could not carry out "${transaction}": ${conditionText(condition)}. ${NOTHING}`,
      'It can be tried again.',
    ],
  },
  disk: {
    'registry-full': ({ registry, transaction, condition }: OfTransaction) => [
      `${registry} could not carry out "${transaction}": ${conditionText(condition)}. ${NOTHING}`,
      'Make room on the server.',
    ],
  },
  retryable: ['registry-unreachable', 'registry-busy', 'registry-full', 'registry-read-only'],
});

const UNFIT = {
  'read-back': 'it returned other bytes than were stored',
  'call-off': 'an upload that was called off could still be completed',
  delete: 'an object was still there after it was deleted',
};
const KEY_SHAPE = 'a name, a space, and 64 hexadecimal digits';
const KEY_PROBLEMS = {
  shape: `is not a key: ${KEY_SHAPE}`,
  repeated: 'has the name of an earlier key',
  none: 'has no key',
};
type OfAccount = { account: string; tenant: string };
type OfKeyFile = { file: string; reason: string };
/** `owner` is such as `account 7`. */
type OfSecret = { owner: string; purpose: string; keyId: string };

export const fleetError = defineErrors({
  config: {
    /** The registry is that of a fleet whose objects are elsewhere. */
    'fleet-store-other': (f: { registry: string; found: string; wanted: string }) => [
      `${f.registry} belongs to a fleet whose objects are in ${f.found}, and the configuration says ${f.wanted}. ${NOTHING}`,
      'Correct fleet.registry or fleet.store in the configuration.',
    ],
    'fleet-store-versioned': ({ store }: { store: string }) => [
      `${store} keeps versions of objects. What is forgotten would stay in it if anything but mailkeep deleted an object.`,
      'Use a bucket without versioning, or accept it with --allow-versioning.',
    ],
    /** The store was tried and does not do what a fleet relies on. */
    'fleet-store-unfit': (f: { store: string; problem: keyof typeof UNFIT }) => [
      `${f.store} cannot be used for a fleet: ${UNFIT[f.problem]}.`,
      'Use another S3 server. mailkeep was tested with RadosGW.',
    ],
    /** `line` counts from 1; 0 where it is about all of them. */
    'fleet-key-invalid': (f: {
      source: string;
      line: number;
      problem: keyof typeof KEY_PROBLEMS;
    }) => [
      f.line === 0
        ? `${f.source} ${KEY_PROBLEMS[f.problem]}.`
        : `${f.source}, line ${f.line}, ${KEY_PROBLEMS[f.problem]}.`,
      `Each line is one key of the fleet: ${KEY_SHAPE}. The first one encrypts.`,
    ],
    /** `reason` is an errno. */
    'fleet-key-file-unreadable': ({ file, reason }: OfKeyFile) => [
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
    'fleet-key-unknown': ({ owner, purpose, keyId }: OfSecret) => [
      `The secret "${purpose}" of ${owner} needs the key ${keyId}, which is not among the keys of the fleet here.`,
      'Add that key to the file of keys on this machine.',
    ],
    /** Its folders count as those of the other disk: a forget would not wait for them. */
    'fleet-node-taken': ({ node, cache }: { node: string; cache: string }) => [
      `The node ${node} has another disk than ${cache}. ${NOTHING}`,
      `Give this machine a name of its own in fleet.node, or set fleet.cache to the former folder. If that disk is destroyed: "mailkeep fleet node remove ${node} --disk-destroyed".`,
    ],
    'fleet-few-files': ({ limit, needed }: { limit: number; needed: number }) => [
      `A worker may have only ${limit} files open at once here, and needs ${needed}.`,
      `Raise the limit: LimitNOFILE=${needed} in a unit of systemd, or "ulimit -n ${needed}".`,
    ],
    /** `reason` is an errno. */
    'fleet-cannot-listen': (f: { host: string; port: number; reason: string }) => [
      `The worker cannot listen on ${f.host}:${f.port}: ${f.reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(f.reason)}.`,
      'Set fleet.address to where other nodes reach this one, and fleet.listen if it listens elsewhere, such as behind a translation of addresses.',
    ],
  },
  usage: {
    'fleet-account-exists': ({ account, tenant }: OfAccount) => [
      `There is an account ${account} of the tenant ${tenant} already. ${NOTHING}`,
      'Choose another name, or another tenant with --tenant.',
    ],
    /** `tenant` is null where none was named. */
    'fleet-account-unknown': ({ account, tenant }: { account: string; tenant: string | null }) => [
      tenant === null
        ? `There is no account ${account}.`
        : `The tenant ${tenant} has no account ${account}.`,
      '"mailkeep fleet account list" lists all accounts.',
    ],
    'fleet-account-ambiguous': (f: { account: string; tenants: readonly string[] }) => [
      `Several tenants have an account ${f.account}: ${shortList(f.tenants, 9)}.`,
      'Name the tenant with --tenant.',
    ],
    /** It cannot be paused. */
    'fleet-account-removed': ({ account, tenant }: OfAccount) => [
      `The account ${account} of the tenant ${tenant} was removed from the fleet: nobody mirrors it.`,
      '"mailkeep fleet account resume" brings it back.',
    ],
    /** No node of that name had a session or has copies; `suggestion` is one that was probably meant. */
    'fleet-node-unknown': ({ node, suggestion }: { node: string; suggestion: string | null }) => [
      `The fleet has no node ${node}.`,
      didYouMean(suggestion, '"mailkeep fleet status" lists those that are at work.'),
    ],
    /** Nobody vouched that the disk of the node is destroyed. */
    'fleet-disk-not-destroyed': (f: { node: string; copies: number; purges: number }) => [
      `${f.node} may have copies of ${counted(f.copies, 'account')} on its disk${f.purges === 0 ? '' : `, and ${counted(f.purges, 'forget')} cannot end before they are wiped`}. ${NOTHING}`,
      'If the disk still exists, start the node again: it wipes what is to be forgotten by itself. Only if the disk is destroyed, so that nobody can ever read it, add --disk-destroyed. What is on it is then counted as forgotten.',
    ],
    /** A key of that name is in the file, and is not the one that encrypts. */
    'fleet-key-exists': ({ file, name }: { file: string; name: string }) => [
      `${file} has a key ${name} already, and another key encrypts. ${NOTHING}`,
      'Choose another name, or move its line to the top and leave --new out.',
    ],
    'fleet-registry-used': ({ registry }: OfRegistry) => [
      `${registry} has shards already. ${NOTHING}`,
      'Create an empty database for --from-bucket, or leave the option out.',
    ],
  },
  'in-use': {
    /** Each try was refused because of other rows of the registry than the shard's own. */
    'shard-not-shipped': ({ shard, tries }: { shard: number; tries: number }) => [
      `Shard ${shard} could not be shipped in ${tries} tries: the registry refused each of them.`,
      'Another node tries it next.',
    ],
    'fleet-node-alive': ({ node }: { node: string }) => [
      `A worker of ${node} is running, so its disk is not destroyed. ${NOTHING}`,
      'Stop it first. If the machine is gone, its session ends within a minute.',
    ],
    /** Another process writes the file, or one was interrupted: `temporary` is what it writes to. */
    'fleet-key-file-busy': ({ file, temporary }: { file: string; temporary: string }) => [
      `${file} is being changed: there is ${temporary}. ${NOTHING}`,
      'If no other command is running, one was interrupted: remove that file and try again.',
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
    /** Nobody holds the account, and no worker could claim it. */
    'fleet-no-reader': ({ account }: { account: string }) => [
      `Nobody holds the account ${account}.`,
      'Start a worker with "mailkeep fleet worker", or raise fleet.capacity if those that run are full.',
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
    /** The connection, the node or its web interface ended before the answer did. */
    'fleet-import-cut-off': ({ folder }: { folder: string }) => [
      `The import of ${folder} was given up, because the registry could not be reached for minutes.`,
      'No account was added. Run the command again.',
    ],
    'fleet-answer-cut': ({ node }: { node: string }) => [
      `The answer of the node ${node} ended too early: what was printed is not complete.`,
      'Try again: if the node is gone, another one takes the account within a minute.',
    ],
  },
  damage: {
    /** It was changed, moved from another place, or encrypted by another key of that id. */
    /** None of a shard's manifests can be read. */
    'fleet-manifests-unreadable': (f: { shard: number; manifests: number }) => [
      `The keys of the fleet here cannot read any of the ${f.manifests} manifests of shard ${f.shard} in the bucket.`,
      'Compare the file of keys with that of another machine. If it is the same, the manifests are damaged: delete them from the bucket, and recover again; the shard then starts with the mail that nodes have of it.',
    ],
    'fleet-secret-damaged': ({ owner, purpose, keyId }: OfSecret) => [
      `The secret "${purpose}" of ${owner} cannot be decrypted by the key ${keyId}: it was changed, or that key is another one.`,
      'Compare the file of keys with that of another machine; if it is the same, set the secret again.',
    ],
  },
  disk: {
    'fleet-key-file-unwritable': ({ file, reason }: OfKeyFile) =>
      `The keys of the fleet cannot be written to ${file}: ${reasonText(reason)}.`,
    'fleet-disk-short': (f: { folder: string; free: number; needed: number }) => [
      `Only ${bytes(f.free)} are free in ${f.folder}, and minFreeBytes keeps ${bytes(f.needed)} free.`,
      'Free some space, or put fleet.cache on a larger disk.',
    ],
    /** `code` is its exit code or signal. */
    'shard-daemon-ended': ({ shard, code }: { shard: number; code: string }) => [
      `The daemon of shard ${shard} ended by itself (${code}).`,
      'The log of the worker has the reason.',
    ],
  },
  retryable: [
    'fleet-node-unreachable',
    'fleet-no-reader',
    'fleet-reading-moved',
    'fleet-answer-cut',
  ],
});
