import { describe, expect, test } from 'vitest';
import { replaceFile } from '../../src/archive/file-system.ts';
import { mendSegment } from '../../src/archive/mend-segment.ts';
import {
  compactSegment,
  listCompactable,
  sealerInProcess,
  sealSegment,
} from '../../src/archive/seal.ts';
import { listSegments, openSegment } from '../../src/archive/segment-files.ts';
import type { MailkeepError } from '../../src/core/errors.ts';
import { endings, powerCuts } from './endings.ts';
import { expectFormatAllows, filesWithZstd } from './formats.ts';
import { DIR, hotPath, newLog, openOn, soundBatches, writeBatches } from './sample-log.ts';
import { Killed, type SimulatedDisk, systemError } from './simulated-disk.ts';

const format = (disk: SimulatedDisk) => disk.read(`${DIR}/FORMAT`).toString();

/** Two closed segments and one that is written to. */
async function closed() {
  const { disk, writer, known } = await newLog();
  for (let segment = 0; segment < 2; segment += 1) {
    await writeBatches(writer, known, 4, 1 + segment * 100);
    await writer.rollIfLarger(0);
  }
  await writeBatches(writer, known, 1, 500);
  return { disk, known };
}

const seal = (disk: SimulatedDisk, segment: number, codec: 'zlib' | 'zstd') =>
  sealSegment({ dir: DIR, segment, files: disk.files, codec });

async function compactAll(disk: SimulatedDisk, codec: 'zlib' | 'zstd'): Promise<number[]> {
  const { files } = disk;
  const found = [...listCompactable(files, DIR, codec, [])].map(({ segment }) => segment);
  for (const segment of found) {
    await compactSegment(files, sealerInProcess(files), { dir: DIR, segment, codec });
  }
  return found;
}

test('an archive is of format 1 until zstd is written', async () => {
  const { disk, known } = await closed();
  await seal(disk, 1, 'zlib');
  expect(format(disk)).toBe('mailkeep archive 1\n');
  expect(filesWithZstd(disk, DIR)).toEqual([]);
  await seal(disk, 2, 'zstd');
  expect(format(disk)).toBe('mailkeep archive 2\n');
  expect(filesWithZstd(disk, DIR)).toEqual([`${DIR}/log/0000000002.2.seg`]);
  expect(await soundBatches(disk.files)).toEqual(known.batches);
  disk.delete(hotPath(1));
  disk.delete(hotPath(2));
  expect(await soundBatches(disk.files)).toEqual(known.batches);
});

test.each([1, 2])(
  'the next writer mends a FORMAT that is older than the zstd in segment %i',
  async (segment) => {
    const { disk, known } = await closed();
    await seal(disk, 1, segment === 1 ? 'zstd' : 'zlib');
    await seal(disk, 2, segment === 2 ? 'zstd' : 'zlib');
    await replaceFile(disk.files, `${DIR}/FORMAT`, Buffer.from('mailkeep archive 1\n'));
    await (await openOn(disk.files, { expected: known.reached })).close();
    expect(format(disk)).toBe('mailkeep archive 2\n');
    expectFormatAllows(
      disk.afterPowerCut(() => false),
      DIR,
    );
  },
);

const CUTS = powerCuts(4);

test(
  `killed, or without power, at any act of the first zstd: FORMAT allows what is there (${CUTS} seeds)`,
  async () => {
    let sealedWithZstd = 0;
    for (const { name, after } of endings(CUTS)) {
      for (let k = 0; ; k += 1) {
        const { disk, known } = await closed();
        await seal(disk, 1, 'zlib');
        const start = disk.acts;
        disk.fault = (act, _path, count) => {
          if (count === start + k) throw new Killed(act);
          return undefined;
        };
        const outcome = await seal(disk, 1, 'zstd').catch((error: unknown) => error);
        let next = after(disk);
        expectFormatAllows(next, DIR);
        // The next process continues from what this one left, and the power fails before anything else is synced.
        await (await openOn(next.files, { expected: known.reached })).close();
        const writes = next.acts;
        for (let more = 0; ; more += 1) {
          const again = next.afterKill();
          again.fault = (act, _path, count) => {
            if (count === more) throw new Killed(act);
            return undefined;
          };
          const second = await seal(again, 2, 'zstd').catch((error: unknown) => error);
          const last = again.afterPowerCut(() => false);
          expectFormatAllows(last, DIR);
          expect(await soundBatches(last.files), `${name}, act ${k}, ${more}`).toEqual(
            known.batches,
          );
          if (second instanceof Error) continue;
          next = last;
          break;
        }
        expect(next.acts).toBeLessThanOrEqual(writes);
        sealedWithZstd += filesWithZstd(next, DIR).length;
        if (!(outcome instanceof Error)) break;
      }
    }
    expect(sealedWithZstd).toBeGreaterThan(10);
  },
  120_000 + CUTS * 30_000,
);

test('no room for FORMAT: a clear error, and the archive stays at format 1', async () => {
  const { disk, known } = await closed();
  disk.fault = (act, path) => {
    if (act === 'write') throw systemError('ENOSPC', path);
    return undefined;
  };
  await expect(seal(disk, 1, 'zstd')).rejects.toMatchObject({
    code: 'disk-full',
    facts: { file: `${DIR}/FORMAT` },
  });
  expect(format(disk)).toBe('mailkeep archive 1\n');
  expect(disk.paths().filter((path) => path.endsWith('.tmp'))).toEqual([]);
  expect(await soundBatches(disk.files)).toEqual(known.batches);
});

