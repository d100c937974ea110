import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasCode } from '../../src/core/errors.ts';
import { extractMessage } from '../../src/mail/extract-message.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { DEFAULT_LIMITS, type IndexEntry, indexEntry } from '../../src/mail/extraction.ts';
import { type ExtractorPoolOptions, openExtractorPool } from '../../src/mail/mime-threads.ts';
import { buildWorker } from './built-worker.ts';
import { attached, mail, multipart, text } from './compose.ts';
import { threadsOf } from './started-threads.ts';

let workerFile: URL;
const open: Extractor[] = [];

beforeAll(async () => {
  workerFile = await buildWorker();
});
afterAll(async () => {
  await Promise.all(open.map((pool) => pool.close()));
});

function pool(options: ExtractorPoolOptions = {}): Extractor {
  const opened = openExtractorPool({ workers: 1, workerFile, ...options });
  open.push(opened);
  return opened;
}

function extract(extractor: Extractor, source: Buffer, cut = false): Promise<IndexEntry> {
  return extractor.extract({ id: '', source, cut });
}

const letter = (n: number) =>
  mail({ Subject: `letter ${n}`, From: `w${n}@example.org` }, `words of letter ${n}`);

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Half a minute of work within every ceiling on size: empty lines, indented by each of 95 lists around them. */
function slowMail(): Buffer {
  const html = `${'<ol start=1e20><li>'.repeat(95)}${'<br>'.repeat(1000)}`;
  const part = { headers: { 'Content-Type': 'text/html' }, body: html };
  return multipart(
    'mixed',
    Array.from({ length: 200 }, () => part),
    { Subject: 'slow' },
  );
}

/** Needs hundreds of megabytes for one element: with this many tags, all attributes of each are read. */
function hungryMail(): Buffer {
  const attributes = Array.from({ length: 300_000 }, (_, i) => `a${i.toString(36)}`).join(' ');
  return mail(
    { Subject: 'hungry', 'Content-Type': 'text/html' },
    `<p ${attributes}>x</p>${'<b>'.repeat(5001)}`,
  );
}

describe('the pool', () => {
  it('gives what extraction in this thread gives, in any number and order', async () => {
    const extractor = pool({ workers: 2 });
    const sources = [
      ...Array.from({ length: 100 }, (_, n) => letter(n)),
      mail({ Subject: 'large' }, 'line of text\n'.repeat(60_000)),
      multipart('mixed', [
        text('see'),
        attached(Buffer.alloc(400_000, 1), 'a.bin', 'application/x'),
      ]),
      mail({ Subject: 'Grüße', From: 'Żółw <a@x.example>' }, 'Straße, 東京 and 한글: “quoted”'),
      multipart('mixed', [
        text('see\ud800'),
        attached(Buffer.from('words'), 'żółw.txt', 'text/plain'),
      ]),
      Buffer.alloc(0),
      Buffer.from('no headers at all'),
    ];
    const results = await Promise.all(sources.map((source) => extract(extractor, source)));
    for (const [i, source] of sources.entries())
      expect(results[i]).toEqual(indexEntry(await extractMessage(source, false, DEFAULT_LIMITS)));
  });

  it('cuts sources at the ceiling, and says so of what came cut', async () => {
    const extractor = pool({ limits: { sourceBytes: 1000 } });
    const e = await extract(extractor, mail({ Subject: 's' }, 'x'.repeat(5000)));
    expect(e.body.length).toBeLessThan(1000);
    // What was cut may lack bytes of its last attachment, which then has no hash.
    const hashOf = async (size: number, cut = false) => {
      const source = multipart('mixed', [attached(Buffer.alloc(size, 65), 'a.txt', 'text/plain')]);
      return (await extract(extractor, source, cut)).attachments.map(({ hash }) => hash);
    };
    expect(await hashOf(5000)).toEqual([null]);
    expect(await hashOf(50)).toEqual([sha256(Buffer.alloc(50, 65))]);
    expect(await hashOf(50, true)).toEqual([null]);
  });

  it('hashes every attachment, and knows which have text', async () => {
    const extractor = pool({ workers: 1 });
    const picture = Buffer.from('not quite a picture');
    const e = await extract(
      extractor,
      multipart('mixed', [
        text('see'),
        attached(picture, 'a.png', 'image/png'),
        attached(Buffer.from('words'), 'b.txt', 'text/plain'),
        attached(Buffer.from('rows'), 'c.bin', 'application/zip'),
      ]),
    );
    expect(e.attachments).toMatchObject([
      { number: 1, form: null, size: picture.length, hash: sha256(picture) },
      { number: 2, form: 'text:', hash: sha256(Buffer.from('words')) },
      { number: 3, form: null, hash: sha256(Buffer.from('rows')) },
    ]);
  });

  it('leaves the sources that it was given as they were', async () => {
    const slab = Buffer.alloc(64 * 1024);
    const source = letter(1);
    source.copy(slab, 100);
    await extract(pool(), slab.subarray(100, 100 + source.length));
    expect(slab.subarray(100, 100 + source.length).equals(source)).toBe(true);
  });

  it.each([
    [
      'depth',
      Buffer.from(
        `Subject: poison\r\nContent-Type: multipart/mixed; boundary=b0\r\n\r\n${Array.from(
          { length: 10_000 },
          (_, i) => `--b${i}\r\nContent-Type: multipart/mixed; boundary=b${i + 1}\r\n\r\n`,
        ).join('')}`,
      ),
    ],
    [
      'parts',
      Buffer.from(
        `Subject: poison\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${'--b\r\n\r\nx\r\n'.repeat(
          100_000,
        )}`,
      ),
    ],
    ['header', Buffer.from(`Subject: poison\r\n${'X-Filler: y\r\n'.repeat(800_000)}\r\nbody`)],
    ['header', Buffer.from(`Subject: poison\r\nX-Long: ${'y'.repeat(10_000_000)}\r\n\r\nbody`)],
  ])('reports %s for a message that breaks that limit, and continues', async (reason, source) => {
    const extractor = pool();
    const [poisoned, healthy] = await Promise.all([
      extract(extractor, source),
      extract(extractor, letter(2)),
    ]);
    expect(poisoned).toMatchObject({ unparsed: reason, subject: 'poison' });
    expect(healthy).toMatchObject({ unparsed: null, subject: 'letter 2' });
  });
});

