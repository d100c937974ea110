import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SegmentFile, segmentPath } from '../../src/archive/format.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import type { PurgeJournal, PurgeWork } from '../../src/archive/purge-journal.ts';
import { sealerInProcess, sealSegment } from '../../src/archive/seal.ts';
import { listSegments, openSegment } from '../../src/archive/segment-files.ts';
import { compactPurged, journalPurge, pendingPurge } from '../../src/verify/prune.ts';
import { FarSegments } from '../archive/far-segments.ts';
import { Positions } from '../archive/positions.ts';
import { DIR, openOn, writeBatches } from '../archive/sample-log.ts';
import { SimulatedDisk, systemError } from '../archive/simulated-disk.ts';
import { verified } from '../verify/grown-archive.ts';
import { inflated } from './inflated.ts';
import { FACTS, GOING, PurgedArchive, STAYING } from './purged-archive.ts';

let archive: PurgedArchive;
beforeAll(async () => {
  archive = await PurgedArchive.create();
});
afterAll(() => archive.remove());

/** Keeps the work in memory, like a row that any machine can read. */
class Row implements PurgeJournal {
  work: PurgeWork | undefined;
  readonly acts: string[] = [];

  async read(): Promise<PurgeWork | undefined> {
    return this.work;
  }

  async decide<T>(work: PurgeWork, _: unknown, commit: () => Promise<T>): Promise<T> {
    this.acts.push('decide');
    this.work = work;
    return commit();
  }

  async end(): Promise<void> {
    this.acts.push('end');
    this.work = undefined;
  }
}

test('a purge fetches what it rewrites, publishes it before the old files go, and leaves no file of its own', async () => {
  const disk = archive.fresh();
  const segments = new FarSegments(disk, archive.dir);
  const purges = new Row();
  const touched = new Set<string>();
  disk.fault = (_, path) => {
    touched.add(path);
    return undefined;
  };
  segments.publishing = ({ segment, generation }) => {
    for (const one of [generation - 1, generation]) {
      expect(disk.paths()).toContain(segmentPath(archive.dir, { segment, generation: one }));
    }
  };
  segments.evict(1);
  await archive.purge(disk, { segments, purges });
  expect(segments.fetched).toEqual([1]);
  expect(segments.published.map(({ segment }) => segment)).toEqual([1, 2, 3]);
  expect(purges.acts).toEqual(['decide', 'end']);
  expect([...touched].filter((path) => path.includes('purge.json'))).toEqual([]);

  const { found, findings } = await verified(archive.dir, { files: disk.files });
  expect({ found, findings }).toEqual({ found: 0, findings: [] });
  expect(await archive.sources(disk)).toEqual({
    staying: STAYING.map(() => true),
    forgotten: GOING.map(() => undefined),
  });
  expect(inflated(disk, archive.dir).includes('gonebody')).toBe(false);
});

test('a purge that stopped before its segments were published continues until they are', async () => {
  const disk = archive.fresh();
  const segments = new FarSegments(disk, archive.dir);
  const purges = new Row();
  segments.publishing = () => {
    throw new Error('no room there');
  };
  await expect(archive.purge(disk, { segments, purges })).rejects.toThrow();
  expect(purges.work?.messages).toHaveLength(FACTS.length);
  segments.publishing = () => {};
  await archive.purge(disk, { segments, purges });
  expect(segments.published.map(({ segment }) => segment)).toEqual([1, 2, 3]);
  expect(purges.acts).toEqual(['decide', 'end']);
  expect(inflated(disk, archive.dir).includes('gonebody')).toBe(false);
});

test('a file that was sealed before the purge is not published on the way', async () => {
  const disk = new SimulatedDisk();
  const { files } = disk;
  const segments = new FarSegments(disk, DIR);
  const log = await openOn(files);
  const numbers = [1, 2, 3, 4, 5, 6];
  for (const segment of numbers) {
    await writeBatches(log, new Positions(), 1, segment * 30);
    await log.rollIfLarger(1);
    // Nothing could be published since.
    await sealSegment({ dir: DIR, segment, files });
  }
  const isPurged = (file: SegmentFile): boolean => {
    const opened = openSegment(files, DIR, file);
    opened?.file.close();
    return opened?.sealed?.index.isPurged(0) === true;
  };
  segments.publishing = (file) => {
    if (!isPurged(file)) throw new Error('the registry takes no such file');
  };
  const work: PurgeWork = {
    ...{ reason: 'forgotten', messages: [], after: log.last },
    records: new Map(numbers.map((segment) => [segment, [0]])),
  };
  const catalog = { makeDurable: () => {} };
  const writer = { log, catalog, codec: 'zstd', sealer: sealerInProcess(files), segments } as const;
  await compactPurged(files, DIR, writer, work, new AbortController().signal);
  await log.close();
  expect(segments.published.filter((file) => !isPurged(file))).toEqual([]);
  for (const segment of numbers) expect(listSegments(files, DIR).get(segment)).toEqual([3]);
});

test('work that no commit decided is dropped', async () => {
  const disk = archive.fresh();
  const { files } = disk;
  const { dir } = archive;
  const purges = new Row();
  const log = await openLogWriter({ dir, files, now: Date.now });
  const purgeSearch = { records: new Map(), commits: [], blobs: new Map(), shared: [] };
  disk.fault = (act, path) => {
    if (act === 'write') throw systemError('EIO', path);
    return undefined;
  };
  await expect(journalPurge(files, dir, log, FACTS, purgeSearch, { purges })).rejects.toMatchObject(
    {
      code: 'log-write-failed',
    },
  );
  disk.fault = () => undefined;
  await log.close();
  expect(purges.work).toBeDefined();
  expect(await pendingPurge(files, dir, { purges })).toBeUndefined();
  expect(purges.acts).toEqual(['decide', 'end']);
});
