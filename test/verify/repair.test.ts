import { hash } from 'node:crypto';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FileLayer } from '../../src/archive/file-system.ts';
import { realFiles } from '../../src/archive/file-system.ts';
import { scanLog } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { dropOldGenerations, sealSegment } from '../../src/archive/seal.ts';
import { repairArchive } from '../../src/verify/repair-archive.ts';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { ran } from '../cli/surface.ts';
import { checkerInProcess } from './checker-in-process.ts';
import { GrownArchive, START, verified } from './grown-archive.ts';

const archive = new GrownArchive();
const top = mkdtempSync(join(tmpdir(), 'mailkeep-repair-'));
const large = mailWithAttachment(noise(290_000, 9));
beforeAll(async () => {
  await archive.grow([...[1, 2, 3, 4, 5].map((n) => sampleMail(n)), large], true);
  await archive.grow(
    [7, 8, 10, 11, 13, 14].map((n) => sampleMail(n)),
    false,
  );
});
afterAll(() => {
  archive.remove();
  rmSync(top, { recursive: true });
});

const SEALED = '0000000001.2.seg';
const HOT = '0000000002.1.seg';

function damagedCopy(name: string, file: string, change: (bytes: Buffer) => Buffer): string {
  const dir = join(top, name);
  rmSync(dir, { recursive: true, force: true });
  cpSync(archive.dir, dir, { recursive: true });
  const path = join(dir, 'log', file);
  writeFileSync(path, change(readFileSync(path)));
  return dir;
}

const flip = (at: number, mask: number) => (bytes: Buffer) => {
  bytes[at] = (bytes[at] ?? 0) ^ mask;
  return bytes;
};

const zeros = (from: number, to: number) => (bytes: Buffer) => bytes.fill(0, from, to);

function repaired(dir: string, options: Partial<Parameters<typeof repairArchive>[0]> = {}) {
  return repairArchive({
    dir,
    checker: checkerInProcess(realFiles),
    copies: [],
    now: () => START,
    signal: new AbortController().signal,
    ...options,
  });
}

describe('without help from elsewhere', () => {
  test.each([SEALED, HOT])(
    'a single flipped bit in %s is turned back, wherever it is',
    async (file) => {
      const length = readFileSync(join(archive.dir, 'log', file)).length;
      for (let at = 0; at < length; at += Math.ceil(length / 60)) {
        const dir = damagedCopy('flip', file, flip(at, 1 << (at % 8)));
        const { before, mended } = await repaired(dir);
        expect(before.found, `byte ${at}`).toBeGreaterThan(0);
        expect(mended, `byte ${at}`).toHaveLength(1);
        expect(await verified(dir)).toMatchObject({ found: 0, catalog: 'equal' });
        // Nothing is deleted: the damaged file is kept.
        expect(readdirSync(join(dir, 'log'))).toContain(`${file}.damaged`);
      }
    },
  );
});

describe('with a second copy', () => {
  test('whatever is lost comes back, facts and commits as well', async () => {
    for (const [file, change] of [
      [SEALED, zeros(100, 600)],
      [SEALED, (bytes: Buffer) => bytes.subarray(0, 300)],
      [HOT, zeros(64, 2000)],
      [HOT, (bytes: Buffer) => bytes.subarray(0, 900)],
      [HOT, () => Buffer.alloc(0)],
    ] as const) {
      const dir = damagedCopy('copied', file, change);
      await repaired(dir, { copies: [archive.dir] });
      expect(await verified(dir)).toMatchObject({ found: 0, catalog: 'equal' });
    }
  });

  test('a segment that is gone comes back', async () => {
    const dir = damagedCopy('gone', SEALED, (bytes) => bytes);
    rmSync(join(dir, 'log', SEALED));
    await repaired(dir, { copies: [archive.dir] });
    expect(await verified(dir)).toMatchObject({ found: 0, catalog: 'equal' });
  });

  test('each copy may be damaged elsewhere', async () => {
    const size = readFileSync(join(archive.dir, 'log', HOT)).length;
    const other = damagedCopy('other', HOT, zeros(size - 300, size - 100));
    const dir = damagedCopy('both', HOT, zeros(80, 200));
    await repaired(dir, { copies: [other] });
    expect(await verified(dir)).toMatchObject({ found: 0, catalog: 'equal' });
  });
});

/** The disk, where the system refuses to open one file. */
function refusing(path: string): FileLayer {
  return {
    open(opened, access) {
      if (opened !== path) return realFiles.open(opened, access);
      throw Object.assign(new Error(`permission denied, open '${opened}'`), { code: 'EACCES' });
    },
    list: (folder) => realFiles.list(folder),
    makeFolder: (folder) => realFiles.makeFolder(folder),
    rename: (from, to) => realFiles.rename(from, to),
    remove: (file) => realFiles.remove(file),
    syncFolder: (folder) => realFiles.syncFolder(folder),
    modifiedAt: (file) => realFiles.modifiedAt(file),
  };
}

