import { expect, test } from 'vitest';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { FilesMessagesCounts } from '../../src/web/files.ts';
import { pdf } from '../attachments/documents.ts';
import { mail } from './attached-mail.ts';
import { png } from './pictures.ts';
import { archiveOf, Served } from './served.ts';

test('messages are counted once for each question, until there is another commit', async () => {
  const data = await archiveOf({
    one: mail(1, 'One', [{ name: 'a.csv', type: 'text/csv', bytes: 'a' }]),
  });
  const { catalog } = openReaderAt(data);
  try {
    let [counted, version] = [0, 1];
    const counts = new FilesMessagesCounts();
    const reader = {
      catalog: {
        ...catalog,
        version: () => version,
        prepare: (...asked: Parameters<typeof catalog.prepare>) => {
          counted += 1;
          return catalog.prepare(...asked);
        },
      },
    };
    const ask = (query: string, now = 1_800_000_000_000) => {
      const listed = { group: null, inlinePictures: false };
      const found = counts.of(reader, query, listed, (text) => ({
        node: parseQuery(text, { now }).node,
      }));
      return [found?.found.count, counted];
    };
    expect(ask('')).toEqual([1, 1]);
    expect(ask('')).toEqual([1, 1]);
    expect(ask('from:nobody')).toEqual([0, 2]);
    expect(ask('after:yesterday')).toEqual([0, 3]);
    expect(ask('after:yesterday', 1_800_500_000_000)).toEqual([0, 4]);
    version = 2;
    expect(ask('')).toEqual([1, 5]);
  } finally {
    catalog.close();
  }
});

test('a message whose PDF stands in the text with a logo is one of those with attachments', async () => {
  const served = new Served();
  try {
    const inText = [
      { name: 'logo.png', type: 'image/png', bytes: png(4, 4), inline: true },
      { name: 'scan.pdf', type: 'application/pdf', bytes: pdf(['The lease ends.']), inline: true },
    ];
    const data = await archiveOf({
      both: mail(1, 'Both', inText),
      logo: mail(2, 'Logo', inText.slice(0, 1)),
    });
    await served.start(data);
    const cookie = await served.signIn();
    const { text } = await served.ask('/files', { headers: { cookie } });
    expect(text).toContain('scan.pdf');
    expect(/Messages <b>(\d+)<\/b>/.exec(text)?.[1]).toBe('1');
  } finally {
    await served.close();
  }
});
