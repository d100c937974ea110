import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { MailkeepError } from '../../src/core/errors.ts';
import { Claims } from '../../src/fleet/claims.ts';
import { WorkerSession } from '../../src/fleet/session.ts';
import { commit } from '../../src/registry/commits.ts';
import { release } from '../../src/registry/leases.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { drainSession, markDead } from '../../src/registry/sessions.ts';
import { FakeClock } from '../limiter/fake-clock.ts';
import { CuttingProxy } from '../registry/servers/cutting-proxy.ts';
import { batchAfter, done, newArchive } from '../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../registry/servers/postgres.ts';

const skipped = withoutPostgres();
const HOUR_MS = 3_600_000;
let server: Postgres;
let database: string;
let registry: Registry;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
afterAll(async () => {
  await server?.stop();
});
beforeEach(async () => {
  if (skipped) return;
  database = await server.create();
  registry = await server.open(database);
});

/** A session whose lease lasts as long as the test, and whose clock the test moves. */
async function begun(through = registry, leaseMs = HOUR_MS) {
  const clock = new FakeClock();
  const failures: MailkeepError[] = [];
  const session = await WorkerSession.begin({
    registry: through,
    worker: { node: 'a', address: 'a:1', egress: '192.0.2.1', program: 1, capacity: 10 },
    clock,
    monotonic: clock.now,
    times: { leaseMs, renewMs: 10_000, politeMs: 20_000 },
    onFailure: (error) => failures.push(error),
  });
  return { session, clock, failures };
}

/** A connection through a proxy that can cut it. */
async function throughProxy(): Promise<{ proxy: CuttingProxy; through: Registry }> {
  const proxy = await CuttingProxy.start(server.socket);
  return { proxy, through: await server.open(database, {}, proxy.folder) };
}

async function leaseOf(session: string): Promise<Date> {
  return server.admin(database, async (client) => {
    const { rows } = await client.query('SELECT lease_until FROM worker WHERE session = $1', [
      session,
    ]);
    return rows[0].lease_until;
  });
}