describe('a segment is mended', () => {
  const mended = async (disk: SimulatedDisk) => {
    const source = openSegment(disk.files, DIR, { segment: 1, generation: 2 });
    if (source === undefined) throw new Error('nothing to mend from');
    const generation = await mendSegment({
      ...{ dir: DIR, segment: 1, files: disk.files, sources: [source] },
      find: () => undefined,
      reach: undefined,
    });
    source.file.close();
    return `${DIR}/log/0000000001.${generation}.seg`;
  };

  test('with zlib in an archive of format 1, which stays so', async () => {
    const { disk } = await closed();
    await seal(disk, 1, 'zlib');
    await mended(disk);
    expect(format(disk)).toBe('mailkeep archive 1\n');
    expect(filesWithZstd(disk, DIR)).toEqual([]);
  });

  test('with zstd in an archive of format 2, whose FORMAT is durable before', async () => {
    const { disk } = await closed();
    await seal(disk, 1, 'zlib');
    // What a process leaves that is killed before it could sync the folder.
    disk.fault = (act, path) => {
      if (act === 'syncFolder' && path === DIR) throw new Killed(act);
      return undefined;
    };
    await expect(seal(disk, 1, 'zstd')).rejects.toThrow();
    const next = disk.afterKill();
    expect(format(next)).toBe('mailkeep archive 2\n');
    expect(filesWithZstd(next, DIR)).toEqual([]);
    const path = await mended(next);
    expect(filesWithZstd(next, DIR)).toEqual([path]);
    const left = next.afterPowerCut(() => false);
    expect(left.paths()).toContain(path);
    expectFormatAllows(left, DIR);
  });
});

describe('compaction', () => {
  test('rewrites what another codec compressed, once, and removes what it replaced', async () => {
    const { disk, known } = await closed();
    await seal(disk, 1, 'zlib');
    await seal(disk, 2, 'zlib');
    expect(await compactAll(disk, 'zlib')).toEqual([]);
    expect(await compactAll(disk, 'zstd')).toEqual([1, 2]);
    expect(Object.fromEntries(listSegments(disk.files, DIR))).toEqual({ 1: [3], 2: [3], 3: [1] });
    const acts = disk.acts;
    expect(await compactAll(disk, 'zstd')).toEqual([]);
    expect(disk.acts).toBe(acts);
    expect(await soundBatches(disk.files)).toEqual(known.batches);
    expect(await compactAll(disk, 'zlib')).toEqual([1, 2]);
    expect(filesWithZstd(disk, DIR)).toEqual([]);
    expect(await soundBatches(disk.files)).toEqual(known.batches);
  });

  test('leaves segments that are not sealed, and names those that are damaged', async () => {
    const { disk } = await closed();
    await seal(disk, 1, 'zlib');
    disk.delete(hotPath(1));
    disk.rot(`${DIR}/log/0000000001.2.seg`, 70);
    const damaged: MailkeepError[] = [];
    const listed = () => [...listCompactable(disk.files, DIR, 'zstd', damaged)];
    expect(listed()).toMatchObject([{ segment: 1 }]);
    expect(damaged).toEqual([]);
    const before = disk.read(`${DIR}/log/0000000001.2.seg`);
    await expect(compactAll(disk, 'zstd')).rejects.toMatchObject({ code: 'log-damaged' });
    expect(disk.read(`${DIR}/log/0000000001.2.seg`)).toEqual(before);
    expect(Object.fromEntries(listSegments(disk.files, DIR))).toEqual({ 1: [2], 2: [1], 3: [1] });
    disk.rot(`${DIR}/log/0000000001.2.seg`, 10);
    expect(listed()).toEqual([]);
    expect(damaged).toMatchObject([{ code: 'log-damaged', facts: { segment: 1 } }]);
  });

  test(
    `killed, or without power, at any act: everything reads as before, and it can be finished (${CUTS} seeds)`,
    async () => {
      for (const { name, after } of endings(CUTS)) {
        for (let k = 0; ; k += 1) {
          const { disk, known } = await closed();
          await seal(disk, 1, 'zlib');
          await seal(disk, 2, 'zlib');
          const start = disk.acts;
          disk.fault = (act, _path, count) => {
            if (count === start + k) throw new Killed(act);
            return undefined;
          };
          const outcome = await compactAll(disk, 'zstd').catch((error: unknown) => error);
          const next = after(disk);
          expectFormatAllows(next, DIR);
          expect(await soundBatches(next.files), `${name}, act ${k}`).toEqual(known.batches);
          await compactAll(next, 'zstd');
          expect(await compactAll(next, 'zstd')).toEqual([]);
          expect(await soundBatches(next.files), `${name}, act ${k}`).toEqual(known.batches);
          if (!(outcome instanceof Error)) break;
        }
      }
    },
    120_000 + CUTS * 30_000,
  );

  test('no room at any write: a clear error, nothing changes, and it continues when there is room', async () => {
    for (let k = 0; ; k += 1) {
      const { disk, known } = await closed();
      await seal(disk, 1, 'zlib');
      let writes = 0;
      disk.fault = (act, path) => {
        if (act === 'write' && writes++ === k) throw systemError('ENOSPC', path);
        return undefined;
      };
      const outcome = await compactAll(disk, 'zstd').catch((error: unknown) => error);
      if (!(outcome instanceof Error)) break;
      expect(outcome).toMatchObject({ code: 'disk-full' });
      expect(disk.paths().filter((path) => path.endsWith('.tmp'))).toEqual([]);
      expect(await soundBatches(disk.files)).toEqual(known.batches);
      expect(await compactAll(disk, 'zstd')).toEqual([1]);
      expect(await soundBatches(disk.files)).toEqual(known.batches);
    }
  });
});
