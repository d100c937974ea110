import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { underLease } from '../../src/fleet/under-lease.ts';
import { uploadObject } from '../../src/fleet/uploads.ts';
import { verifiedBytes } from '../../src/fleet/verified-bytes.ts';
import { s3Store } from '../../src/objects/s3-store.ts';
import { condemn } from '../../src/registry/collection.ts';
import { decidePurge, roll } from '../../src/registry/commits.ts';
import { resolve } from '../../src/registry/leases.ts';
import type { Outcome } from '../../src/registry/outcome.ts';
import { register } from '../../src/registry/uploads.ts';
import { seeded } from '../bench/seeded.ts';
import type { HttpFault } from '../objects/servers/http-faults.ts';
import { targetAt } from '../objects/servers/s3-server.ts';
import { getBytes, inPieces, putBytes, signal } from '../objects/store-contract.ts';
import { batchAfter, done } from '../registry/servers/fleet.ts';
import { Collector } from './servers/collector.ts';
import { chunkOf, coverFirst, uploadAndCover } from './servers/new-object.ts';
import { FLEET, Scene, type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
/** More by hand. */
const ATTEMPTS = Number(process.env.MAILKEEP_ABORTS ?? '60');
/** Of the event loop, until an upload that is being completed is given up. */
const MOST_TURNS = Number(process.env.MAILKEEP_TURNS ?? '200');
const SEED = process.env.MAILKEEP_SEED ?? '1';
const BYTES = seeded('an object').bytes(10_000);
const OTHER = seeded('another object').bytes(10_000);

/** The requests of an upload, in their order. */
const REQUESTS = {
  Create: /^POST .*\?uploads/,
  part: /^PUT .*partNumber/,
  Complete: /^POST .*uploadId/,
  GET: /^GET .*\.chunk$/,
} as const;
type Step = keyof typeof REQUESTS;
const STEPS = Object.keys(REQUESTS) as Step[];

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

/** Makes a fault of the next requests of a step. */
function faultAt(step: Step, fault: HttpFault, times = 1): void {
  let left = times;
  scene.http.faultFor = (method, path) => {
    if (!REQUESTS[step].test(`${method} ${path}`) || left === 0) return undefined;
    left -= 1;
    return fault;
  };
}

/** Does something before the first request of a step reaches the server. */
function before(step: Step, act: () => Promise<unknown>): void {
  let isDone = false;
  scene.http.hold = async (method, path) => {
    if (isDone || !REQUESTS[step].test(`${method} ${path}`)) return;
    isDone = true;
    await act();
  };
}

function requests(): string[] {
  return scene.http.seen.map(
    ({ method, path }) => STEPS.find((step) => REQUESTS[step].test(`${method} ${path}`)) ?? method,
  );
}

async function thrownBy(act: Promise<unknown>): Promise<unknown> {
  return act.then(
    (result) => new Error(`it did not fail: ${JSON.stringify(result)}`),
    (error: unknown) => error,
  );
}

describe.skipIf(skipped)('an object of a fleet', () => {
  test('is registered before its first byte, and read back whole before it counts', async () => {
    let registered: unknown;
    before('part', async () => {
      registered = await scene.rows();
    });
    const { uploaded } = done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    const { key } = uploaded;
    expect(requests()).toEqual(STEPS);
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
    faultAt(step, { do: kind, status: 500, code: 'InternalError', part: 0.4 } as HttpFault);
    done(await uploadAndCover(scene, chunkOf(scene, BYTES)));
    const [cover] = (await scene.stored()).covers;
    const bytes = await getBytes(scene.direct.objects, cover?.key ?? '');
    expect(bytes.equals(BYTES)).toBe(true);
    await scene.expectCollected();
  });

  test('counts if no answer of Complete comes, but it can be read', async () => {
    faultAt('Complete', { do: 'lose-answer' }, Number.POSITIVE_INFINITY);
    done(await uploadAndCover(scene, chunkOf(scene, BYTES)));
    expect(await scene.states()).toEqual(['live']);
    await scene.expectCollected();
  });

  test('gets another name if Complete never arrives', async () => {
    // As often as one request is tried.
    faultAt('Complete', { do: 'cut-before' }, 8);
    done(await uploadAndCover(scene, chunkOf(scene, BYTES)));
    expect(await scene.states()).toEqual(['condemned', 'live']);
    await scene.expectCollected();
  });

  test('gets another name if other bytes come back, or none', async () => {
    faultAt('GET', { do: 'change-answer' });
    done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    expect(await scene.states()).toEqual(['condemned', 'uploading']);
    faultAt('GET', { do: 'answer', status: 404, code: 'NoSuchKey' });
    done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    // Also if it is the store that has other bytes.
    for (const other of [OTHER, Buffer.concat([BYTES, OTHER]), BYTES.subarray(1)]) {
      before('GET', async () => {
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
    faultAt('GET', { do: 'change-answer' }, Number.POSITIVE_INFINITY);
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
    expect(requests()).toEqual(['Create']);
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
    before('Create', purge);
    const refused = await uploadObject(scene.uploading, chunkOf(scene, BYTES));
    expect(refused).toMatchObject({ outcome: 'fenced', by: 'purges' });
    expect(held.lostBy).toBeUndefined();
    expect([await scene.states(), await scene.unfinished()]).toEqual([[], []]);
    expect(requests()).toEqual(['Create', 'DELETE']);
  });

  test('does not count if a purge is decided after it was registered', async () => {
    const { held } = scene;
    before('Complete', async () => {
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
    before('Create', () => scene.takenOver());
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
      const late = { after: 'condemned', before: undefined, held: 'uploading' } as const;
      const states = [late[how], 'live'].filter((state) => state !== undefined);
      expect((await scene.states()).toSorted()).toEqual(states.toSorted());
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

describe.skipIf(skipped)('the collector', () => {
  test.each(STEPS.flatMap((step) => [[step, 'before'] as const, [step, 'after'] as const]))(
    'cleans up after a worker that is killed at %s, %s it was carried out',
    async (step, when) => {
      scene.http.faultFor = (method, path) => {
        if (!REQUESTS[step].test(`${method} ${path}`)) return undefined;
        if (when === 'after') return { do: 'lose-answer' };
        scene.kill();
        return { do: 'cut-before' };
      };
      scene.http.onExchange = ({ method, path }) => {
        if (REQUESTS[step].test(`${method} ${path}`)) scene.kill();
      };
      const error = await thrownBy(uploadAndCover(scene, chunkOf(scene, BYTES)));
      expect(error).toMatchObject({ message: 'killed' });
      // What was begun and not registered has no bytes, and is left to the rules of the bucket.
      await scene.expectCollected(step === 'Create' && when === 'after' ? 1 : 0);
    },
  );

  test.each([
    ['INSERT INTO object', 'before'],
    ['INSERT INTO object', 'after'],
    ['commit\0', 'before'],
    ['commit\0', 'after'],
  ] as const)('cleans up after a worker that is killed at %j, %s it was', async (text, how) => {
    scene.sql.onCut = () => scene.kill();
    scene.sql.cutNext(text, how);
    const error = await thrownBy(uploadAndCover(scene, chunkOf(scene, BYTES)));
    expect(error).toBeInstanceOf(Error);
    await scene.sql.answered();
    const isCovered = text !== 'INSERT INTO object' && how === 'after';
    expect((await scene.stored()).covers).toHaveLength(isCovered ? 1 : 0);
    await scene.expectCollected(text === 'INSERT INTO object' && how === 'before' ? 1 : 0);
  });

  test('may take an upload for abandoned while its parts are sent: it fails', async () => {
    before('part', () => scene.collector.sweep());
    const uploading = uploadAndCover(scene, chunkOf(scene, BYTES));
    await expect(uploading).rejects.toMatchObject({ facts: { answer: 'NoSuchUpload' } });
    expect(await scene.states()).toEqual(['swept']);
    await scene.expectCollected();
  });

  test.each(['Complete', 'GET'] as const)(
    'may take an upload for abandoned before %s: it gets another name',
    async (step) => {
      before(step, () => scene.collector.sweep());
      done(await uploadAndCover(scene, chunkOf(scene, BYTES)));
      expect(await scene.states()).toEqual(['swept', 'live']);
      await scene.expectCollected();
    },
  );

  test('may take an upload for abandoned that was read back: it is not covered', async () => {
    const { uploaded } = done(await uploadObject(scene.uploading, chunkOf(scene, BYTES)));
    await scene.collector.sweep();
    expect(await coverFirst(scene, uploaded)).toMatchObject({ outcome: 'fenced', by: 'object' });
    await scene.expectCollected();
  });

  test('never calls an object gone that is there, if it was given up while it was completed', async () => {
    const { held, direct } = scene;
    const random = seeded('aborts', SEED);
    // Complete is asked for once: what it answers is of no interest.
    const retries = { attempts: 1, firstWaitMs: 0, longestWaitMs: 0, budgetMs: 0 };
    const objects = s3Store(targetAt(servers.gateway, 'fleet', { prefix: 'aborts' }), { retries });
    const collector = new Collector(direct.registry, objects, true);
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const name = scene.names.chunk(1, { first: 1, last: 2 }, attempt);
      const upload = await objects.beginUpload(name, {}, signal);
      const row = { key: name, kind: 'chunk', uploadId: upload.uploadId, purges: 0 } as const;
      done(await register(direct.registry, held.lease, row));
      const parts = await objects.sendParts(upload, BYTES.length, inPieces(BYTES), signal);
      const condemned = await collector.condemn();
      const completing = objects.completeUpload(upload, parts, signal).catch(() => undefined);
      await turns(random.below(MOST_TURNS));
      await collector.remove(condemned);
      // The wait before the second look is as long as servers need to end their requests.
      await completing;
      await collector.settle();
      expect(await objects.head(name, signal)).toBeUndefined();
    }
    expect(new Set(await scene.states())).toEqual(new Set(['gone']));
    expect(await scene.keys()).toEqual([]);
    console.info(
      `${collector.foundAgain} of ${ATTEMPTS} objects were there after they had been deleted (seed ${SEED})`,
    );
    await objects.close();
  });
});

/** Lets other work have its turn that many times. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await nextTurn();
}

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
