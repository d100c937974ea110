import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { overlayFiles } from '../../src/archive/file-system.ts';
import type { LogWriter } from '../../src/archive/log-writer.ts';
import { powerCuts } from './endings.ts';
import { Positions } from './positions.ts';
import {
  DIR,
  fill,
  hotPath,
  newLog,
  openOn,
  sampleMail,
  scanAll,
  soundBatches,
  writeBatches,
} from './sample-log.ts';
import { type DiskAct, Killed, SimulatedDisk, systemError } from './simulated-disk.ts';

/** Fails the k-th act of a kind, once. */
function failOnce(disk: SimulatedDisk, kind: DiskAct, k: number, code: string): void {
  let seen = 0;
  disk.fault = (act, path) => {
    if (act === kind && seen++ === k) throw systemError(code, path);
    return undefined;
  };
}

function sampleBatch(writer: LogWriter, n: number) {
  return fill(writer.newBatch(), [sampleMail(n), sampleMail(n + 1)], new Positions(), n);
}

test('a write that takes less than it was given continues where it stopped', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 3000 }), { minLength: 1 }),
      async (sizes) => {
        const disk = new SimulatedDisk();
        let turn = 0;
        disk.fault = (act) => (act === 'write' ? sizes[turn++ % sizes.length] : undefined);
        const known = new Positions();
        await writeBatches(await openOn(disk.files), known, 3);
        expect(await soundBatches(disk.files)).toEqual(known.batches);
      },
    ),
    { numRuns: 60 },
  );
});

test('a disk that takes no byte at all is a failure, not a loop', async () => {
  const { disk, writer } = await newLog();
  disk.fault = (act) => (act === 'write' ? 0 : undefined);
  await expect(writer.commit(sampleBatch(writer, 1))).rejects.toMatchObject({
    code: 'log-write-failed',
    facts: { errno: 'EIO' },
  });
});

test('a segment that cannot be opened is not in the log', async () => {
  const disk = new SimulatedDisk();
  let failures = 0;
  const files = overlayFiles(disk.files, {
    open(path, access) {
      if (failures > 0 && access === 'write') {
        failures -= 1;
        throw systemError('EMFILE', path);
      }
      return disk.files.open(path, access);
    },
  });
  const known = new Positions();
  const writer = await openOn(files);
  await writeBatches(writer, known, 1);
  failures = 1;
  await expect(writer.rollIfLarger(1)).rejects.toMatchObject({ code: 'log-write-failed' });
  await writeBatches(writer, known, 1, 9);
  await writer.close();
  const again = await openOn(disk.files, { expected: known.reached });
  expect(again.last).toMatchObject({ number: 2 });
  await again.close();
  expect(await soundBatches(disk.files)).toEqual(known.batches);
});

describe.each(['ENOSPC', 'EDQUOT', 'EIO'])('%s', (code) => {
  const wanted = code === 'EIO' ? 'log-write-failed' : 'disk-full';

  test('at any write leaves the log at its last commit, and the batch can be written again', async () => {
    for (let k = 0; k < 20; k += 1) {
      const { disk, writer, known } = await newLog();
      await writeBatches(writer, known, 1);
      const before = disk.read(hotPath());
      // Pieces of 500 bytes, so that some have been written when one fails.
      let seen = 0;
      disk.fault = (act, path) => {
        if (act !== 'write') return undefined;
        if (seen++ === k) throw systemError(code, path);
        return 500;
      };
      const batch = sampleBatch(writer, 10);
      const needed = Math.ceil((batch.bytes + 300) / 500);
      const outcome = await writer.commit(batch).then(
        () => 'committed',
        (error: unknown) => error,
      );
      if (outcome === 'committed') {
        expect(k).toBeGreaterThanOrEqual(needed - 2);
      } else {
        expect(outcome).toMatchObject({ family: 'disk', code: wanted });
        expect(disk.read(hotPath()).equals(before)).toBe(true);
        known.fold(await writer.commit(batch));
        expect(await soundBatches(disk.files)).toEqual(known.batches);
      }
    }
  });

  test('where a new segment is begun leaves the old one in use', async () => {
    for (let k = 0; k < 2; k += 1) {
      const { disk, writer, known } = await newLog({ segmentBytes: 1000 });
      await writeBatches(writer, known, 1);
      failOnce(disk, k === 0 ? 'create' : 'write', 0, code);
      const batch = sampleBatch(writer, 10);
      await expect(writer.commit(batch)).rejects.toMatchObject({ code: wanted });
      expect(disk.paths()).toEqual([`${DIR}/FORMAT`, hotPath()]);
      known.fold(await writer.commit(batch));
      expect(writer.segment).toBe(2);
      expect(await soundBatches(disk.files)).toEqual(known.batches);
    }
  });
});

test('a new segment is begun over what an attempt has left that could not be tidied up', async () => {
  const { disk, writer, known } = await newLog({ segmentBytes: 1000 });
  await writeBatches(writer, known, 1);
  disk.fault = (act, path) => {
    if (act === 'write' || act === 'remove') throw systemError('EIO', path);
    return undefined;
  };
  const batch = sampleBatch(writer, 10);
  await expect(writer.commit(batch)).rejects.toMatchObject({ code: 'log-write-failed' });
  expect(disk.paths()).toContain(`${hotPath(2)}.tmp`);
  disk.fault = () => undefined;
  known.fold(await writer.commit(batch));
  expect(writer.segment).toBe(2);
  expect(await soundBatches(disk.files)).toEqual(known.batches);
});

