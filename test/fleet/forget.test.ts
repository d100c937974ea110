import { existsSync, rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openWriter } from '../../src/catalog/open-writer.ts';
import { carryOutPurges, encodeWork } from '../../src/fleet/exclusive.ts';
import { collectRound } from '../../src/fleet/objects.ts';
import { findPurge } from '../../src/fleet/overview.ts';
import { endPurges, removeNode, wiped } from '../../src/fleet/purges.ts';
import { asideOf, readNote } from '../../src/fleet/take-over.ts';
import { journalForget, planForget } from '../../src/verify/purge.ts';
import { seeded } from '../bench/seeded.ts';
import { Tenants } from '../retention/tenants.ts';
import {
  CONTEXT,
  endFleet,
  type Fleet,
  Node,
  Servers,
  signal,
  withoutServers,
} from './servers/nodes.ts';
import { done, newSession } from './servers/scene.ts';

const AT_ONCE = { abandonedMs: 3_600_000, windowMs: 3_600_000, settleMs: 0 };

describe.skipIf(withoutServers())('a forget in a shard', () => {
  let servers: Servers;
  let fleet: Fleet;
  let a: Node;
  let b: Node;

  beforeAll(async () => {
    servers = await Servers.start();
  });
  beforeEach(async () => {
    fleet = await servers.fleet();
    a = new Node('a', fleet);
    b = new Node('b', fleet);
  });
  afterEach(async () => {
    await a.close();
    await b.close();
    await endFleet(fleet);
  });
  afterAll(async () => {
    await servers?.stop();
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
});
