import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { attentionOf } from '../../../src/fleet/attention.ts';
import { changeState } from '../../../src/registry/accounts.ts';
import { fleetNumbers } from '../../../src/registry/numbers.ts';
import { replicationOf } from '../../../src/registry/reading.ts';
import { drainNode } from '../../../src/registry/sessions.ts';
import { fleetStatus } from '../../../src/registry/status.ts';
import {
  claimed,
  committedBatches,
  done,
  newArchive,
  newSession,
  upload,
} from '../../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../../registry/servers/postgres.ts';
import { FLEET } from '../servers/scene.ts';
import { Place } from './place.ts';

const skipped = withoutPostgres();
let server: Postgres;
let place: Place;

beforeAll(async () => {
  if (!skipped) server = await Postgres.startOwn();
});
beforeEach(async () => {
  if (skipped) return;
  place = await Place.ready(server);
  // Two and a half hours after the commits of these tests.
  place.now = () => Date.UTC(2026, 0, 1, 2, 30);
});
afterEach(() => place?.remove());
afterAll(() => server?.stop());

/** Two workers, a dead one, and something of everything. */
async function fleet(): Promise<void> {
  const { registry } = place;
  const archives: number[] = [];
  for (const name of ['anna', 'ben', 'carl', 'dora', 'emil']) {
    archives.push(await newArchive(registry, name));
  }
  const [anna = 0, ben = 0, carl = 0, dora = 0] = archives;
  const [first, second, dead] = [
    await newSession(registry, 'n1'),
    await newSession(registry, 'n2'),
    await newSession(registry, 'n3'),
  ];
  const { lease, head } = await claimed(registry, first, anna);
  await committedBatches(registry, lease, head, 2);
  for (const key of ['a', 'b', 'c']) await upload(registry, lease, 'chunk', key);
  await claimed(registry, second, ben);
  await claimed(registry, dead, carl);
  await claimed(registry, first, dora);
  done(await changeState(registry, dora, ['active'], 'paused'));
  await drainNode(registry, 'n2');
  const changes = [
    sql`UPDATE worker SET egress = CASE node WHEN 'n1' THEN '192.0.2.1' ELSE node END`,
    sql`UPDATE worker SET lease_until = clock_timestamp() - '10 d'::interval WHERE node = 'n3'`,
    sql`UPDATE object SET state = 'live', bytes = 1500 WHERE key = 'a'`,
    sql`UPDATE object SET state = 'swept', condemned_at = clock_timestamp() WHERE key = 'b'`,
    sql`UPDATE archive SET tail_since = clock_timestamp() - '3 days'::interval WHERE id = ${anna}`,
    sql`INSERT INTO purge (archive, purges, number, commits, records, decided_at)
      VALUES (${anna}, 1, 2, '{2}', '[]', clock_timestamp() - '5 d'::interval),
        (${dora}, 1, 2, '{2}', '[]', clock_timestamp() - '3 d'::interval),
        (${ben}, 1, 2, '{2}', '[]', clock_timestamp() - '4 d'::interval)`,
    sql`INSERT INTO cache VALUES (${anna}, 'n9', gen_random_uuid()), (${anna}, 'n8', gen_random_uuid())`,
    sql`INSERT INTO struck_node VALUES ('n7', clock_timestamp() - '6 d'::interval, 3)`,
    sql`UPDATE archive SET holder = NULL WHERE id = ${ben}`,
  ];
  for (const change of changes) await registry.statement('test', change);
}

