import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { indexPending } from '../../src/catalog/indexer.ts';
import { rebuildCatalog } from '../../src/catalog/rebuild.ts';
import type { Extractor } from '../../src/mail/extraction.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { SmallDisk } from '../archive/small-disk.ts';
import { buildWorker } from '../mime/built-worker.ts';
import { letter, StoredMail } from './stored-mail.ts';

const PAGE_BYTES = 4096;
const LETTERS = 20;
const never = new AbortController().signal;
const disk = SmallDisk.mounted(16 * 1024 * 1024);

let extractor: Extractor;
beforeAll(async () => {
  extractor = openExtractorPool({ workers: 1, workerFile: await buildWorker() });
});
afterAll(async () => {
  await extractor.close();
  disk?.unmount();
});

test.skipIf(disk === undefined)(
  'no room at any page of a rebuild: it reports so, the old catalog stays, and it resumes when there is room',
  async () => {
    if (disk === undefined) return;
    const mail = new StoredMail(mkdtempSync(join(disk.dir, 'data-')));
    const catalog = await openCatalog(mail.dir);
    const sources = Array.from({ length: LETTERS }, (_, i) => letter(i + 1));
    for (const batch of await mail.store(sources)) catalog.foldBatch(batch);
    const reader = openLogReader({ dir: mail.dir, locator: catalog.locator });
    await indexPending({ store: catalog.index, sources: reader, extractor, signal: never });
    reader.close();
    catalog.close();
    const keepAs = `${catalogFile(mail.dir)}.before-repair-1`;
    const rebuild = () => rebuildCatalog({ dir: mail.dir, extractor, signal: never, keepAs });
    const left = () => readdirSync(mail.dir).filter((name) => /rebuild|before/.test(name));

    let failures = 0;
    for (let room = 0; ; room += PAGE_BYTES) {
      disk.leave(room);
      const before = readFileSync(catalogFile(mail.dir));
      const outcome = await rebuild().catch((error: unknown) => error);
      disk.makeRoom();
      const failed = outcome instanceof Error;
      // Of the old catalog, with the log that a reader left it.
      const kept = [basename(keepAs), `${basename(keepAs)}-wal`];
      expect(left(), `${room} bytes`).toEqual(failed ? [] : kept);
      expect(mail.found('common'), `${room} bytes`).toHaveLength(LETTERS);
      if (!failed) break;
      expect(outcome, `${room} bytes`).toMatchObject({ code: 'catalog-disk-full' });
      expect(readFileSync(catalogFile(mail.dir)).equals(before), `${room} bytes`).toBe(true);
      failures += 1;
    }
    expect(failures).toBeGreaterThan(20);
    console.info(`${failures} sizes too small`);
    expect(await rebuild()).toMatchObject({ messages: LETTERS, indexed: LETTERS, damage: [] });
    expect(mail.found('unique7')).toEqual([7]);
  },
  600_000,
);
