import { existsSync, readdirSync, utimesSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import type { Boundary } from '../../src/copies/copy-log.ts';
import { objectError } from '../../src/copies/errors.ts';
import { bytesAsStream, FOLDERS, segmentMark } from '../../src/copies/format/manifest.ts';
import { copyMemory, findManifests } from '../../src/copies/manifests.ts';
import type { ObjectStore } from '../../src/copies/object-store.ts';
import {
  type CopyScan,
  cleanUpCopy,
  MAX_TAIL,
  NO_CLEANUP,
  type ObjectEntry,
  type PlannedObject,
  planCopy,
  type TailRange,
} from '../../src/copies/upload-copy.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { dyingAt, Killed, randomFrom } from './dying-store.ts';
import { batchesIn, broughtBack, type SampleCopy, sampleCopy, signal } from './sample-copy.ts';

const DAY = 24 * 3_600_000;
let sample: SampleCopy;

beforeEach(async () => {
  sample = await sampleCopy();
});

afterEach(() => sample.close());

/** Makes everything at the target as old as that. */
function age(hours: number): void {
  const at = Date.now() / 1000 - hours * 3600;
  for (const folder of ['data', 'manifests']) {
    for (const name of names(folder)) utimesSync(path.join(sample.target, folder, name), at, at);
  }
}

function names(folder: string): string[] {
  const dir = path.join(sample.target, folder);
  return existsSync(dir) ? readdirSync(dir).sort() : [];
}

test('what a superseded manifest lists stays for a day, and goes then', async () => {
  const { writer, known } = sample;
  await writeBatches(writer, known, 3);
  await sample.copy();
  const first = names('data');
  await writer.rollIfLarger(0);
  await sealClosedSegments({ dir: sample.dir, before: writer.segment });
  age(30);
  await writeBatches(writer, known, 1, 100);
  // The first manifest is superseded only now.
  expect((await sample.copy()).removed).toMatchObject({ manifests: 0, objects: 0 });
  expect(names('manifests').length).toBe(2);
  age(25);
  await writeBatches(writer, known, 1, 200);
  expect((await sample.copy()).removed).toMatchObject({ manifests: 1 });
  for (const name of first) expect(names('data')).not.toContain(name);
  expect(names('manifests').length).toBe(2);
  const back = await broughtBack(sample, 'back');
  expect(await batchesIn(back?.dir ?? '')).toEqual(known.batches);
});

test('as many states stay as were asked for', async () => {
  const { writer, known } = sample;
  for (let n = 0; n < 5; n += 1) {
    await writeBatches(writer, known, 1, 1 + n * 10);
    await sample.copy({ keep: 3 });
    age(48);
  }
  await writeBatches(writer, known, 1, 100);
  await sample.copy({ keep: 3 });
  expect(names('manifests').length).toBe(3);
});

test('what an interrupted copy left goes after a day, and not before', async () => {
  await writeBatches(sample.writer, sample.known, 1);
  await sample.copy();
  const orphan = `data/${'0'.repeat(48)}`;
  await sample.store.put(orphan, 3, bytesAsStream(Buffer.from('abc')), { signal });
  await writeBatches(sample.writer, sample.known, 1, 50);
  await sample.copy();
  expect(names('data')).toContain(path.basename(orphan));
  age(25);
  await writeBatches(sample.writer, sample.known, 1, 90);
  await sample.copy();
  expect(names('data')).not.toContain(path.basename(orphan));
});

test('a purge stays due while the store does not list the newest manifest', async () => {
  const { writer, known, store, state, key } = sample;
  await writeBatches(writer, known, 2);
  await sample.copy();
  const before = names('manifests');
  await writeBatches(writer, known, 1, 100);
  const memory = copyMemory(state, key.copyId);
  memory.purge(true);
  // As Swift does for a while after a write.
  const late = withOther({
    async *list(prefix) {
      for await (const fact of store.list(prefix, signal)) {
        const isNew =
          fact.name.startsWith(FOLDERS.manifests) && !before.some((one) => fact.name.endsWith(one));
        if (!isNew) yield fact;
      }
    },
  });
  await sample.copy({ store: late, memory });
  expect(names('manifests').length).toBe(2);
  expect(memory.purging()).toBe(true);
  expect((await sample.copy({ memory })).removed).toMatchObject({ manifests: 1 });
  expect(names('manifests').length).toBe(1);
  expect(memory.purging()).toBe(false);
});

test('a manifest that cannot be read keeps all objects, since it may list them', async () => {
  await writeBatches(sample.writer, sample.known, 1);
  await sample.copy();
  const orphan = `data/${'0'.repeat(48)}`;
  await sample.store.put(orphan, 3, bytesAsStream(Buffer.from('abc')), { signal });
  const forged = `manifests/${'0'.repeat(15)}1-${'f'.repeat(32)}`;
  age(30);
  await sample.store.put(forged, 2, bytesAsStream(Buffer.from('{}')), { signal });
  await writeBatches(sample.writer, sample.known, 1, 50);
  await sample.copy();
  expect(names('data')).toContain(path.basename(orphan));
});

/** Two states, the first of which was superseded more than a day ago; returns the names of what only it needs. */
async function superseded(): Promise<string[]> {
  const { writer, known } = sample;
  await writeBatches(writer, known, 3);
  await sample.copy();
  const old = [
    ...names('data').map((name) => `data/${name}`),
    `manifests/${names('manifests')[0]}`,
  ];
  await writer.rollIfLarger(0);
  await sealClosedSegments({ dir: sample.dir, before: writer.segment });
  await writeBatches(writer, known, 1, 100);
  await sample.copy();
  age(30);
  await writeBatches(writer, known, 1, 200);
  return old;
}

function isThere(name: string): boolean {
  return existsSync(path.join(sample.target, name));
}

test('what a copy has locked stays until its lock has ended, and is not tried before', async () => {
  const old = await superseded();
  const memory = copyMemory(sample.state, sample.key.copyId);
  const until = Date.now() + 1_000_000;
  for (const name of old) memory.noteLock(name, until);
  const tried: unknown[] = [];
  const store = withOther({
    delete: async (name) => {
      tried.push(name);
    },
  });
  expect((await sample.copy({ store })).removed).toEqual(NO_CLEANUP);
  expect(tried).toEqual([]);
  await writeBatches(sample.writer, sample.known, 1, 300);
  const { removed } = await sample.copy({ now: () => until });
  expect(removed).toEqual({ ...NO_CLEANUP, manifests: 1, objects: 1 });
  expect(old.filter(isThere)).toEqual([]);
});

test('a lock that a copy may have set is remembered, and another one is reported with its end', async () => {
  const old = await superseded();
  const memory = copyMemory(undefined, sample.key.copyId);
  const now = Date.now();
  const ends = [now + 20 * DAY, now + 40 * DAY].map((at) => new Date(at).toISOString());
  const store = withOther({
    delete: async (name) => {
      const until = String(ends[name.startsWith('data/') ? 0 : 1]);
      throw objectError('object-locked', { store: 'store', name, until });
    },
  });
  const { key } = sample;
  const uploading = new Set<string>();
  const options = { store, key, keep: 1, sequence: 0, uploading, memory, signal };
  await sample.copy({ keep: 9 });
  const tidy = (atOnce: boolean, lockDays?: number) =>
    cleanUpCopy({ ...options, lockDays, now: () => now }, atOnce);
  const [object = '', manifest = ''] = old;
  const locked = [{ name: manifest, until: ends[1] }];
  const reported = { ...NO_CLEANUP, locked, lockedUntil: ends[1] };
  expect(await tidy(false, 30)).toEqual(reported);
  expect(memory.lockedUntil(object)).toBe(now + 20 * DAY);
  expect(memory.lockedUntil(manifest)).toBeUndefined();
  // Without locks of its own, a copy reports each.
  const unlocked = { ...options, memory: copyMemory(undefined, sample.key.copyId) };
  const all = await cleanUpCopy({ ...unlocked, lockDays: undefined, now: () => now }, false);
  expect(all?.locked).toEqual([...locked, { name: object, until: ends[0] }]);
  // So does one that is to remove what was purged.
  expect((await tidy(true, 30))?.locked).toContainEqual({ name: object, until: ends[0] });
});

/** The store of the sample with other methods. */
function withOther(methods: Partial<ObjectStore>): ObjectStore {
  return new Proxy(sample.store, {
    get: (target, property) => {
      const value: unknown = Reflect.get(property in methods ? methods : target, property);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

test('what an interrupted copy uploaded is continued, but not by one that uploads everything again', async () => {
  await writeBatches(sample.writer, sample.known, 2);
  await sample.writer.rollIfLarger(0);
  await writeBatches(sample.writer, sample.known, 1, 50);
  // It lists manifests, uploads two objects, and dies before the manifest.
  const interrupted = () => sample.copy({ store: dyingAt(sample.store, 4, 'before').dying });
  await expect(interrupted()).rejects.toBeInstanceOf(Killed);
  expect(sample.state.entries('copy-upload')).toHaveLength(2);
  expect(await sample.copy({ refresh: true })).toMatchObject({ uploaded: 2, objects: 2 });
  expect(await sample.copy()).toMatchObject({ uploaded: 0, objects: 2 });
});

test('objects that disappeared there are uploaded again', async () => {
  const { writer, known, store, copy, dir } = sample;
  await writeBatches(writer, known, 3, 1);
  const first = await copy();
  expect(first.missing).toBe(0);
  for await (const { name } of store.list(FOLDERS.data, signal)) await store.delete(name, signal);
  const second = await copy();
  expect(second).toMatchObject({ missing: first.objects, uploaded: first.objects });
  const back = await broughtBack(sample, 'back');
  expect(back?.lost).toEqual([]);
  expect(await batchesIn(back?.dir ?? '')).toEqual(await batchesIn(dir));
  expect(await copy()).toMatchObject({ missing: 0, uploaded: 0 });
});

test('a listing of manifests that does not end is refused', async () => {
  const endless = withOther({
    async *list() {
      for (let at = 0; at < 1_000_000; at += 1) {
        const name = `manifests/9000000000000000-${at.toString(16).padStart(32, '0')}`;
        yield { name, length: 1, modified: 0 };
      }
    },
    get() {
      throw new Error('none of them is read');
    },
  });
  await expect(findManifests(endless, sample.key, signal)).rejects.toMatchObject({
    code: 'offsite-too-many-manifests',
  });
});

const nameKey = Buffer.alloc(32, 7);

function surveyOf(boundaries: readonly Boundary[]): CopyScan {
  const commit = boundaries.at(-1) ?? { number: 0, hash: 'genesis', time: 0 };
  return {
    archiveId: '00',
    format: 'mailkeep archive 2',
    commit,
    closed: [],
    open: { segment: 1, boundaries },
  };
}

function entryOf({ mark, what }: PlannedObject<TailRange>): ObjectEntry {
  return { name: mark, length: what.to - what.from, sha256: '' };
}

test.each([1, 2, 3, 4, 5, 6])(
  'the tail covers every byte once, is short, and is not uploaded over and over (seed %i)',
  (seed) => {
    const random = randomFrom(seed);
    const boundaries: Boundary[] = [];
    let known = new Map<string, ObjectEntry>();
    let [offset, uploaded] = [64, 0];
    while (offset < 64 * 1024 * 1024) {
      offset += Math.ceil(random() ** 4 * 2_000_000) + 200;
      const number = boundaries.length + 1;
      boundaries.push({ number, hash: `c${number}`, offset, time: 0 });
      if (random() < 0.3) continue;
      const { tail } = planCopy(surveyOf(boundaries), known, nameKey);
      expect(tail.length).toBeLessThanOrEqual(MAX_TAIL);
      let at = 0;
      for (const { what } of tail) {
        expect(what.from).toBe(at);
        expect(what.to).toBeGreaterThan(what.from);
        at = what.to;
      }
      expect(at).toBe(offset);
      for (const { there, what } of tail) if (there === undefined) uploaded += what.to - what.from;
      known = new Map(tail.map((piece) => [piece.mark, entryOf(piece)]));
    }
    // Each byte once for each doubling from the smallest object to the largest, at the most.
    expect(uploaded / offset).toBeLessThan(10);
    const { tail } = planCopy(surveyOf(boundaries), known, nameKey);
    const all = new Map(tail.map((piece) => [piece.mark, entryOf(piece)]));
    const again = planCopy(surveyOf(boundaries), all, nameKey);
    expect(again.tail.every(({ there }) => there !== undefined)).toBe(true);
  },
);

test('a segment that is there stays; one with another purge is uploaded', () => {
  const end = { number: 7, hash: 'c7', time: 0 };
  const archiveScan: CopyScan = {
    ...{ archiveId: '00', format: 'mailkeep archive 1', commit: end, open: undefined },
    closed: [{ segment: 1, end, purged: '' }],
  };
  const entry = { name: 'data/1', length: 5, sha256: '' };
  const mark = segmentMark(nameKey, { segment: 1, end, purged: '' });
  const known = new Map([[mark, entry]]);
  expect(planCopy(archiveScan, known, nameKey).segments.map(({ there }) => there)).toEqual([entry]);
  const purged = { ...archiveScan, closed: [{ segment: 1, end, purged: 'ff' }] };
  expect(planCopy(purged, known, nameKey).segments.map(({ there }) => there)).toEqual([undefined]);
});

test('where nothing was committed there is nothing to copy', () => {
  expect(planCopy(surveyOf([]), new Map(), nameKey)).toEqual({ segments: [], tail: [] });
});
