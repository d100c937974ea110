import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ObjectStore } from '../../src/copies/object-store.ts';
import { ensureBucket, S3Store, s3Store } from '../../src/copies/s3-store.ts';
import type { S3Target } from '../../src/core/s3-target.ts';
import { seeded } from '../bench/seeded.ts';
import { type HttpFault, randomHttpFault } from './servers/http-faults.ts';
import { HttpProxy } from './servers/http-proxy.ts';
import { ImpatientClock, LIMITS } from './servers/impatient-clock.ts';
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
  if (skipped) return;
  server = await startRadosgw();
  await ensureBucket(targetAt(server, BUCKET), signal);
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

/** More by hand. */
const SEEDS = Number(process.env.MAILKEEP_S3_SEEDS ?? '6');
const FIRST = Number(process.env.MAILKEEP_SEED ?? '1');
const PART = 5 * 1024 * 1024;
const BUCKET = 'faults';

interface Faulty {
  readonly proxy: HttpProxy;
  readonly clock: ImpatientClock;
  readonly store: ObjectStore;
  /** The same place, without the proxy. */
  readonly direct: ObjectStore;
  /** Names of objects whose parts are there, but not the object. */
  unfinished(): Promise<string[]>;
}

async function faulty(prefix: string, random = () => 0.5, abandonedMs?: number): Promise<Faulty> {
  const proxy = await HttpProxy.start(server.port);
  const clock = new ImpatientClock();
  proxy.onSilence = () => clock.expire();
  const options = {
    ...{ clock, random, timeouts: LIMITS, partBytes: PART },
    ...(abandonedMs === undefined ? {} : { abandonedMs }),
  };
  const store = s3Store(targetAt(server, BUCKET, { prefix, port: proxy.port }), options);
  const direct = s3Store(targetAt(server, BUCKET, { prefix }));
  const client = new S3Store(targetAt(server, BUCKET, { prefix }));
  const unfinished = async () =>
    (await client.unfinishedUploads('', signal)).map(({ name }) => name);
  onTestFinished(async () => {
    await store.close();
    await direct.close();
    await client.close();
    await proxy.stop();
  });
  return { proxy, clock, store, direct, unfinished };
}

/** One fault for the first request that fits. */
function once(proxy: HttpProxy, fits: RegExp, fault: HttpFault): void {
  let isDone = false;
  proxy.faultFor = (method, path) => {
    if (isDone || !fits.test(`${method} ${path}`)) return undefined;
    isDone = true;
    return fault;
  };
}

function faultsOf({ proxy }: Faulty): HttpFault['do'][] {
  return proxy.seen.flatMap(({ fault }) => (fault === undefined ? [] : [fault.do]));
}

