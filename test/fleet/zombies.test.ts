import { randomUUID } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { release } from '../../src/fleet/claims.ts';
import type { Lease, RefusedBy } from '../../src/fleet/outcomes.ts';
import { createFleet } from '../../src/fleet/schema.ts';
import { endSession } from '../../src/fleet/sessions.ts';
import { sourceFiles } from '../architecture/source-tree.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { Rows } from './servers/rows.ts';
import { claimed, done, FENCED, newScene, type Scene, statement } from './servers/scene.ts';

/** Names of the scene's other transactions: tests are listed before the scene exists. */
const NAMES = {
  ...{ claim: 0, renew: 0, endSession: 0, wiped: 0, ranAhead: 0, sweep: 0, 'sweep again': 0 },
  ...{ markGone: 0, moveShard: 0, changeAccount: 0, addAccounts: 0, putSecret: 0 },
  ...{ revokeGrant: 0, removeNode: 0, recoverShard: 0, redeemLink: 0, updateAccount: 0 },
};

const skipped = withoutPostgres();
let server: Postgres;
let database: string;
let scene: Scene;
let rows: Rows;

beforeAll(async () => {
  if (skipped) return;
  server = await Postgres.start();
  database = await server.create();
  const registry = await server.open(database);
  await createFleet(registry, { id: randomUUID(), bucket: 's3://mail/fleet' });
  scene = await newScene(registry);
  rows = await Rows.keep(await server.connect(database));
});
beforeEach(async () => {
  if (!skipped) await rows.restore();
});
afterAll(async () => {
  await server?.stop();
});

const change = (query: (scene: Scene) => RawBuilder<unknown>) => (scene: Scene) =>
  statement(scene.registry, query(scene));

/** What happened before a transaction of a holder arrives, so that its sender is not the holder any more. */
const LOST: readonly {
  readonly zombie: string;
  readonly by: RefusedBy;
  readonly before?: (scene: Scene) => Promise<unknown>;
  readonly as?: (scene: Scene) => Partial<Lease>;
}[] = [
  {
    zombie: 'another session claimed the shard of a dead one',
    by: 'lease',
    before: async ({ registry, lease, other, shard }) => {
      done(await endSession(registry, lease.session));
      await claimed(registry, other, shard);
    },
  },
  {
    zombie: 'the shard was released',
    by: 'lease',
    before: ({ registry, lease }) => release(registry, lease).then(done),
  },
  {
    zombie: 'it was released and claimed by the same session',
    by: 'lease',
    before: async ({ registry, lease }) => {
      done(await release(registry, lease));
      await claimed(registry, lease.session, lease.shard);
    },
  },
  {
    zombie: 'a failover gave the epoch to another session',
    by: 'lease',
    before: change(({ other }) => sql`UPDATE shard SET holder = ${other}`),
  },
  {
    zombie: 'PostgreSQL was restored',
    by: 'timeline',
    before: change(() => sql`UPDATE shard SET timeline = 'another'`),
  },
  {
    zombie: 'PostgreSQL was restored and the shard recovered',
    by: 'lease',
    before: async (scene) => {
      await change(() => sql`UPDATE shard SET timeline = 'another'`)(scene);
      done((await scene.also.recoverShard?.()) ?? { outcome: 'refused', by: 'state' });
    },
  },
  { zombie: 'another living session', by: 'lease', as: ({ other }) => ({ session: other }) },
  { zombie: 'an unknown session', by: 'lease', as: () => ({ session: randomUUID() }) },
  { zombie: 'an earlier epoch', by: 'lease', as: ({ lease }) => ({ epoch: lease.epoch - 1 }) },
  { zombie: 'a later epoch', by: 'lease', as: ({ lease }) => ({ epoch: lease.epoch + 1 }) },
  { zombie: 'a shard that does not exist', by: 'lease', as: () => ({ shard: 99 }) },
];

