import { MailkeepError } from '../errors/mailkeep-error.ts';
import { ARCHIVE_SENTENCES } from './sentences/archive.ts';
import { CATALOG_SENTENCES } from './sentences/catalog.ts';
import { CONFIG_SENTENCES } from './sentences/config.ts';
import { type Said, say } from './sentences/sentence.ts';
import { USAGE_SENTENCES } from './sentences/usage.ts';

/** The one table from what went wrong to what people read. */
export const SENTENCES = {
  ...ARCHIVE_SENTENCES,
  ...CATALOG_SENTENCES,
  ...CONFIG_SENTENCES,
  ...USAGE_SENTENCES,
};

const BUG_HINT =
  'This is a mistake of mailkeep, not yours. Please report it with what you typed; MAILKEEP_DEBUG=1 shows where it happened.';

/** The code, sentence and hint of anything that was thrown. */
export function sentenceOf(error: unknown): { code: string } & Said {
  if (error instanceof MailkeepError)
    return { code: error.code, ...sayFacts(error.code, error.facts) };
  const what = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: 'bug', ...say(`Something unforeseen happened: ${what}`, BUG_HINT) };
}

/** The sentence of a code and the facts that came with it. */
export function sayFacts(code: string, facts: MailkeepError['facts']): Said {
  const sentence: unknown = Reflect.get(SENTENCES, code);
  if (typeof sentence !== 'function') {
    return say(`${code} ${JSON.stringify(facts)}`, BUG_HINT);
  }
  const said: Said = sentence(facts);
  return said;
}
