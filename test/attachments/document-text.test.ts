import { describe, expect, test } from 'vitest';
import { ATTACHMENT_LIMITS } from '../../src/mail/attachment-text.ts';
import { documentText } from '../../src/mail/document-text.ts';
import { attached, html, multipart, text } from '../mime/compose.ts';
import { docx, pdf, zip } from './documents.ts';

const read = (bytes: Buffer | string, form: string, limits = {}) =>
  documentText(Buffer.from(bytes), form, { ...ATTACHMENT_LIMITS, ...limits });

async function textOf(bytes: Buffer | string, form: string): Promise<string> {
  const outcome = await read(bytes, form);
  if (outcome.status === 'failed') throw new Error(outcome.reason);
  return outcome.text;
}

describe('PDF', () => {
  test('gives its text page by page', async () => {
    expect(await textOf(pdf(['First (page)', 'Zweite Seite']), 'pdf')).toBe(
      'First (page)\n\nZweite Seite',
    );
  });

  test('does not run its scripts', async () => {
    const script =
      '/OpenAction << /S /JavaScript /JS (globalThis.pwned = 1; while \\(true\\) {}) >>';
    expect(await textOf(pdf(['harmless'], script), 'pdf')).toBe('harmless');
    expect(Reflect.get(globalThis, 'pwned')).toBeUndefined();
  });

  test('what is none, or half of one, is malformed', async () => {
    expect(await read('no PDF at all', 'pdf')).toEqual({ status: 'failed', reason: 'malformed' });
    expect(await read('%PDF-1.7\nnothing', 'pdf')).toEqual({
      status: 'failed',
      reason: 'malformed',
    });
  });

  test('stops at the ceiling of pages, and says so', async () => {
    const outcome = await read(pdf(['one', 'two', 'three']), 'pdf', { pages: 2 });
    expect(outcome).toEqual({ status: 'done', text: 'one\n\ntwo', truncated: true });
  });
});