test('a full disk: the writer resumes once there is room', async () => {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 2);
  disk.capacity = disk.read(hotPath()).length + 700;
  const batch = sampleBatch(writer, 30);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await expect(writer.commit(batch)).rejects.toMatchObject({ code: 'disk-full' });
  }
  disk.capacity = Number.POSITIVE_INFINITY;
  known.fold(await writer.commit(batch));
  expect(await soundBatches(disk.files)).toEqual(known.batches);
});

test('commits that waited behind a failed one fail with it; later ones do not', async () => {
  const { disk, writer } = await newLog();
  failOnce(disk, 'write', 0, 'ENOSPC');
  const waiting = [1, 4, 7].map((n) => writer.commit(sampleBatch(writer, n)));
  const outcomes = await Promise.allSettled(waiting);
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  const { commit } = await writer.commit(sampleBatch(writer, 10));
  expect(commit.number).toBe(1);
});

test('what could not be cut off after a failed write is cut before the next', async () => {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 1);
  let broken = true;
  let writes = 0;
  disk.fault = (act, path) => {
    if (broken && act === 'truncate') throw systemError('EIO', path);
    if (broken && act === 'write') {
      if (writes++ === 1) throw systemError('ENOSPC', path);
      return 2000;
    }
    return undefined;
  };
  const large = fill(writer.newBatch(), [sampleMail(3), sampleMail(9)], new Positions());
  await expect(writer.commit(large)).rejects.toMatchObject({ code: 'disk-full' });
  await expect(writer.commit(large)).rejects.toMatchObject({ code: 'log-write-failed' });
  broken = false;
  known.fold(await writer.commit(sampleBatch(writer, 40)));
  expect(await soundBatches(disk.files)).toEqual(known.batches);
  expect((await scanAll(disk.files)).map(({ what }) => what)).toEqual(['batch', 'batch']);
});

test('after a failed sync the writer never writes again; a new opening decides what is there', async () => {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 2);
  failOnce(disk, 'datasync', 0, 'EIO');
  const waiting = [10, 20].map((n) => writer.commit(sampleBatch(writer, n)));
  for (const commit of waiting) {
    await expect(commit).rejects.toMatchObject({ family: 'disk', code: 'log-sync-failed' });
  }
  const acts = disk.acts;
  await expect(writer.commit(sampleBatch(writer, 30))).rejects.toMatchObject({
    code: 'log-sync-failed',
  });
  await expect(writer.rollIfLarger(0)).rejects.toMatchObject({ code: 'log-sync-failed' });
  expect(disk.acts).toBe(acts);
  await writer.close();

  const gone = disk.afterPowerCut(() => false);
  expect((await openOn(gone.files, { expected: known.reached })).last.number).toBe(2);
});

test('opening trusts no commit that it could not make durable', async () => {
  const { disk, writer } = await newLog();
  await writeBatches(writer, new Positions(), 1);
  const next = disk.afterKill();
  failOnce(next, 'datasync', 0, 'EIO');
  await expect(openOn(next.files)).rejects.toMatchObject({ code: 'log-sync-failed' });
});

describe('nothing that was committed is lost', () => {
  /** Opens, writes and rolls until the disk stops it; returns what was acknowledged. */
  async function live(disk: SimulatedDisk, known: Positions): Promise<unknown> {
    try {
      const writer = await openOn(disk.files, {
        segmentBytes: 9000,
        expected: known.reached,
      });
      await writeBatches(writer, known, 4, 1 + known.batches.length * 3);
      await writer.rollIfLarger(1);
      await writeBatches(writer, known, 2, 1 + known.batches.length * 3);
      return undefined;
    } catch (error) {
      return error;
    }
  }

  /** The log holds what was acknowledged, and at most the one batch that was under way. */
  async function expectKept(disk: SimulatedDisk, known: Positions): Promise<void> {
    const batches = await soundBatches(disk.files);
    expect(batches.slice(0, known.batches.length)).toEqual(known.batches);
    expect(batches.length).toBeLessThanOrEqual(known.batches.length + 1);
    for (const batch of batches.slice(known.batches.length)) known.fold(batch);
  }

  test('when the process is killed at any act', async () => {
    for (let k = 0; ; k += 1) {
      const disk = new SimulatedDisk();
      disk.fault = (act, _path, count, bytes) => {
        if (count === k) throw new Killed(act);
        // The last write before the kill may have been a short one.
        return act === 'write' && count === k - 1 ? Math.ceil(bytes / 2) : undefined;
      };
      const known = new Positions();
      const stopped = await live(disk, known);
      const next = disk.afterKill();
      expect(await live(next, known)).toBeUndefined();
      await expectKept(next, known);
      if (stopped === undefined) break;
    }
  });

  test('when the power goes at any act, and pages are lost in any order', {
    timeout: 120_000 + powerCuts(10) * 10_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat({ max: 40 }),
        fc.array(fc.boolean(), { minLength: 64, maxLength: 64 }),
        async (k, chances) => {
          let turn = 0;
          const disk = new SimulatedDisk();
          disk.fault = (act, _path, count) => {
            if (count === k) throw new Killed(act);
            return undefined;
          };
          const known = new Positions();
          await live(disk, known);
          const next = disk.afterPowerCut(() => chances[turn++ % chances.length] ?? false);
          const writer = await openOn(next.files, { expected: known.reached });
          await writer.close();
          await expectKept(next, known);
          expect(await live(next, known)).toBeUndefined();
          await expectKept(next, known);
        },
      ),
      // One seed is a cut at each act.
      { numRuns: powerCuts(10) * 41 },
    );
  });
});
