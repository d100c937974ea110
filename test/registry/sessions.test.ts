import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  condemn,
  condemnAbandoned,
  markGone,
  sweep,
  sweepAgain,
} from '../../src/registry/collection.ts';
import { commit } from '../../src/registry/commits.ts';
import { initFleet, noteFailover } from '../../src/registry/fleet.ts';
import { claim, enterCache, leaveCache, release, resolve } from '../../src/registry/leases.ts';
import { objectsToCollect, replicationOf, type WaitingObject } from '../../src/registry/reading.ts';
import type { Registry } from '../../src/registry/registry.ts';
import {
  drainSession,
  endSession,
  markDead,
  removeSessions,
  renew,
  strikeNode,
} from '../../src/registry/sessions.ts';
import {
  AT_ONCE,
  batchAfter,
  claimed,
  committedBatches,
  done,
  newArchive,
  newSession,
  upload,
} from './servers/fleet.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';

const skipped = withoutPostgres();
let server: Postgres;
let registry: Registry;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
afterAll(async () => {
  await server?.stop();
});
beforeEach(async () => {
  if (!skipped) registry = await server.open(await server.create());
});

describe.skipIf(skipped)('PostgreSQL', () => {
  test('a dead session loses its archives, and what waits longest is claimed first', async () => {
    const [a, b] = [await newSession(registry, 'a', -1), await newSession(registry, 'b')];
    const [first, second, third] = [
      await newArchive(registry, 'one'),
      await newArchive(registry, 'two'),
      await newArchive(registry, 'three'),
    ];
    const held = await claimed(registry, a, second);
    await committedBatches(registry, held.lease, held.head, 1);
    const claims = { session: b, most: 2, catalogVersion: 1 };
    const taken = async () =>
      done(await claim(registry, claims)).claimed.map(({ head }) => [head.archive, head.epoch]);
    expect(await taken()).toEqual([
      [first, 1],
      [third, 1],
    ]);
    expect(await taken()).toEqual([]);
    expect(await markDead(registry)).toEqual([a]);
    expect(await markDead(registry)).toEqual([]);
    expect(await renew(registry, a, 1_000)).toMatchObject({ by: 'session' });
    // Its row stays while the archive names it.
    expect(await removeSessions(registry, 0)).toEqual([]);
    expect(await taken()).toEqual([[second, 2]]);
    expect(await removeSessions(registry, 3_600_000)).toEqual([]);
    expect(await removeSessions(registry, 0)).toEqual([a]);
    expect(done(await renew(registry, b, 60_000))).toMatchObject({
      egress: '192.0.2.1',
      draining: false,
    });
    done(await drainSession(registry, b));
    expect(done(await renew(registry, b, 60_000))).toMatchObject({ draining: true });
    expect(await claim(registry, claims)).toMatchObject({ by: 'session' });
  });

  test('of archives that can be claimed, the oldest tail comes first', async () => {
    const session = await newSession(registry, 'a');
    const archives: number[] = [];
    for (const name of ['one', 'two', 'three']) archives.push(await newArchive(registry, name));
    const [one = 0, two = 0, three = 0] = archives;
    for (const archive of [three, two]) {
      const { lease, head } = await claimed(registry, session, archive);
      await committedBatches(registry, lease, head, 1);
      done(await release(registry, lease));
    }
    const order: number[] = [];
    for (let at = 0; at < 3; at += 1) {
      const options = { session, most: 1, catalogVersion: 1 };
      const { claimed: taken } = done(await claim(registry, options));
      order.push(...taken.map(({ head }) => head.archive));
    }
    expect(order).toEqual([three, two, one]);
  });

  test('an unknown outcome is resolved by a new epoch', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease, head } = await claimed(registry, session, archive);
    const { head: resolved } = done(await resolve(registry, lease));
    expect(resolved).toEqual({ ...head, epoch: 2 });
    expect(await commit(registry, lease, batchAfter(head))).toMatchObject({
      outcome: 'fenced',
      by: 'lease',
      head: { epoch: 2, headNumber: 0 },
    });
    done(await commit(registry, { ...lease, epoch: 2 }, batchAfter(head)));
  });

  test('a node that claimed again stays in the cache, however late its earlier leaving arrives', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const first = await claimed(registry, session, archive);
    done(await release(registry, first.lease));
    const second = await claimed(registry, session, archive);
    const leaving = { archive, node: 'a' };
    expect(await leaveCache(registry, { ...leaving, entry: first.entry })).toMatchObject({
      by: 'entry',
    });
    done(await leaveCache(registry, { ...leaving, entry: second.entry }));
    const { entry } = done(await enterCache(registry, second.lease));
    expect(await leaveCache(registry, { ...leaving, entry: second.entry })).toMatchObject({
      by: 'entry',
    });
    expect(await strikeNode(registry, 'a')).toMatchObject({ by: 'session' });
    done(await endSession(registry, session));
    expect(done(await strikeNode(registry, 'a')).archives).toEqual([archive]);
    expect(await leaveCache(registry, { ...leaving, entry })).toMatchObject({ by: 'entry' });
  });

  test('objects that cannot be deleted do not hide those that came after them', async () => {
    const session = await newSession(registry, 'a');
    const { lease } = await claimed(registry, session, await newArchive(registry, 'anna'));
    const keys = ['c/4', 'c/3', 'c/1', 'c/2', 'c/5'];
    for (const key of keys) await upload(registry, lease, 'chunk', key);
    // Two of the same moment, and moments that are no whole millisecond.
    await registry.statement(
      'test',
      sql`UPDATE object SET state = 'condemned', condemned_at = clock_timestamp(), begun_at = CASE key
        WHEN 'c/4' THEN timestamptz '2026-01-01 00:00:00.0000015Z' WHEN 'c/5' THEN clock_timestamp()
        ELSE timestamptz '2026-01-01 00:00:00.000009Z' END`,
    );
    const found: string[] = [];
    let last: WaitingObject | undefined;
    do {
      const page: readonly WaitingObject[] = await objectsToCollect(registry, AT_ONCE, 2, last);
      found.push(...page.map(({ key }) => key));
      last = page.at(-1);
    } while (last !== undefined && found.length <= keys.length);
    expect(found).toEqual(['c/4', 'c/1', 'c/2', 'c/3', 'c/5']);
  });

  test('an object that turns up again is swept again, and a look from before counts for nothing', async () => {
    const session = await newSession(registry, 'a');
    const archive = await newArchive(registry, 'anna');
    const { lease } = await claimed(registry, session, archive);
    for (const key of ['c/1', 'c/2', 'c/3']) await upload(registry, lease, 'chunk', key);
    expect(await condemnAbandoned(registry, 3_600_000, 10)).toEqual([]);
    expect(await condemnAbandoned(registry, 0, 2)).toEqual(['c/1', 'c/2']);
    done(await condemn(registry, 'c/3'));
    expect(await condemn(registry, 'c/3')).toMatchObject({ by: 'object', object: 'condemned' });
    const { sweptAt } = done(await sweep(registry, 'c/1'));
    expect(await markGone(registry, 'c/1', sweptAt, 3_600_000)).toMatchObject({ object: 'swept' });
    const again = done(await sweepAgain(registry, 'c/1', sweptAt));
    expect(await markGone(registry, 'c/1', sweptAt, 0)).toMatchObject({ object: 'swept' });
    expect((await objectsToCollect(registry, AT_ONCE, 1))[0]).toMatchObject({
      key: 'c/1',
      state: 'swept',
      sweptAt: again.sweptAt,
    });
    done(await markGone(registry, 'c/1', again.sweptAt, 0));
    expect(await objectsToCollect(registry, AT_ONCE, 9)).toHaveLength(2);
    // What was condemned a moment ago may be taken back by a failover.
    expect(await objectsToCollect(registry, { graceMs: 3_600_000, settleMs: 0 }, 9)).toEqual([]);
  });

  test('a failover is seen by the timeline of the server, once', async () => {
    const facts = { id: randomUUID(), bucket: 'b', archiveFormat: 1, catalogVersion: 1 };
    await initFleet(registry, facts);
    expect(await noteFailover(registry)).toBe(false);
    expect(await replicationOf(registry)).toEqual({
      isSynchronous: false,
      failedOverMs: undefined,
    });
    await registry.statement('test', sql`UPDATE fleet SET timeline = timeline + 1`);
    expect(await noteFailover(registry)).toBe(true);
    expect(await noteFailover(registry)).toBe(false);
    expect((await replicationOf(registry)).failedOverMs).toBeGreaterThanOrEqual(0);
  });
});
