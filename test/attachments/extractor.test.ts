import { pathToFileURL } from 'node:url';
import { deflateSync } from 'node:zlib';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { hasCode } from '../../src/core/errors.ts';
import { openAttachmentExtractor } from '../../src/mail/attachment-extractor.ts';
import type { AttachmentExtractor, AttachmentJob } from '../../src/mail/attachment-text.ts';
import { ATTACHMENT_LIMITS, type AttachmentLimits } from '../../src/mail/attachment-text.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { attached, multipart, text } from '../mime/compose.ts';
import { threadsOf } from '../mime/started-threads.ts';
import { docx, pdf } from './documents.ts';

let workerFile: URL;
let open: AttachmentExtractor | undefined;

beforeAll(async () => {
  workerFile = await buildWorker('src/mail/attachment-worker.ts');
});
afterEach(async () => {
  await open?.close();
});

function extractor(limits: Partial<AttachmentLimits> = {}, memory?: () => number) {
  open = openAttachmentExtractor({
    workerFile,
    limits,
    ...(memory === undefined ? {} : { memory }),
  });
  return open;
}

const job = (
  bytes: Buffer | string,
  form: string,
  number: number | null = null,
): AttachmentJob => ({
  form,
  number,
  source: [Buffer.from(bytes)],
});

describe('reading attachments in a thread', () => {
  test('one after the other, by themselves or out of their message', async () => {
    const message = multipart('mixed', [
      text('hello'),
      attached(pdf(['in the PDF']), 'a.pdf', 'application/pdf'),
      attached(await docx('in the document'), 'b.docx', 'application/octet-stream'),
    ]);
    const reader = extractor();
    const done = (words: string) => ({ status: 'done', text: words, truncated: false });
    expect(
      await Promise.all([
        reader.extract(job(message, 'pdf', 1)),
        reader.extract(job(message, 'office', 2)),
        reader.extract(job(pdf(['alone']), 'pdf')),
        reader.extract(job(message, 'pdf', 3)),
      ]),
    ).toEqual([
      done('in the PDF'),
      done('in the document'),
      done('alone'),
      { status: 'failed', reason: 'malformed' },
    ]);
  });

  test('one that is too large is not looked at', async () => {
    const reader = extractor({ bytes: 1000 });
    const large = Buffer.alloc(2000, 'word ');
    expect(await reader.extract(job(large, 'text:'))).toEqual({
      status: 'failed',
      reason: 'too-large',
    });
    const message = multipart('mixed', [attached(large, 'a.txt', 'text/plain'), text('x')]);
    expect(await reader.extract(job(message, 'text:', 1))).toEqual({
      status: 'failed',
      reason: 'too-large',
    });
  });

  test('one that takes too long ends its thread, and the next has another', async () => {
    const reader = extractor({ attachmentMs: 1500 });
    const endless: AttachmentJob = {
      form: 'text:',
      number: null,
      source: (async function* () {
        yield Buffer.from('word ');
        await new Promise(() => {});
      })(),
    };
    expect(await reader.extract(endless)).toEqual({ status: 'failed', reason: 'timeout' });
    expect(await reader.extract(job('after', 'text:'))).toMatchObject({ text: 'after' });
  });

  test('one that takes too much memory ends its thread, and the next has another', async () => {
    let process = 0;
    const reader = extractor({ growthBytes: 1000 }, () => process);
    expect(await reader.extract(job('first', 'text:'))).toMatchObject({ status: 'done' });
    const endless: AttachmentJob = {
      form: 'text:',
      number: null,
      source: (async function* () {
        process = 10_000;
        yield Buffer.from('word ');
        await new Promise(() => {});
      })(),
    };
    expect(await reader.extract(endless)).toEqual({ status: 'failed', reason: 'memory' });
    expect(await reader.extract(job('after', 'text:'))).toMatchObject({ text: 'after' });
  });

  test('a thread that grows while it loads is not taken for one that cannot start', async () => {
    let bytes = 0;
    const growing = () => {
      bytes += 10_000;
      return bytes;
    };
    const reader = extractor({ growthBytes: 1000 }, growing);
    // Once it has loaded, it may be done before its memory is looked at again.
    expect(await reader.extract(job('words', 'text:'))).toHaveProperty('status');
  });

  test('a PDF whose stream unpacks without end does not take the process with it', async () => {
    const bomb = deflateSync(Buffer.alloc(400 * 1024 * 1024, ' '), { level: 1 });
    const before = process.memoryUsage.rss();
    const reader = extractor({ growthBytes: 150 * 1024 * 1024 });
    const outcome = await reader.extract(job(pdf(['x'], '', bomb), 'pdf'));
    expect(outcome).toEqual({ status: 'failed', reason: 'bomb' });
    expect(process.memoryUsage.rss() - before).toBeLessThan(600 * 1024 * 1024);
    expect(await reader.extract(job('after', 'text:'))).toMatchObject({ text: 'after' });
  });

  test('a PDF page of more text than is kept, in many pieces, is cut', async () => {
    const lines = Array.from(
      { length: 20_000 },
      (_, n) => `1 0 0 1 9 ${700 - (n % 30) * 20} Tm (line) Tj`,
    );
    const content = deflateSync(`BT /F1 12 Tf ${lines.join('\n')} ET`);
    const outcome = await extractor({ chars: 1000 }).extract(
      job(pdf(['', ''], '', content), 'pdf'),
    );
    const text = 'line\n'.repeat(200).trim();
    expect(outcome).toEqual({ status: 'done', text, truncated: true });
  });

  test('a thread that grew is replaced when its attachment is done', async () => {
    const words = { status: 'done', text: 'words', truncated: false };
    for (const [wornBytes, threads, document] of [
      [ATTACHMENT_LIMITS.wornBytes, 1, job(pdf(['words']), 'pdf')],
      [1, 3, job('words', 'text:')],
    ] as const) {
      const started = await threadsOf(async () => {
        const reader = extractor({ wornBytes });
        for (let n = 0; n < 3; n += 1) expect(await reader.extract(document)).toEqual(words);
        await reader.close();
      });
      expect(started).toBe(threads);
    }
  });

  test('a thread is replaced after a bomb', async () => {
    const bomb = job(pdf(['x'], '', deflateSync(Buffer.alloc(100_000, ' '))), 'pdf');
    const started = await threadsOf(async () => {
      const reader = extractor({ pageBytes: 65_536 });
      for (let n = 0; n < 2; n += 1)
        expect(await reader.extract(bomb)).toEqual({ status: 'failed', reason: 'bomb' });
      await reader.close();
    });
    expect(started).toBe(2);
  });

  test('a source that fails is told, and the next attachment is read', async () => {
    const reader = extractor();
    const failing: AttachmentJob = {
      form: 'text:',
      number: null,
      source: (async function* () {
        yield Buffer.from('word');
        throw new Error('disk');
      })(),
    };
    await expect(reader.extract(failing)).rejects.toThrow('disk');
    expect(await reader.extract(job('after', 'text:'))).toMatchObject({ text: 'after' });
  });

  test('a worker that is missing is a broken installation, not a bad attachment', async () => {
    open = openAttachmentExtractor({ workerFile: pathToFileURL('/nonexistent/worker.js') });
    const error: unknown = await open.extract(job('x', 'text:')).catch((e: unknown) => e);
    expect(hasCode(error, 'mime-worker-failed')).toBe(true);
  });

  test('closed, it says so', async () => {
    const reader = extractor();
    await reader.close();
    const error: unknown = await reader.extract(job('x', 'text:')).catch((e: unknown) => e);
    expect(hasCode(error, 'extractor-closed')).toBe(true);
  });
});