describe('a copy with a segment that cannot be opened', () => {
  const missingFacts = async (dir: string): Promise<number> => {
    let count = 0;
    for await (const event of scanLog({ dir })) {
      if (event.what !== 'batch') continue;
      const isMissing = ({ kind, fact }: { kind: string; fact?: { fact: string } }) =>
        kind === 'fact' && fact?.fact === 'missing';
      count += event.batch.records.filter(isMissing).length;
    }
    return count;
  };

  test('helps with its other segments', async () => {
    const copy = damagedCopy('refused', HOT, (bytes) => bytes);
    const refused = join(copy, 'log', HOT);
    const dir = damagedCopy('helped', SEALED, zeros(100, 600));
    const done = await repaired(dir, { copies: [copy], files: refusing(refused) });
    expect(done).toMatchObject({
      skippedCopies: [],
      skippedSegments: [{ copy, file: refused, reason: 'EACCES' }],
      missing: [],
    });
    expect(await verified(dir)).toMatchObject({ found: 0, catalog: 'equal' });
  });

  test('keeps what it may hold from being recorded as missing', async () => {
    const copy = damagedCopy('refused', HOT, (bytes) => bytes);
    const refused = join(copy, 'log', SEALED);
    const at = readFileSync(join(archive.dir, 'log', SEALED)).indexOf(
      noise(290_000, 9).subarray(0, 32),
    );
    const dir = damagedCopy('waiting', SEALED, zeros(at + 10, at + 500));
    const first = await repaired(dir, { copies: [copy], files: refusing(refused) });
    expect(first.missing).toEqual([{ kind: 'message', hash: hash('sha256', large) }]);
    expect(await missingFacts(dir)).toBe(0);
    const second = await repaired(dir, { copies: [copy] });
    expect(second).toMatchObject({ missing: [], skippedSegments: [] });
    expect(await verified(dir)).toMatchObject({ found: 0 });
  });

  test('is skipped as a copy where no segment can be opened', async () => {
    const copy = damagedCopy('closed', HOT, (bytes) => bytes);
    rmSync(join(copy, 'log', HOT));
    const dir = damagedCopy('unhelped', SEALED, zeros(100, 600));
    const done = await repaired(dir, {
      copies: [copy, archive.dir],
      files: refusing(join(copy, 'log', SEALED)),
    });
    expect(done.skippedCopies).toEqual([{ copy, reason: 'EACCES' }]);
    expect(done.skippedSegments).toEqual([]);
    expect(await verified(dir)).toMatchObject({ found: 0, catalog: 'equal' });
  });
});

describe('a copy of another archive', () => {
  const without = (dir: string, ...names: string[]): string => {
    for (const name of readdirSync(dir)) {
      if (names.some((start) => name.startsWith(start))) rmSync(join(dir, name));
    }
    return dir;
  };
  const other = new GrownArchive();
  beforeAll(async () => {
    await other.grow(
      [21, 22, 23].map((n) => sampleMail(n)),
      true,
    );
    await other.grow([sampleMail(24)], false);
  });
  afterAll(() => other.remove());

  test('is refused, whichever segment cannot be read', async () => {
    for (const file of [SEALED, HOT]) {
      const dir = without(damagedCopy('foreign', file, zeros(0, 64)), 'catalog');
      const before = readdirSync(join(dir, 'log'));
      const output = await ran([
        'verify',
        '--repair',
        '--from',
        other.dir,
        '--data',
        dir,
        '--json',
      ]);
      expect(output).toMatchObject({ code: 2, stdout: '' });
      expect(JSON.parse(output.stderr).error.code).toBe('repair-other-archive');
      expect(readdirSync(join(dir, 'log'))).toEqual(before);
    }
  });

  test('is recognised by the catalog, or by an own checkpoint, where no segment shows it', async () => {
    const only = (name: string): string => {
      const dir = damagedCopy(name, HOT, zeros(0, 64));
      writeFileSync(join(dir, 'log', SEALED), Buffer.alloc(200));
      return dir;
    };
    const known = only('by-catalog');
    await expect(repaired(known, { copies: [other.dir] })).rejects.toMatchObject({
      code: 'repair-archive-unknown',
    });
    await repaired(known, { copies: [archive.dir] });
    expect(await verified(known)).toMatchObject({ found: 0, catalog: 'equal' });

    const signed = without(only('by-checkpoint'), 'catalog');
    await expect(repaired(signed, { copies: [archive.dir] })).rejects.toMatchObject({
      code: 'repair-archive-unknown',
    });
    const maker = damagedCopy('maker', HOT, (bytes) => bytes);
    expect((await ran(['checkpoint', '--data', maker])).code).toBe(0);
    cpSync(join(maker, 'checkpoint.key'), join(signed, 'checkpoint.key'));
    cpSync(join(maker, 'checkpoints'), join(signed, 'checkpoints'), { recursive: true });
    await expect(repaired(signed, { copies: [other.dir] })).rejects.toMatchObject({
      code: 'repair-other-archive',
    });
    await repaired(signed, { copies: [archive.dir] });
    expect(await verified(signed)).toMatchObject({ found: 0 });
  });
});

