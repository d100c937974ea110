import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openCatalog, openCatalogReader } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { indexPending } from '../../src/catalog/indexer.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { decodeListedText } from '../../src/mail/listed-text.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { messageName } from '../../src/transfer/export-names.ts';
import { StoredMail } from '../indexer/stored-mail.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { html, multipart, text } from '../mime/compose.ts';

let extractor: Extractor;
beforeAll(async () => {
  extractor = openExtractorPool({ workers: 1, workerFile: await buildWorker() });
});
afterAll(() => extractor.close());

const never = new AbortController().signal;

describe('what a server lists as it is in the source', () => {
  it.each([
    ['=?utf-8?Q?caf=C3=A9?= terrace', 'café terrace'],
    ['=?ISO-8859-1?B?Y2Fm6Q==?=', 'café'],
    ['=?koi8-r?Q?=CD=C9=D2?=', 'мир'],
    ['=?iso-2022-jp?B?GyRCRnxLXDhsGyhC?=', '日本語'],
    ['=?unknown?Q?caf=E9?=', 'café'],
    ['=?utf-8?Q?caf=E9?=', 'café'],
    ['=?utf-8?Q?a=00b?=', 'ab'],
    ['plain =? text', 'plain =? text'],
  ])('%s', (raw, shown) => {
    expect(decodeListedText(raw)).toBe(shown);
  });

  it('is decoded in list, search and names of exported files, and stays in the log as it is', async () => {
    const subject = '=?utf-8?Q?caf=C3=A9_terrace?=';
    const from = { name: '=?utf-8?Q?Ren=C3=A9?=', address: 'r@example.org' };
    const mail = new StoredMail(undefined, { subject, from });
    const catalog = await openCatalog(mail.dir);
    // The message itself names neither: the listing stands in.
    const batches = await mail.store([Buffer.from('X-Nothing: 1\r\n\r\nbody\r\n')]);
    for (const batch of batches) catalog.foldBatch(batch);
    const sources = openLogReader({ dir: mail.dir, locator: catalog.locator });
    await indexPending({ store: catalog.index, sources, extractor, signal: never });
    const shown = { subject: 'café terrace', from: { name: 'René', address: 'r@example.org' } };
    const [line] = [...catalog.list({})];
    expect(line).toMatchObject(shown);
    if (line === undefined || line.id === null) throw new Error('no line');
    expect(messageName({ ...line, id: line.id, generation: 1 })).toContain(
      ' - René - café terrace - ',
    );
    for (const query of ['café', 'from:rené', 'subject:terrace'])
      expect(catalog.prepare({ node: parseQuery(query, { now: 0 }).node }).count()).toBe(1);
    expect(JSON.stringify(batches)).toContain(subject);
    catalog.close();
    mail.remove();
  });
});

it('an index of the version before is searched as it is, and made new by the next writer', async () => {
  const mail = new StoredMail();
  const plain = 'Your order has shipped, and this text says nothing more about it than that.';
  const source = multipart('alternative', [
    text(plain),
    html(`<p>${plain}</p><p>A xylophone.</p>`),
  ]);
  const first = await openCatalog(mail.dir);
  for (const batch of await mail.store([source])) first.foldBatch(batch);
  const sources = openLogReader({ dir: mail.dir, locator: first.locator });
  await indexPending({ store: first.index, sources, extractor, signal: never });
  first.close();
  const db = new Database(catalogFile(mail.dir));
  db.exec('UPDATE messages SET extractor = 4; UPDATE meta SET extractor = 4;');
  db.close();
  const count = (catalog: Pick<typeof first, 'prepare'>, query: string) =>
    catalog.prepare({ node: parseQuery(query, { now: 0 }).node }).count();
  const reader = openCatalogReader(mail.dir);
  expect([count(reader, 'shipped'), reader.totals().pending]).toEqual([1, 0]);
  reader.close();
  const catalog = await openCatalog(mail.dir);
  expect([count(catalog, 'shipped'), catalog.index.pendingCount()]).toEqual([1, 1]);
  const again = openLogReader({ dir: mail.dir, locator: catalog.locator });
  await indexPending({ store: catalog.index, sources: again, extractor, signal: never });
  expect([count(catalog, 'xylophone'), catalog.index.pendingCount()]).toEqual([1, 0]);
  catalog.close();
  mail.remove();
});
