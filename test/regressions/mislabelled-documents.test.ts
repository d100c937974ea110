import { describe, expect, test } from 'vitest';
import { ATTACHMENT_LIMITS } from '../../src/mail/attachment-text.ts';
import { documentText } from '../../src/mail/document-text.ts';
import { extractMessage } from '../../src/mail/extract-message.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { docx, pdf, zip } from '../attachments/documents.ts';
import { attached, multipart, text } from '../mime/compose.ts';

/** Documents under a type that says nothing of them, or something wrong. */

/** What is found of a document that is attached under a name and a type; `skipped` where it is not looked at. */
async function found(bytes: Buffer, name: string | null, type: string): Promise<string> {
  const part = attached(bytes, name ?? '', type);
  const { 'Content-Disposition': _, ...unnamed } = part.headers;
  const source = multipart('mixed', [
    text('x'),
    name === null ? { ...part, headers: unnamed } : part,
  ]);
  const { attachments } = await extractMessage(source, false, DEFAULT_LIMITS);
  const form = attachments[0]?.form ?? null;
  if (form === null) return 'skipped';
  const outcome = await documentText(bytes, form, ATTACHMENT_LIMITS);
  return outcome.status === 'done' ? outcome.text : outcome.reason;
}

const GENERIC = [
  ...['application/octet-stream', 'application/binary', 'application/x-anything', 'x-unknown/x'],
  ...['application/zip', 'application/x-zip-compressed', 'application/x-zip', 'multipart/x-zip'],
  ...[
    'application/msword',
    'application/vnd.ms-excel',
    'application/vnd.ms-office',
    'application/rtf',
  ],
];

describe.each(GENERIC)('under %s', (type) => {
  test('a document is read by its name, or by its bytes', async () => {
    const word = await docx('whelk');
    for (const name of ['a.docx', 'A.DOCX', 'letter', 'letter.dat', null])
      if (!type.startsWith('multipart/'))
        expect(await found(word, name, type), `${name}`).toBe('whelk');
    for (const name of ['a.pdf', 'scan', null])
      if (!type.startsWith('multipart/'))
        expect(await found(pdf(['limpet']), name, type), `${name}`).toBe('limpet');
  });

  test('a table is read by its name', async () => {
    if (type.startsWith('multipart/')) return;
    expect(await found(Buffer.from('a;b\r\ncockle;1\r\n'), 'rows.csv', type)).toBe('a;b\ncockle;1');
  });
});

test('tables as text or HTML under the name of a workbook are read', async () => {
  const type = 'application/vnd.ms-excel';
  expect(await found(Buffer.from('name\tprice\nmussel\t3\n'), 'prices.xls', type)).toContain(
    'mussel',
  );
  const page = Buffer.from('<html><table><tr><td>periwinkle</td></tr></table></html>');
  expect(await found(page, 'prices.xls', type)).toBe('periwinkle');
});

test('old formats are said not to be read, encrypted ones to be encrypted', async () => {
  const old = Buffer.concat([Buffer.from('d0cf11e0a1b11ae1', 'hex'), Buffer.alloc(600)]);
  const locked = Buffer.concat([old, Buffer.from('EncryptedPackage', 'utf16le')]);
  expect(await found(old, 'a.doc', 'application/msword')).toBe('unsupported');
  expect(await found(old, 'a.xls', 'application/octet-stream')).toBe('unsupported');
  expect(await found(locked, 'a.docx', 'application/octet-stream')).toBe('encrypted');
  expect(await found(Buffer.from('{\\rtf1 words}'), 'a.rtf', 'application/rtf')).toBe(
    'unsupported',
  );
});

test('pictures, programs and other zips are not looked at', async () => {
  const files = await zip({ 'a.txt': 'words', 'b/c.xml': '<x/>' });
  expect(await found(files, 'a.zip', 'application/zip')).toBe('skipped');
  expect(await found(files, 'a.jar', 'application/octet-stream')).toBe('skipped');
  expect(await found(Buffer.from('MZ words'), 'a.exe', 'application/octet-stream')).toBe('skipped');
  expect(await found(Buffer.from('\x89PNG'), 'a.txt', 'image/png')).toBe('skipped');
});

test('signs of Word that are elements are signs of the text', async () => {
  const W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"';
  const run = (inside: string) => `<w:p><w:r>${inside}</w:r></w:p>`;
  const body = [
    run('<w:t>COVID</w:t><w:noBreakHyphen/><w:t>19</w:t>'),
    run('<w:t>light</w:t><w:softHyphen/><w:t>house</w:t>'),
    run('<w:t>left</w:t><w:tab/><w:t>right</w:t><w:ptab/><w:t>end</w:t><w:br/><w:t>below</w:t>'),
  ].join('');
  const word = await zip({
    'word/document.xml': `<w:document ${W}><w:body>${body}</w:body></w:document>`,
  });
  expect(await found(word, 'a.docx', 'application/zip')).toBe(
    'COVID-19\nlighthouse\nleft right end\nbelow',
  );
});
