import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { addAccounts, refreshSecret, secretsOf } from '../../src/fleet/accounts.ts';
import { holdNewShard } from '../../src/fleet/adopt.ts';
import {
  claim,
  moveShard,
  release,
  reportFailure,
  reportRecovery,
  shippedState,
} from '../../src/fleet/claims.ts';
import { addGrant, findGrant, revokeGrant } from '../../src/fleet/grants.ts';
import { FleetKeys } from '../../src/fleet/keys.ts';
import {
  condemnAbandoned,
  markGone,
  objectsToCollect,
  register,
  ship,
  sweep,
} from '../../src/fleet/objects.ts';
import { changesSince, findPurge } from '../../src/fleet/overview.ts';
import { openRegistry, type Registry } from '../../src/fleet/postgres.ts';
import { decidePurge, endPurges, removeNode, wiped } from '../../src/fleet/purges.ts';
import { recoverShard, shardsToRecover } from '../../src/fleet/recover.ts';
import { registryMark } from '../../src/fleet/registry-export.ts';
import { createFleet, requireFleet } from '../../src/fleet/schema.ts';
import {
  beginSession,
  endSession,
  markDead,
  removeHistory,
  renew,
} from '../../src/fleet/sessions.ts';
import { CuttingProxy } from './servers/cutting-proxy.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import {
  accountOf,
  claimed,
  DISK,
  done,
  manifestOf,
  newSession,
  newShard,
  secretOf,
  sha256,
  statement,
  uploadOf,
} from './servers/scene.ts';

const HOUR_MS = 3_600_000;
const AT_ONCE = { windowMs: 0, settleMs: 0, abandonedMs: 0 };
const PURGE = { reason: 'forgotten', work: Buffer.from('work'), askedBy: 'anna' } as const;