/** Transactions that are refused in other circumstances, also to the holder. */
const OTHERS: readonly {
  readonly name: string;
  readonly zombie: string;
  readonly by: RefusedBy;
  readonly before?: (scene: Scene) => Promise<unknown>;
}[] = [
  ...['live', 'condemned', 'swept'].map((state) => ({
    name: 'ship',
    zombie: `an object is ${state === 'live' ? 'of another shard' : state}`,
    by: 'object' as const,
    before: change(() =>
      state === 'live'
        ? sql`WITH s AS (INSERT INTO shard (timeline, version) VALUES ('x', 1) RETURNING id)
            UPDATE object SET shard = (SELECT id FROM s) WHERE name = 'd/1'`
        : sql`UPDATE object SET state = ${state} WHERE name = 'd/2'`,
    ),
  })),
  {
    name: 'ship',
    zombie: 'an upload was never registered',
    by: 'object',
    before: change(() => sql`DELETE FROM object WHERE name = 'd/2'`),
  },
  {
    name: 'ship',
    zombie: 'another manifest was shipped since',
    by: 'manifest',
    before: change(() => sql`UPDATE shard SET manifest = 'm/other'`),
  },
  {
    name: 'ship',
    zombie: 'a later attempt was shipped since',
    by: 'manifest',
    before: change(() => sql`UPDATE shard SET sequence = 3`),
  },
  {
    name: 'ship',
    zombie: 'it is less clean than the current manifest',
    by: 'manifest',
    before: change(() => sql`UPDATE shard SET clean = 2, purges = 2`),
  },
  {
    name: 'ship',
    zombie: 'it is clean of a purge that nobody decided',
    by: 'manifest',
    before: change(() => sql`UPDATE shard SET purges = 0`),
  },
  {
    name: 'ship',
    zombie: 'its snapshot is older than the purge that it is clean of',
    by: 'purges',
    before: change(() => sql`UPDATE object SET purges = 0 WHERE name = 's/2'`),
  },
  {
    name: 'register',
    zombie: 'the name was registered before',
    by: 'object',
    before: change(
      ({ shard }) => sql`INSERT INTO object (name, shard, kind, upload_id, epoch, purges, bytes)
        VALUES ('d/new', ${shard}, 'tail', 'x', 1, 0, 1)`,
    ),
  },
  ...[
    ['renew', 'session'],
    ['endSession', 'session'],
  ].map(([name = '']) => ({
    name,
    zombie: 'its session is dead',
    by: 'session' as const,
    before: change(
      ({ lease }) => sql`UPDATE worker SET dead = true WHERE session = ${lease.session}`,
    ),
  })),
  ...['claim', 'wiped', 'ranAhead'].map((name) => ({
    name,
    zombie: 'its session is dead',
    by: 'session' as const,
    before: change(({ other }) => sql`UPDATE worker SET dead = true WHERE session = ${other}`),
  })),
  {
    name: 'claim',
    zombie: 'its session is draining',
    by: 'session',
    before: change(({ other }) => sql`UPDATE worker SET draining = true WHERE session = ${other}`),
  },
  { name: 'wiped', zombie: 'the node holds the shard', by: 'folder', before: heldByOther },
  {
    name: 'wiped',
    zombie: 'the node held the shard again since',
    by: 'folder',
    before: async (scene) => {
      const { lease } = await heldByOther(scene);
      done(await release(scene.registry, lease));
    },
  },
  {
    name: 'ranAhead',
    zombie: 'the node held the shard again since',
    by: 'folder',
    before: heldByOther,
  },
  {
    name: 'ranAhead',
    zombie: 'the folder was wiped',
    by: 'folder',
    before: change(() => sql`DELETE FROM folder WHERE node = 'b'`),
  },
  ...['sweep', 'sweep again', 'markGone'].map((name) => ({
    name,
    zombie: 'PostgreSQL was restored',
    by: 'object' as const,
    before: change(() => sql`UPDATE shard SET timeline = 'another'`),
  })),
  ...['sweep', 'sweep again', 'markGone'].map((name) => ({
    name,
    zombie: 'the object is live',
    by: 'object' as const,
    before: change(() => sql`UPDATE object SET state = 'live'`),
  })),
  ...['sweep again', 'markGone'].map((name) => ({
    name,
    zombie: 'somebody deleted it again since',
    by: 'object' as const,
    before: change(() => sql`UPDATE object SET swept_at = clock_timestamp() WHERE state = 'swept'`),
  })),
  {
    name: 'changeAccount',
    zombie: 'the account was removed since',
    by: 'state',
    before: change(() => sql`UPDATE account SET state = 'removed'`),
  },
  {
    name: 'updateAccount',
    zombie: 'the account was removed since',
    by: 'state',
    before: change(() => sql`UPDATE account SET state = 'removed'`),
  },
  {
    name: 'putSecret',
    zombie: 'the secret was replaced since',
    by: 'secret',
    before: change(() => sql`UPDATE secret SET nonce = '\\x00'`),
  },
  {
    name: 'removeNode',
    zombie: 'a session of the node lives',
    by: 'session',
    before: change(({ other }) => sql`UPDATE worker SET node = 'c' WHERE session = ${other}`),
  },
  { name: 'recoverShard', zombie: 'the timeline is current', by: 'state' },
];

async function heldByOther({ registry, lease, other, shard }: Scene) {
  done(await release(registry, lease));
  return claimed(registry, other, shard);
}

/** Makes a transaction possible that is not possible in the scene. */
const READY: Readonly<Record<string, (scene: Scene) => Promise<unknown>>> = {
  claim: ({ registry, lease }) => release(registry, lease).then(done),
  endPurges: async (scene) => {
    await change(() => sql`UPDATE shard SET clean = 1`)(scene);
    await change(() => sql`DELETE FROM object WHERE state <> 'live'`)(scene);
    await change(() => sql`DELETE FROM folder WHERE node = 'b'`)(scene);
  },
  recoverShard: change(() => sql`UPDATE shard SET timeline = 'another'`),
};

