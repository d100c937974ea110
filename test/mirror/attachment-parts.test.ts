import { expect, test } from 'vitest';
import type { ListedAttachment } from '../../src/core/types.ts';
import { readListingRecord } from '../../src/service/message-view.ts';
import { listedAttachment } from '../../src/web/source-jobs.ts';

interface File {
  readonly name: string | null;
  readonly type?: string;
  readonly content: string;
}

/** A message with a text and these files. */
function withFiles(...files: readonly File[]): Buffer {
  const parts = files.map(({ name, type = 'application/pdf', content }) =>
    [
      '--b',
      `Content-Type: ${type}`,
      `Content-Disposition: attachment${name === null ? '' : `; filename="${name}"`}`,
      'Content-Transfer-Encoding: base64',
      '',
      Buffer.from(content).toString('base64'),
    ].join('\r\n'),
  );
  const head = [
    'Subject: files',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'See the files.',
  ];
  return Buffer.from([...head, ...parts, '--b--', ''].join('\r\n'));
}

/** Listed as the service lists them, with ids that are its own affair. */
function listedOf(source: Buffer): ListedAttachment[] {
  return readListingRecord(source).attachments.map((one, i) => ({ ...one, id: `opaque-${i}` }));
}

function texts(source: Buffer, listed: readonly ListedAttachment[]) {
  return listed.map(({ id }) => listedAttachment(source, listed, id)?.toString() ?? null);
}

const A = { name: 'a.pdf', content: 'first' };
const B = { name: 'b.pdf', content: 'other' };
const LONG = { name: 'c.pdf', content: 'a longer one' };

test('parts are found by their order, whatever the ids are', () => {
  const same = { name: 'same.pdf', content: 'alike' };
  const source = withFiles(same, { ...same, content: 'ALIKE' }, B);
  expect(texts(source, listedOf(source))).toEqual(['alike', 'ALIKE', 'other']);
});

test('where the service lists them in another order, or not all, type, size and name tell', () => {
  const source = withFiles(A, B, LONG);
  const [a, b, c] = listedOf(source);
  if (a === undefined || b === undefined || c === undefined) throw new Error('not all listed');
  expect(texts(source, [c, a, b])).toEqual(['a longer one', 'first', 'other']);
  expect(texts(source, [c])).toEqual(['a longer one']);
  const shouted = { ...b, contentType: 'Application/PDF' };
  expect(texts(source, [shouted, a])).toEqual(['other', 'first']);
});

test('what is not surely one part is none', () => {
  const same = { name: 'same.pdf', content: 'alike' };
  const source = withFiles(same, { ...same, content: 'ALIKE' }, B);
  const [first, second, b] = listedOf(source);
  if (first === undefined || second === undefined || b === undefined) throw new Error('not listed');
  // Two parts fit one that is listed.
  expect(texts(source, [first])).toEqual([null]);
  expect(texts(source, [b, first])).toEqual(['other', null]);
  // As many are listed as there are parts, so that their order decides.
  expect(texts(source, [b, first, second])).toEqual(['other', 'alike', 'ALIKE']);
  // Nothing fits.
  for (const wrong of [
    { ...b, sizeBytes: b.sizeBytes + 1 },
    { ...b, filename: 'else.pdf' },
    { ...b, filename: null },
    { ...b, contentType: 'image/png' },
  ])
    expect(texts(source, [wrong])).toEqual([null]);
  // One id for two, and one that nobody listed.
  expect(texts(source, [b, { ...first, id: b.id }])).toEqual([null, null]);
  expect(listedAttachment(source, [b], 'unknown')).toBeNull();
});
