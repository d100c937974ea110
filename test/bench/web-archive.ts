import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { importArchive } from './archive-speed.ts';
import { makeMessageSet } from './message-set.ts';
import type { SourceStock } from './source-stock.ts';
import { makeSyntheticCatalog } from './synthetic-catalog.ts';
import type { Workplace } from './workplace.ts';

/** Messages with a source: what a person opens. The made-up ones are searched and scrolled only. */
const OPENED = 2_000;

/** The mailbox of the messages that have a source. */
export const REAL_MAILBOX = 'imported';

/** Makes an archive whose catalog has so many messages, of which the first ones can be opened. */
export async function makeWebArchive(
  work: Workplace,
  program: string,
  stock: (count: number) => SourceStock,
  { messages, seed }: { readonly messages: number; readonly seed: number },
): Promise<string> {
  const maildir = join(work.folder, 'web-maildir');
  mkdirSync(maildir, { recursive: true });
  const set = makeMessageSet(maildir, stock(OPENED), OPENED, seed);
  const data = await importArchive(work, program, set, 'web');
  await makeSyntheticCatalog(data, messages - OPENED, seed, () => {});
  return data;
}