/** Sending them twice is no mistake: each of them is a new wish, or the second one finds nothing to do. */
const REPEATABLE = [
  'decidePurge',
  'reportFailure',
  'endPurges',
  'refreshSecret',
  'renew',
  'removeNode',
  'updateAccount',
];
/** They return what they did, and are never refused. */
const NEVER_REFUSED = [
  'abandon',
  'addGrant',
  'condemnAbandoned',
  'createFleet',
  'distrustShards',
  'importRegistry',
  'markDead',
  'recordUse',
  'removeHistory',
  'removeSessions',
  'setDraining',
];
/** A random id distinguishes them. */
const ONLY_BY_ID = ['beginSession', 'holdNewShard'];

const send = (name: string) => {
  const fenced = FENCED.find((one) => one === name);
  if (fenced !== undefined) return scene.send[fenced](scene.lease);
  const also = scene.also[name];
  if (also === undefined) throw new Error(`nothing sends ${name}`);
  return also();
};

/** Names of all functions that write to the registry. */
function transactions(): string[] {
  const helpers = ['structural', 'refusable'];
  return sourceFiles(['src'])
    .filter(({ file }) => file.startsWith('src/fleet/'))
    .flatMap(({ text }) =>
      [...text.matchAll(/^export async function (\w+)\([^{]*?registry: Registry[\s\S]*?^}/gm)]
        .filter(([body]) => /(?:structural|refusable|\.statement|\.transaction)[(<]/.test(body))
        .filter(([body]) => !body.includes("'repeatable read'"))
        .map(([, name = '']) => name),
    )
    .filter((name) => !helpers.includes(name));
}

describe.skipIf(skipped)('a transaction of a session that is not the holder', () => {
  const table = FENCED.flatMap((name) => LOST.map((lost) => ({ name, ...lost })));

  test.each(table)('$name: $zombie', async ({ name, by, before, as }) => {
    await before?.(scene);
    const kept = await rows.all();
    expect(await scene.send[name]({ ...scene.lease, ...as?.(scene) })).toEqual({
      ...{ outcome: 'refused', by },
    });
    expect(await rows.all()).toEqual(kept);
  });

  test.each(FENCED)('%s that waits while another session claims the shard', async (name) => {
    const client = await server.connect(database);
    await client.query('BEGIN');
    await client.query('UPDATE shard SET epoch = epoch + 1, holder = $1', [scene.other]);
    const answer = name === 'refreshSecret' ? undefined : scene.send[name](scene.lease);
    if (answer !== undefined) await server.waiting(database, 1);
    await client.query('COMMIT');
    const kept = await rows.all();
    expect(await (answer ?? scene.send[name](scene.lease))).toEqual({
      ...{ outcome: 'refused', by: 'lease' },
    });
    expect(await rows.all()).toEqual(kept);
  });
});

describe.skipIf(skipped)('a transaction that comes too late', () => {
  test.each(OTHERS)('$name: $zombie', async ({ name, by, before }) => {
    await before?.(scene);
    const kept = await rows.all();
    const answer = await send(name);
    expect(answer).toEqual({ outcome: 'refused', by });
    expect(await rows.all()).toEqual(kept);
  });

  const all = () => [...FENCED, ...Object.keys(NAMES)];
  test.each(all())('%s happens where nothing stands against it', async (name) => {
    await READY[name]?.(scene);
    const before = await rows.all();
    expect(await send(name)).toMatchObject({ outcome: 'committed' });
    expect(await rows.all()).not.toEqual(before);
  });

  test.each(all().filter((name) => !REPEATABLE.includes(name)))('%s: twice', async (name) => {
    await READY[name]?.(scene);
    done(await send(name));
    const kept = await rows.all();
    const { outcome } = await send(name);
    expect(outcome).toBe('refused');
    // A claim of nothing takes a version, and nothing else.
    const withoutVersion = (of: readonly string[]) => of.filter((row) => !row.startsWith('fleet '));
    expect(withoutVersion(await rows.all())).toEqual(withoutVersion(kept));
  });

  test('every transaction is sent here, or is never refused', () => {
    const sent = [...Object.keys(scene.send), ...Object.keys(scene.also)];
    const named = [...sent, ...NEVER_REFUSED, ...ONLY_BY_ID].filter(
      (name) => name !== 'sweep again',
    );
    expect(named.toSorted()).toEqual(transactions().toSorted());
    expect(named.length).toBeGreaterThan(30);
    expect(sent.filter((name) => !(FENCED as readonly string[]).includes(name)).toSorted()).toEqual(
      Object.keys(NAMES).toSorted(),
    );
  });
});
