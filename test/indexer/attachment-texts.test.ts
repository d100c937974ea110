import Database from 'better-sqlite3';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { archiveError } from '../../src/archive/errors.ts';
import { type LogReader, openLogReader } from '../../src/archive/log-reader.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { createIndexer, type Indexer, readAttachments } from '../../src/catalog/indexer.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { rebuildCatalog } from '../../src/catalog/rebuild.ts';
import { openAttachmentExtractor } from '../../src/mail/attachment-extractor.ts';
import type { AttachmentExtractor, AttachmentJob } from '../../src/mail/attachment-text.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { docx, pdf } from '../attachments/documents.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { attached, multipart, text } from '../mime/compose.ts';
import { StoredMail } from './stored-mail.ts';

const never = new AbortController().signal;
let extractor: Extractor;
let attachments: AttachmentExtractor;
let mail: StoredMail;
let catalog: WritableCatalog;
let sources: LogReader;
let indexer: Indexer;
let contract: Buffer;

beforeAll(async () => {
  const [worker, attachmentWorker] = await Promise.all([
    buildWorker(),
    buildWorker('src/mail/attachment-worker.ts'),
  ]);
  extractor = openExtractorPool({ workers: 1, workerFile: worker });
  attachments = openAttachmentExtractor({ workerFile: attachmentWorker });
  contract = await docx('The tenant shall pay a deposit', 'of 1200 thaler');
});
afterAll(() => Promise.all([extractor.close(), attachments.close()]));

beforeEach(async () => {
  mail = new StoredMail();
  await reopen();
});
afterEach(() => {
  sources.close();
  catalog.close();
  mail.remove();
});

async function reopen(): Promise<void> {
  catalog = await openCatalog(mail.dir);
}

/** Stores, folds and indexes messages, as a sync does before it reads attachments. */
async function grow(messages: readonly Buffer[]): Promise<void> {
  for (const batch of await mail.store(messages)) catalog.foldBatch(batch);
  sources ??= openLogReader({ dir: mail.dir, locator: catalog.locator });
  sources.close();
  sources = openLogReader({ dir: mail.dir, locator: catalog.locator });
  indexer = createIndexer({ store: catalog.index, sources, extractor });
  await indexer.all(never);
}

/** As the real one, counting what it is asked for. */
function counted(): AttachmentExtractor & { readonly jobs: AttachmentJob[] } {
  const jobs: AttachmentJob[] = [];
  return {
    jobs,
    extract: (job) => {
      jobs.push(job);
      return attachments.extract(job);
    },
    rest: () => attachments.rest(),
    close: async () => {},
  };
}

const read = (
  by: AttachmentExtractor = attachments,
  goOn?: () => boolean,
  makeRoom: () => Promise<void> = () => extractor.rest(),
) =>
  readAttachments({
    store: catalog.attachments,
    sources,
    extractor: by,
    index: (signal) => indexer.all(signal),
    signal: never,
    ...(goOn === undefined ? {} : { goOn }),
    makeRoom,
  });

const letterWith = (n: number, ...files: [Buffer, string, string][]): Buffer =>
  multipart('mixed', [
    text(`letter ${n} words`),
    ...files.map(([bytes, name, type]) => attached(bytes, name, type)),
  ]);
const CONTRACT: [string, string] = ['contract.docx', 'application/octet-stream'];

const search = (words: string) =>
  catalog.prepare({ node: parseQuery(words, { now: 0 }).node }).page({ limit: 20, sort: 'newest' })
    .hits;

