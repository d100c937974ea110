import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { objectError } from '../../src/copies/errors.ts';
import type { Upload, UploadingStore } from '../../src/copies/object-store.ts';
import { ensureBucket, s3Store } from '../../src/copies/s3-store.ts';
import {
  COLLECTOR_LIMITS,
  type CollectableStore,
  collectRound,
} from '../../src/fleet/collector.ts';
import { condemn, markGone } from '../../src/registry/collection.ts';
import { initFleet } from '../../src/registry/fleet.ts';
import type { Lease } from '../../src/registry/outcome.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { register } from '../../src/registry/uploads.ts';
import { ImpatientClock, LIMITS } from '../objects/servers/impatient-clock.ts';
import { startRadosgw, withoutRadosgw } from '../objects/servers/radosgw.ts';
import { type S3Server, targetAt } from '../objects/servers/s3-server.ts';
import { signal } from '../objects/store-contract.ts';
import { claimed, done, newArchive, newSession } from '../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../registry/servers/postgres.ts';

const skipped = [withoutPostgres(), withoutRadosgw()].includes(true);
const FLEET = { id: '00000000-0000-4000-8000-000000000001', bucket: 'collected' };
/** Nothing is waited for. */
const AT_ONCE = { ...COLLECTOR_LIMITS, settleMs: 0, unreplicatedMs: 0, failoverMs: 0, page: 2 };

let postgres: Postgres;
let gateway: S3Server;
let store: UploadingStore;
let registry: Registry;
let lease: Lease;

beforeAll(async () => {
  if (skipped) return;
  [postgres, gateway] = await Promise.all([Postgres.start(), startRadosgw()]);
  const target = targetAt(gateway, FLEET.bucket);
  await ensureBucket(target, signal, { lock: false });
  store = s3Store(target, { clock: new ImpatientClock(), timeouts: LIMITS });
});
afterAll(async () => {
  await store?.close();
  await Promise.all([gateway?.stop(), postgres?.stop()]);
});
beforeEach(async () => {
  if (skipped) return;
  registry = await postgres.open(await postgres.create());
  await initFleet(registry, { ...FLEET, archiveFormat: 1, catalogVersion: 1 });
  ({ lease } = await claimed(
    registry,
    await newSession(registry, 'a'),
    await newArchive(registry, 'anna'),
  ));
});

async function* bytes(): AsyncGenerator<Buffer> {
  yield Buffer.from('the bytes of an object');
}
const LENGTH = 22;

/** Begins an upload and registers it; `complete` makes an object of it. */
async function begun(name: string): Promise<Upload & { complete: () => Promise<void> }> {
  const upload = await store.beginUpload(name, {}, signal);
  const { uploadId } = upload;
  done(await register(registry, lease, { key: name, kind: 'chunk', uploadId, purges: 0 }));
  const parts = await store.sendParts(upload, LENGTH, bytes(), signal);
  return { ...upload, complete: () => store.completeUpload(upload, parts, signal) };
}

async function states(): Promise<Record<string, string>> {
  const rows = await registry.read<{ key: string; state: string }>(
    'test',
    sql`SELECT key, state FROM object ORDER BY key`,
  );
  return Object.fromEntries(rows.map(({ key, state }) => [key, state]));
}

const collect = (limits = AT_ONCE, through: CollectableStore = store) =>
  collectRound(registry, through, signal, limits);

