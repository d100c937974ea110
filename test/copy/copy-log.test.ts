import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openLogReader, scanLog } from '../../src/archive/log-reader.ts';
import type { ArchiveCodec } from '../../src/archive/payload.ts';
import { dropOldGenerations, sealClosedSegments, sealSegment } from '../../src/archive/seal.ts';
import { copyLog } from '../../src/copies/copy-log.ts';
import { endings, powerCuts } from '../archive/endings.ts';
import { expectFormatAllows } from '../archive/formats.ts';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import { Positions } from '../archive/positions.ts';
import { DIR, fill, openOn, writeBatches } from '../archive/sample-log.ts';
import { Killed, SimulatedDisk, systemError } from '../archive/simulated-disk.ts';

const TO = '/copy';
const signal = new AbortController().signal;
const copy = (disk: SimulatedDisk, forget = async () => {}, seen = 0) =>
  copyLog({ from: DIR, to: TO, files: disk.files, signal, seen, forget });

/** One sealed segment, one that is closed, and one that is written to, with a torn tail. */
async function grown(codec: ArchiveCodec = 'zstd') {
  const disk = new SimulatedDisk();
  disk.files.makeFolder(TO);
  const writer = await openOn(disk.files);
  const known = new Positions();
  await writeBatches(writer, known, 3);
  const large = [mailWithAttachment(noise(280_000))];
  known.fold(await writer.commit(fill(writer.newBatch(), large, known, 100)));
  await writer.rollIfLarger(0);
  await sealClosedSegments({ dir: DIR, before: 2, files: disk.files, codec });
  await dropOldGenerations({ dir: DIR, now: 1e15, keepMs: 0, files: disk.files });
  await writeBatches(writer, known, 2, 200);
  await writer.rollIfLarger(0);
  await writeBatches(writer, known, 1, 300);
  return { disk, writer, known, large };
}

async function commitsOf(disk: SimulatedDisk, dir: string): Promise<unknown[]> {
  const commits: unknown[] = [];
  for await (const event of scanLog({ dir, files: disk.files })) {
    if (event.what === 'batch' && event.sound) commits.push(event.batch);
    else throw new Error(JSON.stringify(event));
  }
  return commits;
}

test('a copy has the same batches, and again costs nothing', async () => {
  const { disk, known, writer } = await grown();
  expect(await copy(disk)).toMatchObject({ number: 7, segments: 3, written: 3, purged: 0 });
  expect(await commitsOf(disk, TO)).toEqual(known.batches);
  const acts = disk.acts;
  expect(await copy(disk)).toMatchObject({ number: 7, written: 0, bytes: 0, dropped: [] });
  expect(disk.acts - acts).toBe(1);
  await writeBatches(writer, known, 1, 400);
  expect(await copy(disk)).toMatchObject({ number: 8, written: 1 });
  // Sealed here, sealed there; what it replaces goes.
  await sealClosedSegments({ dir: DIR, before: writer.segment, files: disk.files });
  expect(await copy(disk)).toMatchObject({ written: 1, dropped: [`${TO}/log/0000000002.1.seg`] });
  expect(await commitsOf(disk, TO)).toEqual(known.batches);
});

test('folders are listed as often for many segments as for few, when nothing is new', async () => {
  const { disk, writer, known } = await grown();
  const looks = async () => {
    await copy(disk);
    let count = 0;
    const list = (folder: string) => {
      count += 1;
      return disk.files.list(folder);
    };
    await copyLog({
      from: DIR,
      to: TO,
      files: { ...disk.files, list },
      signal,
      seen: 0,
      forget: async () => {},
    });
    return count;
  };
  const few = await looks();
  for (let n = 0; n < 20; n += 1) {
    await writeBatches(writer, known, 1, 400 + n * 10);
    await writer.rollIfLarger(0);
  }
  await sealClosedSegments({ dir: DIR, before: writer.segment - 5, files: disk.files });
  await dropOldGenerations({ dir: DIR, now: 1e15, keepMs: 0, files: disk.files });
  expect(await looks()).toBe(few);
});

test('what a writer has not committed is not copied', async () => {
  const { disk, known } = await grown();
  const hot = `${DIR}/log/0000000003.1.seg`;
  disk.put(hot, Buffer.concat([disk.read(hot), Buffer.from('half a batch')]));
  await copy(disk);
  expect(await commitsOf(disk, TO)).toEqual(known.batches);
});

