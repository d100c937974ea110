import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rebuildCatalog } from '../../src/indexer/rebuild.ts';
import { openExtractorPool } from '../../src/mime/extractor-pool.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { seeded } from '../bench/seeded.ts';
import { GrownArchive, verified } from './grown-archive.ts';

/** By hand, hundreds: MAILKEEP_DAMAGES=2000 npx vitest run test/verify/damaged-catalog */
const ROUNDS = Number(process.env.MAILKEEP_DAMAGES ?? 60);

const archive = new GrownArchive();
const extractor = openExtractorPool();
const file = join(archive.dir, 'catalog.sqlite');
let whole: Buffer;
let page: number;

beforeAll(async () => {
  await archive.grow(
    Array.from({ length: 8 }, (_, i) => sampleMail(i + 1)),
    true,
  );
  await rebuilt();
  const db = new Database(file);
  db.pragma('journal_mode = DELETE');
  page = Number(db.pragma('page_size', { simple: true }));
  db.close();
  whole = readFileSync(file);
});
afterAll(async () => {
  await extractor.close();
  archive.remove();
});

function rebuilt(): Promise<unknown> {
  return rebuildCatalog({ dir: archive.dir, extractor, signal: new AbortController().signal });
}

function overwrite(at: number, bytes: Buffer, where = file): void {
  const fd = openSync(where, 'r+');
  try {
    writeSync(fd, bytes, 0, bytes.length, at);
  } finally {
    closeSync(fd);
  }
}

test('any page of the catalog that was lost is found, and never as an error of the program', async () => {
  const lost: Record<string, number> = {};
  for (let at = 0; at < whole.length; at += page) {
    overwrite(at, Buffer.alloc(page));
    const { catalog, found, findings } = await verified(archive.dir);
    overwrite(at, whole.subarray(at, at + page));
    expect({ page: at / page + 1, catalog, found }).not.toMatchObject({ found: 0 });
    expect(findings.length, `page ${at / page + 1}`).toBeGreaterThan(0);
    lost[catalog] = (lost[catalog] ?? 0) + 1;
    // The file's damage goes before what its rows seem to say.
    if (catalog === 'damaged') {
      expect(new Set(findings.map(({ what }) => what))).toEqual(new Set(['catalog-file']));
    }
  }
  expect(lost.damaged).toBeGreaterThan(10);
  expect(await verified(archive.dir)).toMatchObject({ found: 0, catalog: 'equal' });
}, 120_000);

test('a catalog with any damage keeps nobody from being told of the log', async () => {
  const seed = Number(process.env.MAILKEEP_SEED ?? Date.now() % 1_000_000);
  console.log(`damaged catalogs: MAILKEEP_SEED=${seed}`);
  const random = seeded('damaged catalogs', seed);
  const segment = join(archive.dir, 'log', readdirSync(join(archive.dir, 'log'))[0] ?? '');
  const log = readFileSync(segment);
  for (let round = 0; round < ROUNDS; round += 1) {
    const at = random.below(whole.length / page) * page;
    const bytes = Buffer.from(whole.subarray(at, at + page));
    for (let turned = 1 + random.below(40); turned > 0; turned -= 1)
      bytes[random.below(page)] = random.below(256);
    overwrite(at, bytes);
    const flipped = 64 + random.below(log.length - 64);
    overwrite(flipped, Buffer.of((log[flipped] ?? 0) ^ 4), segment);
    for (const full of [true, false]) {
      const { findings } = await verified(archive.dir, { full });
      const said = JSON.stringify({ round, page: at / page + 1, flipped, full, findings });
      expect(
        findings.some(({ what }) => what === 'log'),
        said,
      ).toBe(true);
    }
    overwrite(at, whole.subarray(at, at + page));
    overwrite(flipped, log.subarray(flipped, flipped + 1), segment);
  }
}, 120_000);

test('what is no file in the place of the catalog keeps nobody from being told of the log', async () => {
  const aside = `${file}.aside`;
  renameSync(file, aside);
  try {
    mkdirSync(file);
    const inFolder = await verified(archive.dir);
    rmSync(file, { recursive: true });
    const made = [inFolder];
    if (process.platform !== 'win32') {
      // SQLite would wait for somebody to write to it.
      execFileSync('mkfifo', [file]);
      made.push(await verified(archive.dir));
      rmSync(file);
    }
    for (const { catalog, findings, messages, rebuilt } of made) {
      expect({ catalog, messages, rebuilt }).toEqual({
        catalog: 'damaged',
        messages: 8,
        rebuilt: 8,
      });
      expect(findings).toEqual([{ what: 'catalog-file', detail: 'not a file' }]);
    }
  } finally {
    rmSync(file, { recursive: true, force: true });
    renameSync(aside, file);
  }
}, 60_000);

test('damage that is met only when a missing message is to be named is told as well', async () => {
  const other = new GrownArchive();
  try {
    const lost = sampleMail(1);
    await other.grow([lost, sampleMail(2)], false);
    await other.lose(lost);
    const catalog = join(other.dir, 'catalog.sqlite');
    const db = new Database(catalog);
    db.pragma('journal_mode = DELETE');
    // Neither folding nor comparing asks it.
    const root = db
      .prepare<[], number>("SELECT rootpage FROM sqlite_schema WHERE name = 'places_by_docid'")
      .pluck()
      .get();
    db.close();
    const missing = { what: 'missing', kind: 'message' };
    expect(await verified(other.dir, { full: false })).toMatchObject({
      catalog: 'equal',
      findings: [{ ...missing, message: { places: [{ folder: 'INBOX' }] } }],
    });
    overwrite(((root ?? 0) - 1) * page, Buffer.alloc(page), catalog);
    expect(await verified(other.dir, { full: false })).toMatchObject({
      catalog: 'damaged',
      findings: [missing, { what: 'catalog-file' }],
    });
  } finally {
    other.remove();
  }
});

test.skipIf(process.platform !== 'linux')(
  'a catalog that the disk does not give back is damage as well, and made anew',
  async () => {
    const aside = `${file}.aside`;
    renameSync(file, aside);
    try {
      // Nothing lies at the beginning of a process's memory: reading it fails as a bad sector does.
      symlinkSync('/proc/self/mem', file);
      expect(() => readFirstByte(file)).toThrow('EIO');
      const { catalog, findings, messages, rebuilt: whole } = await verified(archive.dir);
      expect({ catalog, messages, whole }).toEqual({ catalog: 'damaged', messages: 8, whole: 8 });
      expect(findings).toEqual([{ what: 'catalog-file', detail: 'SQLITE_IOERR_CORRUPTFS' }]);
      await rebuilt();
      expect(await verified(archive.dir)).toMatchObject({ found: 0, catalog: 'equal' });
    } finally {
      rmSync(file, { force: true });
      renameSync(aside, file);
    }
  },
  60_000,
);

function readFirstByte(from: string): void {
  const fd = openSync(from, 'r');
  try {
    readSync(fd, Buffer.alloc(1), 0, 1, 0);
  } finally {
    closeSync(fd);
  }
}

test('a rebuild makes any damaged catalog anew', async () => {
  for (let at = 0; at < whole.length; at += page) {
    overwrite(at, Buffer.alloc(page, 0xa5));
    await rebuilt();
    expect(await verified(archive.dir), `page ${at / page + 1}`).toMatchObject({
      found: 0,
      catalog: 'equal',
    });
  }
}, 300_000);