describe.skipIf(skipped)('with faults on the way', () => {
  test.each(Array.from({ length: SEEDS }, (_, i) => FIRST + i))(
    'everything arrives once and complete: seed %i',
    async (seed) => {
      const random = seeded('s3-faults', seed);
      const { proxy, store, direct, unfinished } = await faulty(`seed-${seed}`, () =>
        random.next(),
      );
      let inARow = 0;
      proxy.faultFor = () => {
        const fault = inARow < 4 ? randomHttpFault(random) : undefined;
        inARow = fault === undefined ? 0 : inARow + 1;
        return fault;
      };
      const expected = new Map<string, Buffer>();
      const lengths = [0, 1 + random.below(100_000), PART + random.below(PART), 2 * PART];
      for (const [i, length] of lengths.entries()) {
        const bytes = random.bytes(length);
        await putBytes(store, `data/${i}`, bytes);
        expected.set(`data/${i}`, bytes);
        const key = random.bytes(40);
        await putBytes(store, `keys/${i}`, key);
        expected.set(`keys/${i}`, key);
      }
      await store.delete('keys/1', signal);
      expected.delete('keys/1');
      expect(await listedNames(store)).toEqual([...expected.keys()].sort());
      expect(await listedNames(direct)).toEqual([...expected.keys()].sort());
      for (const [name, bytes] of expected) {
        expect((await getBytes(store, name)).equals(bytes)).toBe(true);
        expect((await getBytes(direct, name)).equals(bytes)).toBe(true);
        expect(await store.head(name, signal)).toMatchObject({ length: bytes.length });
      }
      expect(await unfinished()).toEqual([]);
    },
  );

  test('parts are complete if the acknowledgement of that is lost', async () => {
    const here = await faulty('parts');
    const bytes = seeded('parts').bytes(PART + 5);
    once(here.proxy, /^POST .*uploadId/, { do: 'lose-answer' });
    await putBytes(here.store, 'data/a', bytes);
    expect(here.proxy.seen.map(({ method }) => method)).toEqual([
      ...['GET', 'POST', 'PUT', 'PUT', 'POST', 'POST'],
      ...here.proxy.seen.slice(6).map(() => 'HEAD'),
    ]);
    expect((await getBytes(here.direct, 'data/a')).equals(bytes)).toBe(true);
  });

  test('a failed upload leaves no parts', async () => {
    const here = await faulty('failed');
    const source = async function* () {
      yield* inPieces(Buffer.alloc(PART + 1));
      throw new Error('the source broke');
    };
    const put = here.store.put('data/a', PART + 2, source(), { signal });
    await expect(put).rejects.toThrow('the source broke');
    expect(await here.unfinished()).toEqual([]);
    expect(await here.direct.head('data/a', signal)).toBeUndefined();
  });

  test('parts of a process that ended are swept', async () => {
    const here = await faulty('swept');
    here.proxy.faultFor = (method) => (method === 'DELETE' ? { do: 'cut-before' } : undefined);
    const put = here.store.put('data/a', 2 * PART, inPieces(Buffer.alloc(PART + 1)), { signal });
    await expect(put).rejects.toMatchObject({ code: 'object-length' });
    expect(await here.unfinished()).toEqual(['data/a']);
    // Another program's, in the same bucket.
    const others = here.store.put('others/image', 2 * PART, inPieces(Buffer.alloc(PART + 1)), {
      signal,
    });
    await expect(others).rejects.toMatchObject({ code: 'object-length' });
    await putBytes(here.direct, 'data/b', Buffer.alloc(9_000_000));
    // It may be of another process that is still at it.
    expect(await here.unfinished()).toEqual(['data/a', 'others/image']);
    const later = await faulty('swept', undefined, 0);
    await putBytes(later.store, 'data/c', Buffer.alloc(PART + 1));
    expect(await here.unfinished()).toEqual(['others/image']);
    expect(await listedNames(here.direct)).toEqual(['data/b', 'data/c']);
  });

  test('a download continues where it stopped, and only with the same object', async () => {
    const here = await faulty('continued');
    const bytes = seeded('continued').bytes(3_000_000);
    await putBytes(here.direct, 'data/a', bytes);
    let cuts = 0;
    here.proxy.faultFor = () => (cuts++ < 20 ? { do: 'cut-answer', part: 0.3 } : undefined);
    // Each try gets further, so there may be more of them than of tries that get nowhere.
    expect((await getBytes(here.store, 'data/a')).equals(bytes)).toBe(true);
    expect(faultsOf(here).length).toBe(20);

    once(here.proxy, /GET/, { do: 'cut-answer', part: 0.5 });
    const reading = here.store.get('data/a', { signal })[Symbol.asyncIterator]();
    await reading.next();
    await putBytes(here.direct, 'data/a', seeded('other').bytes(3_000_000));
    const rest = async () => {
      while ((await reading.next()).done !== true);
    };
    await expect(rest()).rejects.toMatchObject({ code: 'object-changed' });
  });

  test('patience ends, with the number of tries and the reason', async () => {
    const here = await faulty('impatient');
    here.proxy.faultFor = () => ({ do: 'answer', status: 503, code: 'SlowDown' });
    await expect(putBytes(here.store, 'data/a', 'x')).rejects.toMatchObject({
      code: 'store-busy',
      retryable: true,
      facts: { store: 's3://faults/impatient', status: 503, answer: 'SlowDown', tries: 8 },
    });
    expect(here.proxy.seen).toHaveLength(8);
    // The server asked for a second each time; jitter is half of the bound here.
    expect(here.clock.waited).toBe(1000 + 1000 + 1000 + 2000 + 4000 + 8000 + 15_000);
    here.proxy.faultFor = () => ({ do: 'silence' });
    await expect(here.store.head('data/a', signal)).rejects.toMatchObject({
      code: 'store-unreachable',
      facts: { reason: 'ETIMEDOUT', tries: 8 },
    });
    await here.proxy.stop();
    await expect(getBytes(here.store, 'data/a')).rejects.toMatchObject({
      code: 'store-unreachable',
      facts: { reason: 'ECONNREFUSED', tries: 8 },
    });
  });

  test('where versions may not be listed, there are none', async () => {
    const here = await faulty('versions');
    await putBytes(here.direct, 'data/a', 'x');
    here.proxy.faultFor = () => ({ do: 'answer', status: 403, code: 'AccessDenied' });
    expect(await here.store.versions('data/a', signal)).toEqual([]);
  });

  test('an aborted signal ends what is under way, with its reason', async () => {
    const here = await faulty('aborted');
    const controller = new AbortController();
    here.proxy.faultFor = () => ({ do: 'silence' });
    here.proxy.onSilence = () => controller.abort(new Error('stopped'));
    await expect(here.store.head('data/a', controller.signal)).rejects.toThrow('stopped');
    expect(here.proxy.seen).toHaveLength(1);
  });

  test('what is refused for good is not tried again', async () => {
    const here = await faulty('refused');
    once(here.proxy, /PUT/, { do: 'answer', status: 400, code: 'InvalidArgument' });
    await expect(putBytes(here.store, 'data/a', 'x')).rejects.toMatchObject({
      code: 'store-refused',
      retryable: false,
      facts: { operation: 'PutObject', status: 400, answer: 'InvalidArgument' },
    });
    once(here.proxy, /PUT/, { do: 'answer', status: 507, code: '' });
    await expect(putBytes(here.store, 'data/a', 'x')).rejects.toMatchObject({
      code: 'store-full',
      family: 'disk',
      retryable: false,
    });
    once(here.proxy, /PUT/, { do: 'answer', status: 307, code: 'TemporaryRedirect' });
    await expect(putBytes(here.store, 'data/a', 'x')).rejects.toMatchObject({
      code: 'store-redirects',
    });
    expect(here.proxy.seen).toHaveLength(3);
  });
});
