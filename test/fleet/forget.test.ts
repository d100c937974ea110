import { existsSync, rmSync } from 'node:fs';
import { sql } from 'kysely';
import { beforeEach, describe, expect, test } from 'vitest';
import { openWriter } from '../../src/catalog/open-writer.ts';
import { systemClock } from '../../src/core/concurrency.ts';
import { carryOutPurges, encodeWork } from '../../src/fleet/exclusive.ts';
import { FleetKeys, shardKeys } from '../../src/fleet/keys.ts';
import { collectRound } from '../../src/fleet/objects.ts';
import { findPurge } from '../../src/fleet/overview.ts';
import { endPurges, removeNode, wiped } from '../../src/fleet/purges.ts';
import { recoverFleet } from '../../src/fleet/recover.ts';
import { asideOf, readNote } from '../../src/fleet/take-over.ts';
import { shardStore } from '../../src/fleet/uploads.ts';
import { journalForget, planForget } from '../../src/verify/purge.ts';
import { seeded } from '../bench/seeded.ts';
import { Tenants } from '../retention/tenants.ts';
import {
  bound,
  CONTEXT,
  FLEET,
  type Fleet,
  KEYS,
  Node,
  type Servers,
  signal,
  withoutServers,
} from './servers/nodes.ts';
import { Rows } from './servers/rows.ts';
import { done, newSession, newShard, statement } from './servers/scene.ts';
import { twoNodes } from './servers/two-nodes.ts';

const OTHER_KEYS = FleetKeys.parse(`key-2 ${'5b'.repeat(32)}\n`, 'test');
const AT_ONCE = { abandonedMs: 3_600_000, windowMs: 3_600_000, settleMs: 0 };

