import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ObjectStore } from '../../src/copies/object-store.ts';
import { ensureBucket, S3Store, s3Store } from '../../src/copies/s3-store.ts';
import type { S3Target } from '../../src/core/s3-target.ts';
import { HttpProxy } from './servers/http-proxy.ts';
import { type S3Server, targetAt } from './servers/s3-server.ts';
import { startSwift, withoutSwift } from './servers/swift.ts';
import { expectStoreContract, inPieces, listed, putBytes, signal } from './store-contract.ts';

const skipped = withoutSwift();
const MIB = 1024 * 1024;
let server: S3Server | undefined;

beforeAll(async () => {
  if (!skipped) server = await startSwift();
});

afterAll(async () => {
  await server?.stop();
});

async function madeTarget(bucket: string): Promise<S3Target> {
  if (server === undefined) throw new Error('there is no server');
  const target = targetAt(server, bucket, { prefix: 'p' });
  expect(await ensureBucket(target, signal, { lock: true })).toBe(true);
  expect(await ensureBucket(target, signal, { lock: true })).toBe(false);
  return target;
}

function opened(target: S3Target): ObjectStore {
  const store = s3Store(target);
  onTestFinished(() => store.close());
  return store;
}

describe.skipIf(skipped)('Swift', () => {
  test('stores objects, in one request and in parts', async () => {
    await expectStoreContract(opened(await madeTarget('contract')), 9 * MIB + 3);
  });

  test('has neither versions nor locks, and nothing is left of what was tried', async () => {
    const store = opened(await madeTarget('tried'));
    expect(await store.abilities(signal)).toEqual({ keepsVersions: false, locks: false });
    expect(await listed(store)).toEqual([]);
  });

  test('answers 200 to a lock and keeps none: nothing is stored as locked', async () => {
    const target = await madeTarget('locks');
    const store = opened(target);
    const lockUntil = Date.now() + 60_000;
    await expect(putBytes(store, 'data/a', 'x', { lockUntil })).rejects.toMatchObject({
      code: 'store-unable',
      facts: { ability: 'lock' },
    });
    expect(await listed(store)).toEqual([]);
    // Without trying first: the lock is read back.
    const client = new S3Store(target);
    onTestFinished(() => client.close());
    const write = client.writeObject('data/a', 1, inPieces(Buffer.from('x')), {
      signal,
      lockUntil,
    });
    await expect(write).rejects.toMatchObject({
      code: 'object-lock-dropped',
      facts: { found: null },
    });
    await store.delete('data/a', signal);
  });

  test('is not believed if it says that it locks', async () => {
    const target = await madeTarget('promises');
    const proxy = await HttpProxy.start(server?.port ?? 0);
    onTestFinished(() => proxy.stop());
    proxy.faultFor = (_method, path) =>
      path.includes('object-lock')
        ? {
            do: 'answer-with',
            body: '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>',
          }
        : undefined;
    const store = opened({ ...target, endpoint: `http://127.0.0.1:${proxy.port}` });
    expect(await store.abilities(signal)).toMatchObject({ locks: false });
    expect(await listed(store)).toEqual([]);
    const put = putBytes(store, 'data/a', 'x', { lockUntil: Date.now() + 60_000 });
    await expect(put).rejects.toMatchObject({ code: 'store-unable', facts: { ability: 'lock' } });
  });
});
