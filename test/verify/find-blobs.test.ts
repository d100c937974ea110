import { hash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { segmentPath } from '../../src/archive/format.ts';
import { checkSegment, type FindBlob, RecentBlobs } from '../../src/verify/check-segment.ts';
import { CatalogBlobs } from '../../src/verify/read-log.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive, verified } from './grown-archive.ts';

let archive: GrownArchive;
beforeEach(async () => {
  archive = new GrownArchive();
  const mail = Array.from({ length: 12 }, (_, i) => sampleMail(i + 1));
  // The twelfth message has the attachment of the sixth, which stands in the segment before.
  await archive.grow(mail.slice(0, 6), true);
  await archive.grow(mail.slice(6), true);
});
afterEach(() => archive.remove());

/** What becomes of the second segment's messages when blobs are looked for like that. */
function outcomes(find?: FindBlob) {
  const job = { dir: archive.dir, segment: 2, last: false, seen: 0, full: true };
  return [...checkSegment(realFiles, job, new RecentBlobs(find))].flatMap((report) =>
    report.what === 'deferred' || report.what === 'unsound' ? [report.what] : [],
  );
}

function byCatalog<T>(use: (find: FindBlob) => T): T {
  const blobs = new CatalogBlobs(realFiles, archive.dir);
  try {
    return use((hash) => blobs.find(hash));
  } finally {
    blobs.close();
  }
}

function changeCatalog(sql: string): void {
  const db = new Database(join(archive.dir, 'catalog.sqlite'));
  db.exec(sql);
  db.close();
}

test('a message is rebuilt with bytes of another segment as soon as the catalog has their position', async () => {
  expect(outcomes()).toEqual(['deferred']);
  expect(byCatalog(outcomes)).toEqual([]);
  expect(await verified(archive.dir)).toMatchObject({ messages: 12, rebuilt: 12, found: 0 });
});

test.each([
  ['is missing', () => renameSync(join(archive.dir, 'catalog.sqlite'), `${archive.dir}/elsewhere`)],
  ['is damaged', () => writeFileSync(join(archive.dir, 'catalog.sqlite'), 'no database')],
  ['does not know', () => changeCatalog('DELETE FROM records WHERE kind = 1')],
  ['lies', () => changeCatalog('UPDATE records SET ordinal = ordinal + 1 WHERE kind = 1')],
  ['means another blob', () => changeCatalog('UPDATE records SET ordinal = 4, segment = 2')],
])('it waits for the log when the catalog %s', (_, act) => {
  act();
  expect(byCatalog(outcomes)).toEqual(['deferred']);
});

test('bytes that are not those of the blob are never taken, whichever bit of the file is flipped', async () => {
  await archive.grow([sampleMail(15, 9_000), sampleMail(18, 9_000)], false);
  const file = segmentPath(archive.dir, { segment: 3, generation: 1 });
  const whole = readFileSync(file);
  const db = new Database(join(archive.dir, 'catalog.sqlite'), { readonly: true });
  const blobs = db
    .prepare<[], string>('SELECT lower(hex(hash)) FROM records WHERE kind = 1 AND segment = 3')
    .pluck()
    .all();
  db.close();
  expect(blobs).toHaveLength(2);
  let taken = 0;
  for (let at = 0; at < whole.length; at += 5) {
    const damaged = Buffer.from(whole);
    damaged.writeUInt8(damaged.readUInt8(at) ^ (1 << (at % 8)), at);
    writeFileSync(file, damaged);
    const found = byCatalog((find) => blobs.map((blob) => [blob, find(blob)] as const));
    for (const [blob, bytes] of found) {
      if (bytes === undefined) continue;
      expect({ at, hash: hash('sha256', bytes) }).toEqual({ at, hash: blob });
      taken += 1;
    }
  }
  // Each is taken while only the other one is damaged.
  const tries = Math.ceil(whole.length / 5);
  expect(taken).toBeGreaterThan(tries * 0.8);
  expect(taken).toBeLessThan(tries * 1.2);
});

test.each(['0.5', '1e300', "'abc'", "x'00'", '9007199254740993', '9007199254740991', '-1'])(
  'an offset of %s is no hint, and no error',
  async (offset) => {
    const other = new GrownArchive();
    try {
      await other.grow([sampleMail(3)], false);
      const db = new Database(join(other.dir, 'catalog.sqlite'));
      const blob = db.prepare<[], string>('SELECT lower(hex(hash)) FROM records WHERE kind = 1');
      const name = blob.pluck().get() ?? '';
      db.exec(`UPDATE records SET "offset" = ${offset}`);
      db.close();
      const blobs = new CatalogBlobs(realFiles, other.dir);
      expect(blobs.find(name)).toBeUndefined();
      blobs.close();
    } finally {
      other.remove();
    }
  },
);
