import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rebuildCatalog } from '../../src/catalog/rebuild.ts';
import { deserializeError, EXIT, MailkeepError, serializeError } from '../../src/core/errors.ts';
import { openExistingState } from '../../src/core/state.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import type { SegmentChecker } from '../../src/verify/check-segment.ts';
import { threadedChecker } from '../../src/verify/check-segment.ts';
import { recallVerification } from '../../src/verify/verification.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { seeded } from '../bench/seeded.ts';
import { ran } from '../cli/surface.ts';
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

test('damage of the log is reported whatever the damage of the catalog', async () => {
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

test('damage of the log is reported when something else than a file is at the path of the catalog', async () => {
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

/** Puts something unreadable at the catalog's path while `act` runs. */
async function withUnreadable(act: () => Promise<void>): Promise<void> {
  const aside = `${file}.aside`;
  renameSync(file, aside);
  try {
    symlinkSync('catalog.sqlite', file);
    await act();
  } finally {
    rmSync(file, { force: true });
    renameSync(aside, file);
  }
}

test('with an unreadable catalog damage of the log is reported, and the catalog is not called damaged', () =>
  withUnreadable(async () => {
    const unread = { catalog: 'unreadable', catalogError: 'ELOOP' };
    expect(await verified(archive.dir)).toMatchObject({
      ...unread,
      ...{ messages: 8, rebuilt: 8, found: 0, findings: [] },
    });
    const output = await ran(['verify', '--data', archive.dir]);
    expect(output).toMatchObject({ code: EXIT.failures });
    expect(output.stdout).toContain('The catalog could not be read and was not compared.');
    expect(output.stdout).toContain('The log is as it was written.');
    expect(output.stdout).not.toMatch(/Everything|DAMAGED/);
    expect(output.stderr).toContain(
      `The catalog ${file} cannot be read or written: too many links (ELOOP).`,
    );
    const json = await ran(['verify', '--quick', '--json', '--data', archive.dir]);
    expect(json.code).toBe(EXIT.failures);
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, found: 0, ...unread });
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: 'catalog-io' } });
    const state = openExistingState(archive.dir);
    expect(recallVerification(state)).toBeNull();
    state?.close();
    const segment = join(archive.dir, 'log', readdirSync(join(archive.dir, 'log'))[0] ?? '');
    const [byte = 0] = readFileSync(segment).subarray(200);
    overwrite(200, Buffer.of(byte ^ 1), segment);
    try {
      const damaged = await ran(['verify', '--json', '--data', archive.dir]);
      expect(damaged.code).toBe(EXIT.damage);
      expect(JSON.parse(damaged.stdout)).toMatchObject({ ok: false, ...unread });
    } finally {
      overwrite(200, Buffer.of(byte), segment);
    }
  }));

test.skipIf(process.platform === 'win32')(
  'a catalog that another user may not read is reported with the reason of the system',
  async () => {
    const { geteuid, seteuid } = process;
    const other = new GrownArchive();
    try {
      await other.grow([sampleMail(1)], false);
      execFileSync('chmod', ['-R', 'a+rX', other.dir]);
      chmodSync(join(other.dir, 'catalog.sqlite'), 0);
      const isRoot = geteuid?.() === 0;
      // Nothing is kept from root.
      if (isRoot) seteuid?.(65_534);
      expect(await verified(other.dir)).toMatchObject({
        catalog: 'unreadable',
        // The system reports what denies access to the real user, who is still root.
        catalogError: isRoot ? 'SQLITE_CANTOPEN' : 'EACCES',
        ...{ messages: 1, rebuilt: 1, found: 0 },
      });
    } finally {
      if (process.getuid?.() === 0) seteuid?.(0);
      other.remove();
    }
  },
);

test('a catalog that cannot be read any more while it is compared is not called damaged either', async () => {
  const io = () => new MailkeepError('disk', 'catalog-io', { file, reason: 'SQLITE_IOERR_READ' });
  const checker = threadedChecker();
  const failing: SegmentChecker = {
    ...checker,
    structure: async () => {
      throw deserializeError(structuredClone(serializeError(io())));
    },
  };
  try {
    expect(await verified(archive.dir, { checker: failing })).toMatchObject({
      ...{ catalog: 'unreadable', catalogError: 'SQLITE_IOERR_READ' },
      ...{ messages: 8, rebuilt: 8, found: 0 },
    });
  } finally {
    await checker.close();
  }
});

