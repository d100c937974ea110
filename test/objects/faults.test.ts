import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ObjectStore } from '../../src/copies/object-store.ts';
import { ensureBucket, S3Store, s3Store } from '../../src/copies/s3-store.ts';
import { seeded } from '../bench/seeded.ts';
import { type HttpFault, randomHttpFault } from './servers/http-faults.ts';
import { HttpProxy } from './servers/http-proxy.ts';
import { ImpatientClock, LIMITS } from './servers/impatient-clock.ts';
import { startRadosgw, withoutRadosgw } from './servers/radosgw.ts';
import { type S3Server, targetAt } from './servers/s3-server.ts';
import { getBytes, inPieces, listedNames, putBytes, signal } from './store-contract.ts';

const skipped = withoutRadosgw();
/** More by hand. */
const SEEDS = Number(process.env.MAILKEEP_S3_SEEDS ?? '6');
const FIRST = Number(process.env.MAILKEEP_SEED ?? '1');
const PART = 5 * 1024 * 1024;
const BUCKET = 'faults';

let server: S3Server | undefined;

beforeAll(async () => {
  if (skipped) return;
  server = await startRadosgw();
  await ensureBucket(targetAt(server, BUCKET), signal);
});

afterAll(async () => {
  await server?.stop();
});

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
  if (server === undefined) throw new Error('there is no server');
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