describe.skipIf(skipped)('PostgreSQL', () => {
  test('a session renews its row whenever its clock says so, and is polite meanwhile', async () => {
    const { session, clock, failures } = await begun();
    const before = await leaseOf(session.id);
    await clock.advance(10_000);
    await session.renewNow();
    expect((await leaseOf(session.id)).getTime()).toBeGreaterThan(before.getTime());
    expect(clock.timers).toBe(1);
    expect([session.isPolite, session.dead.aborted, failures]).toEqual([true, false, []]);
    await session.end();
    expect([session.isPolite, session.dead.aborted, clock.timers]).toEqual([false, true, 0]);
    expect(await markDead(registry)).toEqual([]);
  });

  test('a session that cannot renew stops being polite before its lease ends, and recovers', async () => {
    const { proxy, through } = await throughProxy();
    const { session, clock, failures } = await begun(through);
    clock.set(clock.now() + 19_999);
    expect(session.isPolite).toBe(true);
    proxy.cutNext('UPDATE worker SET lease_until', 'before');
    await session.renewNow();
    clock.set(clock.now() + 1);
    expect(failures).toMatchObject([{ code: 'outcome-unknown' }]);
    expect([session.isPolite, session.dead.aborted]).toEqual([false, false]);
    await session.renewNow();
    expect(session.isPolite).toBe(true);
    await session.end();
    await proxy.stop();
  });

  test('a renewal counts from when it was asked for', async () => {
    const { proxy, through } = await throughProxy();
    const { session, clock } = await begun(through);
    const renewing = session.renewNow();
    clock.set(clock.now() + 20_000);
    await renewing;
    expect(session.isPolite).toBe(false);
    await session.end();
    await proxy.stop();
  });

  test('a session that was marked dead learns it with its next renewal, and takes nothing more', async () => {
    const { session, clock } = await begun(registry, -1);
    const archive = await newArchive(registry, 'one');
    const claims = new Claims(registry, session.id, 1);
    expect(await markDead(registry)).toEqual([session.id]);
    await session.renewNow();
    expect([session.dead.aborted, session.isPolite, clock.timers]).toEqual([true, false, 0]);
    expect(await claims.take({ most: 1, archive })).toEqual([]);
    await session.end();
  });

  test('a session that is to drain claims nothing, and says so', async () => {
    const { session } = await begun();
    await newArchive(registry, 'one');
    done(await drainSession(registry, session.id));
    await session.renewNow();
    expect(session.isDraining).toBe(true);
    expect(await new Claims(registry, session.id, 1).take({ most: 5 })).toEqual([]);
    await session.end();
  });

  test('archives of a dead session are taken; those of a living one are not', async () => {
    const [dying, living, third] = [await begun(registry, -1), await begun(), await begun()];
    const [one, two] = [await newArchive(registry, 'one'), await newArchive(registry, 'two')];
    const taken = await new Claims(registry, living.session.id, 1).take({ most: 1, archive: two });
    expect(taken.map(({ head }) => head.archive)).toEqual([two]);
    // What it claims by itself would mark it dead first.
    await server.admin(database, async (client) => {
      await client.query('UPDATE archive SET holder = $1, epoch = 7 WHERE id = $2', [
        dying.session.id,
        one,
      ]);
    });
    const claimed = await new Claims(registry, third.session.id, 1).take({ most: 5 });
    expect(claimed.map(({ head }) => [head.archive, head.epoch])).toEqual([[one, 8]]);
    for (const { session } of [dying, living, third]) await session.end();
  });

  test.each(['after', 'held'] as const)(
    'a claim whose answer is lost (%s) is found by comparing, under another epoch',
    async (how) => {
      const { proxy, through } = await throughProxy();
      const { session } = await begun(through);
      const archive = await newArchive(registry, 'one');
      const claims = new Claims(through, session.id, 1);
      proxy.cutNext('commit\0', how);
      const first = await claims.take({ most: 1 });
      if (how === 'held') {
        expect(first).toEqual([]);
        // The server gives up a transaction whose connection ended, so nothing arrives late.
        await proxy.deliver();
      }
      await proxy.answered();
      const found = [...first, ...(await claims.take({ most: 1 }))];
      expect(found.map(({ head }) => [head.archive, head.holder])).toEqual([[archive, session.id]]);
      const [{ head, entry } = { head: undefined, entry: '' }] = found;
      expect(entry).not.toBe('');
      if (head === undefined) throw new Error('nothing was taken');
      const lease = { archive, epoch: head.epoch, session: session.id };
      const early = { ...lease, epoch: head.epoch - 1 };
      expect((await commit(registry, early, batchAfter(head))).outcome).toBe('fenced');
      done(await commit(registry, lease, batchAfter(head)));
      expect(await claims.take({ most: 1 })).toEqual([]);
      await session.end();
      await proxy.stop();
    },
  );

  test('what a failed comparison kept from being returned is taken by the next', async () => {
    const { proxy, through } = await throughProxy();
    const { session } = await begun(through);
    const archive = await newArchive(registry, 'one');
    const claims = new Claims(through, session.id, 1);
    proxy.cutNext('WHERE holder =', 'before');
    await expect(claims.take({ most: 1 })).rejects.toMatchObject({ code: 'registry-unreachable' });
    const [taken] = await claims.take({ most: 1 });
    expect(taken?.head.archive).toBe(archive);
    await session.end();
    await proxy.stop();
  });

  test('an archive that was given back can be taken again, by two claims at once only one time', async () => {
    const { session } = await begun();
    const archive = await newArchive(registry, 'one');
    const claims = new Claims(registry, session.id, 1);
    const both = await Promise.all([
      claims.take({ most: 1, archive }),
      claims.take({ most: 1, archive }),
    ]);
    expect(both.flat().map(({ head }) => head.epoch)).toEqual([1]);
    done(await release(registry, { archive, epoch: 1, session: session.id }));
    claims.letGo(archive);
    expect((await claims.take({ most: 1 })).map(({ head }) => head.epoch)).toEqual([2]);
    await session.end();
  });
});