describe('the text of attachments', () => {
  it('is read once there is room for it, which is made only where there is something to read', async () => {
    const reader = counted();
    const readBefore: number[] = [];
    const makeRoom = async () => {
      readBefore.push(reader.jobs.length);
    };
    await grow([
      letterWith(1, [pdf(['one']), 'a.pdf', 'application/pdf'], [contract, ...CONTRACT]),
    ]);
    await read(reader, undefined, makeRoom);
    expect(readBefore).toEqual([0]);
    expect(reader.jobs.length).toBe(2);
    await read(reader, undefined, makeRoom);
    expect(readBefore).toEqual([0]);
  });

  it('is read while no thread reads messages, and indexed when none reads attachments', async () => {
    const steps: string[] = [];
    const reader = {
      ...counted(),
      extract: (job: AttachmentJob) => {
        steps.push('read');
        return attachments.extract(job);
      },
      rest: async () => {
        steps.push('rest');
        await attachments.rest();
      },
    };
    await grow(
      Array.from({ length: 70 }, (_, n) =>
        letterWith(n, [pdf([`page ${n}`]), 'a.pdf', 'application/pdf']),
      ),
    );
    await readAttachments({
      store: catalog.attachments,
      sources,
      extractor: reader,
      makeRoom: async () => void steps.push('make room'),
      index: async (signal) => {
        steps.push('index');
        await indexer.all(signal);
      },
      signal: never,
    });
    const reads = Array.from({ length: 70 }, () => 'read');
    expect(steps).toEqual(['make room', ...reads, 'rest', 'index']);
    expect(mail.found('page')).toHaveLength(70);
  });

  it('is found after the message itself, and the hit names the attachment', async () => {
    await grow([
      letterWith(1, [pdf(['irrelevant']), 'a.pdf', 'application/pdf'], [contract, ...CONTRACT]),
    ]);
    expect(mail.found('letter')).toEqual([1]);
    expect(mail.found('thaler')).toEqual([]);
    expect(catalog.attachments.counts()).toEqual({ pending: 2, done: 0, failed: 0 });
    expect(catalog.index.pendingCount()).toBe(0);

    expect(await read()).toEqual({ read: 2, remaining: 0 });
    expect(catalog.attachments.counts()).toEqual({ pending: 0, done: 2, failed: 0 });
    expect(catalog.index.pendingCount()).toBe(0);
    expect(mail.found('letter')).toEqual([1]);
    expect(mail.found('att_text : thaler')).toEqual([1]);
    const [hit] = search('deposit thaler');
    expect(hit?.line.matchedAttachments).toEqual([
      {
        number: 2,
        filename: 'contract.docx',
        snippet: 'The tenant shall pay a deposit of 1200 thaler',
      },
    ]);
    expect(hit?.attachmentMatches[0]).toHaveLength(2);
    expect(search('letter thaler')).toHaveLength(1);
    expect(search('letter')[0]?.line.matchedAttachments).toEqual([]);
    expect(search('body:thaler')).toEqual([]);
  });

  it('is read once for the same attachment in many messages, also in those that come later', async () => {
    const by = counted();
    await grow([1, 2, 3].map((n) => letterWith(n, [contract, ...CONTRACT])));
    await read(by);
    expect(by.jobs).toHaveLength(1);
    expect(mail.found('thaler')).toEqual([1, 2, 3]);
    await grow([letterWith(4, [contract, 'other-name.docx', CONTRACT[1]])]);
    expect(mail.found('thaler')).toEqual([1, 2, 3, 4]);
    expect(await read(by)).toEqual({ read: 0, remaining: 0 });
    expect(by.jobs).toHaveLength(1);
    expect(search('thaler')[0]?.line.matchedAttachments[0]?.filename).toBe('other-name.docx');
  });

  it('comes from the blob where the log has one, and out of the message where not', async () => {
    const note = {
      headers: {
        'Content-Type': 'text/plain; charset=iso-8859-1',
        'Content-Transfer-Encoding': 'quoted-printable',
        'Content-Disposition': 'attachment; filename="note.txt"',
      },
      body: 'zehn Taler f=FCr das W=F6rtchen, das niemand kennt',
    };
    // Long enough for the log to keep it apart.
    const long = await docx(...Array.from({ length: 400 }, (_, i) => `clause ${i * 7919} thaler`));
    await grow([multipart('mixed', [text('x'), note]), letterWith(2, [long, ...CONTRACT])]);
    const by = counted();
    await read(by);
    expect(by.jobs.map(({ number }) => number).toSorted()).toEqual([1, null]);
    expect(mail.found('"wortchen"')).toEqual([1]);
    expect(mail.found('clause thaler')).toEqual([2]);
  });

  it('that cannot be read is put down as failed, once, and stops nothing', async () => {
    await grow([
      letterWith(1, [Buffer.from('no PDF'), 'broken.pdf', 'application/pdf']),
      letterWith(2, [contract, ...CONTRACT]),
    ]);
    const by = counted();
    expect(await read(by)).toEqual({ read: 2, remaining: 0 });
    expect(await read(by)).toEqual({ read: 0, remaining: 0 });
    expect(by.jobs).toHaveLength(2);
    expect(catalog.attachments.counts()).toEqual({ pending: 0, done: 1, failed: 1 });
    const docid = catalog.messages.docidOf(mail.ids[0] ?? '');
    expect(catalog.attachments.ofMessage(docid ?? 0)).toEqual([
      {
        number: 1,
        filename: 'broken.pdf',
        status: 'failed',
        reason: 'malformed',
        truncated: false,
        attempts: 0,
      },
    ]);
    expect(mail.found('thaler')).toEqual([2]);
  });

  it('whose bytes are damaged has failed, and stops nothing', async () => {
    await grow([letterWith(1, [contract, ...CONTRACT])]);
    const damaged = (): never => {
      throw archiveError('blob-damaged', { blob: '0'.repeat(64), reason: 'hash' });
    };
    sources = { ...sources, readBlob: damaged, close: () => {} };
    expect(await read()).toEqual({ read: 1, remaining: 0 });
    expect(catalog.attachments.counts()).toEqual({ pending: 0, done: 0, failed: 1 });
  });

  it('waits for the next round when its time is up', async () => {
    await grow(
      [1, 2, 3].map((n) => letterWith(n, [pdf([`page${n}`]), 'a.pdf', 'application/pdf'])),
    );
    let left = 2;
    expect(await read(attachments, () => left-- > 0)).toEqual({ read: 1, remaining: 2 });
    expect(mail.found('page1')).toEqual([1]);
    expect(await read()).toEqual({ read: 2, remaining: 0 });
    expect(mail.found('page3')).toEqual([3]);
  });

  it('is read again by a newer version, and found as before until then', async () => {
    await grow([letterWith(1, [contract, ...CONTRACT])]);
    await read();
    catalog.close();
    const db = new Database(catalogFile(mail.dir));
    db.exec('UPDATE meta SET attachment_version = 0');
    db.close();
    await reopen();
    expect(catalog.attachments.counts()).toEqual({ pending: 1, done: 0, failed: 0 });
    expect(mail.found('thaler')).toEqual([1]);
    sources.close();
    sources = openLogReader({ dir: mail.dir, locator: catalog.locator });
    indexer = createIndexer({ store: catalog.index, sources, extractor });
    expect(await read()).toEqual({ read: 1, remaining: 0 });
    expect(mail.found('thaler')).toEqual([1]);
  });

  it('is the same after a rebuild', async () => {
    await grow([
      letterWith(1, [contract, ...CONTRACT]),
      letterWith(2, [Buffer.from('x'), 'broken.pdf', 'application/pdf'], [contract, ...CONTRACT]),
    ]);
    await read();
    const contents = () => {
      const db = new Database(catalogFile(mail.dir), { readonly: true });
      const rows = db
        .prepare(
          `SELECT docid, number, filename, type, size, inline, hex(t.hash), form, version, failure, truncated, hex(text)
           FROM attachments JOIN attachment_texts t ON t.id = text_id ORDER BY docid, number`,
        )
        .all();
      db.close();
      return rows;
    };
    const grown = contents();
    expect(grown).toHaveLength(3);
    catalog.close();
    sources.close();
    const result = await rebuildCatalog({ dir: mail.dir, extractor, attachments, signal: never });
    expect(result).toMatchObject({ indexed: 2, attachments: 2 });
    expect(contents()).toEqual(grown);
    expect(mail.found('thaler')).toEqual([1, 2]);
    await reopen();
  });
});
