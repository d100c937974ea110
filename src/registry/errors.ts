import { defineErrors, didYouMean, reasonText, shortList } from '../core/errors.ts';
import { counted } from '../core/text.ts';

/** The registry as people know it, such as `postgresql://mailkeep@db:5432/fleet`, never with a password. */
type OfRegistry = { registry: string };

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

const NOTHING = 'Nothing was changed.';

/** `transaction` is the name of ours that failed; `condition` is PostgreSQL's five-character code. */
type OfTransaction = OfRegistry & { transaction: string; condition: string };

/** An error of the registry. Apart from `outcome-unknown`, nothing was changed. */
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
    /** There is no connection, or it was lost before anything was to be kept. Nothing was changed. */
    'registry-unreachable': ({ registry, reason }: OfRegistry & { reason: string }) => [
      `${registry} cannot be reached: ${conditionText(reason)}. ${NOTHING}`,
      'Check that PostgreSQL runs, and the host and port.',
    ],
    /** The server's certificate is not to be trusted. Nothing was sent. */
    'registry-certificate': ({ registry, reason }: OfRegistry & { reason: string }) => [
      `The certificate of ${registry} cannot be trusted: ${reasonText(reason)}. Nothing was sent.`,
      'For a certificate authority of your own, name its file in sslrootcert.',
    ],
    /** Too much for a limit of PostgreSQL itself, such as the size of a row. Nothing was changed. */
    'registry-limit': ({ registry, transaction, condition }: OfTransaction) => [
      `"${transaction}" is too large for ${registry}: it exceeds a limit of PostgreSQL (${condition}). ${NOTHING}`,
      'More room on the server does not help. Please report it as a bug in mailkeep, with the words in quotes and the code.',
    ],
    /** The server is a replica, or read-only. */
    'registry-read-only': ({ registry, transaction }: OfTransaction) => [
      `${registry} is read-only: "${transaction}" was refused. ${NOTHING}`,
      'It is probably a replica. Check that the address leads to the primary.',
    ],
    /** PostgreSQL refused a statement. Nothing was changed. */
    'registry-refused': (f: OfTransaction & { constraint: string | null }) => [
      `${f.registry} refused "${f.transaction}": ${conditionText(f.condition)}${f.constraint === null ? '' : `, constraint ${f.constraint}`}. ${NOTHING}`,
      'Trying again does not help. Please report it as a bug in mailkeep, with the words in quotes and the code.',
    ],
  },
  auth: {
    /** The server does not accept the user, or does not let it do this. */
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
    /** The tables were made by a newer program: `found` is a step that this one does not know. */
    'registry-schema-newer': (f: OfRegistry & { found: string; known: string }) => [
      `The tables of ${f.registry} were made by a newer mailkeep: they have the step ${f.found}, and this one knows steps up to ${f.known}. ${NOTHING}`,
      'Install the version that the other machines of the fleet run.',
    ],
    /** The tables are not there, or lack a step. */
    'registry-schema-older': (f: OfRegistry & { found: string | null; needed: string }) => [
      f.found === null
        ? `${f.registry} has no tables of a fleet.`
        : `The tables of ${f.registry} are at the step ${f.found}; this mailkeep needs ${f.needed}.`,
      f.found === null
        ? 'Check that the address names the database of the fleet. For a new fleet, "mailkeep fleet init" makes the tables.'
        : 'Upgrade the tables with "mailkeep fleet init", or install the version that the other machines of the fleet run.',
    ],
    /** The fleet no longer takes programs this old. */
    'registry-program-old': (f: OfRegistry & { own: number; needed: number }) => [
      `The fleet of ${f.registry} needs programs of version ${f.needed} or newer; this one is ${f.own}.`,
      'Install the version that the other machines of the fleet run.',
    ],
    /** A setting of the connection; neither fact holds a password. */
    'registry-setting-invalid': ({ source, problem }: { source: string; problem: string }) =>
      `${source} cannot be used: ${problem}.`,
  },
  'in-use': {
    /** Too slow, or in the way of another transaction. Nothing was changed. */
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

export const fleetError = defineErrors({
  config: {
    /** The registry is that of a fleet whose objects are elsewhere. Nothing was changed. */
    'fleet-store-other': (f: { registry: string; found: string; wanted: string }) => [
      `${f.registry} belongs to a fleet whose objects are in ${f.found}, and the configuration says ${f.wanted}. Nothing was changed.`,
      'Correct fleet.registry or fleet.store in the configuration.',
    ],
    /** The bucket keeps versions, and nobody said that it may. */
    'fleet-store-versioned': ({ store }: { store: string }) => [
      `${store} keeps versions of objects. What is forgotten would stay in it if anything but mailkeep deleted an object.`,
      'Use a bucket without versioning, or accept it with --allow-versioning.',
    ],
    /**
     * The store was tried and does not do what a fleet relies on. `read-back`: it returned other bytes than were stored.
     * `call-off`: an upload that was called off could be completed. `delete`: an object was there after it was deleted.
     */
    'fleet-store-unfit': (f: { store: string; problem: 'read-back' | 'call-off' | 'delete' }) => [
      `${f.store} cannot be used for a fleet: ${UNFIT[f.problem]}.`,
      'Use another S3 server. mailkeep was tested with RadosGW.',
    ],
  },
  usage: {
    /** There is one of that name. Nothing was changed. */
    'fleet-account-exists': ({ account, tenant }: { account: string; tenant: string }) => [
      `There is an account ${account} of the tenant ${tenant} already. Nothing was changed.`,
      'Choose another name, or another tenant with --tenant.',
    ],
    /** `tenant` is null where none was named. */
    'fleet-account-unknown': ({ account, tenant }: { account: string; tenant: string | null }) => [
      tenant === null
        ? `There is no account ${account}.`
        : `The tenant ${tenant} has no account ${account}.`,
      '"mailkeep fleet account list" lists all accounts.',
    ],
    /** Several tenants have an account of that name. */
    'fleet-account-ambiguous': (f: { account: string; tenants: readonly string[] }) => [
      `Several tenants have an account ${f.account}: ${shortList(f.tenants, 9)}.`,
      'Name the tenant with --tenant.',
    ],
    /** No node of that name had a session or has copies; `suggestion` is one that was probably meant. */
    'fleet-node-unknown': ({ node, suggestion }: { node: string; suggestion: string | null }) => [
      `The fleet has no node ${node}.`,
      didYouMean(suggestion, '"mailkeep fleet status" lists those that are at work.'),
    ],
    /** Nobody vouched that the disk of the node is destroyed. Nothing was changed. */
    'fleet-disk-not-destroyed': (f: { node: string; copies: number; purges: number }) => [
      `${f.node} may have copies of ${counted(f.copies, 'account')} on its disk${f.purges === 0 ? '' : `, and ${counted(f.purges, 'forget')} cannot end before they are wiped`}. Nothing was changed.`,
      'If the disk still exists, start the node again: it wipes what is to be forgotten by itself. Only if the disk is destroyed, so that nobody can ever read it, add --disk-destroyed. What is on it is then counted as forgotten.',
    ],
    /** It has left the fleet, and cannot be paused. */
    'fleet-account-removed': ({ account, tenant }: { account: string; tenant: string }) => [
      `The account ${account} of the tenant ${tenant} was removed from the fleet: nobody mirrors it.`,
      '"mailkeep fleet account resume" brings it back.',
    ],
  },
  'in-use': {
    /** A session of the node lives, so its disk is not destroyed. Nothing was changed. */
    'fleet-node-alive': ({ node }: { node: string }) => [
      `A worker of ${node} is running, so its disk is not destroyed. Nothing was changed.`,
      'Stop it first. If the machine is gone, its session ends within a minute.',
    ],
  },
});