describe('HTML of hundreds of thousands of tags', () => {
  it('is flattened within half of the memory that a worker has', async () => {
    const html = `${'<div>'.repeat(400_000)}words`;
    const extractor = pool({ limits: { oldGenerationMb: 48 } });
    const source = mail({ Subject: 'deep', 'Content-Type': 'text/html' }, html);
    expect(await extract(extractor, source)).toMatchObject({ unparsed: null, body: 'words' });
  });
});

describe('a worker that grew', () => {
  it('is replaced when its messages are done, and no other is', async () => {
    const sources = Array.from({ length: 200 }, (_, n) => letter(n));
    for (const [wornBytes, threads] of [
      [DEFAULT_LIMITS.wornBytes, 1],
      // Messages travel in groups of 16, twelve of them ahead.
      [1, 2],
    ] as const) {
      const started = await threadsOf(async () => {
        const extractor = pool({ limits: { wornBytes } });
        const results = await Promise.all(sources.map((source) => extract(extractor, source)));
        expect(results.map(({ subject }) => subject)).toEqual(sources.map((_, n) => `letter ${n}`));
        await extractor.close();
      });
      expect(started).toBe(threads);
    }
  });
});

describe('a pool at rest', () => {
  it('ends idle workers only, and starts others for the next work', async () => {
    const started = await threadsOf(async () => {
      const extractor = pool();
      const results = Promise.all([letter(0), letter(1)].map((s) => extract(extractor, s)));
      await extractor.rest();
      expect((await results).map(({ subject }) => subject)).toEqual(['letter 0', 'letter 1']);
      await extractor.rest();
      const later = [
        extract(extractor, letter(2)),
        extractor.rest(),
        extract(extractor, letter(3)),
      ];
      expect(await Promise.all(later)).toMatchObject([
        { subject: 'letter 2' },
        undefined,
        { subject: 'letter 3' },
      ]);
      await extractor.close();
    });
    expect(started).toBe(2);
  });
});

describe('a message that ends its worker', () => {
  const others = Array.from({ length: 40 }, (_, n) => letter(n));
  const expectOthersWhole = (results: readonly IndexEntry[]) => {
    expect(results.map(({ subject, unparsed }) => [subject, unparsed])).toEqual(
      others.map((_, n) => [`letter ${n}`, null]),
    );
  };

  it('by taking too long comes back with its headers; the others are done elsewhere', async () => {
    const extractor = pool({ limits: { messageMs: 1500 } });
    const before = Promise.all(others.slice(0, 20).map((source) => extract(extractor, source)));
    const poisoned = extract(extractor, slowMail());
    const after = Promise.all(others.slice(20).map((source) => extract(extractor, source)));
    expect(await poisoned).toMatchObject({
      unparsed: 'timeout',
      subject: 'slow',
      body: '',
    });
    expectOthersWhole([...(await before), ...(await after)]);
  });

  it('by its memory does too', async () => {
    const extractor = pool({ limits: { oldGenerationMb: 24, youngGenerationMb: 3 } });
    const before = Promise.all(others.slice(0, 20).map((source) => extract(extractor, source)));
    const poisoned = extract(extractor, hungryMail());
    const after = Promise.all(others.slice(20).map((source) => extract(extractor, source)));
    expect(await poisoned).toMatchObject({
      unparsed: 'memory',
      subject: 'hungry',
    });
    expectOthersWhole([...(await before), ...(await after)]);
  });

  it('does so again and again without an end to the pool', async () => {
    const extractor = pool({ limits: { oldGenerationMb: 24, youngGenerationMb: 3 } });
    const results = await Promise.all(
      Array.from({ length: 6 }, (_, n) => extract(extractor, n % 2 ? letter(n) : hungryMail())),
    );
    expect(results.map(({ unparsed }) => unparsed)).toEqual([
      'memory',
      null,
      'memory',
      null,
      'memory',
      null,
    ]);
  });
});

describe('closing', () => {
  it('finishes what was asked for, then refuses', async () => {
    const extractor = pool();
    const asked = Promise.all(Array.from({ length: 50 }, (_, n) => extract(extractor, letter(n))));
    await extractor.close();
    expect(await asked).toHaveLength(50);
    await expect(extract(extractor, letter(1))).rejects.toSatisfy((error) =>
      hasCode(error, 'extractor-closed'),
    );
    await extractor.close();
  });

  it('is quick for a pool that never worked', async () => {
    await pool().close();
  });

  it('says that the worker cannot start rather than trying for ever', async () => {
    const extractor = pool({ workerFile: new URL('./no-such-worker.mjs', import.meta.url) });
    await expect(extract(extractor, letter(1))).rejects.toSatisfy((error) =>
      hasCode(error, 'mime-worker-failed'),
    );
    await extractor.close();
  });
});
