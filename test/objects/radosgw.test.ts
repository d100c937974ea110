import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ObjectStore } from '../../src/copies/object-store.ts';
import { ensureBucket, S3Store, s3Store } from '../../src/copies/s3-store.ts';
import type { S3Target } from '../../src/core/s3-target.ts';
import { seeded } from '../bench/seeded.ts';
import { startRadosgw, withoutRadosgw } from './servers/radosgw.ts';
import { type S3Server, targetAt } from './servers/s3-server.ts';
import {
  expectStoreContract,
  getBytes,
  inPieces,
  listed,
  listedNames,
  putBytes,
  signal,
} from './store-contract.ts';

const skipped = withoutRadosgw();
const MIB = 1024 * 1024;

let server: S3Server;
const stores: ObjectStore[] = [];

beforeAll(async () => {
  if (!skipped) server = await startRadosgw();
});

afterAll(async () => {
  for (const store of stores) await store.close();
  await server?.stop();
});

async function madeTarget(
  bucket: string,
  more: Partial<S3Target> = {},
  lock = false,
): Promise<S3Target> {
  const target = targetAt(server, bucket, more);
  await ensureBucket(target, signal, { lock });
  return target;
}

function opened(target: S3Target, options: Parameters<typeof s3Store>[1] = {}): ObjectStore {
  const store = s3Store(target, options);
  stores.push(store);
  return store;
}