describe('office documents', () => {
  test('DOCX: runs join, paragraphs and breaks end lines, fields and deleted words are left out', async () => {
    const document = await zip({
      'word/document.xml': `<w:document xmlns:w="x"><w:body>
        <w:p><w:r><w:t>Kosten</w:t></w:r><w:r><w:t>voranschlag</w:t></w:r></w:p>
        <w:p><w:r><w:delText>gone</w:delText><w:instrText>PAGE</w:instrText><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c &amp; d</w:t></w:r></w:p>
        </w:body></w:document>`,
      'word/footnotes.xml':
        '<w:footnotes xmlns:w="x"><w:p><w:t>a footnote</w:t></w:p></w:footnotes>',
      'word/header1.xml': '<w:hdr xmlns:w="x"><w:p><w:t>letterhead</w:t></w:p></w:hdr>',
    });
    const words = await textOf(document, 'office');
    expect(words).toContain('Kostenvoranschlag\n');
    expect(words).toMatch(/a b\nc & d/);
    expect(words).toContain('a footnote');
    expect(words).toContain('letterhead');
    expect(words).not.toMatch(/gone|PAGE/);
  });

  test('XLSX: names of sheets, shared and inline texts, numbers', async () => {
    const sheet = await zip({
      'xl/workbook.xml': '<workbook><sheets><sheet name="Budget 2026"/></sheets></workbook>',
      'xl/sharedStrings.xml':
        '<sst><si><t>Rent</t></si><si><r><t>Ele</t></r><r><t>ctricity</t></r></si></sst>',
      'xl/worksheets/sheet1.xml':
        '<worksheet><sheetData><row><c t="s"><v>0</v></c><c><v>1234.5</v></c></row><row><c t="inlineStr"><is><t>note</t></is></c><c t="str"><f>A1</f><v>calculated</v></c></row></sheetData></worksheet>',
    });
    expect((await textOf(sheet, 'office')).split(/\s+/)).toEqual(
      'Budget 2026 Rent Electricity 1234.5 note calculated'.split(' '),
    );
  });

  test('PPTX: slides in the order of their numbers, and notes', async () => {
    const slide = (words: string) =>
      `<p:sld xmlns:p="x" xmlns:a="y"><a:p><a:r><a:t>${words}</a:t></a:r></a:p></p:sld>`;
    const show = await zip({
      'ppt/slides/slide10.xml': slide('tenth'),
      'ppt/slides/slide2.xml': slide('second'),
      'ppt/slides/slide1.xml': slide('first'),
      'ppt/notesSlides/notesSlide1.xml': slide('said aloud'),
    });
    expect((await textOf(show, 'office')).split(/\n+/)).toEqual([
      'first',
      'second',
      'tenth',
      'said aloud',
    ]);
  });

  test('ODF: text of the body, whatever it is nested in', async () => {
    const odt = await zip({
      mimetype: 'application/vnd.oasis.opendocument.text',
      'content.xml':
        '<office:document-content xmlns:office="o" xmlns:text="t"><office:font-face-decls><text:p>no</text:p></office:font-face-decls><office:body><office:text><text:h>Title</text:h><text:p>Grüße<text:tab/>aus <text:span>Wien</text:span></text:p></office:text></office:body></office:document-content>',
    });
    expect(await textOf(odt, 'office')).toBe('Title\nGrüße aus Wien');
  });

  test('external entities and entities of its own stay what they are', async () => {
    const evil = await zip({
      'word/document.xml': `<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY a "boom"><!ENTITY b "&a;&a;&a;">]>
        <w:document xmlns:w="x"><w:p><w:t>before &x; &b; after</w:t></w:p></w:document>`,
    });
    const words = await textOf(evil, 'office');
    expect(words).toContain('before');
    expect(words).not.toMatch(/root:|boomboom/);
  });

  test('a zip that unpacks to too much, has too many entries, or lies about sizes has failed', async () => {
    const zeros = await zip({ 'word/document.xml': Buffer.alloc(3_000_000, ' ') });
    expect(zeros.length).toBeLessThan(10_000);
    expect(await read(zeros, 'office', { inflatedBytes: 1_000_000 })).toEqual({
      status: 'failed',
      reason: 'bomb',
    });
    const many = await zip(Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`f${i}`, ''])));
    expect(await read(many, 'office', { entries: 40 })).toEqual({
      status: 'failed',
      reason: 'bomb',
    });
    const honest = await docx('some words that take a while to say');
    const size = Buffer.alloc(4);
    size.writeUInt32LE(10);
    const directory = honest.lastIndexOf(Buffer.from('PK\u0001\u0002'));
    size.copy(honest, directory + 24);
    expect(await read(honest, 'office')).toEqual({ status: 'failed', reason: 'malformed' });
  });

  test('names that climb out of folders are only names', async () => {
    const slip = await zip({ 'word/document.xml': '<w:t>kept</w:t>' });
    const name = Buffer.from('word/document.xml');
    const bytes = Buffer.from(slip);
    for (let at = bytes.indexOf(name); at >= 0; at = bytes.indexOf(name, at + 1)) {
      bytes.write('../../../../etc/x', at, 'latin1');
    }
    const outcome = await read(bytes, 'office');
    expect(outcome.status).toBe('failed');
  });

  test('a plain zip is not looked into', async () => {
    const inner = await docx('hidden');
    expect(await read(await zip({ 'inner.docx': inner, 'a.txt': 'x' }), 'office')).toEqual({
      status: 'failed',
      reason: 'unsupported',
    });
  });

  test('documents under a password say so', async () => {
    const odt = await zip({
      'content.xml': 'garbage',
      'META-INF/manifest.xml': '<manifest:encryption-data/>',
    });
    expect(await read(odt, 'office')).toEqual({ status: 'failed', reason: 'encrypted' });
    const compound = Buffer.concat([
      Buffer.from('d0cf11e0a1b11ae1', 'hex'),
      Buffer.from('EncryptedPackage', 'utf16le'),
    ]);
    expect(await read(compound, 'office')).toEqual({ status: 'failed', reason: 'encrypted' });
    expect(await read(compound.subarray(0, 8), 'office')).toEqual({
      status: 'failed',
      reason: 'unsupported',
    });
  });

  test('cut off anywhere, it fails or gives what there was, and never throws', async () => {
    const whole = await docx('some words', 'and more');
    for (let end = 4; end < whole.length; end += 7) {
      const outcome = await read(whole.subarray(0, end), 'office');
      expect(outcome).toEqual({ status: 'failed', reason: 'malformed' });
    }
  });
});

