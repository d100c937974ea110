import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { createIndexer, readAttachments } from '../../src/catalog/indexer.ts';
import { openAttachmentExtractor } from '../../src/mail/attachment-extractor.ts';
import type { AttachmentExtractor } from '../../src/mail/attachment-text.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { docx, pdf, pdfOf, pdfStream } from '../attachments/documents.ts';
import { StoredMail } from '../indexer/stored-mail.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { attached, multipart, text } from '../mime/compose.ts';

/** Small attachments that take long to read: they do not keep others from being read. */

const PDF: [string, string] = ['a.pdf', 'application/pdf'];

/** Forms that draw each other: 10 to the power of `levels` on each page, which are all the same page. */
function forms(levels: number, pages: number, mark: string): Buffer {
  const draws = Buffer.from(`/X Do `.repeat(10));
  const last = Buffer.from(`BT /F1 9 Tf (${mark}) Tj ET`);
  const kids = Array.from({ length: pages }, () => '3 0 R').join(' ');
  const resources = (next: number) =>
    `/Resources << /Font << /F1 4 0 R >> /XObject << /X ${next} 0 R >> >>`;
  return pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${kids}] /Count ${pages} >>`,
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 5 0 R ${resources(6)} >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    pdfStream('', draws),
    ...Array.from({ length: levels }, (_, level) =>
      pdfStream(
        `/Type /XObject /Subtype /Form /BBox [0 0 9 9] ${resources(7 + level)} `,
        level === levels - 1 ? last : draws,
      ),
    ),
  ]);
}

/** A font whose codes are mapped to characters in ranges of millions. */
function ranges(count: number): Buffer {
  const lines = Array.from({ length: count }, () => '<00000000> <00fffffe> <0041>').join('\n');
  const map = `/CIDInit /ProcSet findresource begin begincmap\n1 begincodespacerange <00000000> <ffffffff> endcodespacerange\n${count} beginbfrange\n${lines}\nendbfrange\nendcmap end`;
  return pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>',
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>',
    pdfStream('', Buffer.from('BT /F1 9 Tf (words) Tj ET')),
    pdfStream('', Buffer.from(map)),
  ]);
}

let extractor: Extractor;
let attachments: AttachmentExtractor;
let mail: StoredMail;
let catalog: WritableCatalog;

beforeAll(async () => {
  extractor = openExtractorPool({ workers: 1, workerFile: await buildWorker() });
  const workerFile = await buildWorker('src/mail/attachment-worker.ts');
  // A document that has filled its text is done, however much follows.
  attachments = openAttachmentExtractor({ workerFile, limits: { chars: 1_000_000_000 } });
});
afterAll(() => Promise.all([extractor.close(), attachments.close()]));
beforeEach(async () => {
  mail = new StoredMail();
  catalog = await openCatalog(mail.dir);
});
afterEach(() => {
  catalog.close();
  mail.remove();
});

/** Stores messages, and reads their attachments as long as `goOn` says so. */
async function readAll(messages: readonly Buffer[], goOn: (lostMs: number) => boolean) {
  for (const batch of await mail.store(messages)) catalog.foldBatch(batch);
  const sources = openLogReader({ dir: mail.dir, locator: catalog.locator });
  const { signal } = new AbortController();
  const indexer = createIndexer({ store: catalog.index, sources, extractor });
  await indexer.all(signal);
  try {
    return await readAttachments({
      ...{ store: catalog.attachments, sources, extractor: attachments, signal, goOn },
      index: (until) => indexer.all(until),
      makeRoom: () => extractor.rest(),
    });
  } finally {
    sources.close();
  }
}

const letter = (n: number, ...files: Buffer[]): Buffer =>
  multipart('mixed', [text(`letter ${n}`), ...files.map((bytes) => attached(bytes, ...PDF))]);

const statesOf = (n: number) =>
  catalog.attachments.ofMessage(catalog.messages.docidOf(mail.ids[n] ?? '') ?? 0);

const job = (bytes: Buffer) => ({ form: 'pdf', number: null, source: [bytes] });

test.each([
  ['forms that draw each other', () => forms(12, 1, 'words')],
  ['codes in one large range', () => ranges(1)],
  ['codes in many large ranges', () => ranges(50)],
])('a PDF with %s is given up after a count', async (_, document) => {
  let worked = 0;
  const counting = { worked: (ms: number) => (worked = ms) };
  const outcome = await attachments.extract({ ...job(document()), ...counting });
  expect(outcome).toEqual({ status: 'failed', reason: 'bomb' });
  expect(worked).toBeLessThan(15_000);
});

test('a PDF that draws a hundred forms is read', async () => {
  const outcome = await attachments.extract(job(forms(2, 1, 'words')));
  expect(outcome).toMatchObject({ status: 'done', text: expect.stringMatching(/^w/) });
});

test('an honest message behind slow ones is read in the first run, and found', async () => {
  const slow = [0, 1, 2].map((n) =>
    letter(n, ...[0, 1, 2].map((k) => forms(3, 2000, `slow ${n} ${k}`))),
  );
  const honest = letter(9, pdf(['lighthouse']));
  let lost = 0;
  const { read, remaining } = await readAll([...slow, honest], (lostMs) => {
    lost = lostMs;
    return catalog.attachments.counts().done === 0;
  });
  expect([read, remaining]).toEqual([1, 9]);
  expect(mail.found('lighthouse')).toEqual([4]);
  // One short attempt for each slow message, whatever it has.
  expect(lost).toBeLessThan(15_000);
  for (const n of [0, 1, 2]) {
    const attempts = statesOf(n).map(({ status, reason, attempts: tried }) => [
      status,
      reason,
      tried,
    ]);
    expect(attempts).toEqual([
      ['pending', 'timeout', 1],
      ['pending', null, 0],
      ['pending', null, 0],
    ]);
  }
});

test('an attachment is tried three times, and its message six times in total', async () => {
  const shared = await docx('shared words');
  const files = [0, 1, 2, 3].map((k) => Buffer.from(`%PDF- ${k}`));
  const both = multipart('mixed', [attached(shared, 'a.docx', 'application/octet-stream')]);
  const source = multipart('mixed', [
    ...files.map((bytes) => attached(bytes, ...PDF)),
    attached(shared, 'a.docx', 'application/octet-stream'),
  ]);
  await readAll([source, both], () => false);
  const timeout = { status: 'failed', reason: 'timeout' } as const;
  const [first, second, third, fourth, last] = catalog.attachments.pending({ limit: 9 });
  const settle = (of: typeof first) => catalog.attachments.settle(of?.textId ?? 0, timeout);
  expect([settle(first), settle(first)]).toEqual([0, 0]);
  expect(statesOf(0)[0]).toMatchObject({ status: 'pending', reason: 'timeout', attempts: 2 });
  expect(catalog.attachments.counts()).toEqual({ pending: 5, done: 0, failed: 0 });
  // Given up before, it comes behind the others.
  expect(catalog.attachments.pending({ limit: 9 })).not.toContainEqual(first);
  expect(settle(first)).toBe(1);
  expect(statesOf(0)[0]).toMatchObject({ status: 'failed', reason: 'timeout' });
  for (const of of [second, second, third, third, fourth]) settle(of);
  expect(settle(fourth)).toBe(3);
  expect(statesOf(0).map(({ status }) => status)).toEqual([
    ...['failed', 'failed', 'failed', 'failed', 'pending'],
  ]);
  // Another message has it too.
  expect(catalog.attachments.pending({ limit: 9 })).toMatchObject([{ textId: last?.textId }]);
});
