import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, expect, test } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { DOCIDS_PER_SECOND } from '../../src/mail/docid.ts';

const dirs: string[] = [];
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true });
});

const BASE = 1_700_000_000 * DOCIDS_PER_SECOND;

/** A catalog whose messages have these docids, and no place. */
async function catalogWith(docids: readonly number[]) {
  const dir = mkdtempSync(join(tmpdir(), 'docids-'));
  dirs.push(dir);
  (await openCatalog(dir)).close();
  const db = new Database(catalogFile(dir));
  const add = db.prepare<[number, Buffer]>(
    `INSERT INTO messages (docid, id, size, first_commit, open_places, extractor)
     VALUES (?, ?, 1, 1, 1, 0)`,
  );
  db.transaction(() => {
    for (const docid of docids) add.run(docid, Buffer.from(`${docid}`));
  })();
  db.close();
  return openCatalog(dir);
}

test('100,000 messages of one second, and those of the seconds after it, get different numbers', async () => {
  const taken = Array.from({ length: 100_000 }, (_, i) => BASE + i);
  const catalog = await catalogWith(taken);
  const given = new Set<number>();
  // Reading through the taken numbers for each second would take minutes.
  for (let second = 0; second < 1_600; second += 1) {
    const base = BASE + second * DOCIDS_PER_SECOND;
    for (const docid of [catalog.docidFor(base), catalog.docidFor(base)]) {
      expect(docid).toBeGreaterThanOrEqual(Math.max(base, BASE + taken.length));
      expect(given.has(docid)).toBe(false);
      given.add(docid);
    }
  }
  // No number is left out.
  expect(Math.max(...given)).toBeLessThan(BASE + 1_601 * DOCIDS_PER_SECOND + given.size);
  expect([...given].filter((docid) => docid < BASE + 1_563 * DOCIDS_PER_SECOND).length).toBe(
    1_563 * DOCIDS_PER_SECOND - taken.length,
  );
  catalog.close();
});

test('numbers before and between long runs are used', async () => {
  const run = (from: number, length: number) => Array.from({ length }, (_, i) => from + i);
  const second = BASE + 10_000;
  const catalog = await catalogWith([...run(BASE, 1_000), ...run(second, 1_000)]);
  expect(catalog.docidFor(BASE + 64)).toBe(BASE + 1_000);
  expect(catalog.docidFor(BASE + 128)).toBe(BASE + 1_001);
  expect(catalog.docidFor(BASE - 64)).toBe(BASE - 64);
  expect(catalog.docidFor(second)).toBe(second + 1_000);
  expect(catalog.docidFor(BASE)).toBe(BASE + 1_002);
  catalog.close();
});
