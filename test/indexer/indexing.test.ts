import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { archiveError } from '../../src/archive/errors.ts';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import type { SourceStore } from '../../src/catalog/indexer.ts';
import { createIndexer, type IndexingProgress, indexPending } from '../../src/catalog/indexer.ts';
import { catchUp } from '../../src/catalog/rebuild.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { letter, StoredMail } from './stored-mail.ts';

const never = new AbortController().signal;
let extractor: Extractor;
let mail: StoredMail;
let catalog: WritableCatalog;

beforeAll(async () => {
  extractor = openExtractorPool({ workers: 1, workerFile: await buildWorker() });
});
afterAll(() => extractor.close());
beforeEach(async () => {
  mail = new StoredMail();
  catalog = await openCatalog(mail.dir);
});
afterEach(() => {
  catalog.close();
  mail.remove();
});

const letters = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => letter(from + i));

async function stored(sources: readonly Buffer[]): Promise<SourceStore> {
  for (const batch of await mail.store(sources)) catalog.foldBatch(batch);
  return openLogReader({ dir: mail.dir, locator: catalog.locator });
}

describe('indexing what is pending', () => {
  it('makes every stored message searchable', async () => {
    const sources = await stored(letters(1, 60));
    const progress: IndexingProgress[] = [];
    const result = await indexPending({
      store: catalog.index,
      sources,
      extractor,
      signal: never,
      progress: (p) => progress.push(p),
    });
    expect(result).toEqual({ indexed: 60, unparsed: 0, remaining: 0, damaged: [] });
    expect(progress.at(-1)).toEqual({ indexed: 60, unparsed: 0, remaining: 0 });
    expect(mail.found('common')).toEqual(Array.from({ length: 60 }, (_, i) => i + 1));
    expect(mail.found('unique37')).toEqual([37]);
    expect(mail.found('subject : number37')).toEqual([37]);
  });

  it('takes the newest first, and no more than asked for', async () => {
    const sources = await stored(letters(1, 40));
    const result = await indexPending({
      store: catalog.index,
      sources,
      extractor,
      signal: never,
      limit: 15,
    });
    expect(result).toMatchObject({ indexed: 15, remaining: 25 });
    expect(mail.found('common')).toEqual(Array.from({ length: 15 }, (_, i) => 26 + i));
  });

  it('indexes an unparsed message by what is known, and counts it', async () => {
    const parts = '--b\r\n\r\nx\r\n'.repeat(5000);
    const poison = Buffer.from(
      `Subject: poisoned\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${parts}`,
    );
    const sources = await stored([letter(1), poison, letter(3)]);
    const result = await indexPending({
      store: catalog.index,
      sources,
      extractor,
      signal: never,
    });
    expect(result).toMatchObject({ indexed: 3, unparsed: 1, remaining: 0 });
    expect(mail.found('poisoned')).toEqual([2]);
  });

  it('passes over damaged bytes, names them, and finds the message by its listing', async () => {
    const whole = await stored(letters(1, 5));
    const damaged = mail.ids[2] ?? '';
    const sources: SourceStore = {
      readSource(id, maxBytes) {
        if (id === damaged) throw archiveError('message-damaged', { message: id, reason: 'hash' });
        return whole.readSource(id, maxBytes);
      },
    };
    const result = await indexPending({ store: catalog.index, sources, extractor, signal: never });
    expect(result).toEqual({ indexed: 5, unparsed: 1, remaining: 0, damaged: [damaged] });
    expect(mail.found('common')).toEqual([1, 2, 4, 5]);
    expect(mail.found('listed')).toEqual([3]);
  });

  it('throws when reading fails for any other reason, and keeps what came before pending', async () => {
    await stored(letters(1, 5));
    const sources: SourceStore = {
      readSource() {
        throw new Error('the disk is gone');
      },
    };
    await expect(
      indexPending({ store: catalog.index, sources, extractor, signal: never }),
    ).rejects.toThrow('the disk is gone');
    expect(catalog.index.pendingCount()).toBe(5);
  });

  it('stops when aborted, indexes what was extracted by then, and continues later', async () => {
    const whole = await stored(letters(1, 600));
    const stop = new AbortController();
    let read = 0;
    const sources: SourceStore = {
      readSource(id, maxBytes) {
        if (++read === 300) stop.abort();
        return whole.readSource(id, maxBytes);
      },
    };
    const first = await indexPending({
      store: catalog.index,
      sources,
      extractor,
      signal: stop.signal,
    });
    expect(first.indexed).toBeGreaterThan(0);
    expect(first.indexed).toBeLessThan(300);
    expect(first.remaining).toBe(600 - first.indexed);
    const rest = await indexPending({ store: catalog.index, sources, extractor, signal: never });
    expect(first.indexed + rest.indexed).toBe(600);
    expect(mail.found('common')).toHaveLength(600);
  });
});

describe('the indexer', () => {
  it('runs rounds one after the other, so that nothing is extracted twice', async () => {
    const whole = await stored(letters(1, 50));
    const read = new Map<string, number>();
    const sources: SourceStore = {
      readSource(id, maxBytes) {
        read.set(id, (read.get(id) ?? 0) + 1);
        return whole.readSource(id, maxBytes);
      },
    };
    const indexer = createIndexer({ store: catalog.index, sources, extractor });
    const [left] = await Promise.all([
      indexer.some(20, never),
      indexer.some(20, never),
      indexer.all(never),
    ]);
    expect(left).toBe(30);
    expect([...read.values()]).toEqual(Array.from({ length: 50 }, () => 1));
    expect(indexer.totals()).toEqual({ indexed: 50, unparsed: 0, damaged: [] });
  });

  it('continues after a round that failed', async () => {
    const whole = await stored(letters(1, 5));
    let broken = true;
    const sources: SourceStore = {
      readSource(id, maxBytes) {
        if (broken) throw new Error('not now');
        return whole.readSource(id, maxBytes);
      },
    };
    const indexer = createIndexer({ store: catalog.index, sources, extractor });
    await expect(indexer.all(never)).rejects.toThrow('not now');
    broken = false;
    await indexer.all(never);
    expect(mail.found('common')).toHaveLength(5);
  });
});

describe('catching up', () => {
  it('folds what was committed behind the catalog, and then has nothing to do', async () => {
    const batches = await mail.store(letters(1, 35));
    const first = batches[0];
    if (first === undefined) throw new Error('no batch');
    catalog.foldBatch(first);
    const options = { dir: mail.dir, target: catalog, signal: never };
    expect(await catchUp(options)).toEqual({ commits: 3, messages: 25 });
    expect(catalog.reached().number).toBe(4);
    expect(catalog.index.pendingCount()).toBe(35);
    expect(await catchUp(options)).toEqual({ commits: 0, messages: 0 });
  });

  it('refuses a log that ends before the commit the catalog has reached', async () => {
    await mail.store(letters(1, 5));
    const target = {
      reached: () => ({ number: 7, hash: 'f'.repeat(64) }),
      foldBatches: () => {
        throw new Error('nothing may be folded');
      },
    };
    await expect(catchUp({ dir: mail.dir, target, signal: never })).rejects.toMatchObject({
      code: 'log-damaged',
      facts: { reason: 'ends-early' },
    });
  });
});
