import { expect, test } from 'vitest';
import {
  emptyExtraction,
  indexEntry,
  packEntries,
  unpackEntries,
} from '../../src/mail/extraction.ts';
import { unpackText } from '../../src/mail/normalise.ts';

const nothing = emptyExtraction('damaged');

test('what the message does not say is left to the listing, and what is indexed as nothing is not', () => {
  expect(indexEntry(nothing)).toMatchObject({ subject: null, from: null, links: { node: null } });
  const invisible = indexEntry({ ...nothing, subject: '\u00ad', from: '\u200b' });
  expect(invisible).toMatchObject({ subject: '', from: '' });
});

test('texts are in the form of the index, and the text for snippets as it was', () => {
  const entry = indexEntry({ ...nothing, subject: 'Straße', body: 'ﬁn: 東京' });
  expect(entry).toMatchObject({ subject: 'Strasse', body: 'fin:  東京 京 ' });
  expect(unpackText(entry.packedText, 'catalog.sqlite')).toBe('ﬁn: 東京');
});

test('a group of entries arrives as it was sent, with bodies as UTF-8', () => {
  const attachment = {
    number: 1,
    filename: 'żółw.txt',
    contentType: 'text/plain',
    size: 3,
    inline: false,
    contentId: null,
    form: null,
    hash: null,
  };
  const entries = [
    { ...nothing, body: 'plain' },
    nothing,
    { ...nothing, body: 'żółw \ud800 東京', attachments: [attachment] },
    { ...nothing, subject: 'a', attachments: [attachment] },
  ].map((extraction, i) => ({ seq: i + 1, entry: indexEntry(extraction) }));
  const { results, bytes } = structuredClone(packEntries(entries));
  expect(unpackEntries(results, bytes)).toEqual(
    entries.map(({ seq, entry }) => ({
      seq,
      entry: { ...entry, body: Buffer.from(entry.body) },
    })),
  );
});
