import { hash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { type LogLink, LogThread, type ToLogThread } from '../../src/archive/log-thread.ts';
import type { LogWriter } from '../../src/archive/log-writer.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { builtWorker, WorkerThread } from '../../src/core/worker-thread.ts';
import { noise } from './generated-mail.ts';
import { Positions } from './positions.ts';
import { fill, hotPath, openOn, sampleMail, soundBatches } from './sample-log.ts';
import { SimulatedDisk } from './simulated-disk.ts';
import { threadOn } from './thread-link.ts';

const NOW = 1_770_000_000_000;

/** Numbers of messages for each batch; those of 0 have an attachment that all share. */
const histories = fc.array(fc.array(fc.nat({ max: 30 }), { minLength: 1, maxLength: 9 }), {
  minLength: 1,
  maxLength: 6,
});

async function write(
  writer: LogWriter,
  history: readonly (readonly number[])[],
): Promise<Positions> {
  const known = new Positions();
  let uid = 1;
  for (const numbers of history) {
    const raws = numbers.map((n) => sampleMail(n));
    const batch = fill(writer.newBatch(), raws, known, uid);
    if (numbers.length % 3 === 0) batch.addBlob(Buffer.from(`kept aside with ${uid}`));
    uid += numbers.length;
    known.fold(await writer.commit(batch));
  }
  await writer.close();
  return known;
}

test('a log is the same, byte for byte, whichever thread writes it', async () => {
  await fc.assert(
    fc.asyncProperty(
      histories,
      fc.integer({ min: 500, max: 20_000 }),
      async (history, segmentBytes) => {
        const [here, there] = [new SimulatedDisk(), new SimulatedDisk()];
        // The archive's id is random: both begin with the same empty log.
        await (await openOn(here.files, { segmentBytes })).close();
        for (const path of here.paths()) there.put(path, here.read(path));
        const expected = await write(await openOn(here.files, { segmentBytes }), history);
        const startThread = () => threadOn(there.files);
        const threaded = await openOn(there.files, { segmentBytes, startThread, threadFrom: 0 });
        const found = await write(threaded, history);
        expect(found.batches).toEqual(expected.batches);
        expect(there.paths()).toEqual(here.paths());
        for (const path of here.paths())
          expect(there.read(path).equals(here.read(path))).toBe(true);
      },
    ),
    { numRuns: 60 },
  );
});

test('a batch that was begun for a thread can be written when the thread has ended', async () => {
  const disk = new SimulatedDisk();
  const startThread = () => threadOn(disk.files);
  const writer = await openOn(disk.files, { startThread, threadFrom: 0 });
  const known = new Positions();
  const batch = fill(writer.newBatch(), [sampleMail(3), sampleMail(1)], known);
  await writer.endThread();
  known.fold(await writer.commit(batch));
  expect(await soundBatches(disk.files)).toEqual(known.batches);
  expect(disk.paths()).toContain(hotPath());
});

test('an error of whoever is asked for stored blobs fails the batch, and no more', async () => {
  const disk = new SimulatedDisk();
  const startThread = () => threadOn(disk.files);
  const writer = await openOn(disk.files, { startThread, threadFrom: 0 });
  const raw = sampleMail(3);
  const failing = writer.newBatch();
  failing.addSource(raw, hash('sha256', raw), () => {
    throw new Error('the catalog cannot be read');
  });
  await expect(writer.commit(failing)).rejects.toThrow('the catalog cannot be read');
  const known = new Positions();
  known.fold(await writer.commit(fill(writer.newBatch(), [raw], known)));
  expect(await soundBatches(disk.files)).toEqual(known.batches);
});

test('without a thread to be had, batches are written all the same', async () => {
  const disk = new SimulatedDisk();
  const startThread = () => {
    throw new Error('no more threads');
  };
  const writer = await openOn(disk.files, { startThread, threadFrom: 0 });
  const known = await write(writer, [[3, 1], [2]]);
  expect(await soundBatches(disk.files)).toEqual(known.batches);
});

test('a batch of several large sources is larger than usual, and the same', async () => {
  const [here, there] = [new SimulatedDisk(), new SimulatedDisk()];
  await (await openOn(here.files)).close();
  for (const path of here.paths()) there.put(path, here.read(path));
  const startThread = () => threadOn(there.files);
  const writers = [
    await openOn(here.files),
    await openOn(there.files, { startThread, threadFrom: 0 }),
  ];
  for (const writer of writers) {
    const known = new Positions();
    const large = [1, 2, 3, 4].map((n) => noise(6 * 1024 * 1024, n));
    await writer.commit(fill(writer.newBatch(), large, known));
    await writer.commit(fill(writer.newBatch(), [sampleMail(3)], known, 9));
    await writer.close();
  }
  expect(there.read(hotPath()).equals(here.read(hotPath()))).toBe(true);
});

/** A real thread that is ended when a message of this kind is about to be posted, or right after. */
function killed(kind: 'append' | 'stored', when: 'before' | 'behind') {
  let kill = false;
  let end = async (): Promise<void> => {};
  const startThread = (): LogThread =>
    new LogThread((events) => {
      const thread = new WorkerThread<ToLogThread, never>(
        { name: 'mailkeep-log', file: builtWorker('log-worker') },
        events,
      );
      end = () => thread.end();
      const link: LogLink = {
        started: true,
        get ending() {
          return thread.ending;
        },
        post: (message) => {
          const now = kill && kind in message;
          if (now && when === 'before') thread.stop('memory');
          thread.post(message);
          if (now && when === 'behind') thread.stop('memory');
        },
        ref: () => thread.ref(),
        unref: () => thread.unref(),
        end: () => thread.end(),
      };
      return link;
    });
  const arm = (): void => {
    kill = true;
  };
  return { startThread, arm, end: () => end() };
}

describe('the thread that writes to the log', () => {
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'mailkeep-log-thread-'));
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  const open = (startThread: () => LogThread) =>
    openLogWriter({ dir, now: () => NOW, startThread, threadFrom: 0 });
  const segment = () => readFileSync(join(dir, 'log', '0000000001.1.seg'));

  test('writes a log that reads back', async () => {
    const writer = await open(() => new LogThread());
    const known = await write(writer, [[3, 1, 2], [6, 12, 4], [9]]);
    const again = await openLogWriter({ dir, now: () => NOW, expected: known.reached });
    expect(again.last.number).toBe(3);
    await again.close();
  });

  test.each([
    ['append', 'before'],
    ['append', 'behind'],
    ['stored', 'before'],
    ['stored', 'behind'],
  ] as const)(
    'that ends %s-%s loses nothing that was committed, and is not trusted again',
    async (kind, when) => {
      const { startThread, arm } = killed(kind, when);
      const writer = await open(startThread);
      const known = new Positions();
      known.fold(await writer.commit(fill(writer.newBatch(), [sampleMail(3)], known)));
      arm();
      const batch = fill(writer.newBatch(), [sampleMail(9), sampleMail(15)], known, 2);
      const waiting = writer.commit(fill(writer.newBatch(), [sampleMail(1)], known, 4));
      const outcome = writer.commit(batch);
      await expect(Promise.all([waiting, outcome])).rejects.toMatchObject({
        family: 'disk',
        code: 'log-thread-ended',
      });
      const left = segment();
      const later = fill(writer.newBatch(), [sampleMail(2)], known, 5);
      await expect(writer.commit(later)).rejects.toMatchObject({ code: 'log-thread-ended' });
      expect(segment().equals(left)).toBe(true);
      await writer.close();

      const again = await openLogWriter({ dir, now: () => NOW, expected: known.reached });
      known.fold(await again.commit(fill(again.newBatch(), [sampleMail(2)], known, 5)));
      await again.close();
      const last = await openLogWriter({ dir, now: () => NOW, expected: known.reached });
      expect(last.last.number).toBeGreaterThanOrEqual(2);
      await last.close();
    },
  );

  test('that ends between two batches costs nothing', async () => {
    const { startThread, end } = killed('append', 'before');
    const writer = await open(startThread);
    const known = new Positions();
    known.fold(await writer.commit(fill(writer.newBatch(), [sampleMail(3)], known)));
    const batch = fill(writer.newBatch(), [sampleMail(9)], known, 2);
    await end();
    known.fold(await writer.commit(batch));
    known.fold(await writer.commit(fill(writer.newBatch(), [sampleMail(1)], known, 3)));
    await writer.close();
    const again = await openLogWriter({ dir, now: () => NOW, expected: known.reached });
    expect(again.last.number).toBe(3);
    await again.close();
  });

  test('starts when many messages come, and lets go of a segment that was rolled', async () => {
    let started = 0;
    const startThread = () => {
      started += 1;
      return threadOn(realFiles);
    };
    const writer = await openLogWriter({ dir, now: () => NOW, startThread, threadFrom: 4 });
    const known = new Positions();
    const commit = async (count: number) => {
      const raws = Array.from({ length: count }, (_, i) => sampleMail(known.messages.size + i + 1));
      known.fold(
        await writer.commit(fill(writer.newBatch(), raws, known, known.messages.size + 1)),
      );
    };
    await commit(9);
    await commit(2);
    await commit(9);
    expect(started).toBe(0);
    await commit(5);
    expect(started).toBe(1);
    await commit(1);
    await writer.rollIfLarger(1);
    await commit(1);
    expect(writer.segment).toBe(2);
    await writer.endThread();
    await commit(8);
    expect(started).toBe(1);
    await commit(8);
    expect(started).toBe(2);
    await writer.close();
    const again = await openLogWriter({ dir, now: () => NOW, expected: known.reached });
    expect(again.last.number).toBe(known.batches.length);
    await again.close();
  });
});
