import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { underLease } from '../../src/fleet/under-lease.ts';
import { uploadObject } from '../../src/fleet/uploads.ts';
import { verifiedBytes } from '../../src/fleet/verified-bytes.ts';
import { condemn } from '../../src/registry/collection.ts';
import { decidePurge, roll } from '../../src/registry/commits.ts';
import { resolve } from '../../src/registry/leases.ts';
import type { Outcome } from '../../src/registry/outcome.ts';
import { seeded } from '../bench/seeded.ts';
import type { HttpFault } from '../objects/servers/http-faults.ts';
import { getBytes, inPieces, putBytes, signal } from '../objects/store-contract.ts';
import { batchAfter, done } from '../registry/servers/fleet.ts';
import { chunkOf, coverFirst, uploadAndCover } from './servers/new-object.ts';
import { before, faultAt, requestsOf, STEPS } from './servers/requests.ts';
import { FLEET, Scene, type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
const BYTES = seeded('an object').bytes(10_000);
const OTHER = seeded('another object').bytes(10_000);

let servers: Servers;
let scene: Scene;

beforeAll(async () => {
  if (!skipped) servers = await startServers();
});
afterAll(async () => {
  await servers?.stop();
});
beforeEach(async () => {
  if (!skipped) scene = await Scene.make(servers);
});
afterEach(async () => {
  await scene?.stop();
});

describe.skipIf(skipped)('an object of a fleet', () => {
  test('is registered before its first byte, and read back whole before it counts', async () => {
    let registered: unknown;
    before(scene, 'part', async () => {
      registered = await scene.rows();
    });
    const { uploaded } = done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    const { key } = uploaded;
    expect(requestsOf(scene)).toEqual(STEPS);
    expect(registered).toEqual([{ key, state: 'uploading', purges: 0 }]);
    expect(key).toMatch(
      new RegExp(`^${FLEET}/[0-9a-f]{16}/c/0000000001\\.1/1-2\\.1\\.[0-9a-f]{16}\\.chunk$`),
    );
    const metadata = { log: scene.sample.logId, sha256: uploaded.sha256 };
    for (const [name, value] of Object.entries(metadata)) {
      const kept = await scene.headerOf(key, `x-amz-meta-mailkeep-${name}`);
      expect(kept).toBe(value.toString('hex'));
    }
    expect(await scene.headerOf(key, 'x-amz-meta-mailkeep-range')).toBe('1-2');
    done(await coverFirst(scene, uploaded));
    expect(await scene.states()).toEqual(['live']);
    await scene.expectCollected();
  });

  test.each(
    STEPS.flatMap((step) =>
      (['lose-answer', 'cut-before', 'cut-answer', 'answer-late'] as const).map(
        (fault) => [step, fault] as const,
      ),
    ),
  )('is there once if %s meets a fault: %s', async (step, kind) => {
    faultAt(scene, step, { do: kind, status: 500, code: 'InternalError', part: 0.4 } as HttpFault);
    done(await uploadAndCover(scene, chunkOf(scene, BYTES)));
    const [cover] = (await scene.stored()).covers;
    const bytes = await getBytes(scene.direct.objects, cover?.key ?? '');
    expect(bytes.equals(BYTES)).toBe(true);
    await scene.expectCollected();
  });

  test('counts if no answer of Complete comes, but it can be read', async () => {
    faultAt(scene, 'Complete', { do: 'lose-answer' }, Number.POSITIVE_INFINITY);
    done(await uploadAndCover(scene, chunkOf(scene, BYTES)));
    expect(await scene.states()).toEqual(['live']);
    await scene.expectCollected();
  });

  test('gets another name if Complete never arrives', async () => {
    // As often as one request is tried.
    faultAt(scene, 'Complete', { do: 'cut-before' }, 8);
    done(await uploadAndCover(scene, chunkOf(scene, BYTES)));
    expect(await scene.states()).toEqual(['condemned', 'live']);
    await scene.expectCollected();
  });

  test('gets another name if other bytes come back, or none', async () => {
    faultAt(scene, 'GET', { do: 'change-answer' });
    done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    expect(await scene.states()).toEqual(['condemned', 'uploading']);
    faultAt(scene, 'GET', { do: 'answer', status: 404, code: 'NoSuchKey' });
    done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    // Also if it is the store that has other bytes.
    for (const other of [OTHER, Buffer.concat([BYTES, OTHER]), BYTES.subarray(1)]) {
      before(scene, 'GET', async () => {
        const [last] = (await scene.rows()).slice(-1);
        await putBytes(scene.direct.objects, last?.key ?? '', other);
      });
      done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    }
    const pairs = [1, 2, 3, 4, 5].flatMap(() => ['condemned', 'uploading']);
    expect(await scene.states()).toEqual(pairs);
    await scene.expectCollected();
  });

  test('is given up after three names', async () => {
    faultAt(scene, 'GET', { do: 'change-answer' }, Number.POSITIVE_INFINITY);
    const uploading = uploadObject(scene.uploading, chunkOf(scene, BYTES));
    await expect(uploading).rejects.toMatchObject({ code: 'object-damaged', family: 'damage' });
    expect(await scene.states()).toEqual(['condemned', 'condemned', 'condemned']);
    expect(new Set((await scene.rows()).map(({ key }) => key)).size).toBe(3);
    await scene.expectCollected();
  });

  test('is not completed if its source changes', async () => {
    const object = { ...chunkOf(scene, BYTES), bytes: () => inPieces(OTHER) };
    const uploading = uploadObject(scene.uploading, object);
    await expect(uploading).rejects.toMatchObject({ code: 'object-source-changed' });
    expect(requestsOf(scene)).not.toContain('Complete');
    expect(await scene.states()).toEqual(['condemned']);
    await scene.expectCollected();
  });

  test('is not uploaded if a purge was decided meanwhile', async () => {
    const { held } = scene;
    const purge = async (): Promise<Outcome> => {
      const batch = batchAfter(held.head, 'purge');
      const work = { commits: [1], records: [] };
      return decidePurge(scene.direct.registry, held.lease, batch, work);
    };
    before(scene, 'Create', purge);
    const refused = await uploadObject(scene.uploading, chunkOf(scene, BYTES));
    expect(refused).toMatchObject({ outcome: 'fenced', by: 'purges' });
    expect(held.lostBy).toBeUndefined();
    expect([await scene.states(), await scene.unfinished()]).toEqual([[], []]);
    expect(requestsOf(scene)).toEqual(['Create', 'DELETE']);
  });

  test('does not count if a purge is decided after it was registered', async () => {
    const { held } = scene;
    before(scene, 'Complete', async () => {
      const batch = batchAfter(held.head, 'purge');
      done(
        await decidePurge(scene.direct.registry, held.lease, batch, { commits: [1], records: [] }),
      );
    });
    const refused = await uploadAndCover(scene, chunkOf(scene, BYTES));
    expect(refused).toMatchObject({ outcome: 'fenced', by: 'bytes' });
    expect(await scene.states()).toEqual(['condemned']);
    await scene.expectCollected();
  });

  test('is not uploaded by who lost the archive', async () => {
    before(scene, 'Create', () => scene.takenOver());
    const refused = await uploadObject(scene.uploading, chunkOf(scene, BYTES));
    expect(refused).toMatchObject({ outcome: 'fenced', by: 'lease' });
    expect(scene.held.lostBy).toBe('lease');
    expect([await scene.states(), await scene.unfinished()]).toEqual([[], []]);
  });

  test('a lease with another epoch is not a lost one', async () => {
    const { held, direct } = scene;
    const { head } = done(await resolve(direct.registry, held.lease));
    const refused = await uploadObject(scene.uploading, chunkOf(scene, BYTES));
    expect(refused).toMatchObject({ outcome: 'fenced', by: 'lease' });
    expect(held.lostBy).toBeUndefined();
    const leases: number[] = [];
    const from = { segment: head.hotSegment, headHash: head.headHash };
    const rolled = await underLease(held, async (lease) => {
      leases.push(lease.epoch);
      const outcome = await roll(direct.registry, lease, from);
      held.moved({ epoch: head.epoch });
      return outcome;
    });
    expect(rolled.outcome).toBe('committed');
    expect(leases).toEqual([1, 2]);
  });

  test.each(['after', 'before', 'held'] as const)(
    'gets another name if nobody knows whether it is registered: %s',
    async (how) => {
      scene.sql.cutNext('INSERT INTO object', how);
      done(await uploadAndCover(scene, chunkOf(scene, BYTES)));
      await scene.sql.deliver();
      // The row may come before it is condemned, after that, or never.
      const states = (await scene.states()).join();
      expect(states).toMatch(
        how === 'before' ? /^live$/ : /^(?:(?:condemned|uploading),live|live,uploading)$/,
      );
      await scene.expectCollected();
    },
  );

  test('is not covered twice, or not at all, if nobody knows whether it was', async () => {
    const { uploaded } = done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    scene.sql.cutNext('commit\0', 'after');
    done(await coverFirst(scene, uploaded));
    expect(await scene.states()).toEqual(['live']);
  });

  test('is condemned if its cover was lost on the way', async () => {
    const { uploaded } = done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    scene.sql.cutNext('commit\0', 'before');
    expect(await coverFirst(scene, uploaded)).toMatchObject({ outcome: 'fenced', by: 'object' });
    expect(await scene.states()).toEqual(['condemned']);
    // However often it is asked for.
    expect(await coverFirst(scene, uploaded)).toMatchObject({ outcome: 'fenced', by: 'object' });
    await scene.expectCollected();
  });
});

describe.skipIf(skipped)('verified bytes', () => {
  test('never come to an end if they are not those that were uploaded', async () => {
    const { uploaded } = done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    const read = async (object = uploaded): Promise<Buffer[]> => {
      const pieces: Buffer[] = [];
      for await (const piece of verifiedBytes(scene.objects, object, signal)) pieces.push(piece);
      return pieces;
    };
    expect(Buffer.concat(await read()).equals(BYTES)).toBe(true);
    const damaged = { code: 'object-damaged', facts: { name: uploaded.key } };
    for (const wrong of [
      { ...uploaded, bytes: BYTES.length - 1 },
      { ...uploaded, bytes: BYTES.length + 1 },
      { ...uploaded, sha256: Buffer.alloc(32) },
    ]) {
      await expect(read(wrong)).rejects.toMatchObject(damaged);
    }
    await putBytes(scene.direct.objects, uploaded.key, OTHER);
    const got: Buffer[] = [];
    const reading = (async () => {
      for await (const piece of verifiedBytes(scene.objects, uploaded, signal)) got.push(piece);
    })();
    await expect(reading).rejects.toMatchObject(damaged);
    expect(Buffer.concat(got).length).toBeLessThan(OTHER.length);
    await condemn(scene.direct.registry, uploaded.key);
    await scene.expectCollected();
    await expect(read()).rejects.toMatchObject({ code: 'object-missing' });
  });
});
