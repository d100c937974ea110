import { terminalSafe } from '../core/terminal-safe.ts';
import { BeforeConfiguration, errnoOf, MailkeepError } from '../errors/mailkeep-error.ts';
import type * as errors from '../errors/system.ts';
import { ARCHIVE_SENTENCES } from './archive.ts';
import { CATALOG_SENTENCES } from './catalog.ts';
import { COPIES_SENTENCES } from './copies.ts';
import {
  DAEMON_SENTENCES,
  LISTEN_SENTENCES,
  SERVICE_SENTENCES,
  SERVICE_UNITS_SENTENCES,
  WEB_SENTENCES,
  WEBHOOK_SENTENCES,
} from './daemon.ts';
import { DEMO_SENTENCES } from './demo.ts';
import { EXPORT_SENTENCES, IMPORT_SENTENCES } from './export-import.ts';
import { FLEET_SENTENCES } from './fleet.ts';
import { FLEET_ARCHIVE_SENTENCES } from './fleet-archive.ts';
import { FLEET_KEY_SENTENCES } from './fleet-keys.ts';
import { FLEET_LINK_SENTENCES } from './fleet-links.ts';
import { FLEET_OBJECT_SENTENCES } from './fleet-objects.ts';
import { INDEXER_SENTENCES, MIME_SENTENCES, THREAD_SENTENCES } from './mime.ts';
import { OBJECT_SENTENCES } from './objects.ts';
import { OFFSITE_SENTENCES } from './offsite.ts';
import { MAILBOX_SENTENCES, ORIGIN_SENTENCES, SYNC_SENTENCES } from './origin.ts';
import { REGISTRY_SENTENCES } from './registry.ts';
import { RESTORE_SENTENCES } from './restore.ts';
import { RETENTION_SENTENCES } from './retention.ts';
import { SEARCH_SENTENCES } from './search.ts';
import { type FactsOfModule, reasonText, type Said, type Sentences, say } from './sentence.ts';
import { CONFIG_SENTENCES, OPERATION_SENTENCES, USAGE_SENTENCES } from './usage.ts';
import { COPY_SENTENCES, VERIFY_SENTENCES } from './verify.ts';

const CHECK = 'Check the permissions, and whether the file system is read-only or full.';

const SYSTEM_SENTENCES: Sentences<FactsOfModule<typeof errors>> = {
  'output-failed': ({ errno }) =>
    say(
      `Standard output cannot be written: ${reasonText(errno)}. The result is incomplete.`,
      'Free some space, or write it somewhere else.',
    ),
  'archive-unreadable': ({ dir, errno }) =>
    say(
      `The archive ${dir} cannot be read: ${reasonText(errno)}.`,
      'Check who owns the folder and the folders above it ("ls -ld"), and run mailkeep as that user.',
    ),
  'archive-unwritable': ({ file, errno }) =>
    say(`${file} cannot be written: ${reasonText(errno)}.`, CHECK),
};

const DONE: Readonly<Record<string, string>> = {
  open: 'opened',
  read: 'read',
  scandir: 'read',
  opendir: 'read',
  stat: 'read',
  lstat: 'read',
  access: 'used',
  mkdir: 'created',
  mkdtemp: 'created',
  unlink: 'removed',
  rmdir: 'removed',
  rm: 'removed',
  rename: 'renamed',
  chmod: 'changed',
  copyfile: 'copied',
};

/**
 * The sentence of an error of the operating system, or of SQLite, that nobody gave words of its own; undefined for any
 * other error.
 */
function systemSaid(error: unknown): (Said & { readonly code: string }) | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = 'system-error';
  if (error.name === 'SqliteError' && 'code' in error) {
    const reason = reasonText(String(error.code));
    // Without words for the code it is a mistake in a statement, and a bug.
    if (reason === String(error.code)) return undefined;
    return { code, ...say(`A database of the archive cannot be used: ${reason}.`, CHECK) };
  }
  const errno = errnoOf(error);
  if (errno === undefined || !('syscall' in error)) return undefined;
  const syscall = String(error.syscall);
  const reason = reasonText(errno);
  return 'path' in error && typeof error.path === 'string'
    ? { code, ...say(`${error.path} cannot be ${DONE[syscall] ?? 'written'}: ${reason}.`, CHECK) }
    : { code, ...say(`The system refused "${syscall}": ${reason}.`, CHECK) };
}

