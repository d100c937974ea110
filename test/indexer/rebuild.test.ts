import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { indexPending } from '../../src/catalog/indexer.ts';
import { rebuildCatalog } from '../../src/catalog/rebuild.ts';
import { hasCode } from '../../src/core/errors.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { letter, StoredMail } from './stored-mail.ts';

const never = new AbortController().signal;
let extractor: Extractor;
let mail: StoredMail;

beforeAll(async () => {
  extractor = openExtractorPool({ workers: 1, workerFile: await buildWorker() });
});
afterAll(() => extractor.close());
beforeEach(() => {
  mail = new StoredMail();
});
afterEach(() => mail.remove());

/** Stores, folds and indexes letters, as a sync does. */
async function grow(count: number): Promise<void> {
  const catalog = await openCatalog(mail.dir);
  const sources = Array.from({ length: count }, (_, i) => letter(mail.ids.length + 1 + i));
  for (const batch of await mail.store(sources)) catalog.foldBatch(batch);
  const reader = openLogReader({ dir: mail.dir, locator: catalog.locator });
  await indexPending({ store: catalog.index, sources: reader, extractor, signal: never });
  catalog.close();
}

/** Changes a byte of the log inside the first source with this word, which is stored as it is. */
function damage(word: string): void {
  const [segment = ''] = readdirSync(join(mail.dir, 'log'));
  const path = join(mail.dir, 'log', segment);
  const bytes = readFileSync(path);
  const at = bytes.indexOf(word);
  expect(at).toBeGreaterThan(0);
  bytes[at] = (bytes[at] ?? 0) ^ 0x20;
  writeFileSync(path, bytes);
}

const files = () => readdirSync(mail.dir).filter((name) => name.startsWith('catalog'));

describe('rebuilding', () => {
  it('gives a catalog that finds the same, in place of any old one', async () => {
    await grow(45);
    for (const spoil of [
      () => {},
      () => writeFileSync(catalogFile(mail.dir), 'this is no database'),
      // A write-ahead log that belongs to another database must not be replayed into the new one.
      () => writeFileSync(`${catalogFile(mail.dir)}-wal`, readFileSync(catalogFile(mail.dir))),
    ]) {
      spoil();
      const result = await rebuildCatalog({ dir: mail.dir, extractor, signal: never });
      expect(result).toMatchObject({
        commits: 5,
        messages: 45,
        indexed: 45,
        unparsed: 0,
        damage: [],
        damagedMessages: [],
      });
      expect(files()).toEqual(['catalog.sqlite']);
      expect(mail.found('common')).toHaveLength(45);
      expect(mail.found('unique7')).toEqual([7]);
    }
    const catalog = await openCatalog(mail.dir);
    expect(catalog.reached().number).toBe(5);
    expect(catalog.index.pendingCount()).toBe(0);
    catalog.close();
  });

  it('leaves the old catalog alone when interrupted, and nothing else behind', async () => {
    await grow(20);
    const before = readFileSync(catalogFile(mail.dir));
    const stop = new AbortController();
    await expect(
      rebuildCatalog({
        dir: mail.dir,
        extractor,
        signal: stop.signal,
        onFold: () => stop.abort(),
      }),
    ).rejects.toSatisfy((error) => hasCode(error, 'rebuild-interrupted'));
    expect(files()).toEqual(['catalog.sqlite']);
    expect(readFileSync(catalogFile(mail.dir)).equals(before)).toBe(true);
  });

  it('starts over where a rebuild was killed', async () => {
    await grow(10);
    writeFileSync(`${catalogFile(mail.dir)}.rebuild`, 'half a database');
    writeFileSync(`${catalogFile(mail.dir)}.rebuild-wal`, 'and its log');
    await rebuildCatalog({ dir: mail.dir, extractor, signal: never });
    expect(files()).toEqual(['catalog.sqlite']);
    expect(mail.found('common')).toHaveLength(10);
  });

  it('extracts what is folded while it folds the rest', async () => {
    await grow(600);
    const seen: string[] = [];
    await rebuildCatalog({
      dir: mail.dir,
      extractor: {
        ...extractor,
        width: extractor.width,
        extract: (job) => {
          seen.push('extract');
          return extractor.extract(job);
        },
      },
      signal: never,
      onFold: () => seen.push('fold'),
    });
    expect(seen.indexOf('extract')).toBeLessThan(seen.lastIndexOf('fold'));
    expect(seen.filter((what) => what === 'extract')).toHaveLength(600);
    expect(mail.found('common')).toHaveLength(600);
  });

  it('keeps nothing of a message that the log purges further on', async () => {
    const secret = 'qzforgottenwordqz';
    const source = Buffer.from(`Subject: letter\r\n\r\n${secret}\r\n`);
    // More than a transaction of the index takes.
    const letters = Array.from({ length: 600 }, (_, i) => letter(i + 2));
    await mail.store([source, ...letters]);
    // As when the program was killed before it removed the bytes.
    await mail.append((batch) =>
      batch.addFact({ fact: 'purged', message: mail.ids[0] ?? '', reason: 'forgotten' }),
    );
    const result = await rebuildCatalog({ dir: mail.dir, extractor, signal: never });
    expect(result).toMatchObject({ messages: 601, indexed: 600, damage: [], damagedMessages: [] });
    expect(files()).toEqual(['catalog.sqlite']);
    expect(mail.found('common')).toHaveLength(600);
    // The index leaves out of a term what it shares with the one before.
    expect(readFileSync(catalogFile(mail.dir)).includes(secret.slice(2))).toBe(false);
  });

  it.each([
    ['from its repair further on', true],
    ['from nowhere where they are damaged', false],
  ])('takes the bytes of an attachment %s', async (_where, isRepaired) => {
    const attached = Buffer.from('attached bytes '.repeat(1_000));
    const lines = attached.toString('base64').match(/.{1,76}/g) ?? [];
    const source = `Subject: letter\r\nMIME-Version: 1.0\r\nContent-Type: application/x-letter\r\nContent-Transfer-Encoding: base64\r\n\r\n${lines.join('\r\n')}\r\n`;
    const letters = Array.from({ length: 600 }, (_, i) => letter(i + 2));
    await mail.store([Buffer.from(source), ...letters]);
    await mail.append((batch) => {
      if (isRepaired) batch.addBlob(attached);
      else batch.addFact({ fact: 'mailbox', host: 'h.example', mailbox: 'A', address: 'a@h' });
    });
    damage('attached bytes');
    const result = await rebuildCatalog({ dir: mail.dir, extractor, signal: never });
    expect(result).toMatchObject({
      indexed: 601,
      unparsed: isRepaired ? 0 : 1,
      damagedMessages: isRepaired ? [] : [mail.ids[0]],
    });
  });

  it('folds what can be read of a damaged log, and names the damage', async () => {
    await grow(50);
    damage('unique25');
    const result = await rebuildCatalog({ dir: mail.dir, extractor, signal: never });
    expect(result.damage.length).toBeGreaterThan(0);
    expect(result.damagedMessages).toEqual([mail.ids[24]]);
    expect(mail.found('common')).toEqual(
      Array.from({ length: 50 }, (_, i) => i + 1).filter((n) => n !== 25),
    );
  });
});
