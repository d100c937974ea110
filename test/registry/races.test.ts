import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { claim } from '../../src/registry/leases.ts';
import type { Lease, Outcome } from '../../src/registry/outcome.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { endSession, markDead } from '../../src/registry/sessions.ts';
import { type Actor, actors, expectTruth, History } from './servers/actors.ts';
import { claimed, done, newArchive, newSession, Rows } from './servers/fleet.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { newScene, type Scene, type Transaction } from './zombies/scene.ts';

const skipped = withoutPostgres();
const SEED = Number(process.env.MAILKEEP_SEED ?? Math.floor(Math.random() * 2 ** 31));
const HISTORIES = Number(process.env.MAILKEEP_REGISTRY_HISTORIES ?? 2);
const STEPS = 60;

let server: Postgres;
let database: string;
let registry: Registry;
let admin: Client;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
afterAll(async () => {
  await server?.stop();
});

describe.skipIf(skipped)('one transaction waits for the row that another writes', () => {
  let scene: Scene;
  let rows: Rows;

  beforeAll(async () => {
    if (skipped) return;
    database = await server.create();
    registry = await server.open(database, { connections: 6 });
    scene = await newScene(registry);
    admin = await server.connect(database);
    rows = await Rows.keep(await server.connect(database));
  });
  beforeEach(async () => {
    await rows?.restore();
  });
  afterEach(async () => {
    // What a test that failed left open would stop all others.
    await admin?.query('ROLLBACK');
  });

  const FIRST = ['commit', 'decidePurge', 'roll', 'resolve', 'release'] as const;
  const SECOND = [
    ...FIRST,
    ...(['register', 'coverChunk', 'coverSegment', 'putSnapshot', 'saveMemory'] as const),
    'enterCache',
  ] as const;
  const pairs = FIRST.flatMap((first) => SECOND.map((second) => [first, second] as const));
  const kindOf = ({ outcome, ...rest }: Outcome) =>
    'by' in rest ? `${outcome} by ${rest.by}` : outcome;

  test.each(pairs)('%s, then %s: as if one came after the other', async (first, second) => {
    const send = (name: Transaction) => scene.send[name](scene.lease);
    const expected = [kindOf(await send(first)), kindOf(await send(second))];
    await rows.restore();
    await admin.query('BEGIN');
    await admin.query('SELECT 1 FROM archive FOR UPDATE');
    const one = send(first);
    await server.waiting(database, 1);
    const two = send(second);
    await server.waiting(database, 2);
    await admin.query('COMMIT');
    expect([kindOf(await one), kindOf(await two)]).toEqual(expected);
  });

  test.each(SECOND)('a takeover, then %s of the old holder: refused', async (name) => {
    done(await endSession(registry, scene.lease.session));
    // The claim has the row when it comes to the cache.
    await admin.query('BEGIN');
    await admin.query('LOCK TABLE cache IN SHARE MODE');
    const takeover = claimed(registry, scene.other, scene.archive);
    await server.waiting(database, 1);
    const late = scene.send[name](scene.lease);
    await server.waiting(database, 2);
    await admin.query('COMMIT');
    expect((await takeover).lease).toMatchObject({ epoch: scene.lease.epoch + 1 });
    expect(await late).toMatchObject({ outcome: 'fenced', by: 'lease' });
  });

  test('a commit has the row when a takeover comes: it is left alone, and then taken with that commit', async () => {
    done(await endSession(registry, scene.lease.session));
    await admin.query('BEGIN');
    await admin.query('SELECT 1 FROM archive FOR UPDATE');
    const commit = scene.send.commit(scene.lease);
    await server.waiting(database, 1);
    const claims = { session: scene.other, most: 1, catalogVersion: 1 };
    expect(done(await claim(registry, claims)).claimed).toEqual([]);
    await admin.query('COMMIT');
    expect(await commit).toMatchObject({ outcome: 'committed' });
    const [taken] = done(await claim(registry, claims)).claimed;
    expect(taken?.head.headNumber).toBe(scene.head.headNumber + 1);
  });
});

describe.skipIf(skipped)('several workers at the same time', () => {
  beforeAll(async () => {
    if (skipped) return;
    database = await server.create();
    registry = await server.open(database, { connections: 12 });
    admin = await server.connect(database);
  });

  test('each archive of a dead session is claimed by one of them', async () => {
    const dead = await newSession(registry, 'dead', -1);
    const names = Array.from({ length: 30 }, (_, at) => `archive ${at}`);
    const archives: number[] = [];
    for (const name of names) archives.push(await newArchive(registry, name));
    await claim(registry, { session: dead, most: 20, catalogVersion: 1 });
    await Promise.all([1, 2, 3].map(() => markDead(registry)));
    const living = await Promise.all(['a', 'b', 'c'].map((node) => newSession(registry, node)));
    const taken: Lease[] = [];
    // Rows that another has at that moment are left out, so that a second round may find some.
    while (taken.length < archives.length) {
      const outcomes = await Promise.all(
        living.map((session) => claim(registry, { session, most: 4, catalogVersion: 1 })),
      );
      for (const [at, outcome] of outcomes.entries()) {
        for (const { head } of done(outcome).claimed) {
          const { archive, epoch } = head;
          taken.push({ archive, epoch, session: living[at] ?? '' });
        }
      }
    }
    expect(taken.map(({ archive }) => archive).toSorted((a, b) => a - b)).toEqual(archives);
    expect(taken.filter(({ epoch }) => epoch === 2)).toHaveLength(20);
  });

  test.each(Array.from({ length: HISTORIES }, (_, at) => SEED + at))(
    'a random history (MAILKEEP_SEED=%i): acknowledged commits stay, refused ones never appear',
    async (seed) => {
      console.log(`registry history: seed ${seed}`);
      const archive = await newArchive(registry, `history ${seed}`);
      const history = new History(archive);
      const workers: readonly Actor[] = actors(registry, history, seed, 3);
      await Promise.all(workers.map((worker) => worker.act(STEPS)));
      await expectTruth(registry, history);
    },
  );
});