describe('a last batch that a power cut left without its middle', () => {
  /** A log whose last batch has a page of zeros, and what it was before that batch. */
  async function torn() {
    const { disk, writer, known } = await grown();
    const hot = `${DIR}/log/0000000003.1.seg`;
    const committed = disk.read(hot);
    await writeBatches(writer, known, 1, 900);
    const bytes = Buffer.from(disk.read(hot));
    const from = Math.ceil(committed.length / 4096) * 4096;
    expect(from).toBeLessThan(bytes.length - 200);
    bytes.fill(0, committed.length, from);
    disk.put(hot, bytes);
    return { disk, known, committed };
  }

  test('is left out where it was never acknowledged', async () => {
    const { disk, known, committed } = await torn();
    expect(await copy(disk, undefined, 7)).toMatchObject({ number: 7, written: 3 });
    expect(disk.read(`${TO}/log/0000000003.1.seg`).equals(committed)).toBe(true);
    expect(await commitsOf(disk, TO)).toEqual(known.batches.slice(0, 7));
    expect(await copy(disk, undefined, 7)).toMatchObject({ number: 7, written: 0 });
  });

  test('is damage where the catalog has seen it', async () => {
    const { disk } = await torn();
    await expect(copy(disk, undefined, 8)).rejects.toMatchObject({ code: 'log-damaged' });
    expect(disk.paths().filter((path) => path.startsWith(`${TO}/log/`))).toEqual([]);
  });
});

test('what was purged here is purged there', async () => {
  const { disk, known, large } = await grown();
  await copy(disk);
  const [raw = Buffer.alloc(0)] = large;
  const blob = [...known.blobs.keys()].at(-1) ?? '';
  const bytes = noise(280_000).subarray(0, 64);
  const anywhere = () => disk.paths().filter((path) => disk.read(path).includes(bytes));
  expect(anywhere()).toHaveLength(2);
  const big = known.batches[3]?.records.find(({ kind }) => kind === 'blob');
  const target = big?.kind === 'blob' ? big.hash : blob;
  await sealSegment({
    dir: DIR,
    segment: 1,
    files: disk.files,
    purge: (record) => record.hash.toString('hex') === target,
  });
  await dropOldGenerations({ dir: DIR, now: 1e15, keepMs: 0, files: disk.files });
  expect(await copy(disk)).toMatchObject({ written: 1, purged: 1 });
  expect(anywhere()).toEqual([]);
  const reader = openLogReader({ dir: TO, files: disk.files, locator: known });
  expect(() => reader.readMessage(hash('sha256', raw))).toThrow(
    expect.objectContaining({ code: 'bytes-purged' }),
  );
});

test('what has to be forgotten is forgotten before it is purged there, wherever a purge is killed', async () => {
  const prepared = async () => {
    const { disk, known } = await grown();
    await copy(disk);
    const big = known.batches[3]?.records.find(({ kind }) => kind === 'blob');
    const target = big?.kind === 'blob' ? big.hash : '';
    await sealSegment({
      dir: DIR,
      segment: 1,
      files: disk.files,
      purge: (record) => record.hash.toString('hex') === target,
    });
    await dropOldGenerations({ dir: DIR, now: 1e15, keepMs: 0, files: disk.files });
    return disk;
  };
  const bytes = noise(280_000).subarray(0, 64);
  const text = `${TO}/text`;
  const kept = (disk: SimulatedDisk, path: string) => disk.paths().includes(path);
  let killed = 0;
  for (let k = 0; ; k += 1) {
    const disk = await prepared();
    disk.put(text, bytes);
    const forget = async (on: SimulatedDisk) => {
      if (kept(on, text)) on.delete(text);
    };
    const start = disk.acts;
    disk.fault = (act, _path, count) => {
      if (count === start + k) throw new Killed(act);
      return undefined;
    };
    const outcome = await copy(disk, () => forget(disk)).catch((error: unknown) => error);
    const next = disk.afterKill();
    // Whoever finds the purged segment there finds nothing else that has the bytes but files it replaces.
    if (kept(next, `${TO}/log/0000000001.3.seg`)) expect(kept(next, text), `act ${k}`).toBe(false);
    await copy(next, () => forget(next));
    const anywhere = next.paths().filter((path) => next.read(path).includes(bytes));
    expect(anywhere, `act ${k}`).toEqual([]);
    if (!(outcome instanceof Error)) break;
    killed += 1;
  }
  expect(killed).toBeGreaterThan(5);
});