describe.skipIf(withoutPostgres())('the registry of a fleet', () => {
  let server: Postgres;
  let database: string;
  let registry: Registry;
  let a: string;
  let b: string;

  beforeAll(async () => {
    server = await Postgres.start();
  });
  beforeEach(async () => {
    database = await server.create();
    registry = await server.open(database);
    await createFleet(registry, { id: randomUUID(), bucket: 's3://mail/fleet' });
    a = await newSession(registry, 'a');
    b = await newSession(registry, 'b');
  });
  afterAll(async () => {
    await server?.stop();
  });

  const isClaimable = async (session: string, shard: number) =>
    done(await claim(registry, session, [shard])).claimed.length === 1;
  const shipped = async (shard: number) => {
    const { lease } = await claimed(registry, a, shard);
    done(await register(registry, lease, [uploadOf('m/1', 'manifest'), uploadOf('d/1', 'tail')]));
    done(await ship(registry, lease, manifestOf('m/1', null, ['d/1'])));
    return lease;
  };

  test('it is created once', async () => {
    const other = { id: randomUUID(), bucket: 's3://other' };
    const found = await createFleet(registry, other);
    expect(found).toMatchObject({ bucket: 's3://mail/fleet', isNew: false });
    expect(await requireFleet(registry)).toEqual({ id: found.id, bucket: found.bucket });
    const empty = await server.open(await server.create());
    await expect(requireFleet(empty)).rejects.toMatchObject({ code: 'registry-schema-older' });
    await statement(registry, sql`UPDATE fleet SET tables_version = 99`);
    await expect(requireFleet(registry)).rejects.toMatchObject({ code: 'registry-schema-newer' });
    await expect(createFleet(registry, other)).rejects.toMatchObject({
      code: 'registry-schema-newer',
    });
  });

  test('its user needs no privileges of an administrator', async () => {
    await server.admin(database, async (client) => {
      await client.query(`CREATE USER plain_${database}`);
      await client.query(`GRANT ALL ON ALL TABLES IN SCHEMA public TO plain_${database}`);
      await client.query(`GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO plain_${database}`);
    });
    const plain = await openRegistry({ ...server.target(database), user: `plain_${database}` });
    const { shard } = await newShard(plain, 'anna');
    expect(done(await claim(plain, a, [shard])).claimed).toHaveLength(1);
    await plain.close();
  });

  test('a claim takes what nobody holds, and returns what is shipped', async () => {
    const { shard } = await newShard(registry, 'anna');
    const lease = await shipped(shard);
    done(await decidePurge(registry, lease, PURGE));
    expect(await isClaimable(b, shard)).toBe(false);
    done(await endSession(registry, a));
    const { lease: next, ...found } = await claimed(registry, b, shard);
    expect(next).toEqual({ shard, epoch: 2, session: b });
    expect(found).toMatchObject({
      ...{ manifest: 'm/1', manifestSha256: sha256('m/1'), sequence: 1, commitNumber: 10 },
      ...{ clean: 0, purges: [{ number: 1, reason: 'forgotten', work: PURGE.work }] },
    });
    const { shards } = await changesSince(registry, -1);
    expect(shards).toMatchObject([{ shard, epoch: 2, holder: b }]);
    expect(await shippedState(registry, lease)).toEqual({ outcome: 'refused', by: 'lease' });
    expect(done(await shippedState(registry, next)).shipped.manifest).toBe('m/1');
  });

  test('a session is dead once it was marked, and never lives again', async () => {
    expect(await markDead(registry)).toEqual([]);
    await statement(
      registry,
      sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s'`,
    );
    // Late, but nobody has marked it.
    done(await renew(registry, b, HOUR_MS));
    expect(await markDead(registry)).toEqual([a]);
    expect(await renew(registry, a, HOUR_MS)).toEqual({ outcome: 'refused', by: 'session' });
  });

  test('a node has one disk, until it is removed', async () => {
    const begin = (disk: string) => {
      const session = randomUUID();
      const facts = { session, node: 'c', disk, address: 'c:1', program: 2, room: 9 };
      return beginSession(registry, facts, -1);
    };
    const other = randomUUID();
    done(await begin(DISK));
    expect(await begin(other)).toEqual({ outcome: 'refused', by: 'disk' });
    done(await begin(DISK));
    done(await removeNode(registry, 'c'));
    done(await begin(other));
  });

  test('tokens and events are removed once they are old', async () => {
    const keys = FleetKeys.parse(`key-1 ${'5a'.repeat(32)}\n`, 'test');
    const rights = { accounts: [1], mailboxes: null };
    const token = { use: 'token', tenant: null, name: 'x', rights } as const;
    const valid = await addGrant(registry, keys, { ...token, expiresAt: null });
    await addGrant(registry, keys, { ...token, expiresAt: new Date(0) });
    const revoked = await addGrant(registry, keys, { ...token, expiresAt: null });
    done(await revokeGrant(registry, revoked.id, 'anna'));
    await removeHistory(registry, { tokensMs: HOUR_MS, eventsMs: HOUR_MS });
    const rest = () =>
      statement<{ tokens: string[]; events: number }>(
        registry,
        sql`SELECT array_agg(id::text) AS tokens, (SELECT count(*) FROM event) AS events FROM token`,
      );
    const [kept] = await rest();
    expect(kept?.tokens.toSorted()).toEqual([valid.id, revoked.id].toSorted());
    expect(kept?.events).toBeGreaterThan(3);
    await removeHistory(registry, { tokensMs: 0, eventsMs: 0 });
    expect(await rest()).toEqual([{ tokens: [valid.id], events: 0 }]);
  });

  test('a shard moves to the node that is wanted', async () => {
    const { shard } = await newShard(registry, 'anna');
    done(await moveShard(registry, shard, 'b'));
    expect(await isClaimable(a, shard)).toBe(false);
    expect(await isClaimable(b, shard)).toBe(true);
    done(await endSession(registry, b));
    // The wish is fulfilled.
    expect(await isClaimable(a, shard)).toBe(true);
  });

  test('a shard avoids a node on which it failed, and stays where it fails for the same reason', async () => {
    const { shard } = await newShard(registry, 'anna');
    const { lease } = await claimed(registry, a, shard);
    expect(done(await reportFailure(registry, lease, 'disk-full', HOUR_MS)).isReleased).toBe(true);
    expect(await isClaimable(a, shard)).toBe(false);
    const { lease: second } = await claimed(registry, b, shard);
    expect(done(await reportFailure(registry, second, 'disk-full', HOUR_MS)).isReleased).toBe(
      false,
    );
    const { shards } = await changesSince(registry, -1);
    expect(shards).toMatchObject([{ holder: b, failing: { code: 'disk-full', node: 'b' } }]);
    expect(Object.keys(shards[0]?.avoid ?? {})).toEqual(['a', 'b']);
    done(await reportRecovery(registry, second));
    done(await release(registry, second));
    expect(await isClaimable(a, shard)).toBe(true);
  });

  test('another reason, or an hour later, moves a failing shard', async () => {
    const { shard } = await newShard(registry, 'anna');
    const { lease } = await claimed(registry, a, shard);
    done(await reportFailure(registry, lease, 'disk-full', HOUR_MS));
    const { lease: second } = await claimed(registry, b, shard);
    expect(done(await reportFailure(registry, second, 'no-key', 0)).isReleased).toBe(true);
    expect(await isClaimable(b, shard)).toBe(true);
  });

  test('versions become visible in order', async () => {
    const places = Array.from({ length: 8 }, (_, at) => at);
    const seen = new Set<string>();
    let version = -1;
    let isOver = false;
    const poll = async () => {
      while (!isOver) {
        const changes = await changesSince(registry, version);
        expect(changes.version).toBeGreaterThanOrEqual(version);
        version = changes.version;
        for (const { name } of changes.accounts) seen.add(name);
      }
    };
    const polling = poll();
    await Promise.all(
      places.map(async (at) => {
        const own = await server.open(database, { connections: 1 });
        for (const n of [1, 2, 3, 4]) await newShard(own, `account ${at} ${n}`);
      }),
    );
    isOver = true;
    await polling;
    for (const { name } of (await changesSince(registry, version)).accounts) seen.add(name);
    expect(seen.size).toBe(32);
    const { workers, accounts } = await changesSince(registry, -1);
    expect(workers).toHaveLength(2);
    expect(accounts).toHaveLength(32);
  });

  test('accounts are placed by how full shards are', async () => {
    const { shard } = await newShard(registry, 'anna');
    const sizes: unknown[] = [];
    const names = ['ben', 'carol', 'dora'].map((name) => accountOf(name));
    const { added } = done(
      await addAccounts(
        registry,
        names,
        (found) => {
          sizes.push(...found);
          return [shard, shard, { added: 0 }];
        },
        'operator',
      ),
    );
    expect(sizes).toEqual([{ shard, accounts: 1, messages: 0, catalogBytes: 0 }]);
    expect(added.map((one) => one.shard === shard)).toEqual([true, true, false]);
    const again = await addAccounts(
      registry,
      [accountOf('eve'), accountOf('ben')],
      () => [{ added: 0 }, { added: 1 }],
      'x',
    );
    expect(again).toEqual({ outcome: 'refused', by: 'name' });
    expect((await changesSince(registry, -1)).accounts).toHaveLength(4);
  });

  test('a ship condemns what the manifest no longer names', async () => {
    const { shard } = await newShard(registry, 'anna');
    const lease = await shipped(shard);
    done(await register(registry, lease, [uploadOf('m/2', 'manifest'), uploadOf('d/2', 'tail')]));
    done(await ship(registry, lease, manifestOf('m/2', 'm/1', ['d/2'])));
    const waits = { windowMs: HOUR_MS, settleMs: 0 };
    expect(await objectsToCollect(registry, waits, 10)).toEqual([]);
    const found = await objectsToCollect(registry, AT_ONCE, 10);
    expect(found.map(({ name }) => name)).toEqual(['d/1', 'm/1']);
    expect(await objectsToCollect(registry, AT_ONCE, 10, 'd/1')).toHaveLength(1);
    // A forget does not wait for the window.
    done(await decidePurge(registry, lease, PURGE));
    expect(await objectsToCollect(registry, waits, 10)).toHaveLength(2);
  });

  test('uploads that nobody finishes, or that are older than a shipped purge, are condemned', async () => {
    const { shard } = await newShard(registry, 'anna');
    const lease = await shipped(shard);
    const late = { abandonedMs: HOUR_MS };
    done(await register(registry, lease, [uploadOf('d/2', 'tail'), uploadOf('m/2', 'manifest')]));
    done(await decidePurge(registry, lease, PURGE));
    // A purge that waits, because a segment is damaged, stops no shipping.
    expect(await condemnAbandoned(registry, late, 10)).toBe(0);
    done(await ship(registry, lease, manifestOf('m/2', 'm/1', ['d/1'])));
    const clean = [uploadOf('m/3', 'manifest', 1), uploadOf('d/3', 'tail', 1)];
    done(await register(registry, lease, clean));
    done(await ship(registry, lease, manifestOf('m/3', 'm/2', ['d/3'], 1)));
    expect(await condemnAbandoned(registry, late, 10)).toBe(1);
    done(await register(registry, lease, [uploadOf('d/4', 'tail', 1)]));
    expect(await condemnAbandoned(registry, AT_ONCE, 10)).toBe(1);
  });

  test('a forget ends by counting', async () => {
    const { shard } = await newShard(registry, 'anna');
    const first = await claimed(registry, b, shard);
    done(await release(registry, first.lease));
    const lease = await shipped(shard);
    done(await decidePurge(registry, lease, PURGE));
    const progress = async () => done(await endPurges(registry, lease, false));
    const waiting = () => findPurge(registry, shard, 1);
    expect(await progress()).toMatchObject({ ended: [] });
    expect(await waiting()).toMatchObject({ isShipped: false, objects: 0, nodes: ['b'] });
    const clean = [uploadOf('m/2', 'manifest', 1), uploadOf('d/2', 'segment', 1)];
    done(await register(registry, lease, [...clean, uploadOf('d/late', 'tail')]));
    done(await ship(registry, lease, manifestOf('m/2', 'm/1', ['d/2'], 1)));
    expect(await progress()).toMatchObject({ ended: [] });
    expect(await waiting()).toMatchObject({ isShipped: true, objects: 3 });
    done(await wiped(registry, b, { shard, entry: first.entry }));
    await condemnAbandoned(registry, { abandonedMs: HOUR_MS }, 10);
    for (const { name, sweptAt } of await objectsToCollect(registry, AT_ONCE, 10)) {
      done(await sweep(registry, name, sweptAt));
    }
    expect(await progress()).toMatchObject({ ended: [] });
    expect(await waiting()).toMatchObject({ objects: 3, nodes: [] });
    for (const { name, sweptAt } of await objectsToCollect(registry, AT_ONCE, 10)) {
      done(await markGone(registry, name, sweptAt ?? '', AT_ONCE));
    }
    expect(await progress()).toMatchObject({ ended: [1] });
    expect(await progress()).toMatchObject({ ended: [] });
    // The bucket was restored from a copy of before.
    done(await endSession(registry, a));
    done(await recoverShard(registry, { shard, epoch: 1, objects: [] }, ['b'], true));
    expect(await claimed(registry, b, shard)).toMatchObject({ ended: 0, purges: [{ number: 1 }] });
  });

  test('a number of a shard or an account is not given again after a restore', async () => {
    const before = await newShard(registry, 'anna');
    expect(await newShard(registry, 'ben')).toEqual({
      ...{ shard: before.shard + 1, account: before.account + 1 },
    });
    await statement(registry, sql`UPDATE fleet SET timeline = 'before'`);
    const next = await newShard(registry, 'carol');
    for (const number of Object.values(next)) expect(number).toBeGreaterThan(1_000);
    expect(await newShard(registry, 'dora')).toEqual({
      ...{ shard: next.shard + 1, account: next.account + 1 },
    });
    await statement(registry, sql`UPDATE fleet SET timeline = 'before'`);
    const held = done(await holdNewShard(registry, { session: randomUUID(), node: 'c' }));
    expect(held.lease.shard).toBeGreaterThan(next.shard + 2);
  });

  test('a claim and a secret that was refreshed are worth an export', async () => {
    const { shard, account } = await newShard(registry, 'anna');
    const before = await registryMark(registry);
    const { lease } = await claimed(registry, a, shard);
    const held = await registryMark(registry);
    const which = { account, purpose: 'token' };
    done(await refreshSecret(registry, lease, which, async () => secretOf(2)));
    const marks = [before, held, await registryMark(registry)];
    expect(new Set(marks).size).toBe(3);
    expect(await registryMark(registry)).toBe(marks[2]);
  });

  describe('a secret that is refreshed', () => {
    const which = (account: number) => ({ account, purpose: 'token' });

    test('is refreshed by one holder at a time, and keeps no claim waiting', async () => {
      const { shard, account } = await newShard(registry, 'anna');
      const { lease } = await claimed(registry, a, shard);
      const { promise: goOn, resolve } = Promise.withResolvers<void>();
      const { promise: started, resolve: begin } = Promise.withResolvers<void>();
      const refreshed = refreshSecret(registry, lease, which(account), async () => {
        begin();
        await goOn;
        return secretOf(2);
      });
      await started;
      done(await endSession(registry, a));
      const next = await claimed(registry, b, shard);
      const used: string[] = [];
      const second = refreshSecret(registry, next.lease, which(account), async ({ nonce }) => {
        used.push(nonce.toString('hex'));
        return secretOf(3);
      });
      await server.waiting(database, 1);
      resolve();
      // The service has used the old version up: the new one is stored although the lease is lost.
      expect(done(await refreshed).secret).toEqual(secretOf(2));
      expect(done(await second).secret).toEqual(secretOf(3));
      expect(used).toEqual([secretOf(2).nonce.toString('hex')]);
    });

    test('is stored although the answer was lost', async () => {
      const { shard, account } = await newShard(registry, 'anna');
      const { lease } = await claimed(registry, a, shard);
      const proxy = await CuttingProxy.start(server.socket);
      try {
        const cut = await server.open(database, {}, proxy.folder);
        const cuts = ['commit\0', 'UPDATE secret'].flatMap((text) =>
          (['after', 'before'] as const).map((how) => ({ text, how })),
        );
        for (const [at, { text, how }] of cuts.entries()) {
          proxy.cutNext(text, how);
          const secret = secretOf(5 + at);
          const outcome = await refreshSecret(cut, lease, which(account), async () => secret);
          expect(outcome).toEqual({ outcome: 'committed', secret });
          expect(await secretsOf(registry, [account])).toEqual([{ account, ...secret }]);
        }
      } finally {
        await proxy.stop();
      }
    });
  });

  test('a token counts until it is revoked or expires, for its use and by its secret alone', async () => {
    const keys = FleetKeys.parse(`key-1 ${'5a'.repeat(32)}\n`, 'test');
    const rights = { accounts: [1], mailboxes: null };
    const token = { use: 'token', tenant: null, name: 'x', rights, expiresAt: null } as const;
    const { id, secret } = await addGrant(registry, keys, token);
    const find = (text: string, use: 'token' | 'session' = 'token') =>
      findGrant(registry, keys, use, text);
    expect(await find(secret)).toMatchObject({ id, name: 'x', tenant: null, ...rights });
    expect((await find(secret))?.usedAt).not.toBeNull();
    expect(await find(secret, 'session')).toBeUndefined();
    expect(await find('other')).toBeUndefined();
    done(await revokeGrant(registry, id, 'anna'));
    expect(await find(secret)).toBeUndefined();
    const over = await addGrant(registry, keys, { ...token, expiresAt: new Date(0) });
    expect(await find(over.secret)).toBeUndefined();
    // Rights that are not understood are none.
    const odd = await addGrant(registry, keys, token);
    await statement(registry, sql`UPDATE token SET grants = '[1]' WHERE id = ${odd.id}`);
    expect(await find(odd.secret)).toBeUndefined();
    // A key that was added keeps older tokens, and one that was removed takes its tokens with it.
    const newer = FleetKeys.parse(`key-2 ${'5b'.repeat(32)}\nkey-1 ${'5a'.repeat(32)}\n`, 'test');
    const last = await addGrant(registry, keys, token);
    expect(await findGrant(registry, newer, 'token', last.secret)).toMatchObject({ id: last.id });
  });

  test('a shard of another timeline is claimed by nobody until it was recovered', async () => {
    const { shard } = await newShard(registry, 'anna');
    const lease = await shipped(shard);
    done(await register(registry, lease, [uploadOf('d/lost', 'tail')]));
    expect(await shardsToRecover(registry)).toEqual([]);
    await statement(registry, sql`UPDATE shard SET timeline = 'before', holder = NULL`);
    expect(await isClaimable(b, shard)).toBe(false);
    expect(await shardsToRecover(registry)).toEqual([shard]);
    expect(await objectsToCollect(registry, AT_ONCE, 10)).toEqual([]);
    const manifest = { name: 'm/9', sha256: sha256('m/9'), sequence: 9, commitNumber: 90 };
    const object = (name: string) => ({ name, kind: 'tail', bytes: 1, purges: 0 }) as const;
    const found = {
      ...{ shard, epoch: 5, manifest: { ...manifest, clean: 1, purges: 2, names: ['d/1', 'd/9'] } },
      objects: ['m/9', 'd/1', 'd/9', 'm/1'].map(object),
    };
    done(await recoverShard(registry, found, ['a', 'b', 'c']));
    expect(await shardsToRecover(registry)).toEqual([]);
    const next = await claimed(registry, b, shard);
    expect(next).toMatchObject({ lease: { epoch: 7 }, manifest: 'm/9', sequence: 9, clean: 1 });
    const rows = await statement<{ name: string; state: string }>(
      registry,
      sql`SELECT name, state FROM object ORDER BY name`,
    );
    expect(rows.map(({ name, state }) => `${name} ${state}`)).toEqual([
      ...['d/1 live', 'd/9 live', 'd/lost condemned', 'm/1 condemned', 'm/9 live'],
    ]);
    const folders = await statement<{ node: string }>(registry, sql`SELECT node FROM folder`);
    expect(folders.map(({ node }) => node).toSorted()).toEqual(['a', 'b', 'c']);
  });
});
