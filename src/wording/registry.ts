import type { RegistryFacts } from '../errors/registry.ts';
import { reasonText, type Sentences, say } from './sentence.ts';

const NOTHING = 'Nothing was changed.';

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

export const REGISTRY_SENTENCES: Sentences<RegistryFacts> = {
  'outcome-unknown': ({ registry, transaction, reason }) =>
    say(
      `The answer of ${registry} to "${transaction}" is lost: ${conditionText(reason)}. It may have happened or not.`,
      'A worker finds out before it continues. A command can be run again.',
    ),
  'registry-unreachable': ({ registry, reason }) =>
    say(
      `${registry} cannot be reached: ${conditionText(reason)}. ${NOTHING}`,
      'Check that PostgreSQL runs, and the host and port.',
    ),
  'registry-certificate': ({ registry, reason }) =>
    say(
      `The certificate of ${registry} cannot be trusted: ${reasonText(reason)}. Nothing was sent.`,
      'For a certificate authority of your own, name its file in sslrootcert.',
    ),
  'registry-access-denied': ({ registry, condition }) =>
    say(
      `${registry} refused the user: ${conditionText(condition)}.`,
      'Check the user, the password (PGPASSWORD or .pgpass), and the grants of the database.',
    ),
  'registry-no-database': ({ registry }) =>
    say(`There is no database at ${registry}.`, 'Create it, or check its name.'),
  'registry-busy': ({ registry, transaction, condition }) =>
    say(
      `${registry} could not carry out "${transaction}": ${conditionText(condition)}. ${NOTHING}`,
      'It can be tried again.',
    ),
  'registry-full': ({ registry, transaction, condition }) =>
    say(
      `${registry} could not carry out "${transaction}": ${conditionText(condition)}. ${NOTHING}`,
      'Make room on the server.',
    ),
  'registry-limit': ({ registry, transaction, condition }) =>
    say(
      `"${transaction}" is too large for ${registry}: it exceeds a limit of PostgreSQL (${condition}). ${NOTHING}`,
      'More room on the server does not help. Please report it as a bug in mailkeep, with the words in quotes and the code.',
    ),
  'registry-read-only': ({ registry, transaction }) =>
    say(
      `${registry} lets nothing be written: "${transaction}" was refused. ${NOTHING}`,
      'It is probably a replica. Check that the address leads to the primary.',
    ),
  'registry-refused': ({ registry, transaction, condition, constraint }) =>
    say(
      `${registry} refused "${transaction}": ${conditionText(condition)}${constraint === null ? '' : `, constraint ${constraint}`}. ${NOTHING}`,
      'Trying again does not help. Please report it as a bug in mailkeep, with the words in quotes and the code.',
    ),
  'registry-version': ({ registry, found, needed }) =>
    say(`${registry} is PostgreSQL ${found}; ${needed} or newer is needed.`),
  'registry-unsafe': ({ registry, setting, found }) =>
    say(
      `${registry} has ${setting} = ${found}: it would acknowledge commits that a crash takes back.`,
      setting === 'fsync'
        ? 'Set fsync = on in postgresql.conf and reload the configuration: it cannot be set for a database or a user.'
        : `Set ${setting} to on for the database and the user of the fleet.`,
    ),
  'registry-schema-newer': ({ registry, found, known }) =>
    say(
      `The tables of ${registry} were made by a newer mailkeep: they have the step ${found}, and this one knows steps up to ${known}. ${NOTHING}`,
      'Install the version that the other machines of the fleet run.',
    ),
  'registry-schema-older': ({ registry, found, needed }) =>
    say(
      found === null
        ? `${registry} has no tables of a fleet.`
        : `The tables of ${registry} are at the step ${found}; this mailkeep needs ${needed}.`,
      found === null
        ? 'Check that the address names the database of the fleet. For a new fleet, "mailkeep fleet init" makes the tables.'
        : 'Upgrade the tables with "mailkeep fleet init", or install the version that the other machines of the fleet run.',
    ),
  'registry-program-old': ({ registry, own, needed }) =>
    say(
      `The fleet of ${registry} needs programs of version ${needed} or newer; this one is ${own}.`,
      'Install the version that the other machines of the fleet run.',
    ),
  'registry-setting-invalid': ({ source, problem }) => say(`${source} cannot be used: ${problem}.`),
};