describe('what was purged', () => {
  const bytes = noise(290_000, 9).subarray(0, 32);
  /** The archive with the large message forgotten: generation 3 of the first segment lacks its blob. */
  async function purged(name: string, blobs: readonly string[]): Promise<string> {
    const dir = damagedCopy(name, HOT, (whole) => whole);
    const writer = await openLogWriter({ dir, now: () => START });
    const batch = writer.newBatch();
    const message = hash('sha256', large);
    batch.addFact({ fact: 'purged', message, reason: 'forgotten', blobs });
    await writer.commit(batch);
    await writer.close();
    await sealSegment({ dir, segment: 1, purge: ({ rawLength }) => rawLength === 290_000 });
    await dropOldGenerations({ dir, now: Date.now() + 1e9, keepMs: 0 });
    for (const file of readdirSync(dir)) if (file.startsWith('catalog')) rmSync(join(dir, file));
    return dir;
  }
  const filesWith = (dir: string): string[] =>
    readdirSync(join(dir, 'log')).filter((name) =>
      readFileSync(join(dir, 'log', name)).includes(bytes),
    );

  test('does not come back from an older copy, wherever the segment is damaged', async () => {
    const whole = readFileSync(join(await purged('purged', []), 'log', '0000000001.3.seg'));
    expect(whole.includes(bytes)).toBe(false);
    expect(filesWith(archive.dir)).toEqual([SEALED]);
    for (const [from, to] of [
      [64, 160],
      [0, 64],
      [whole.length - 40, whole.length],
    ] as const) {
      const dir = await purged('purged', []);
      const damaged = Buffer.from(whole).fill(0, from, to);
      writeFileSync(join(dir, 'log', '0000000001.3.seg'), damaged);
      const { mended } = await repaired(dir, { copies: [archive.dir] });
      expect(mended, `bytes ${from}`).toContainEqual(expect.objectContaining({ segment: 1 }));
      expect(filesWith(dir), `bytes ${from}`).toEqual([]);
    }
  });

  test('does not come back where only the log says so, its segment being gone', async () => {
    const dir = await purged('forgotten', [hash('sha256', noise(290_000, 9))]);
    rmSync(join(dir, 'log', '0000000001.3.seg'));
    const { mended } = await repaired(dir, { copies: [archive.dir] });
    expect(mended).toContainEqual(expect.objectContaining({ segment: 1 }));
    expect(filesWith(dir)).toEqual([]);
  });
});

describe('from the origin', () => {
  const id = hash('sha256', large);
  const at = () => {
    const bytes = readFileSync(join(archive.dir, 'log', SEALED));
    return bytes.indexOf(noise(290_000, 9).subarray(0, 32));
  };

  test('bytes are accepted only when their hash is right', async () => {
    const dir = damagedCopy('origin', SEALED, zeros(at() + 10, at() + 500));
    const asked: string[] = [];
    const { restored, missing } = await repaired(dir, {
      fetchAgain: async (wanted) => {
        asked.push(wanted);
        return large;
      },
    });
    expect(asked).toEqual([id]);
    expect(restored).toEqual([{ kind: 'message', hash: id, from: 'origin' }]);
    expect(missing).toEqual([]);
    const { findings } = await verified(dir);
    expect(findings.filter(({ what }) => what === 'message' || what === 'missing')).toEqual([]);
  });

  test('what is found nowhere is recorded as missing once, and reported for ever', async () => {
    const dir = damagedCopy('nowhere', SEALED, zeros(at() + 10, at() + 500));
    const wrong = { fetchAgain: async () => Buffer.from('another message') };
    expect((await repaired(dir, wrong)).missing).toMatchObject([{ kind: 'message', hash: id }]);
    const output = await ran(['verify', '--repair', '--data', dir, '--json']);
    expect(output.code).toBe(3);
    const { missing, last, catalogRebuilt, findings } = JSON.parse(output.stdout);
    expect(missing).toMatchObject([{ kind: 'message', hash: id }]);
    expect(catalogRebuilt).toBe(true);
    expect(last.number).toBe((archive.known.reached?.number ?? 0) + 1);
    expect(findings).toContainEqual(
      expect.objectContaining({ what: 'missing', hash: id, kind: 'message' }),
    );
    expect(readdirSync(dir)).toContain('catalog.sqlite.before-repair-1');
    // Brought back by somebody, it is missing no more.
    await repaired(dir, { fetchAgain: async () => large });
    const after = await verified(dir);
    expect(after.findings.filter(({ what }) => what === 'missing' || what === 'message')).toEqual(
      [],
    );
  });
});

test('an archive without damage is left as it is', async () => {
  const dir = damagedCopy('whole', HOT, (bytes) => bytes);
  const output = await ran(['verify', '--repair', '--data', dir, '--json']);
  expect(output).toMatchObject({ code: 0 });
  expect(JSON.parse(output.stdout)).toMatchObject({ ok: true, mended: [], catalogRebuilt: false });
  expect(readdirSync(join(dir, 'log')).sort()).toEqual([SEALED, HOT]);
});
