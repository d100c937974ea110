import { hash } from 'node:crypto';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { freeBytes, realFiles } from '../../src/archive/file-system.ts';
import { acquireLock } from '../../src/archive/lock.ts';
import { openLogReader, scanLog } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../src/archive/seal.ts';
import { anyMail } from './generated-mail.ts';
import { Positions } from './positions.ts';
import { fill, sampleMail } from './sample-log.ts';

const top = mkdtempSync(join(tmpdir(), 'mailkeep-archive-'));
afterAll(() => rmSync(top, { recursive: true }));

let count = 0;
function newFolder(): string {
  count += 1;
  return join(top, `archive-${count}`);
}

/** Writes messages in batches of 128 or 8 MiB, the next gathered while the one before is on its way to the disk. */
async function store(dir: string, raws: Iterable<Buffer>, segmentBytes?: number) {
  const lock = acquireLock(dir);
  const known = new Positions();
  const seen = new Set<string>();
  const writer = await openLogWriter({
    dir,
    now: Date.now,
    ...(segmentBytes === undefined ? {} : { segmentBytes }),
  });
  let batch = writer.newBatch();
  let underWay: Promise<unknown> = Promise.resolve();
  const close = async () => {
    if (batch.records === 0) return;
    const full = batch;
    batch = writer.newBatch();
    await underWay;
    underWay = writer.commit(full).then((committed) => known.fold(committed));
  };
  let uid = 0;
  for (const raw of raws) {
    uid += 1;
    const id = hash('sha256', raw);
    if (seen.has(id)) continue;
    seen.add(id);
    fill(batch, [raw], known, uid);
    if (batch.messages >= 128 || batch.bytes >= 8 * 1024 * 1024) await close();
  }
  await close();
  await underWay;
  await writer.rollIfLarger(0);
  const { sealed } = await sealClosedSegments({ dir, before: writer.segment });
  await writer.close();
  lock.release();
  return { known, sealed };
}

async function expectSame(dir: string, known: Positions, raws: Iterable<Buffer>): Promise<void> {
  const reader = openLogReader({ dir, locator: known });
  for (const raw of raws) expect(reader.readMessage(hash('sha256', raw)).equals(raw)).toBe(true);
  reader.close();
  let batches = 0;
  for await (const event of scanLog({ dir })) {
    expect(event.what).toBe('batch');
    if (event.what !== 'batch') continue;
    expect(event.sound).toBe(true);
    expect(event.batch.commit).toEqual(known.batches[batches]?.commit);
    batches += 1;
  }
  expect(batches).toBe(known.batches.length);
}

test('an archive on a real disk: written, sealed, aged and read', async () => {
  const dir = newFolder();
  const raws = Array.from({ length: 400 }, (_, n) => sampleMail(n, 9000));
  const { known, sealed } = await store(dir, raws, 200_000);
  expect(sealed.length).toBeGreaterThan(2);
  await expectSame(dir, known, raws);
  const dropped = await dropOldGenerations({ dir, now: Date.now(), keepMs: 0 });
  expect(dropped).toHaveLength(sealed.length);
  expect(dropped.some((path) => existsSync(path))).toBe(false);
  await expectSame(dir, known, raws);
});

test('any mail, through the disk and back', async () => {
  const dir = newFolder();
  const raws = fc.sample(anyMail, 300);
  const { known } = await store(dir, raws);
  await expectSame(dir, known, raws);
});

test.skipIf(process.platform === 'win32')('nobody but the owner may look', async () => {
  const dir = newFolder();
  await store(dir, [sampleMail(1)]);
  const modes = (path: string): Record<string, string> => {
    const stats = statSync(path);
    const mode = (stats.mode & 0o777).toString(8);
    if (!stats.isDirectory()) return { [path]: mode };
    const inside = readdirSync(path).map((name) => modes(join(path, name)));
    return Object.assign({ [path]: mode }, ...inside);
  };
  const found = Object.entries(modes(dir));
  expect(found.length).toBeGreaterThan(5);
  for (const [path, mode] of found) {
    expect([path, mode]).toEqual([path, statSync(path).isDirectory() ? '700' : '600']);
  }
});

test('a torn tail on a real disk is put aside', async () => {
  const dir = newFolder();
  const { known } = await store(dir, [sampleMail(1)]);
  const path = join(dir, 'log', '0000000002.1.seg');
  writeFileSync(path, 'torn', { flag: 'a' });
  const tails: unknown[] = [];
  const writer = await openLogWriter({
    dir,
    now: Date.now,
    expected: known.reached,
    onTail: (tail) => tails.push(tail),
  });
  await writer.close();
  const file = join(dir, 'log', 'tail-1.bin');
  expect(tails).toEqual([{ segment: 2, offset: 64, bytes: 4, file }]);
  expect(readFileSync(file, 'latin1')).toBe('torn');
  expect(statSync(path).size).toBe(64);
});

test('free room is reported', async () => {
  expect(await freeBytes(top)).toBeGreaterThan(0);
  await expect(freeBytes(join(top, 'nowhere'))).rejects.toMatchObject({ code: 'ENOENT' });
});

test('the disk reports what is wrong by its code', () => {
  expect(() => realFiles.open(join(top, 'nowhere'), 'read')).toThrow(
    expect.objectContaining({ code: 'ENOENT' }),
  );
  writeFileSync(join(top, 'there'), '');
  expect(() => realFiles.open(join(top, 'there'), 'create')).toThrow(
    expect.objectContaining({ code: 'EEXIST' }),
  );
});

const corpus = process.env.MAILKEEP_CORPUS;

describe.skipIf(corpus === undefined)('real mail (MAILKEEP_CORPUS)', () => {
  test('comes back bit for bit, and takes at most 0.40 of its size once sealed', async () => {
    const files = readdirSync(corpus ?? '', { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    function* raws() {
      for (const file of files) yield readFileSync(file);
    }
    const dir = newFolder();
    const { known, sealed } = await store(dir, raws());
    await expectSame(dir, known, raws());
    const raw = files.reduce((sum, file) => sum + statSync(file).size, 0);
    const stored = sealed.reduce((sum, { bytesAfter }) => sum + bytesAfter, 0);
    expect(stored).toBeLessThan(raw * 0.4);
  });
});
