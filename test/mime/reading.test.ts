import { randomBytes } from 'node:crypto';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hasCode } from '../../src/core/errors.ts';
import { SpareReader } from '../../src/mail/mime-threads.ts';
import { openAttachments, readMessage, readPage } from '../../src/mail/reading.ts';
import { buildWorker } from './built-worker.ts';
import { attached, html, mail, multipart, parts, pngHead, text } from './compose.ts';
import { threadsOf } from './started-threads.ts';

let workerFile: URL;
beforeAll(async () => {
  workerFile = await buildWorker();
});

async function* whole(source: Buffer): AsyncIterable<Uint8Array> {
  yield source;
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
  it('shows damaged header lines that have a name, and no line of an mbox', async () => {
    const head = [
      'From ada@example.org Tue Mar  3 10:00:00 2020',
      'Subject: weir',
      'X-Mailer of ours: one',
      ' two',
      'To: ada@example.org',
      'neither name nor value',
      'Cc: eve@example.org',
      'Content Type: text/html',
      'Content-Type: text/plain',
    ];
    const source = Buffer.from([...head, '', '<b>ouzel'].join('\r\n'));
    const read = await readMessage(whole(source), { workerFile });
    expect(read.headers).toEqual([
      { name: 'Subject', value: 'weir' },
      { name: 'X-Mailer of ours', value: 'one two' },
      { name: 'To', value: 'ada@example.org' },
      { name: 'Cc', value: 'eve@example.org' },
      { name: 'Content Type', value: 'text/html' },
      { name: 'Content-Type', value: 'text/plain' },
    ]);
    expect(read).toMatchObject({ text: '<b>ouzel', html: null });
  });

  it('gives headers, texts, HTML and the attachments', async () => {
    const read = await readMessage(whole(letter), { workerFile });
    expect(read).toMatchObject({
      reason: null,
      subject: 'Grüße',
      from: 'Jane <jane@example.org>',
      text: 'plain words\n\ninline notes',
      html: '<p>rich words</p>',
      hasPlain: true,
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
    const attributes = Array.from({ length: 300_000 }, (_, i) => `a${i.toString(36)}`).join(' ');
    const source = mail(
      { Subject: 'hungry', 'Content-Type': 'text/html' },
      `<p ${attributes}>x</p>${'<b>'.repeat(5001)}`,
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

describe('openAttachments', () => {
  it('gives them all in one reading', async () => {
    const found = new Map<number, Buffer[]>();
    const names: (string | null)[] = [];
    for await (const piece of openAttachments(whole(letter), { workerFile })) {
      if ('attachment' in piece) names[piece.attachment.number - 1] = piece.attachment.filename;
      else if ('bytes' in piece)
        found.set(piece.number, [...(found.get(piece.number) ?? []), Buffer.from(piece.bytes)]);
    }
    expect(names).toEqual(['photo.jpg', 'notes.txt', null]);
    expect(Buffer.concat(found.get(1) ?? []).equals(picture)).toBe(true);
    expect(Buffer.concat(found.get(2) ?? []).toString()).toBe('inline notes');
    expect(Buffer.concat(found.get(3) ?? []).toString()).toContain('inner');
  });

  it('holds the source back while nobody takes the bytes', async () => {
    const piece = Buffer.from(`${'QUJD'.repeat(19)}\r\n`.repeat(2000));
    let given = 0;
    async function* source() {
      yield Buffer.from('Content-Type: application/zip\r\n');
      yield Buffer.from('Content-Transfer-Encoding: base64\r\n\r\n');
      for (; given < 100; given++) yield piece;
    }
    for await (const part of openAttachments(source(), { workerFile })) if ('bytes' in part) break;
    expect(given).toBeLessThan(20);
  });

  it('does not pass off a part of a message as all of it', async () => {
    const source = multipart('mixed', [
      text('x'),
      ...Array.from({ length: 3000 }, () => text('y')),
      attached(picture, 'late.jpg', 'image/jpeg'),
    ]);
    await expect(
      (async () => {
        for await (const _ of openAttachments(whole(source), { workerFile }));
      })(),
    ).rejects.toSatisfy(
      (error) => hasCode(error, 'mail-unreadable') && error.facts.reason === 'parts',
    );
  });

  it('keeps many large neighbours apart', async () => {
    const files = Array.from({ length: 40 }, (_, i) => Buffer.alloc(150_000, `${i} `));
    const many = multipart(
      'mixed',
      files.map((bytes, i) => attached(bytes, `${i}.bin`, 'application/octet-stream')),
    );
    const found = new Map<number, Buffer[]>();
    for await (const piece of openAttachments(whole(many), { workerFile })) {
      if ('bytes' in piece)
        found.set(piece.number, [...(found.get(piece.number) ?? []), Buffer.from(piece.bytes)]);
    }
    for (const [i, bytes] of files.entries()) {
      expect(Buffer.concat(found.get(i + 1) ?? []).equals(bytes)).toBe(true);
    }
  });
});

describe('readPage', () => {
  const related = (...pictures: ReturnType<typeof attached>[]) =>
    multipart('related', [html('<p>seen</p><img src="cid:logo@x" alt="logo">'), ...pictures]);
  const logo = (bytes: Buffer, type = 'image/png') => {
    const part = attached(bytes, 'logo.png', type);
    return { ...part, headers: { ...part.headers, 'Content-ID': '<logo@x>' } };
  };

  it('puts the pictures that a message brings along into the page', async () => {
    const page = await readPage(whole(related(logo(pngHead(9, 9)))), { workerFile });
    expect(page).toContain(`src="data:image/png;base64,${pngHead(9, 9).toString('base64')}"`);
  });

  it('leaves out what is too large for a page, or no picture', async () => {
    for (const part of [
      logo(randomBytes(3 * 1024 * 1024)),
      logo(Buffer.from('<svg onload="x"/>'), 'image/svg+xml'),
      logo(Buffer.from('<script>'), 'text/html'),
    ]) {
      const page = await readPage(whole(related(part)), { workerFile });
      expect(page).toContain('seen');
      expect(page).toContain('alt="logo"');
      expect(page).not.toMatch(/src=|<svg|<script/);
    }
  });

  it('is null where there is no HTML', async () => {
    expect(await readPage(whole(mail({}, 'plain')), { workerFile })).toBeNull();
  });
});

describe('SpareReader', () => {
  let spare: SpareReader;
  beforeEach(() => {
    spare = new SpareReader({ workerFile });
    spare.prepare();
  });
  afterEach(() => spare.close());

  it('reads each message in a thread that was started before, and one after the other', async () => {
    expect(
      await threadsOf(async () => {
        const read = await readMessage(whole(mail({ subject: 'first' }, 'one')), { spare });
        expect([read.subject, read.text.trim()]).toEqual(['first', 'one']);
      }),
      // The next one, which waits.
    ).toBe(1);
    for (const subject of ['second', 'third'])
      expect((await readMessage(whole(mail({ subject }, 'x')), { spare })).subject).toBe(subject);
  });

  it('reads message after message in one thread, as each would be read alone', async () => {
    const letters = [
      letter,
      mail({ subject: 'short' }, 'x'),
      mail(
        { subject: 'cut off', 'content-type': 'multipart/mixed; boundary=b' },
        '--b\r\n\r\nhalf',
      ),
      mail({ 'content-type': 'text/html' }, '<p>rich <img src="https://example.org/p.png"></p>'),
      Buffer.alloc(0),
      letter,
    ];
    const alone = await Promise.all(
      letters.map((one) => readMessage(whole(one), { workerFile, countsRemote: true })),
    );
    const together: unknown[] = [];
    const started = await threadsOf(async () => {
      for (const one of letters)
        together.push(await readMessage(whole(one), { spare, countsRemote: true }));
    });
    expect(together).toEqual(alone);
    // The one that waits for what must be alone in its thread.
    expect(started).toBe(1);
  });

  it('gives HTML and attachments threads that read nothing else, and so what follows a large message', async () => {
    const page = html('<p>rich</p>');
    const source = multipart('mixed', [page, attached(picture, 'photo.jpg', 'image/jpeg')]);
    const large = mail({ subject: 'large' }, 'line of a long text\r\n'.repeat(60_000));
    const pages = () => readPage(whole(source), { spare });
    const message = (one = source) => readMessage(whole(one), { spare });
    const saved = async () => {
      for await (const _ of openAttachments(whole(source), { spare }));
    };
    for (const [started, ...reads] of [
      [3, pages, pages, saved],
      [1, message, message],
      // A used thread waits, and is left for messages.
      [2, pages, message, saved, message],
      [0, message],
      [0, () => message(large)],
      // That was the last message of its thread.
      [1, message],
    ] as const)
      expect(
        await threadsOf(async () => {
          for (const read of reads) await read();
        }),
      ).toBe(started);
  });

  it('reads nothing else in a thread that was given up', async () => {
    const leaving = new AbortController();
    async function* source(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('Subject: x\r\n\r\n');
      leaving.abort(new Error('left'));
    }
    const left = readMessage(source(), { spare, signal: leaving.signal });
    await expect(left).rejects.toThrow('left');
    const started = await threadsOf(async () => {
      expect((await readMessage(whole(mail({ subject: 'y' }, 'x')), { spare })).subject).toBe('y');
    });
    expect(started).toBe(1);
  });

  it('starts another where two messages are read at once', async () => {
    const subjects = ['a', 'b', 'c'];
    const read = await Promise.all(
      subjects.map((subject) => readMessage(whole(mail({ subject }, 'x')), { spare, workerFile })),
    );
    expect(read.map(({ subject }) => subject)).toEqual(subjects);
  });

  it('passes on what the source throws, and reads the next message', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('Subject: x\r\n');
      throw new Error('the disk is gone');
    }
    await expect(readMessage(broken(), { spare })).rejects.toThrow('the disk is gone');
    expect((await readMessage(whole(mail({ subject: 'y' }, 'x')), { spare })).subject).toBe('y');
  });
});
