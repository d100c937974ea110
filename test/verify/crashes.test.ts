import { describe, expect, test } from 'vitest';
import type { ArchiveCodec } from '../../src/archive/payload.ts';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { repairLog } from '../../src/verify/repair-archive.ts';
import { endings, powerCuts } from '../archive/endings.ts';
import type { Positions } from '../archive/positions.ts';
import { DIR, hotPath, newLog, openOn, soundBatches, writeBatches } from '../archive/sample-log.ts';
import { Killed, type SimulatedDisk, systemError } from '../archive/simulated-disk.ts';

const CUTS = powerCuts(12);

/** A sealed and a hot segment, each with a flipped bit. */
async function damaged(codec: ArchiveCodec) {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 4);
  await writer.rollIfLarger(0);
  await sealClosedSegments({ dir: DIR, before: 2, files: disk.files, codec });
  disk.delete(hotPath(1));
  await writeBatches(writer, known, 3, 100);
  await writer.close();
  for (const [path, at, mask] of [
    [`${DIR}/log/0000000001.2.seg`, 700, 1],
    [hotPath(2), 500, 8],
  ] as const) {
    const bytes = disk.read(path);
    bytes[at] = (bytes[at] ?? 0) ^ mask;
    disk.put(path, bytes);
  }
  return { disk, known };
}

const mend = (disk: SimulatedDisk, known: Positions) =>
  repairLog({
    dir: DIR,
    files: disk.files,
    copies: [],
    damaged: [1, 2],
    expected: known.reached,
  });

describe.each<ArchiveCodec>(['zstd', 'zlib'])('sealed with %s,', (codec) => {
  test(
    `killed, or without power, at any act of mending: it can be mended again, and nothing is lost (${CUTS} seeds)`,
    async () => {
      for (const { name, after } of endings(CUTS)) {
        for (let k = 0; ; k += 1) {
          const { disk, known } = await damaged(codec);
          const start = disk.acts;
          disk.fault = (act, _path, count) => {
            if (count === start + k) throw new Killed(act);
            return undefined;
          };
          const outcome = await mend(disk, known).catch((error: unknown) => error);
          const next = after(disk);
          await mend(next, known);
          expect(await soundBatches(next.files), `${name}, act ${k}`).toEqual(known.batches);
          // The writer finds its way, and the damaged bytes are still there.
          await (await openOn(next.files, { expected: known.reached })).close();
          expect(next.paths().filter((path) => path.includes('.damaged')).length).toBeGreaterThan(
            1,
          );
          expect(next.paths().filter((path) => path.endsWith('.tmp'))).toEqual([]);
          if (!(outcome instanceof Error)) break;
        }
      }
    },
    120_000 + CUTS * 30_000,
  );

  test('no room at any write of mending: a clear error, and it resumes when there is room', async () => {
    for (let k = 0; ; k += 1) {
      const { disk, known } = await damaged(codec);
      let writes = 0;
      disk.fault = (act, path) => {
        if (act === 'write' && writes++ === k) throw systemError('ENOSPC', path);
        return undefined;
      };
      const outcome = await mend(disk, known).catch((error: unknown) => error);
      if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'disk-full' });
      expect(disk.paths().filter((path) => path.endsWith('.tmp'))).toEqual([]);
      disk.fault = () => undefined;
      await mend(disk, known);
      expect(await soundBatches(disk.files)).toEqual(known.batches);
      if (!(outcome instanceof Error)) break;
    }
  });
});
