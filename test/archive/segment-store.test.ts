import { beforeEach, describe, expect, test } from 'vitest';
import { openLogReader, type ScanEvent, scanLog } from '../../src/archive/log-reader.ts';
import {
  compactSegment,
  dropOldGenerations,
  sealClosedSegments,
  sealerInProcess,
  sealSegment,
} from '../../src/archive/seal.ts';
import { localSegments, withFetching } from '../../src/archive/segment-files.ts';
import { isTemporaryDiskError } from '../../src/daemon/accounts.ts';
import { concernsOnly, endsOnlyTheAccount } from '../../src/sync/ports.ts';
import { randomFrom } from '../offsite/dying-store.ts';
import { FarSegments } from './far-segments.ts';
import { Positions } from './positions.ts';
import { DIR, openOn, scanAll, writeBatches } from './sample-log.ts';
import { SimulatedDisk } from './simulated-disk.ts';

const SEGMENTS = 8;
const now = Number.POSITIVE_INFINITY;

let disk: SimulatedDisk;
let known: Positions;
let store: FarSegments;

/** Seven sealed segments of one to three batches, and one that is written to. */
beforeEach(async () => {
  disk = new SimulatedDisk();
  known = new Positions();
  store = new FarSegments(disk, DIR);
  const writer = await openOn(disk.files);
  for (let segment = 1; segment <= SEGMENTS; segment += 1) {
    await writeBatches(writer, known, 1 + (segment % 3), segment * 30);
    if (segment < SEGMENTS) await writer.rollIfLarger(1);
  }
  await writer.close();
});

async function sealAll(): Promise<void> {
  await sealClosedSegments({ dir: DIR, files: disk.files, before: SEGMENTS });
  await dropOldGenerations({ dir: DIR, files: disk.files, now, keepMs: 0 });
}

function evictSealed(): void {
  for (let segment = 1; segment < SEGMENTS; segment += 1) store.evict(segment);
}

const reading = () =>
  openLogReader({ dir: DIR, files: disk.files, locator: known, segments: store });

