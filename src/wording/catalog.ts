import type { CatalogFacts } from '../errors/catalog.ts';
import { counted } from './amounts.ts';
import { capital, reasonText, type Sentences, say } from './sentence.ts';

const REBUILD = '"mailkeep rebuild" rebuilds it from the log, which is not affected.';
/** A new state remembers no damage: only what reads every byte may clear what the old one knew. */
const RENEW_STATE =
  'The next "mailkeep sync", or "mailkeep verify --repair", moves it aside and creates a new one. Mail is not affected.';

export const CATALOG_SENTENCES: Sentences<CatalogFacts> = {
  'catalog-missing': ({ file }) => say(`The catalog ${file} is missing.`, REBUILD),
  'catalog-version': ({ file, found, expected, remedy }) =>
    say(
      `${capital(nameOf(file))} has version ${found}; this program reads version ${expected}.`,
      {
        write: 'The next "mailkeep sync" or "mailkeep rebuild" brings it up to date.',
        rebuild: REBUILD,
        upgrade: 'A newer mailkeep wrote it: use that version.',
      }[remedy],
    ),
  'catalog-damaged': ({ file, reason }) =>
    say(`${capital(nameOf(file))} is damaged (${reason}).`, isState(file) ? RENEW_STATE : REBUILD),
  'catalog-out-of-step': ({ reached, batch }) =>
    say(`The catalog has reached commit ${reached}; commit ${batch} does not follow it.`, REBUILD),
  'catalog-busy': ({ file }) =>
    say(`Another process is writing to the catalog ${file}.`, 'Try again when it has finished.'),
  'catalog-disk-full': ({ file }) =>
    say(
      `The disk is full: ${nameOf(file)} cannot grow.`,
      'Free some space and run the command again.',
    ),
  'catalog-io': ({ file, reason }) =>
    say(
      `${capital(nameOf(file))} cannot be read or written: ${reasonText(reason)}.`,
      'Check its permissions and the disk. The log is not affected.',
    ),
  'catalog-unknown-folder': ({ folder }) => say(`The archive has no folder ${folder}.`),
};

/** What is stored and cannot be found by its words yet. */
export function notSearchableText(pending: number): string {
  const are = pending === 1 ? 'is' : 'are';
  const them = pending === 1 ? 'it' : 'them';
  return `${counted(pending, 'message')} ${are} not searchable yet; the next sync will index ${them}`;
}

/** The state is a database like the catalog, and has the same errors. */
function nameOf(file: string): string {
  return `${isState(file) ? 'the state' : 'the catalog'} ${file}`;
}

function isState(file: string): boolean {
  return file.endsWith('state.sqlite');
}