describe.skipIf(skipped)('RadosGW', () => {
  test('stores objects, in one request and in parts', async () => {
    const target = await madeTarget('contract', { prefix: 'a.b/C_d' });
    const store = opened(target);
    expect(store.label).toBe('s3://contract/a.b/C_d');
    await expectStoreContract(store, 17 * MIB + 3);
    // Another prefix is another store.
    expect(await listed(opened(targetAt(server, 'contract', { prefix: 'a.b' })))).toEqual([]);
    const all = await listedNames(opened(targetAt(server, 'contract', { prefix: 'a.b/C_d/keys' })));
    expect(all).toEqual(['a/b']);
  });

  test('creates a bucket once, and names a bucket that is missing', async () => {
    const target = targetAt(server, 'created', { region: 'default' });
    expect(await ensureBucket(target, signal)).toBe(true);
    expect(await ensureBucket(target, signal)).toBe(false);
    const missing = opened(targetAt(server, 'missing'));
    const noBucket = { code: 'store-no-bucket', facts: { bucket: 'missing' } };
    await expect(putBytes(missing, 'a', 'x')).rejects.toMatchObject(noBucket);
    await expect(getBytes(missing, 'a')).rejects.toMatchObject(noBucket);
    await expect(listed(missing)).rejects.toMatchObject(noBucket);
    await expect(missing.delete('a', signal)).rejects.toMatchObject(noBucket);
    await expect(missing.abilities(signal)).rejects.toMatchObject(noBucket);
  });

  test('refuses wrong keys, and no error or label holds a secret', async () => {
    const secretAccessKey = 'wrong-secret-key';
    const sessionToken = 'secret-session-token';
    const wrong = opened(
      targetAt(server, 'created', {
        credentials: async () => ({ ...server, secretAccessKey, sessionToken }),
      }),
    );
    for (const act of [() => listed(wrong), () => putBytes(wrong, 'a', 'x')]) {
      const error: unknown = await act().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'store-access-denied', facts: { status: 403 } });
      expect(JSON.stringify([error, String(error)])).not.toContain('secret-');
    }
  });

  test('leaves nothing of what was tried', async () => {
    const store = opened(await madeTarget('tried'));
    expect(await store.abilities(signal)).toEqual({ keepsVersions: false, locks: false });
    expect(await listedNames(store)).toEqual([]);
  });

  test('keeps locks, which are read back, and deletes all versions of what is not locked', async () => {
    const store = opened(await madeTarget('locks', {}, true));
    expect(await store.abilities(signal)).toEqual({ keepsVersions: true, locks: true });
    const lockUntil = Date.now() + 3_600_000;
    const until = new Date(Math.ceil(lockUntil / 1000) * 1000).toISOString();
    const sizes = [3, 9 * MIB];
    for (const size of sizes) {
      const name = `data/locked-${size}`;
      await putBytes(store, name, Buffer.alloc(size), { lockUntil });
      const locked = { code: 'object-locked', facts: { name, until } };
      await expect(store.delete(name, signal)).rejects.toMatchObject(locked);
      expect(await store.head(name, signal)).toMatchObject({ length: size });
    }
    for (const text of ['1', '2', '3']) await putBytes(store, 'data/free', text);
    await putBytes(store, 'data/free-2', 'stays');
    await store.delete('data/free', signal);
    await putBytes(store, 'data/free', 'again');
    await store.delete('data/free', signal);
    expect(await store.head('data/free', signal)).toBeUndefined();
    expect((await getBytes(store, 'data/free-2')).toString()).toBe('stays');
    const names = await listedNames(store);
    expect(names).toEqual(['data/free-2', ...sizes.map((size) => `data/locked-${size}`).sort()]);
  });

  test('locks what is there, with all versions, and never for less long', async () => {
    const store = opened(await madeTarget('locked-later', { prefix: 'p' }, true));
    await expect(store.lock('data/a', Date.now() + 60_000, signal)).rejects.toMatchObject({
      code: 'object-missing',
      facts: { name: 'data/a' },
    });
    await putBytes(store, 'data/a', 'older');
    await putBytes(store, 'data/a', 'newer');
    await putBytes(store, 'data/ab', 'another');
    const late = Math.floor(Date.now() / 1000) * 1000 + 7_200_000;
    await store.lock('data/a', late, signal);
    await store.lock('data/a', late - 3_600_000, signal);
    const locked = { code: 'object-locked', facts: { until: new Date(late).toISOString() } };
    await expect(store.delete('data/a', signal)).rejects.toMatchObject(locked);
    const versions = await store.versions('data/a', signal);
    expect(versions).toHaveLength(2);
    const client = new S3Store(targetAt(server, 'locked-later', { prefix: 'p' }));
    onTestFinished(() => client.close());
    for (const versionId of versions) {
      const query = { versionId };
      const request = { operation: 'HeadObject', method: 'HEAD', name: 'data/a', query } as const;
      const { headers } = await client.request(request, signal);
      expect(headers).toMatchObject({ 'x-amz-object-lock-mode': 'COMPLIANCE' });
      expect(Date.parse(String(headers['x-amz-object-lock-retain-until-date']))).toBe(late);
    }
    await store.delete('data/ab', signal);
  });

  test('does not lock in a bucket without Object Lock', async () => {
    const store = opened(await madeTarget('unlocked'));
    const put = putBytes(store, 'data/a', 'x', { lockUntil: Date.now() + 60_000 });
    await expect(put).rejects.toMatchObject({ code: 'store-unable', facts: { ability: 'lock' } });
    const lock = store.lock('data/a', Date.now() + 60_000, signal);
    await expect(lock).rejects.toMatchObject({ code: 'store-unable', facts: { ability: 'lock' } });
    expect(await listed(store)).toEqual([]);
  });

  test('takes uploads whose parts are sent one act at a time, under names with dots', async () => {
    const target = await madeTarget('uploads', { prefix: 'p' });
    const retries = { attempts: 2, firstWaitMs: 1, longestWaitMs: 1, budgetMs: 60_000 };
    const store = s3Store(target, { partBytes: 5 * MIB, retries });
    const client = new S3Store(target);
    stores.push(store);
    onTestFinished(() => client.close());
    const unfinished = async () => (await client.unfinishedUploads('', signal)).length;
    for (const [i, length] of [1, 5 * MIB, 11 * MIB + 7].entries()) {
      const name = `fleet-1/s/0000000001.${i}/1-40.7.aa.seg`;
      const bytes = seeded('uploads', i).bytes(length);
      const upload = await store.beginUpload(name, { 'mailkeep-sha256': 'aa' }, signal);
      expect(upload.name).toBe(name);
      const parts = await store.sendParts(upload, length, inPieces(bytes), signal);
      expect(parts).toHaveLength(Math.max(1, Math.ceil(length / (5 * MIB))));
      expect([await store.head(name, signal), await unfinished()]).toEqual([undefined, 1]);
      await store.completeUpload(upload, parts, signal);
      expect((await getBytes(store, name)).equals(bytes)).toBe(true);
      const request = { operation: 'HeadObject', method: 'HEAD', name } as const;
      const { headers } = await client.request(request, signal);
      expect(headers['x-amz-meta-mailkeep-sha256']).toBe('aa');
    }
    // What has a dot in its name may be somebody else's: whoever lists removes what nobody knows.
    expect(await listedNames(store, 'fleet-1/')).toEqual([]);

    // One that was given up cannot be completed, whatever was sent before and comes after.
    const upload = await store.beginUpload('fleet-1/c/given-up', {}, signal);
    const parts = await store.sendParts(upload, 3, inPieces(Buffer.from('abc')), signal);
    await store.giveUpUpload(upload, signal);
    await store.giveUpUpload(upload, signal);
    const late = store.sendParts(upload, 3, inPieces(Buffer.from('abc')), signal);
    await expect(late).rejects.toMatchObject({ facts: { answer: 'NoSuchUpload' } });
    // Some versions of Ceph say InternalError where they mean NoSuchUpload.
    await expect(store.completeUpload(upload, parts, signal)).rejects.toMatchObject({
      code: expect.stringMatching(/^store-(?:refused|busy)$/),
      facts: { operation: 'CompleteMultipartUpload' },
    });
    expect(await store.head('fleet-1/c/given-up', signal)).toBeUndefined();
    expect(await unfinished()).toBe(0);
    await expect(store.beginUpload('a/../b', {}, signal)).rejects.toThrow('no name of an object');
  });

  test('lists more than one page, in order', async () => {
    const store = opened(await madeTarget('pages', { prefix: 'p' }));
    const names = Array.from({ length: 1_205 }, (_, i) => `data/${i.toString(16)}`);
    for (let at = 0; at < names.length; at += 12) {
      await Promise.all(names.slice(at, at + 12).map((name) => putBytes(store, name, name)));
    }
    expect(await listedNames(store, 'data/')).toEqual(names.sort());
    expect(await listedNames(store, 'data/4a')).toEqual(
      names.filter((name) => name.startsWith('data/4a')),
    );
  });
});