/** The rooms' tables; together they are the one table from what went wrong to what people read. */
export const SENTENCE_TABLES = [
  ARCHIVE_SENTENCES,
  CATALOG_SENTENCES,
  CONFIG_SENTENCES,
  COPIES_SENTENCES,
  COPY_SENTENCES,
  EXPORT_SENTENCES,
  FLEET_SENTENCES,
  FLEET_ARCHIVE_SENTENCES,
  FLEET_KEY_SENTENCES,
  DEMO_SENTENCES,
  FLEET_LINK_SENTENCES,
  DAEMON_SENTENCES,
  FLEET_OBJECT_SENTENCES,
  IMPORT_SENTENCES,
  INDEXER_SENTENCES,
  LISTEN_SENTENCES,
  MAILBOX_SENTENCES,
  MIME_SENTENCES,
  OFFSITE_SENTENCES,
  OBJECT_SENTENCES,
  OPERATION_SENTENCES,
  ORIGIN_SENTENCES,
  REGISTRY_SENTENCES,
  RESTORE_SENTENCES,
  RETENTION_SENTENCES,
  SEARCH_SENTENCES,
  SERVICE_SENTENCES,
  SERVICE_UNITS_SENTENCES,
  SYNC_SENTENCES,
  SYSTEM_SENTENCES,
  THREAD_SENTENCES,
  USAGE_SENTENCES,
  VERIFY_SENTENCES,
  WEB_SENTENCES,
  WEBHOOK_SENTENCES,
] as const;

const SENTENCES: ReadonlyMap<string, unknown> = new Map(SENTENCE_TABLES.flatMap(Object.entries));

const BUG_HINT =
  'This is a bug in mailkeep. Please report it with the command line; MAILKEEP_DEBUG=1 shows where it happened.';

/** What to do about an error of the service while "init" tries an address and a token. */
const BEFORE_CONFIGURATION: Readonly<Partial<Record<MailkeepError['family'], string>>> = {
  auth: 'Check that the token was copied whole and belongs to this service, or create a new one in the panel of your mail service.',
  origin:
    'Check the address of the service and the network, and run "mailkeep init" again. Nothing was written.',
};

/** Errors reach this program from others as well, such as from another node of a fleet. */
const OTHER_VERSION_HINT =
  'This version of mailkeep has other facts in this error. If another node sent it, use the same version on both.';

/** The code, sentence and hint of anything that was thrown. */
export function sentenceOf(error: unknown): { code: string } & Said {
  if (error instanceof MailkeepError) {
    const said = sayFacts(error.code, error.facts);
    const hint =
      error instanceof BeforeConfiguration
        ? (BEFORE_CONFIGURATION[error.family] ?? null)
        : said.hint;
    return { code: error.code, ...said, hint };
  }
  const system = systemSaid(error);
  if (system !== undefined) return { ...system, message: terminalSafe(system.message) };
  const what = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: 'bug', ...say(terminalSafe(`Unexpected error: ${what}`), BUG_HINT) };
}

/** The sentence of a code and the facts that came with it: the functions that make errors keep the two together. */
export function sayFacts(code: string, facts: MailkeepError['facts']): Said {
  const sentence = SENTENCES.get(code);
  const raw = terminalSafe(`${code} ${JSON.stringify(facts)}`);
  if (typeof sentence !== 'function') return say(raw, BUG_HINT);
  const said = saidOrNull(() => sentence(facts));
  if (said === null) return say(raw, OTHER_VERSION_HINT);
  return {
    message: terminalSafe(said.message),
    hint: said.hint === null ? null : terminalSafe(said.hint),
  };
}

/** Null where a sentence cannot be made of the facts. */
function saidOrNull(sentence: () => Said): Said | null {
  try {
    const { message, hint } = sentence();
    return typeof message === 'string' ? { message, hint: hint ?? null } : null;
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}