describe('a reader of segments that are elsewhere', () => {
  beforeEach(sealAll);

  test('names the segment, and answers as before when it was fetched', async () => {
    const before = reading();
    const asked = [
      ...[...known.messages.keys()].flatMap((id) => [
        (reader: typeof before) => reader.readMessage(id).toString('latin1'),
        (reader: typeof before) => reader.readSource(id, 40),
        (reader: typeof before) => reader.sizeOf(id),
      ]),
      ...[...known.blobs.keys()].map(
        (hash) => (reader: typeof before) => reader.readBlob(hash).toString('latin1'),
      ),
      ...known.batches.map(
        ({ commit }) =>
          (reader: typeof before) =>
            reader.factsOf(commit.number),
      ),
    ];
    const wanted = asked.map((ask) => ask(before));
    before.close();
    for (const [index, ask] of asked.entries()) {
      evictSealed();
      const reader = reading();
      expect(await withFetching(store, () => ask(reader))).toEqual(wanted[index]);
      reader.close();
    }
    evictSealed();
    const reader = reading();
    for (const [id, { segment }] of known.messages) {
      if (segment === SEGMENTS) continue;
      const elsewhere = { family: 'origin', code: 'segment-elsewhere', facts: { segment } };
      expect(() => reader.readMessage(id)).toThrow(expect.objectContaining(elsewhere));
    }
    reader.close();
  });

  test('that cannot be fetched ends the pass of its account, and pauses no other', () => {
    evictSealed();
    const reader = reading();
    const [[id] = ['']] = known.messages;
    let thrown: unknown;
    try {
      reader.readMessage(id);
    } catch (error) {
      thrown = error;
    }
    reader.close();
    expect(thrown).toMatchObject({ code: 'segment-elsewhere', retryable: true });
    expect(isTemporaryDiskError(thrown)).toBe(false);
    expect(endsOnlyTheAccount(thrown)).toBe(true);
    expect(concernsOnly(thrown)).toBe(false);
  });

  test('keeps what it has open, and notices that a file went away and came again', async () => {
    const [[first, { segment } = { segment: 0 }] = ['']] = known.messages;
    const reader = reading();
    const bytes = reader.readMessage(first);
    store.evict(segment);
    reader.refresh();
    expect(() => reader.readMessage(first)).toThrow(
      expect.objectContaining({ code: 'segment-elsewhere' }),
    );
    await store.fetch([segment]);
    expect(reader.readMessage(first).equals(bytes)).toBe(true);
    reader.close();
  });

  test('needs few segments to find the facts of a commit, whichever are there', async () => {
    const random = randomFrom(5);
    const all = reading();
    const facts = known.batches.map(({ commit }) => all.factsOf(commit.number));
    all.close();
    for (const [index, batch] of known.batches.entries()) {
      const segment = batch.records[0]?.position.segment ?? 0;
      for (let round = 0; round < 6; round += 1) {
        evictSealed();
        for (let here = 1; here < SEGMENTS; here += 1) {
          if (random() < round / 6) await store.fetch([here]);
        }
        store.fetched.length = 0;
        const there = [segment, segment + 1].every((one) => store.present(one));
        const reader = reading();
        const found = await withFetching(store, () => reader.factsOf(batch.commit.number));
        expect(found).toEqual(facts[index]);
        expect(store.fetched.length).toBeLessThanOrEqual(there ? 0 : 4);
        reader.close();
      }
    }
  });

  test('is not asked again when fetching did not help', async () => {
    evictSealed();
    const reader = reading();
    const useless = { ...localSegments, present: () => false };
    const [id = ''] = known.messages.keys();
    await expect(withFetching(useless, () => reader.readMessage(id))).rejects.toMatchObject({
      code: 'segment-elsewhere',
    });
    reader.close();
  });

  test('a scan fetches what it comes to, from the commit on that it begins behind', async () => {
    const scan = async (after?: { number: number; hash: string }) => {
      const events: ScanEvent[] = [];
      for await (const event of scanLog({ dir: DIR, files: disk.files, segments: store, after })) {
        events.push(event);
      }
      return events;
    };
    const commits = [undefined, ...known.batches.map(({ commit }) => commit)];
    for (const after of commits) {
      const wanted = await scanAll(disk.files, after);
      evictSealed();
      store.fetched.length = 0;
      expect(await scan(after)).toEqual(wanted);
      const last = known.batches.find(({ commit }) => commit.number === (after?.number ?? 0) + 1);
      const from = last?.records[0]?.position.segment ?? SEGMENTS;
      const needed = Array.from({ length: SEGMENTS - from }, (_, n) => from + n);
      expect(store.fetched.toSorted((a, b) => a - b)).toEqual(needed);
      await store.fetch([1, 2, 3, 4, 5, 6, 7]);
    }
  });
});

describe('a sealed segment', () => {
  const names = () => disk.paths().filter((path) => path.includes('0000000001.'));

  test('is published before the generations that it replaces go, once or again', async () => {
    await sealSegment({ dir: DIR, files: disk.files, segment: 1 });
    const files = names();
    expect(files).toHaveLength(2);
    const drop = (at: number) =>
      dropOldGenerations({ dir: DIR, files: disk.files, now: at, keepMs: 0, segments: store });
    store.publishing = () => {
      throw new Error('no room there');
    };
    await expect(drop(now)).rejects.toThrow('no room there');
    expect(names()).toEqual(files);
    store.publishing = () => expect(names()).toEqual(files);
    // Too young to go; and then old enough.
    disk.now = 0;
    await drop(-1);
    expect(names()).toEqual(files);
    await drop(now);
    expect(names()).toEqual(files.slice(1));
    expect(store.published).toEqual([
      { segment: 1, generation: 2 },
      { segment: 1, generation: 2 },
    ]);
  });

  test('is published when it was compressed otherwise, too', async () => {
    await sealSegment({ dir: DIR, files: disk.files, segment: 1, codec: 'zlib' });
    const sealer = sealerInProcess(disk.files);
    const job = { dir: DIR, segment: 1, codec: 'zstd' } as const;
    store.publishing = () => {
      throw new Error('no room there');
    };
    await expect(compactSegment(disk.files, sealer, job, store)).rejects.toThrow('no room there');
    expect(names()).toHaveLength(3);
    store.publishing = () => expect(names()).toHaveLength(4);
    await compactSegment(disk.files, sealer, job, store);
    expect(store.published).toEqual([{ segment: 1, generation: 4 }]);
    expect(names()).toHaveLength(1);
  });
});