describe('a folder is refused, and left as it is,', () => {
  const untouched = async (disk: SimulatedDisk, code: string) => {
    const before = disk.paths().map((path) => [path, hash('sha256', disk.read(path))]);
    await expect(copy(disk)).rejects.toMatchObject({ code });
    expect(disk.paths().map((path) => [path, hash('sha256', disk.read(path))])).toEqual(before);
  };

  test('when it holds another archive', async () => {
    const { disk } = await grown();
    const writer = await openOn(disk.files, { dir: TO });
    await writeBatches(writer, new Positions(), 1);
    await untouched(disk, 'copy-other-archive');
  });

  test('when nothing there shows whose log it holds', async () => {
    const { disk } = await grown();
    const writer = await openOn(disk.files, { dir: TO });
    await writeBatches(writer, new Positions(), 1);
    const path = `${TO}/log/0000000001.1.seg`;
    disk.put(path, Buffer.from(disk.read(path)).fill(0, 0, 64));
    await untouched(disk, 'copy-unreadable');
  });

  test('when it has more than the archive', async () => {
    const { disk } = await grown();
    await copy(disk);
    disk.delete(`${DIR}/log/0000000003.1.seg`);
    await untouched(disk, 'copy-ahead');
  });

  test('when somebody wrote to it', async () => {
    const { disk, writer, known } = await grown();
    await copy(disk);
    const other = await openOn(disk.files, { dir: TO });
    await writeBatches(other, new Positions(), 1, 900);
    await untouched(disk, 'copy-ahead');
    await writeBatches(writer, known, 2, 400);
    await untouched(disk, 'copy-diverged');
  });

  test('when the archive is damaged', async () => {
    const { disk } = await grown();
    await copy(disk);
    disk.rot(`${DIR}/log/0000000002.1.seg`, 200);
    await untouched(disk, 'log-damaged');
  });
});

test('a copy that was damaged is brought back', async () => {
  const { disk, known } = await grown();
  await copy(disk);
  disk.rot(`${TO}/log/0000000003.1.seg`, 300);
  disk.put(`${TO}/log/0000000001.2.seg`, disk.read(`${TO}/log/0000000001.2.seg`).subarray(0, 400));
  await copy(disk);
  expect(await commitsOf(disk, TO)).toEqual(known.batches);
});

test('the copy allows zstd, though FORMAT here was copied before the segments', async () => {
  const { disk } = await grown();
  disk.put(`${DIR}/FORMAT`, Buffer.from('mailkeep archive 1\n'));
  await copy(disk);
  expect(disk.read(`${TO}/FORMAT`).toString()).toBe('mailkeep archive 2\n');
  expectFormatAllows(disk, TO);
});

/** First a copy, then more mail, a sealing and a second copy. */
async function twice(
  disk: SimulatedDisk,
  writer: Awaited<ReturnType<typeof grown>>['writer'],
  known: Positions,
  codec: ArchiveCodec,
) {
  await copy(disk);
  await writeBatches(writer, known, 1, 400);
  await sealClosedSegments({ dir: DIR, before: writer.segment, files: disk.files, codec });
  await copy(disk);
}

const CUTS = powerCuts(2);

test.each<[ArchiveCodec, ArchiveCodec]>([
  ['zstd', 'zstd'],
  ['zlib', 'zlib'],
  // The archive turns to zstd between two copies.
  ['zlib', 'zstd'],
])(
  `killed, or without power, at any act: nothing half-written, and the same command continues (%s, then %s; ${CUTS} seeds)`,
  async (first, second) => {
    for (const { name, after } of endings(CUTS)) {
      for (let k = 0; ; k += 1) {
        const { disk, writer, known } = await grown(first);
        const start = disk.acts;
        disk.fault = (act, _path, count) => {
          if (count === start + k) throw new Killed(act);
          return undefined;
        };
        const outcome = await twice(disk, writer, known, second).catch((error: unknown) => error);
        const next = after(disk);
        expectFormatAllows(next, TO);
        const names = next.paths().filter((path) => path.startsWith(TO) && path.endsWith('.seg'));
        if (names.length > 0) await commitsOf(next, TO);
        await copy(next);
        const there = await commitsOf(next, TO);
        expect(there, `${name}, act ${k}`).toEqual(await commitsOf(next, DIR));
        expect(there.slice(0, 7)).toEqual(known.batches.slice(0, 7));
        expect(next.paths().filter((path) => path.startsWith(TO) && path.endsWith('.tmp'))).toEqual(
          [],
        );
        if (!(outcome instanceof Error)) break;
      }
    }
  },
  120_000 + CUTS * 30_000,
);

test('no room at any write: a clear error, nothing lost, and it resumes when there is room', async () => {
  for (let k = 0; ; k += 1) {
    const { disk, known } = await grown();
    let writes = 0;
    disk.fault = (act, path) => {
      if (act === 'write' && writes++ === k) throw systemError('ENOSPC', path);
      return undefined;
    };
    const outcome = await copy(disk).catch((error: unknown) => error);
    if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'disk-full' });
    disk.fault = () => undefined;
    await copy(disk);
    expect(await commitsOf(disk, TO)).toEqual(known.batches);
    if (!(outcome instanceof Error)) break;
  }
});
