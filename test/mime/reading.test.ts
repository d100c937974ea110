import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { hasCode } from '../../src/errors/mailkeep-error.ts';
import { openAttachment, readMessage } from '../../src/mime/reading.ts';
import { buildWorker } from './built-worker.ts';
import { attached, html, mail, multipart, parts, text } from './compose.ts';

let workerFile: URL;
beforeAll(async () => {
  workerFile = await buildWorker();
});

async function* whole(source: Buffer): AsyncIterable<Uint8Array> {
  yield source;
}

async function bytesOf(content: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of content) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const picture = randomBytes(300_000);
const letter = multipart(
  'mixed',
  [
    {
      headers: { 'Content-Type': 'multipart/alternative; boundary=alt' },
      body: parts('alt', [text('plain words'), html('<p>rich words</p>')]),
    },
    attached(picture, 'photo.jpg', 'image/jpeg'),
    text('inline notes', { 'Content-Disposition': 'inline; filename=notes.txt' }),
    { headers: { 'Content-Type': 'message/rfc822' }, body: 'Subject: in\n\ninner' },
  ],
  {
    Subject: '=?utf-8?Q?Gr=C3=BC=C3=9Fe?=',
    From: 'Jane <jane@example.org>',
    'X-Folded': 'one\r\n two',
  },
);

describe('readMessage', () => {
  it('gives headers, texts, HTML and the attachments', async () => {
    const read = await readMessage(whole(letter), { workerFile });
    expect(read).toMatchObject({
      reason: null,
      subject: 'Grüße',
      from: 'Jane <jane@example.org>',
      text: 'plain words\n\ninline notes',
      html: '<p>rich words</p>',
      truncated: false,
    });
    expect(read.headers.slice(1, 4)).toEqual([
      { name: 'Subject', value: 'Grüße' },
      { name: 'From', value: 'Jane <jane@example.org>' },
      { name: 'X-Folded', value: 'one two' },
    ]);
    expect(read.attachments.map(({ number, filename, size }) => [number, filename, size])).toEqual([
      [1, 'photo.jpg', 300_000],
      [2, 'notes.txt', 12],
      [3, null, 20],
    ]);
  });

  it('reads a source that is larger than any memory it may take', async () => {
    const line = Buffer.from(`${'QUJD'.repeat(19)}\r\n`.repeat(10_000));
    async function* huge() {
      yield Buffer.from('Subject: huge\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n');
      yield Buffer.from('--b\r\n\r\nshort text\r\n--b\r\nContent-Type: application/zip\r\n');
      yield Buffer.from('Content-Transfer-Encoding: base64\r\n\r\n');
      for (let i = 0; i < 40; i++) yield line;
      yield Buffer.from('--b--\r\n');
    }
    const limits = { oldGenerationMb: 24, youngGenerationMb: 3 };
    const read = await readMessage(huge(), { workerFile, limits });
    expect(read).toMatchObject({ reason: null, text: 'short text' });
    expect(read.attachments[0]?.size).toBe(40 * 10_000 * 57);
  });

  it('gives the headers of a message that ends its worker', async () => {
    const attributes = Array.from({ length: 150_000 }, (_, i) => `a${i}=1`).join(' ');
    const source = mail(
      { Subject: 'hungry', 'Content-Type': 'text/html' },
      `<p ${attributes}>x</p>`,
    );
    const limits = { oldGenerationMb: 24, youngGenerationMb: 3 };
    expect(await readMessage(whole(source), { workerFile, limits })).toMatchObject({
      reason: 'memory',
      subject: 'hungry',
      text: '',
    });
  });

  it('throws what the source throws', async () => {
    async function* broken() {
      yield letter.subarray(0, 100);
      throw new Error('disk gone');
    }
    await expect(readMessage(broken(), { workerFile })).rejects.toThrow('disk gone');
  });
});

describe('openAttachment', () => {
  it('streams the decoded bytes of each attachment', async () => {
    const open = (number: number) => openAttachment(whole(letter), number, { workerFile });
    const first = await open(1);
    expect(first.attachment).toEqual({
      number: 1,
      filename: 'photo.jpg',
      contentType: 'image/jpeg',
      inline: false,
      contentId: null,
    });
    expect((await bytesOf(first.content)).equals(picture)).toBe(true);
    expect((await bytesOf((await open(2)).content)).toString()).toBe('inline notes');
    expect((await bytesOf((await open(3)).content)).toString()).toBe('Subject: in\r\n\r\ninner');
  });

  it('holds the source back while nobody takes the bytes', async () => {
    const piece = Buffer.from(`${'QUJD'.repeat(19)}\r\n`.repeat(2000));
    let given = 0;
    async function* source() {
      yield Buffer.from('Content-Type: application/zip\r\n');
      yield Buffer.from('Content-Transfer-Encoding: base64\r\n\r\n');
      for (; given < 100; given++) yield piece;
    }
    const { content } = await openAttachment(source(), 1, { workerFile });
    for await (const _ of content) break;
    expect(given).toBeLessThan(20);
  });

  it('names the count when there are fewer', async () => {
    await expect(openAttachment(whole(letter), 9, { workerFile })).rejects.toSatisfy(
      (error) => hasCode(error, 'attachment-missing') && error.facts.count === 3,
    );
  });

  it('does not pass off a part of an attachment as all of it', async () => {
    const source = multipart('mixed', [
      text('x'),
      ...Array.from({ length: 3000 }, () => text('y')),
      attached(picture, 'late.jpg', 'image/jpeg'),
    ]);
    await expect(openAttachment(whole(source), 1, { workerFile })).rejects.toSatisfy(
      (error) => hasCode(error, 'mail-unreadable') && error.facts.reason === 'parts',
    );
  });
});