describe.skipIf(withoutServers())('a forget in a shard', () => {
  let servers: Servers;
  let fleet: Fleet;
  let a: Node;
  let b: Node;

  twoNodes((made) => {
    ({ servers, fleet, a, b } = made);
  });

  const progress = async (node: Node) => {
    if (node.claimed === undefined) throw new Error('nothing was claimed');
    const hasAside = asideOf(node.dir).length > 0;
    return done(await endPurges(fleet.registry, node.claimed.lease, hasAside));
  };
  const waiting = (node: Node) => findPurge(fleet.registry, fleet.shard, node.purges);
  const collect = () => collectRound(fleet.registry, () => fleet.store, AT_ONCE, signal);
  const wipe = async (node: Node) => {
    rmSync(node.dir, { recursive: true });
    const { shard } = fleet;
    const entry = node.claimed?.entry ?? 0;
    done(await wiped(fleet.registry, node.session, { shard, entry }));
  };
  /** Stops the daemon, carries out what was decided, and starts it again. */
  const carryOut = async (node: Node, work: Buffer) => {
    await node.close();
    const purges = [{ number: node.purges, reason: 'forgotten', work } as const];
    expect(await carryOutPurges(CONTEXT, node.dir, purges, (sealed) => sealed)).toBe(node.purges);
    await node.startWriter();
  };
  /** What no node and no object has any more. */
  const expectNowhere = async (message: string) => {
    const c = new Node('c', fleet);
    await c.takeOver();
    expect(await c.messages()).not.toContain(message);
    await c.close();
    const writer = await openWriter(CONTEXT, c.dir);
    const plan = await planForget(writer, [{ message }], signal);
    expect({ facts: plan.facts, records: plan.purgeSearch.records.size }).toEqual({
      ...{ facts: [], records: 0 },
    });
    await writer.close();
    await c.lose();
  };

  test('ends once nothing has the bytes', async () => {
    await a.takeOver();
    await a.store(3);
    await a.ship(true);
    await a.close();
    await a.lose();
    await b.takeOver();
    await b.store();
    await b.ship();
    const [message = ''] = await b.messages();
    const before: string[] = [];
    for await (const { name } of fleet.store.list('', signal)) before.push(name);
    await b.decide([message]);
    expect(await waiting(b)).toMatchObject({ isShipped: false, nodes: ['a'] });
    await carryOut(b, encodeWork({ messages: [message] }));
    expect(b.shipper?.isBehind()).toBe(true);
    expect(await b.ship()).toBe('shipped');
    expect(b.shipper?.current?.secret.fleet).toMatchObject({ clean: 1, purges: 1 });
    // The snapshot was older than the purge.
    expect(b.shipper?.current?.secret.fleet?.snapshot).toBeUndefined();
    expect((await progress(b)).ended).toEqual([]);
    expect(await waiting(b)).toMatchObject({ isShipped: true, nodes: ['a'] });
    // A node that comes back without the shard wipes its folder.
    a.session = await newSession(fleet.registry, 'a');
    await wipe(a);
    expect(await waiting(b)).toMatchObject({ nodes: [] });
    await collect();
    expect((await progress(b)).ended).toEqual([]);
    await collect();
    expect((await progress(b)).ended).toEqual([1]);
    const after: string[] = [];
    for await (const { name } of fleet.store.list('', signal)) after.push(name);
    expect(after.filter((name) => before.includes(name))).toEqual([]);
    await b.lose();
    await expectNowhere(message);
  });

  test('is carried out by the next holder, if its holder died after it was decided', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship(true);
    const [message = ''] = await a.messages();
    await a.decide([message]);
    await a.close();
    await a.lose();
    await b.takeOver();
    expect(await b.messages()).not.toContain(message);
    expect(readNote(b.dir)?.done).toBe(1);
    expect(await b.ship()).toBe('shipped');
    await b.lose();
    await b.close();
    // The folder of the first holder is behind, and has the bytes.
    expect(await a.messages()).toContain(message);
    expect((await a.takeOver()).from).toBe('folder and bucket');
    expect(await a.messages()).not.toContain(message);
    expect(readNote(a.dir)?.done).toBe(1);
  });

  test('is carried out again where its commit was shipped with the bytes', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship();
    const [message = ''] = await a.messages();
    await a.decide([message]);
    await a.close();
    const writer = await openWriter(CONTEXT, a.dir);
    await journalForget(writer, await planForget(writer, [{ message }], signal));
    await writer.close();
    // Killed before the bytes were removed, and shipped by mistake.
    expect(await a.ship()).toBe('shipped');
    expect(a.shipper?.current?.secret.fleet).toMatchObject({ clean: 0, purges: 1 });
    await a.lose();
    await b.takeOver();
    expect(readNote(b.dir)?.done).toBe(1);
    expect(await b.messages()).not.toContain(message);
    expect(await b.ship()).toBe('shipped');
    expect(b.shipper?.current?.secret.fleet).toMatchObject({ clean: 1 });
    await b.lose();
    await expectNowhere(message);
  });

  const seeds = [1, 2].map((at) => at + Number(process.env.MAILKEEP_SEED ?? 0));
  test.each(seeds)('leaves others what they have: seed %i', { timeout: 240_000 }, async (seed) => {
    const random = seeded('tenants of a shard', seed);
    const tenants = new Tenants(random);
    await a.takeOver();
    await tenants.begin(a);
    let node = a;
    for (let round = 0; round < 3; round += 1) {
      await tenants.play(node, 30);
      await node.ship();
      const { messages, from } = tenants.chooseForget();
      await node.decide(messages, [], from);
      if (random.below(2) === 0) {
        await node.close();
        // Its holder dies, and the next one has it from the bucket.
        await node.lose();
        const next = new Node(`n${round}`, fleet);
        await next.takeOver();
        node = next;
      } else await carryOut(node, encodeWork({ messages: [...messages], from: [...from] }));
      await node.ship();
      tenants.check(node.dir);
    }
    const before: string[] = [];
    for await (const { name } of fleet.store.list('', signal)) before.push(name);
    await collect();
    await collect();
    const after: string[] = [];
    for await (const { name } of fleet.store.list('', signal)) after.push(name);
    expect(after.length).toBeLessThan(before.length);
    await node.close();
    await node.lose();
    // What the bucket has is all that is left, and everything in it.
    const last = new Node('last', fleet);
    await last.takeOver();
    await last.close();
    tenants.check(last.dir);
    await last.lose();
  });

  test('did not wait for a disk that was declared destroyed: its folder is not continued', async () => {
    await a.takeOver();
    await a.store(2);
    await a.ship();
    const [message = ''] = await a.messages();
    await a.close();
    await a.lose();
    done(await removeNode(fleet.registry, 'a'));
    expect(existsSync(a.dir)).toBe(true);
    expect(await a.takeOver()).toMatchObject({ from: 'bucket', aside: [`${a.dir}.aside-1`] });
    expect(await a.messages()).toContain(message);
    await a.decide([message]);
    await carryOut(a, encodeWork({ messages: [message] }));
    expect(await a.ship()).toBe('shipped');
    for (let rounds = 0; rounds < 2; rounds += 1) await collect();
    expect(await waiting(a)).toMatchObject({ isShipped: true, nodes: [], objects: 0 });
    // The folder that was set aside may have the bytes as well.
    expect((await progress(a)).ended).toEqual([]);
    rmSync(`${a.dir}.aside-1`, { recursive: true });
    expect((await progress(a)).ended).toEqual([1]);
  });

  describe('that the registry lost', () => {
    let rows: Rows;
    let first: string;
    let second: string;

    beforeEach(async () => {
      for (const node of [a, b]) node.objects = shardStore(fleet.store, fleet.shard);
      await a.takeOver();
      await a.store(2);
      await a.ship();
      [first = '', second = ''] = await a.messages();
    });

    const keep = async () => {
      rows = await Rows.keep(await servers.postgres.connect(fleet.database));
    };
    const recover = async (keys = KEYS) => {
      const { registry, store } = fleet;
      await statement(registry, sql`UPDATE shard SET timeline = 'another'`);
      const about = { id: FLEET, bucket: store.label };
      const clock = { after: systemClock.after };
      const options = { registry, store, signal, clock, keys, settleMs: 0, all: false };
      return recoverFleet({ ...options, fleet: about });
    };
    test('is not lost with everything else where the file of keys is another one', async () => {
      await a.close();
      for (const name of ['key-1', 'key-2']) {
        const { recovered, failures } = await recover(
          FleetKeys.parse(`${name} ${'5b'.repeat(32)}\n`, 'test'),
        );
        expect(recovered).toEqual([]);
        expect(failures).toMatchObject([
          { shard: fleet.shard, error: { code: 'fleet-manifests-unreadable' } },
        ]);
      }
      const condemned = sql<object>`SELECT 1 FROM object WHERE state = 'condemned'`;
      expect(await statement(fleet.registry, condemned)).toEqual([]);
      expect((await recover()).recovered).toMatchObject([{ shard: fleet.shard, skipped: 0 }]);
    });

    const restore = async () => {
      await rows.restore();
      expect((await recover()).recovered).toHaveLength(1);
    };

    test('does not stand for the next one of its number, also at another node', async () => {
      await keep();
      await a.decide([first]);
      await carryOut(a, encodeWork({ messages: [first] }));
      await a.close();
      await restore();
      expect(await a.takeOver()).toMatchObject({ from: 'folder' });
      expect(readNote(a.dir)?.done).toBe(0);
      await a.store();
      expect(await a.ship()).toBe('shipped');
      await a.close();
      await a.lose();
      await b.takeOver();
      await b.decide([second]);
      expect(b.purges).toBe(1);
      await b.close();
      await b.lose();
      await a.takeOver();
      expect(await a.messages()).not.toContain(second);
    });

    test('is not carried out again where the bucket is clean of it', async () => {
      await a.close();
      await a.lose();
      // The registry will not know that node b ever had the shard.
      await keep();
      await b.takeOver();
      await b.decide([first]);
      await carryOut(b, encodeWork({ messages: [first] }));
      await b.store();
      expect(await b.ship()).toBe('shipped');
      await b.close();
      await restore();
      expect(await b.takeOver()).toMatchObject({ from: 'folder' });
      expect(readNote(b.dir)?.done).toBe(1);
      await b.close();
      await b.lose();
      // Its folder has the bytes, and nobody knows any more what was forgotten.
      expect(await a.takeOver()).toMatchObject({ from: 'bucket' });
      expect(readNote(a.dir)?.done).toBe(1);
      expect(await a.messages()).not.toContain(first);
      await a.store();
      expect(await a.ship()).toBe('shipped');
    });

    test('is one of a shard that is recovered, although another one cannot be', async () => {
      const { registry, store } = fleet;
      await a.close();
      await a.lose();
      const { key } = shardKeys(OTHER_KEYS, FLEET, fleet.shard, store.label);
      const wrong = new Proxy(fleet.keys.key, {
        get: (own, name) => Reflect.get(name === 'sealing' ? key : own, name),
      });
      const { shard } = await newShard(registry, 'ben');
      const both = [
        { ...fleet, keys: { ...fleet.keys, key: wrong } },
        { ...fleet, shard, keys: shardKeys(KEYS, FLEET, shard, store.label) },
      ];
      for (const one of both) {
        const c = new Node('c', one);
        c.objects = shardStore(store, one.shard);
        await c.takeOver();
        await c.store();
        await c.ship();
        await c.close();
      }
      expect(await recover()).toMatchObject({
        recovered: [{ shard, commit: 1 }],
        failures: [{ shard: fleet.shard, error: { code: 'copy-key-unknown' } }],
      });
      const { shard: next } = await newShard(registry, 'carol');
      expect(next).toBeGreaterThan(1_000);
    });
  });

  test('deletes nothing that became needed while other objects were deleted', async () => {
    await a.takeOver();
    for (let n = 0; n < 3; n += 1) {
      await a.store();
      await a.ship();
    }
    const { registry, store } = fleet;
    const deleted: string[] = [];
    const needing = {
      ...bound(store),
      delete: async (name: string) => {
        deleted.push(name);
        await store.delete(name, signal);
        await statement(registry, sql`UPDATE object SET state = 'live' WHERE state = 'condemned'`);
      },
    };
    const times = { ...AT_ONCE, windowMs: 0 };
    expect(await collectRound(registry, () => needing, times, signal)).toMatchObject({ swept: 0 });
    expect(deleted).toHaveLength(1);
  });
});