test('a row that has no hash where one should be is damage, wherever it is met', async () => {
  const other = new GrownArchive();
  try {
    await other.grow([sampleMail(1), sampleMail(2)], false);
    const catalog = join(other.dir, 'catalog.sqlite');
    const sound = readFileSync(catalog);
    for (const [table, column, also] of [
      ['messages', 'id', ', size = 1'],
      ['meta', 'commit_hash', ''],
    ] as const) {
      const db = new Database(catalog).unsafeMode();
      db.pragma('writable_schema = ON');
      db.exec(
        `UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE name = '${table}'`,
      );
      db.pragma('writable_schema = RESET');
      db.exec(`UPDATE ${table} SET ${column} = NULL${also}`);
      db.close();
      expect(await verified(other.dir, { full: false }), table).toMatchObject({
        ...{ catalog: 'damaged', messages: 2 },
        findings: expect.arrayContaining([
          { what: 'catalog-file', detail: 'a row without its hash' },
        ]),
      });
      writeFileSync(catalog, sound);
    }
  } finally {
    other.remove();
  }
});

test('damage that is found only while naming a missing message is reported as well', async () => {
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
  'a catalog that the disk cannot read is damage as well, and is rebuilt',
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

test.skipIf(process.platform !== 'linux')(
  'a repair puts aside unchanged what cannot be copied at the path of the catalog',
  async () => {
    const aside = `${file}.aside`;
    renameSync(file, aside);
    try {
      for (const put of [() => execFileSync('mkfifo', [file]), () => mkdirSync(file)]) {
        put();
        const kept = `${file}.before-repair-1`;
        const output = await ran(['verify', '--repair', '--data', archive.dir]);
        expect(output, output.stdout).toMatchObject({ code: EXIT.done });
        expect(output.stdout).toContain('The catalog was rebuilt.');
        expect(output.stdout).toContain(`(not a file); what is left of it: ${kept}`);
        expect(lstatSync(kept).isFile()).toBe(false);
        expect(await verified(archive.dir)).toMatchObject({ found: 0, catalog: 'equal' });
        rmSync(kept, { recursive: true });
        rmSync(file);
      }
      // Nothing is known to be lost: what cannot be read goes.
      symlinkSync('catalog.sqlite', file);
      const output = await ran(['verify', '--repair', '--json', '--data', archive.dir]);
      expect(output).toMatchObject({ code: EXIT.done, stderr: '' });
      expect(JSON.parse(output.stdout)).toMatchObject({
        ...{ ok: true, catalogRebuilt: true, unreadCatalog: null, catalog: 'equal' },
      });
    } finally {
      rmSync(file, { recursive: true, force: true });
      renameSync(aside, file);
    }
  },
  60_000,
);

test.skipIf(process.platform === 'win32')(
  'a catalog that may not be read is put aside unchanged when it is rebuilt',
  async () => {
    const { geteuid, seteuid } = process;
    const kept = `${file}.before-repair-1`;
    // The extractor's threads load what they need while they may.
    await rebuilt();
    try {
      chmodSync(file, 0);
      if (geteuid?.() === 0) {
        execFileSync('chown', ['-R', '65534', archive.dir]);
        chownSync(file, 0, 0);
        seteuid?.(65_534);
      }
      const { signal } = new AbortController();
      const made = await rebuildCatalog({ dir: archive.dir, extractor, signal, keepAs: kept });
      expect(made.unread).toBe('EACCES');
      expect(await verified(archive.dir)).toMatchObject({ found: 0, catalog: 'equal' });
    } finally {
      if (process.getuid?.() === 0) seteuid?.(0);
    }
    expect(statSync(kept).mode & 0o777).toBe(0);
    rmSync(kept);
  },
);

test('a rebuild replaces any damaged catalog', async () => {
  for (let at = 0; at < whole.length; at += page) {
    overwrite(at, Buffer.alloc(page, 0xa5));
    await rebuilt();
    expect(await verified(archive.dir), `page ${at / page + 1}`).toMatchObject({
      found: 0,
      catalog: 'equal',
    });
  }
}, 300_000);
