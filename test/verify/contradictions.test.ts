import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { catalogError } from '../../src/core/error-tables.ts';
import type { SegmentChecker } from '../../src/verify/check-segment.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { checkerInProcess } from './checker-in-process.ts';
import { GrownArchive, verified } from './grown-archive.ts';

const archive = new GrownArchive();
const file = join(archive.dir, 'catalog.sqlite');
beforeAll(async () => {
  await archive.grow([1, 2, 3].map(sampleMail), true);
});
afterAll(() => archive.remove());

/** Counts segments that are read once more for the rows of all messages. */
function watched(contradictions: SegmentChecker['contradictions']) {
  const checker = checkerInProcess(realFiles);
  const seen = { again: 0 };
  const watching: SegmentChecker = {
    ...checker,
    contradictions,
    check: (job) => {
      if (job.settleUpTo === undefined) seen.again += 1;
      return checker.check(job);
    },
  };
  return { seen, checker: watching };
}

const found = checkerInProcess(realFiles).contradictions;

test('an index without contradictions needs no second reading', async () => {
  const { seen, checker } = watched(found);
  expect(await verified(archive.dir, { checker })).toMatchObject({ catalog: 'equal', found: 0 });
  expect(seen.again).toBe(0);
});

test('an index that a thread cannot read is compared with everything else', async () => {
  const { seen, checker } = watched(async () => {
    throw catalogError('catalog-io', { file, reason: 'SQLITE_IOERR_READ' });
  });
  expect(await verified(archive.dir, { checker })).toMatchObject({ catalog: 'equal', found: 0 });
  expect(seen.again).toBeGreaterThan(0);
});

test('a failure that is not one of the catalog ends the verification', async () => {
  const { checker } = watched(async () => {
    throw new TypeError('unexpected');
  });
  await expect(verified(archive.dir, { checker })).rejects.toThrow('unexpected');
});

test('an index that contradicts itself is reported although every folded row agrees', async () => {
  const db = new Database(file);
  db.pragma('foreign_keys = OFF');
  db.exec(
    `INSERT INTO attachments (docid, number, type, size, hash, inline, text_id)
      SELECT docid, 1, 'text/plain', 7, x'77', 0, 77 FROM messages LIMIT 1;
      INSERT INTO attachment_types VALUES ('text/plain', 1, 7)`,
  );
  db.close();
  const { checker } = watched(found);
  const { catalog, findings } = await verified(archive.dir, { checker });
  expect(catalog).toBe('different');
  expect(findings).toMatchObject([
    { what: 'catalog', table: 'attachment_texts', difference: 'lacking' },
  ]);
});