describe('text', () => {
  test('in the charset the mail names', async () => {
    expect(await textOf(Buffer.from('naïve café', 'latin1'), 'text:iso-8859-1')).toBe('naïve café');
    expect(await textOf('Grüße', 'text:')).toBe('Grüße');
  });

  test('is cut at the ceiling, and says so', async () => {
    const outcome = await read('x'.repeat(50), 'text:', { chars: 20 });
    expect(outcome).toEqual({ status: 'done', text: 'x'.repeat(20), truncated: true });
  });

  test('binary that is called text is not indexed; a PDF called text is read', async () => {
    expect(await read(Buffer.alloc(100), 'text:')).toEqual({
      status: 'failed',
      reason: 'unsupported',
    });
    expect(await textOf(pdf(['really a PDF']), 'text:')).toBe('really a PDF');
  });

  test('HTML without its markup and scripts', async () => {
    expect(await textOf('<p>Hello <b>world</b><script>alert(1)</script>', 'html:utf-8')).toBe(
      'Hello world',
    );
  });

  test('a calendar entry: its words, unfolded and unescaped', async () => {
    const ics =
      'BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:123\r\nSUMMARY:Board mee\r\n ting\\, yearly\r\nLOCATION;LANGUAGE=de:Saal 3\r\nORGANIZER;CN="Anna B.":mailto:anna@example.org\r\nDESCRIPTION:Bring\\ncake\r\nEND:VEVENT\r\n';
    expect(await textOf(ics, 'calendar:utf-8')).toBe(
      'Board meeting, yearly\nSaal 3\nAnna B. anna@example.org\nBring\ncake',
    );
  });

  test('an attached mail: its text, and that of its attachments', async () => {
    const inner = multipart(
      'mixed',
      [
        text('the letter'),
        attached(await docx('the contract'), 'c.docx', 'application/octet-stream'),
        attached(Buffer.from('broken'), 'b.pdf', 'application/pdf'),
        html('<i>unseen</i>', { 'Content-Disposition': 'attachment; filename="page.html"' }),
      ],
      { Subject: 'Forwarded', From: 'Anna <anna@example.org>' },
    );
    const words = await textOf(inner, 'mail');
    for (const part of ['Forwarded', 'anna@example.org', 'the letter', 'the contract', 'unseen']) {
      expect(words).toContain(part);
    }
  });

  test.each(['base64', 'quoted-printable', '8bit'])(
    'long attachments of a mail, in %s',
    async (encoding) => {
      const lines = Array.from({ length: 20_000 }, (_, n) => `line ${n}`).join('\n');
      const inner = multipart('mixed', [
        text('the letter'),
        {
          headers: {
            'Content-Type': 'text/plain',
            'Content-Transfer-Encoding': encoding,
            'Content-Disposition': 'attachment; filename="long.txt"',
          },
          body:
            encoding === 'base64'
              ? Buffer.from(lines).toString('base64').replace(/.{76}/g, '$&\n')
              : lines,
        },
      ]);
      expect(await textOf(inner, 'mail')).toContain(lines);
    },
  );
});
