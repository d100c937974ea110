import { MailkeepError } from '../errors/mailkeep-error.ts';
import { terminalSafe } from '../mail/terminal-safe.ts';
import { ARCHIVE_SENTENCES } from './archive.ts';
import { CATALOG_SENTENCES } from './catalog.ts';
import {
  DAEMON_SENTENCES,
  LISTEN_SENTENCES,
  SERVICE_SENTENCES,
  SERVICE_UNITS_SENTENCES,
  WEBHOOK_SENTENCES,
} from './daemon.ts';
import { EXPORT_SENTENCES } from './export.ts';
import { IMPORT_SENTENCES } from './import.ts';
import { INDEXER_SENTENCES, MIME_SENTENCES, THREAD_SENTENCES } from './mime.ts';
import { MAILBOX_SENTENCES, ORIGIN_SENTENCES, SYNC_SENTENCES } from './origin.ts';
import { RETENTION_SENTENCES } from './retention.ts';
import { SEARCH_SENTENCES } from './search.ts';
import { type Said, say } from './sentence.ts';
import { SYSTEM_SENTENCES, systemSaid } from './system.ts';
import { CONFIG_SENTENCES, OPERATION_SENTENCES, USAGE_SENTENCES } from './usage.ts';
import { COPY_SENTENCES, VERIFY_SENTENCES } from './verify.ts';

/** The rooms' tables; together they are the one table from what went wrong to what people read. */
export const SENTENCE_TABLES = [
  ARCHIVE_SENTENCES,
  CATALOG_SENTENCES,
  CONFIG_SENTENCES,
  COPY_SENTENCES,
  EXPORT_SENTENCES,
  DAEMON_SENTENCES,
  IMPORT_SENTENCES,
  INDEXER_SENTENCES,
  LISTEN_SENTENCES,
  MAILBOX_SENTENCES,
  MIME_SENTENCES,
  OPERATION_SENTENCES,
  ORIGIN_SENTENCES,
  RETENTION_SENTENCES,
  SEARCH_SENTENCES,
  SERVICE_SENTENCES,
  SERVICE_UNITS_SENTENCES,
  SYNC_SENTENCES,
  SYSTEM_SENTENCES,
  THREAD_SENTENCES,
  USAGE_SENTENCES,
  VERIFY_SENTENCES,
  WEBHOOK_SENTENCES,
] as const;

const SENTENCES: ReadonlyMap<string, unknown> = new Map(SENTENCE_TABLES.flatMap(Object.entries));

const BUG_HINT =
  'This is a bug in mailkeep. Please report it with the command line; MAILKEEP_DEBUG=1 shows where it happened.';

/** The code, sentence and hint of anything that was thrown. */
export function sentenceOf(error: unknown): { code: string } & Said {
  if (error instanceof MailkeepError) {
    return { code: error.code, ...sayFacts(error.code, error.facts) };
  }
  const system = systemSaid(error);
  if (system !== undefined) return { ...system, message: terminalSafe(system.message) };
  const what = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: 'bug', ...say(terminalSafe(`Unexpected error: ${what}`), BUG_HINT) };
}

/** The sentence of a code and the facts that came with it: the functions that make errors keep the two together. */
export function sayFacts(code: string, facts: MailkeepError['facts']): Said {
  const sentence = SENTENCES.get(code);
  if (typeof sentence !== 'function') return say(`${code} ${JSON.stringify(facts)}`, BUG_HINT);
  const said: Said = sentence(facts);
  return {
    message: terminalSafe(said.message),
    hint: said.hint === null ? null : terminalSafe(said.hint),
  };
}