describe.skipIf(skipped)('mailkeep fleet status', () => {
  test('has the numbers that each node asks for once a minute', async () => {
    await fleet();
    const { registry } = place;
    const all = await fleetStatus(registry, { staleBefore: 0, most: 10 });
    const numbers = await fleetNumbers(registry);
    const steady = (sessions: typeof all.sessions) =>
      sessions.map(({ overMs: _, ...session }) => session);
    expect(steady(numbers.sessions)).toEqual(steady(all.sessions));
    const counts = (accounts: typeof all.accounts) =>
      Object.fromEntries(
        Object.entries(Object.groupBy(accounts, ({ state, holding }) => `${state} ${holding}`)).map(
          ([key, some = []]) => [key, some.reduce((sum, { count }) => sum + count, 0)],
        ),
      );
    expect(counts(numbers.accounts)).toEqual(counts(all.accounts));
    expect(numbers.tail).toMatchObject({ bytes: all.tail.bytes, archives: all.tail.archives });
    expect(numbers.tail.oldest?.name).toBe(all.tail.oldest?.name);
    const objects = (some: typeof numbers.objects) =>
      Object.fromEntries(some.map(({ state, count }) => [state, count]));
    expect(objects(numbers.objects)).toEqual(objects(all.objects));
    expect(numbers.purges.unfinished).toBe(all.purges.unfinished);
    expect(numbers.purges.oldest[0]?.name).toBe(all.purges.oldest[0]?.name);
    const replication = await replicationOf(registry);
    const codes = (of: Parameters<typeof attentionOf>[0]) =>
      attentionOf(of, replication, false).map(({ code }) => code);
    expect(codes(numbers)).toEqual(codes(all));
  });

  test('shows a fleet to people, and what needs attention last', async () => {
    await fleet();
    const { code, stdout, stderr } = await place.run(['status', '--max-age', '2h']);
    expect([code, stderr]).toEqual([1, '']);
    expect(stdout.split('\n')).toEqual([
      `Fleet ${FLEET}: ${place.registry.label}, s3://fleet/mail`,
      '',
      'Nodes:',
      '  n1: 2 of at most 10 accounts, requests from 192.0.2.1',
      '  n2: draining, 0 accounts left',
      '  n3: dead for 10 d, 1 account to be taken',
      'Accounts: 4 active (1 held, 2 free, 1 of dead sessions), 1 paused, 1 of these not let go of yet',
      'Last commits: the newest 2 h 30 min ago (anna, tenant tenant), the oldest 2 h 30 min ago (anna, tenant tenant); 3 accounts without a commit',
      'Commits in PostgreSQL: 14 B of 1 account, the oldest for 3 d (anna, tenant tenant)',
      'Objects: 1 in use (1.5 kB), 1 being uploaded, 1 deleted, to be confirmed',
      'Forgets that have not ended: 3',
      '  anna, tenant tenant: decided 5 d ago; it waits for 1 commit in PostgreSQL, 2 objects to be deleted, the disks of n8, n9 to be wiped',
      '  ben, tenant tenant: decided 4 d ago; it waits for a node to take the account, then the disk of n2 to be wiped',
      '  dora, tenant tenant: decided 3 d ago; it waits for the account to be resumed, then its holder to end it',
      'Node n7 was struck off 6 d ago (copies of 3 accounts)',
      'PostgreSQL: NO SYNCHRONOUS REPLICA',
      '',
      'ATTENTION: PostgreSQL has no synchronous replica: a failover takes back commits that were acknowledged. Set synchronous_standby_names, and synchronous_commit to on.',
      'ATTENTION: n3 has been dead for 10 d, and nobody took 1 account of it.',
      'ATTENTION: Commits of anna (tenant tenant) have been in PostgreSQL for 3 d; they should be in the bucket after a day. Check the worker that holds it and the bucket.',
      'ATTENTION: A forget of anna (tenant tenant) has not ended for 5 d: messages that were to be removed may still be somewhere.',
      'ATTENTION: 4 active accounts have no commit that is new enough for --max-age.',
      '',
    ]);
    const quiet = await place.run(['status', '--quiet']);
    expect(quiet.code).toBe(1);
    expect(quiet.stdout).toMatch(/^(?:ATTENTION: .*\n){4}$/);
  });

  test('has the same for programs', async () => {
    await fleet();
    const [status] = (await place.json(['status'], { code: 1 })) as [Record<string, unknown>];
    expect(status).toMatchObject({
      ...{ fleet: FLEET, store: 's3://fleet/mail', withoutCommits: 3 },
      sessions: [
        { node: 'n1', accounts: 2, draining: false, dead: false, capacity: 10 },
        { node: 'n2', draining: true },
        { node: 'n3', dead: true, accounts: 1 },
      ],
      accounts: [
        { state: 'active', holding: 'dead', count: 1 },
        { state: 'active', holding: 'free', count: 2 },
        { state: 'active', holding: 'held', count: 1 },
        { state: 'paused', holding: 'held', count: 1 },
      ],
      newestCommit: { account: 'anna', tenant: 'tenant', at: '2026-01-01T00:00:00.000Z' },
      tail: { accounts: 1, bytes: 14, oldest: { account: 'anna' } },
      forgets: {
        unfinished: 3,
        oldest: [
          { account: 'anna', held: true, waitsFor: { tail: 1, objects: 2, nodes: ['n8', 'n9'] } },
          { account: 'ben', held: false, waitsFor: { nodes: ['n2'] } },
          { account: 'dora', state: 'paused' },
        ],
      },
      replication: { synchronous: false, failedOverSeconds: null },
      struckNodes: [{ node: 'n7', accounts: 3 }],
    });
    expect((status.attention as { code: string }[]).map(({ code }) => code)).toEqual([
      ...['not-synchronous', 'orphaned', 'tail-old', 'forget-old'],
    ]);
  });

  test('ends with 0, and is silent if that is wanted, where nothing needs attention', async () => {
    const { registry, database } = place;
    const archive = await newArchive(registry, 'anna');
    await claimed(registry, await newSession(registry, 'n1'), archive);
    await replicated('ANY 1 (*)', database);
    try {
      const status = await place.run(['status']);
      expect([status.code, status.stderr]).toEqual([0, '']);
      expect(status.stdout.split('\n').slice(2)).toEqual([
        'Nodes:',
        '  n1: 1 of at most 10 accounts, requests from 192.0.2.1',
        'Accounts: 1 active (1 held)',
        'Commits in PostgreSQL: none',
        'Objects: none',
        'PostgreSQL: with a synchronous replica',
        '',
      ]);
      expect(await place.run(['status', '--quiet'])).toEqual({ code: 0, stdout: '', stderr: '' });
      expect((await place.run(['status', '--max-age', '1h'])).code).toBe(1);
    } finally {
      await replicated('', database);
    }
  });

  test('an empty fleet without workers lacks a replica only', async () => {
    const status = await place.run(['status']);
    expect(status.code).toBe(1);
    expect(status.stdout.split('\n').slice(2, -2)).toEqual([
      'Nodes: no worker is running',
      'Accounts: 0 active (0 held)',
      'Commits in PostgreSQL: none',
      'Objects: none',
      'PostgreSQL: NO SYNCHRONOUS REPLICA',
      '',
    ]);
  });
});

/** Lets the server wait for replicas, which there are none of: nothing may be written until it is taken back. */
async function replicated(names: string, database: string): Promise<void> {
  await server.admin('postgres', async (client) => {
    await client.query(
      names === ''
        ? 'ALTER SYSTEM RESET synchronous_standby_names'
        : `ALTER SYSTEM SET synchronous_standby_names = '${names}'`,
    );
    await client.query('SELECT pg_reload_conf()');
  });
  // New connections have it once the server has read its settings again.
  const current = () =>
    server.admin(database, async (client) => {
      const { rows } = await client.query<{ found: string }>(
        `SELECT current_setting('synchronous_standby_names') AS found`,
      );
      return rows[0]?.found;
    });
  while ((await current()) !== names) await delay(10);
}
