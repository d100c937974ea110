import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { segmentPath } from '../../src/archive/format.ts';
import { scanLog } from '../../src/archive/log-reader.ts';
import { dropOldGenerations, sealSegment } from '../../src/archive/seal.ts';
import type { FleetStore } from '../../src/fleet/segments.ts';
import { decidePurge } from '../../src/registry/commits.ts';
import { expectFormatAllows, filesWithZstd } from '../archive/formats.ts';
import { DIR } from '../archive/sample-log.ts';
import { SimulatedDisk } from '../archive/simulated-disk.ts';
import { putBytes, signal } from '../objects/store-contract.ts';
import { batchAfter, done, expectWholeLog } from '../registry/servers/fleet.ts';
import { before, faultAt, requestsOf, STEPS, type Step } from './servers/requests.ts';
import { Scene, type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
const FIRST = { segment: 1, generation: 2 };

let servers: Servers;
let scene: Scene;
let store: FleetStore;

beforeAll(async () => {
  if (!skipped) servers = await startServers();
});
afterAll(async () => {
  await servers?.stop();
});
beforeEach(async () => {
  if (skipped) return;
  scene = await Scene.make(servers);
  store = await scene.store({});
});
afterEach(async () => {
  await scene?.stop();
});

function seal(segment: number, purged: readonly number[] = []): Promise<unknown> {
  const { files } = scene.sample.disk;
  const purge = (_: unknown, ordinal: number) => purged.includes(ordinal);
  return sealSegment({ dir: DIR, segment, files, purge });
}

/** Seals and publishes the first segments. */
async function sealedAndPublished(count: number): Promise<void> {
  for (let segment = 1; segment <= count; segment += 1) {
    await seal(segment);
    await store.publish({ segment, generation: 2 });
  }
}

function countOf(step: Step): number {
  return requestsOf(scene).filter((found) => found === step).length;
}

/** A disk that has what a new holder writes at first: everything but what is sealed. */
function diskWithout(sealed: readonly number[]): SimulatedDisk {
  const copy = new SimulatedDisk();
  const { disk } = scene.sample;
  for (const folder of disk.folders()) copy.files.makeFolder(folder);
  for (const path of disk.paths()) {
    const isSealed = sealed.some((n) => path.includes(`/${String(n).padStart(10, '0')}.`));
    if (!isSealed) copy.put(path, disk.read(path));
  }
  return copy;
}

async function commitsOn(disk: SimulatedDisk, segments: FleetStore): Promise<string[]> {
  const hashes: string[] = [];
  for await (const event of scanLog({ dir: DIR, files: disk.files, segments })) {
    if (event.what !== 'batch' || !event.sound) throw new Error(`unsound: ${event.what}`);
    hashes.push(event.batch.commit.hash);
  }
  return hashes;
}

const refusal = (reason: string, generation = 2) => ({
  ...{ code: 'seal-refused', family: 'in-use', retryable: true },
  facts: { segment: 1, generation, reason },
});

describe.skipIf(skipped)('a sealed segment', () => {
  test('covers its commits, and another holder fetches it', async () => {
    await sealedAndPublished(2);
    const { covers, tail } = await scene.stored();
    expect(covers).toMatchObject([
      { first: 1, last: 2, segment: 1, generation: 2, at: 64 },
      { first: 3, last: 4, segment: 2, generation: 2, at: 64 },
    ]);
    expect(tail.map(({ number }) => number)).toEqual([5, 6]);
    await expectWholeLog(scene.direct.registry, scene.archive);
    const path = segmentPath(DIR, FIRST);
    expect(covers[0]?.bytes).toBe(scene.sample.disk.read(path).length);
    expect([1, 2, 3].map((segment) => store.present(segment))).toEqual([true, true, true]);

    const disk = diskWithout([1, 2]);
    disk.put(`${DIR}/FORMAT`, Buffer.from('mailkeep archive 1\n'));
    const other = await scene.store({ held: await scene.takenOver(), disk });
    expect([1, 2, 3].map((segment) => other.present(segment))).toEqual([false, false, true]);
    const hashes = scene.sample.segments.flat().map(({ hash }) => hash.toString('hex'));
    expect(await commitsOn(disk, other)).toEqual(hashes);
    expect([1, 2, 3].map((segment) => other.present(segment))).toEqual([true, true, true]);
    expect(disk.read(path).equals(scene.sample.disk.read(path))).toBe(true);
    expectFormatAllows(disk, DIR);
    await scene.expectCollected();
  });

  test('is published once, also if it is asked for twice or by several at once', async () => {
    await seal(1);
    await Promise.all([store.publish(FIRST), store.publish(FIRST)]);
    await store.publish(FIRST);
    // Whoever claims the archive later knows it from the registry.
    await (await scene.store({})).publish(FIRST);
    expect(await scene.states()).toEqual(['live']);
    const options = { dir: DIR, files: scene.sample.disk.files, now: 1e15, keepMs: 0 };
    const dropped = await dropOldGenerations({ ...options, segments: store });
    expect(dropped).toEqual([segmentPath(DIR, { segment: 1, generation: 1 })]);
    expect(countOf('Create')).toBe(1);
  });

  test('that was sealed again replaces the one before', async () => {
    await sealedAndPublished(1);
    await seal(1);
    await store.publish({ segment: 1, generation: 3 });
    expect(await scene.states()).toEqual(['condemned', 'live']);
    await expect(store.publish(FIRST)).rejects.toMatchObject(refusal('covered'));
    await scene.expectCollected();
  });

  test('of two that are published at once, one covers', async () => {
    await seal(1);
    const other = await scene.store({});
    const results = await Promise.allSettled([store.publish(FIRST), other.publish(FIRST)]);
    const refused = results.filter(({ status }) => status === 'rejected');
    expect(refused).toMatchObject([{ reason: refusal('covered') }]);
    expect((await scene.states()).toSorted()).toEqual(['condemned', 'live']);
    await expectWholeLog(scene.direct.registry, scene.archive);
    await scene.expectCollected();
  });

  test('is not published by who lost the archive', async () => {
    await seal(1);
    before(scene, 'GET', () => scene.takenOver());
    const fenced = { code: 'log-fenced', facts: { reason: 'refused' } };
    await expect(store.publish(FIRST)).rejects.toMatchObject(fenced);
    expect(scene.held.lostBy).toBe('lease');
    expect(await scene.states()).toEqual(['condemned']);
    const seen = scene.http.seen.length;
    await expect(store.publish(FIRST)).rejects.toMatchObject(fenced);
    expect(scene.http.seen).toHaveLength(seen);
    await scene.expectCollected();
  });

  test('is not published while its segment is open, or if it is damaged', async () => {
    await seal(3);
    const open = { ...refusal('open'), facts: { segment: 3, generation: 2, reason: 'open' } };
    await expect(store.publish({ segment: 3, generation: 2 })).rejects.toMatchObject(open);
    await seal(1);
    const { disk } = scene.sample;
    const path = segmentPath(DIR, FIRST);
    const bytes = disk.read(path);
    const created = scene.http.seen.length;
    for (const at of [20, 200, Math.floor(bytes.length / 2), bytes.length - 3]) {
      const damaged = Buffer.from(bytes);
      damaged.writeUInt8((damaged[at] ?? 0) ^ 4, at);
      disk.put(path, damaged);
      await expect(store.publish(FIRST)).rejects.toMatchObject({ code: 'log-damaged' });
    }
    expect(scene.http.seen).toHaveLength(created);
    await scene.expectCollected();
  });

  test('whose cover was lost on the way is published when it is asked for again', async () => {
    await seal(1);
    scene.http.onExchange = ({ path }) => {
      if (path.endsWith('.seg')) scene.sql.cutNext('commit\0', 'before');
    };
    await expect(store.publish(FIRST)).rejects.toMatchObject(refusal('collected'));
    scene.http.onExchange = () => {};
    await store.publish(FIRST);
    expect(await scene.states()).toEqual(['condemned', 'live']);
    await scene.expectCollected();
  });

  test('whose cover nobody knows of is settled before it is published again', async () => {
    await seal(1);
    before(scene, 'GET', async () => scene.sql.cutNext('commit\0', 'after'));
    scene.sql.onCut = () => {
      scene.sql.onCut = () => {};
      scene.sql.cutNext("SET state = 'condemned'", 'before');
    };
    await expect(store.publish(FIRST)).rejects.toMatchObject({ code: 'outcome-unknown' });
    await scene.sql.answered();
    await store.publish(FIRST);
    expect(countOf('Create')).toBe(1);
    expect(await scene.states()).toEqual(['live']);
    await scene.expectCollected();
  });

  test.each(STEPS)('is published once if the answer of a request is lost: %s', async (step) => {
    await seal(1);
    faultAt(scene, step, { do: 'lose-answer' });
    await store.publish(FIRST);
    expect((await scene.stored()).covers).toHaveLength(1);
    await scene.expectCollected();
  });
});

describe.skipIf(skipped)('a purge', () => {
  /** Decides a purge of a record of the first segment, and returns its ordinal. */
  async function decided(): Promise<number> {
    const { held, direct } = scene;
    const batch = batchAfter(held.head, 'purge');
    const work = { commits: [1], records: [] };
    const { purges } = done(await decidePurge(direct.registry, held.lease, batch, work));
    const { number: headNumber, hash: headHash } = batch;
    held.moved({ headNumber, headHash, purges });
    return 0;
  }

  test('keeps out a file that was being uploaded', async () => {
    await seal(1);
    before(scene, 'GET', decided);
    await expect(store.publish(FIRST)).rejects.toMatchObject(refusal('purged'));
    expect(await scene.states()).toEqual(['condemned']);
    await scene.expectCollected();
  });

  test('keeps out a file that was sealed before, until it is sealed without the records', async () => {
    await seal(1);
    await seal(2);
    const ordinal = await decided();
    const purges = () => new Map([[1, new Map([[1, [ordinal]]])]]);
    store = await scene.store({ purges });
    await expect(store.publish(FIRST)).rejects.toMatchObject(refusal('purged'));
    expect(await scene.states()).toEqual([]);
    // It has nothing of the purge.
    await store.publish({ segment: 2, generation: 2 });
    await seal(1, [ordinal]);
    await store.publish({ segment: 1, generation: 3 });
    expect((await scene.rows()).map(({ purges: known }) => known)).toEqual([1, 1]);
    await scene.expectCollected();
  });
});

describe.skipIf(skipped)('fetching a segment', () => {
  let disk: SimulatedDisk;
  let other: FleetStore;
  let key: string;

  beforeEach(async () => {
    await sealedAndPublished(2);
    key = (await scene.stored()).covers[0]?.key ?? '';
    disk = diskWithout([1, 2]);
    other = await scene.store({ disk });
    scene.http.seen.splice(0);
  });

  /** Nothing of the first segment is in the folder. */
  function expectNothing(): void {
    expect(disk.paths().filter((path) => path.includes('0000000001'))).toEqual([]);
    expect(other.present(1)).toBe(false);
  }

  test('has FORMAT announce zstd before a file holds any', async () => {
    disk.put(`${DIR}/FORMAT`, Buffer.from('mailkeep archive 1\n'));
    disk.fault = () => {
      expectFormatAllows(disk, DIR);
      return undefined;
    };
    other = await scene.store({ disk });
    await other.fetch([1, 2]);
    expect(filesWithZstd(disk, DIR)).toHaveLength(2);
  });

  test('asks once for what several want, and not for what is there', async () => {
    await Promise.all([other.fetch([1, 3]), other.fetch([2, 1]), other.fetch([1])]);
    await other.fetch([1, 2, 3]);
    expect(countOf('GET')).toBe(2);
    // A copy that became shorter is fetched again.
    const path = segmentPath(DIR, FIRST);
    const bytes = disk.read(path);
    disk.put(path, bytes.subarray(1));
    await other.fetch([1]);
    expect(disk.read(path).equals(bytes)).toBe(true);
  });

  test('continues where the connection ends, and is durable when it is there', async () => {
    faultAt(scene, 'GET', { do: 'cut-answer', part: 0.5 });
    await other.fetch([1]);
    expect(countOf('GET')).toBe(2);
    disk = disk.afterPowerCut(() => false);
    other = await scene.store({ disk });
    expect(other.present(1)).toBe(true);
  });

  test('leaves nothing of an object that is damaged or missing', async () => {
    const bytes = scene.sample.disk.read(segmentPath(DIR, FIRST));
    const damaged = { code: 'object-damaged', facts: { name: key } };
    faultAt(scene, 'GET', { do: 'change-answer' });
    await expect(other.fetch([1])).rejects.toMatchObject(damaged);
    expectNothing();
    const flipped = Buffer.from(bytes);
    flipped.writeUInt8((flipped.at(-1) ?? 0) ^ 1, flipped.length - 1);
    for (const wrong of [flipped, bytes.subarray(1), Buffer.concat([bytes, bytes])]) {
      await putBytes(scene.direct.objects, key, wrong);
      await expect(other.fetch([1])).rejects.toMatchObject(damaged);
      expectNothing();
    }
    await scene.direct.objects.delete(key, signal);
    await expect(other.fetch([1])).rejects.toMatchObject({ code: 'object-missing' });
    expectNothing();
    await putBytes(scene.direct.objects, key, bytes);
    await other.fetch([1]);
    expect(other.present(1)).toBe(true);
  });

  test('leaves nothing when the archive is lost, the disk is full, or it is called off', async () => {
    before(scene, 'GET', async () => {
      disk.capacity = 1_000;
    });
    await expect(other.fetch([1])).rejects.toMatchObject({ code: 'disk-full' });
    expectNothing();
    disk.capacity = Number.POSITIVE_INFINITY;
    before(scene, 'GET', async () => {
      void other.close();
    });
    await expect(other.fetch([1])).rejects.toMatchObject({ code: 'log-fenced' });
    expectNothing();
    await expect(other.fetch([1])).rejects.toMatchObject({ code: 'log-fenced' });
    other = await scene.store({ disk });
    before(scene, 'GET', async () => {
      scene.held.lose('lease');
    });
    await expect(other.fetch([1])).rejects.toMatchObject({ code: 'log-fenced' });
    expectNothing();
  });

  test('leaves nothing of a generation that was replaced meanwhile', async () => {
    await seal(1);
    const newer = { segment: 1, generation: 3 };
    before(scene, 'GET', async () => {
      disk.put(segmentPath(DIR, newer), scene.sample.disk.read(segmentPath(DIR, newer)));
      await other.publish(newer);
    });
    await expect(other.fetch([1])).rejects.toMatchObject({ code: 'segment-elsewhere' });
    expect(disk.paths().filter((path) => path.includes('0000000001'))).toEqual([
      segmentPath(DIR, newer),
    ]);
    await other.fetch([1]);
    expect(countOf('GET')).toBe(2);
  });

  test('is over when the store is closed', async () => {
    let isCalledOff = false;
    before(scene, 'GET', async () => {
      const closed = other.close();
      isCalledOff = true;
      await closed;
      expectNothing();
    });
    await expect(other.fetch([1])).rejects.toMatchObject({ code: 'log-fenced' });
    expect(isCalledOff).toBe(true);
  });

  test('ends with the reason of a signal', async () => {
    before(scene, 'GET', async () => scene.controller.abort(new Error('stopped')));
    await expect(other.fetch([1])).rejects.toThrow('stopped');
    expectNothing();
  });
});
