import { expect, test } from 'vitest';
import { emptyExtraction, indexEntry } from '../../src/mail/extraction.ts';
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
