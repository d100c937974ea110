import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { s3Store } from '../../src/copies/s3-store.ts';
import { uploadObject } from '../../src/fleet/uploads.ts';
import { register } from '../../src/registry/uploads.ts';
import { seeded } from '../bench/seeded.ts';
import { targetAt } from '../objects/servers/s3-server.ts';
import { inPieces, signal } from '../objects/store-contract.ts';
import { done } from '../registry/servers/fleet.ts';
import { Collector } from './servers/collector.ts';
import { chunkOf, coverFirst, uploadAndCover } from './servers/new-object.ts';
import { before, REQUESTS, STEPS } from './servers/requests.ts';
import { Scene, type Servers, startServers, withoutServers } from './servers/scene.ts';

const skipped = withoutServers();
/** More by hand. */
const ATTEMPTS = Number(process.env.MAILKEEP_ABORTS ?? '60');
/** Of the event loop, until an upload that is being completed is given up. */
const MOST_TURNS = Number(process.env.MAILKEEP_TURNS ?? '200');
const SEED = process.env.MAILKEEP_SEED ?? '1';
const BYTES = seeded('an object').bytes(10_000);

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

async function thrownBy(act: Promise<unknown>): Promise<unknown> {
  return act.then(
    (result) => new Error(`it did not fail: ${JSON.stringify(result)}`),
    (error: unknown) => error,
  );
}

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
    before(scene, 'part', () => scene.collector.sweep());
    const uploading = uploadAndCover(scene, chunkOf(scene, BYTES));
    await expect(uploading).rejects.toMatchObject({ facts: { answer: 'NoSuchUpload' } });
    expect(await scene.states()).toEqual(['swept']);
    await scene.expectCollected();
  });

  test.each(['Complete', 'GET'] as const)(
    'may take an upload for abandoned before %s: it gets another name',
    async (step) => {
      before(scene, step, () => scene.collector.sweep());
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

describe.skipIf(skipped)('a part that arrives while its upload is given up', () => {
  test('is gone when the object is', async () => {
    const { held, direct, collector } = scene;
    const random = seeded('parts', SEED);
    let left = 0;
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const name = scene.names.chunk(1, { first: 1, last: 2 }, attempt);
      const upload = await direct.objects.beginUpload(name, {}, signal);
      const row = { key: name, kind: 'chunk', uploadId: upload.uploadId, purges: 0 } as const;
      done(await register(direct.registry, held.lease, row));
      const condemned = await collector.condemn();
      const sending = direct.objects
        .sendParts(upload, BYTES.length, inPieces(BYTES), signal)
        .catch(() => undefined);
      await turns(random.below(MOST_TURNS));
      await collector.remove(condemned);
      await sending;
      left += (await scene.unfinishedWithBytes()).length;
      await collector.settle();
      expect(await scene.unfinished()).toEqual([]);
    }
    expect(new Set(await scene.states())).toEqual(new Set(['gone']));
    console.info(`${left} of ${ATTEMPTS} parts were there after they had been given up`);
  });
});

/** Lets other work have its turn that many times. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await nextTurn();
}
