import { MailkeepError } from '../errors/mailkeep-error.ts';
import { terminalSafe } from '../mail/terminal-safe.ts';
import { ARCHIVE_SENTENCES } from './sentences/archive.ts';
import { CATALOG_SENTENCES } from './sentences/catalog.ts';
import { CONFIG_SENTENCES } from './sentences/config.ts';
import { COPY_SENTENCES } from './sentences/copy.ts';
import { DAEMON_SENTENCES } from './sentences/daemon.ts';
import { EXPORT_SENTENCES } from './sentences/export.ts';
import { IMPORT_SENTENCES } from './sentences/import.ts';
import { LISTEN_SENTENCES } from './sentences/listen.ts';
import { MAILBOX_SENTENCES } from './sentences/mailbox.ts';
import { INDEXER_SENTENCES, MIME_SENTENCES } from './sentences/mime.ts';
import { OPERATION_SENTENCES } from './sentences/operation.ts';
import { ORIGIN_SENTENCES } from './sentences/origin.ts';
import { RETENTION_SENTENCES } from './sentences/retention.ts';
import { SEARCH_SENTENCES } from './sentences/search.ts';
import { type Said, say } from './sentences/sentence.ts';
import { SERVICE_SENTENCES } from './sentences/service.ts';
import { SERVICE_UNITS_SENTENCES } from './sentences/service-units.ts';
import { SYNC_SENTENCES } from './sentences/sync.ts';
import { SYSTEM_SENTENCES, systemSaid } from './sentences/system.ts';
import { USAGE_SENTENCES } from './sentences/usage.ts';
import { VERIFY_SENTENCES } from './sentences/verify.ts';
import { WEBHOOK_SENTENCES } from './sentences/webhooks.ts';

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
  return { code: 'bug', ...say(terminalSafe(`Something unforeseen happened: ${what}`), BUG_HINT) };
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
