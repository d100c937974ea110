import { deflateSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { AttachmentOutcome } from '../../src/mail/attachment-text.ts';
import { ATTACHMENT_LIMITS } from '../../src/mail/attachment-text.ts';
import { documentText } from '../../src/mail/document-text.ts';
import { pdf, pdfOf, pdfStream } from './documents.ts';

const MiB = 1024 * 1024;
const BOMB = { status: 'failed', reason: 'bomb' };

/** Bytes that the platform has inflated so far, whoever asked for them. */
let inflated = 0;
const Platform = globalThis.DecompressionStream;
// Before pdf.js is first used, so that it lies below the bound.
globalThis.DecompressionStream = new Proxy(Platform, {
  construct(target, [format]: ConstructorParameters<typeof Platform>) {
    const { readable, writable } = new target(format);
    const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(chunk, controller) {
        inflated += chunk.byteLength;
        controller.enqueue(chunk);
      },
    });
    return { readable: readable.pipeThrough(counter), writable };
  },
});

const read = (bytes: Buffer, pageBytes = ATTACHMENT_LIMITS.pageBytes): Promise<AttachmentOutcome> =>
  documentText(bytes, 'pdf', { ...ATTACHMENT_LIMITS, pageBytes });

/** One page, whose content is these streams. */
function page(...streams: readonly Buffer[]): Buffer {
  const contents = streams.map((_, i) => `${5 + i} 0 R`).join(' ');
  return pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [4 0 R] /Count 1 >>',
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>',
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents [${contents}] /Resources << /Font << /F1 3 0 R >> >> >>`,
    ...streams,
  ]);
}

const words = (text: string, length: number): Buffer =>
  Buffer.from(`BT /F1 12 Tf 72 720 Td (${text}) Tj ET\n`.padEnd(length, ' '));

const flate = (content: Buffer): Buffer => pdfStream('/Filter /FlateDecode ', deflateSync(content));

/** Runs of 128 bytes, two bytes each. */
const runLength = (byte: number, length: number): Buffer =>
  Buffer.alloc((length / 128) * 2, Buffer.from([129, byte]));

test('a stream of 200 MiB is never unpacked', async () => {
  const bomb = pdf(['x'], '', deflateSync(Buffer.alloc(200 * MiB, ' '), { level: 1 }));
  const before = inflated;
  expect(await read(bomb)).toEqual(BOMB);
  expect(inflated - before).toBeGreaterThan(ATTACHMENT_LIMITS.pageBytes);
  expect(inflated - before).toBeLessThan(ATTACHMENT_LIMITS.pageBytes + MiB);
  expect(await read(pdf(['after']))).toMatchObject({ text: 'after' });
});

test('the streams of one page count together, those of another page do not', async () => {
  const half = words('half', MiB / 2);
  const content = deflateSync(half);
  expect(await read(page(flate(half), flate(half)), MiB)).toMatchObject({ text: 'halfhalf' });
  expect(await read(page(flate(half), flate(half), flate(half)), MiB)).toEqual(BOMB);
  expect(await read(pdf(['', '', '', ''], '', content), MiB)).toMatchObject({
    text: 'half\n\nhalf\n\nhalf\n\nhalf',
  });
});

test.each([
  [
    'one that is deflated twice',
    '[/FlateDecode /FlateDecode] ',
    (n: number) => deflateSync(deflateSync(Buffer.alloc(n, ' '))),
  ],
  ['one of another encoding', '/RunLengthDecode ', (n: number) => runLength(32, n)],
  ['one in digits', '/ASCIIHexDecode ', (n: number) => Buffer.alloc(2 * n, '20')],
])('%s counts as well', async (_, filter, content) => {
  const of = (length: number) => page(pdfStream(`/Filter ${filter}`, content(length)));
  expect(await read(of(MiB / 4), MiB)).toMatchObject({ status: 'done', text: '' });
  expect(await read(of(4 * MiB), MiB)).toEqual(BOMB);
});

test('an attached message keeps the text around a bomb', async () => {
  const bomb = pdf(['x'], '', deflateSync(Buffer.alloc(4 * MiB, ' '))).toString('base64');
  const part = (type: string, name: string, body: string) =>
    `--b\r\nContent-Type: ${type}; name=${name}\r\nContent-Disposition: attachment; filename=${name}\r\n${body}\r\n`;
  const mail = [
    'Subject: outer\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n',
    part('application/pdf', 'a.pdf', `Content-Transfer-Encoding: base64\r\n\r\n${bomb}`),
    part('text/plain', 'b.txt', '\r\nwords behind it'),
    '--b--\r\n',
  ].join('');
  const outcome = await documentText(Buffer.from(mail), 'mail', {
    ...ATTACHMENT_LIMITS,
    pageBytes: MiB,
  });
  expect(outcome).toMatchObject({ status: 'done', text: expect.stringContaining('words behind') });
});