describe.skipIf(skipped)('PostgreSQL and RadosGW', () => {
  test('what was condemned is deleted, and gone once it was looked for again', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      const upload = await begun(`round/${name}`);
      await upload.complete();
      if (name !== 'e') done(await condemn(registry, upload.name));
    }
    expect(await collect()).toEqual({
      ...{ abandoned: 0, swept: 4, gone: 0, returned: 0, locked: 0, failures: [] },
    });
    expect(await store.head('round/a', signal)).toBeUndefined();
    expect(await collect()).toMatchObject({ swept: 0, gone: 4 });
    expect(await collect()).toMatchObject({ swept: 0, gone: 0 });
    expect(Object.values(await states())).toEqual(['gone', 'gone', 'gone', 'gone', 'uploading']);
    expect(await store.head('round/e', signal)).toMatchObject({ length: LENGTH });
  });

  test('an upload that nobody finished is condemned, and cannot be completed any more', async () => {
    const upload = await begun('left');
    expect(await collect()).toMatchObject({ abandoned: 0, swept: 0 });
    expect(await collect({ ...AT_ONCE, abandonedMs: 0 })).toMatchObject({ abandoned: 1, swept: 1 });
    // RadosGW says that it is broken, others that they do not know the upload.
    await expect(upload.complete()).rejects.toMatchObject({
      code: expect.stringMatching(/^store-(?:busy|refused)$/),
    });
    expect(await collect()).toMatchObject({ gone: 1 });
    expect(await store.head('left', signal)).toBeUndefined();
  });

  test('an object that turns up after its deletion is deleted again, and looked for once more', async () => {
    const name = 'late/1';
    const first = await begun(name);
    await first.complete();
    done(await condemn(registry, name));
    expect(await collect()).toMatchObject({ swept: 1 });
    // As if the store had been completing it meanwhile.
    const late = await store.beginUpload(name, {}, signal);
    const parts = await store.sendParts(late, LENGTH, bytes(), signal);
    await store.completeUpload(late, parts, signal);
    expect(await collect()).toMatchObject({ gone: 0, returned: 1 });
    expect(await states()).toEqual({ [name]: 'swept' });
    expect(await collect()).toMatchObject({ gone: 1 });
    expect(await store.head(name, signal)).toBeUndefined();
  });

  test('next to an upload that is being completed, nothing is gone that is still there', async () => {
    const names = Array.from({ length: 40 }, (_, at) => `race/${at}`);
    for (const name of names) {
      const upload = await begun(name);
      done(await condemn(registry, name));
      // Who wins is up to the gateway.
      await Promise.allSettled([upload.complete(), collect()]);
    }
    const found = new Set<string>();
    for (let round = 0; round < 5; round += 1) {
      await collect();
      for (const [name, state] of Object.entries(await states())) {
        const there = (await store.head(name, signal)) !== undefined;
        if (there) found.add(name);
        expect([name, state === 'gone' && there]).toEqual([name, false]);
      }
    }
    expect(new Set(Object.values(await states()))).toEqual(new Set(['gone']));
    process.stdout.write(`${found.size} of ${names.length} were there after the first deletion\n`);
  });

  test('what a failover may take back waits an hour, and a day after a failover', async () => {
    const upload = await begun('waits');
    await upload.complete();
    done(await condemn(registry, 'waits'));
    const condemnedAgo = (hours: number) =>
      registry.statement(
        'test',
        sql`UPDATE object SET condemned_at = clock_timestamp() - make_interval(hours => ${hours}::int)`,
      );
    expect(await collect(COLLECTOR_LIMITS)).toMatchObject({ swept: 0 });
    await condemnedAgo(2);
    await registry.statement('test', sql`UPDATE fleet SET timeline = timeline + 1`);
    expect(await collect(COLLECTOR_LIMITS)).toMatchObject({ swept: 0 });
    await condemnedAgo(25);
    expect(await collect(COLLECTOR_LIMITS)).toMatchObject({ swept: 1, gone: 0 });
    // It has to settle.
    expect(await collect(COLLECTOR_LIMITS)).toMatchObject({ swept: 0, gone: 0 });
  });

  test('an object that cannot be deleted does not keep the others; a lock is no failure', async () => {
    for (const name of ['kept/1', 'kept/2', 'kept/3']) {
      await begun(name);
      done(await condemn(registry, name));
    }
    const refusing: CollectableStore = {
      giveUpUpload: (upload, until) => store.giveUpUpload(upload, until),
      head: (name, until) => store.head(name, until),
      async delete(name, until) {
        const facts = { store: store.label, name };
        if (name === 'kept/1') throw objectError('object-locked', { ...facts, until: null });
        if (name === 'kept/2') throw objectError('object-changed', facts);
        await store.delete(name, until);
      },
    };
    const collected = await collect(AT_ONCE, refusing);
    expect(collected).toMatchObject({ swept: 1, locked: 1 });
    expect(collected.failures).toMatchObject([
      { key: 'kept/2', error: { code: 'object-changed' } },
    ]);
    expect(await states()).toMatchObject({ 'kept/1': 'condemned', 'kept/2': 'condemned' });
    expect(await collect()).toMatchObject({ swept: 2, gone: 1 });
  });

  test('two collectors at once end as one does', async () => {
    for (let at = 0; at < 6; at += 1) {
      await begun(`both/${at}`);
      done(await condemn(registry, `both/${at}`));
    }
    const rounds = [...(await Promise.all([collect(), collect()])), await collect()];
    const sum = (what: 'gone' | 'swept') => rounds.reduce((total, one) => total + one[what], 0);
    expect([sum('swept'), rounds.flatMap(({ failures }) => failures)]).toEqual([6, []]);
    await collect();
    expect(new Set(Object.values(await states()))).toEqual(new Set(['gone']));
    expect(await markGone(registry, 'both/1', 'now', 0)).toMatchObject({ object: 'gone' });
  });
});
