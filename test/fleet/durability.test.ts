import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { segmentPath } from '../../src/archive/format.ts';
import { FleetDurability } from '../../src/fleet/durability.ts';
import type { Patience } from '../../src/fleet/settling.ts';
import { commit } from '../../src/registry/commits.ts';
import { resolve } from '../../src/registry/leases.ts';
import { readArchive } from '../../src/registry/reading.ts';
import type { Registry } from '../../src/registry/registry.ts';
import { endSession } from '../../src/registry/sessions.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { CuttingProxy } from '../registry/servers/cutting-proxy.ts';
import { batchAfter, done, newSession } from '../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../registry/servers/postgres.ts';
import { FleetArchive, Node, patienceOf } from './commits/fleet-archive.ts';

const skipped = withoutPostgres();
const COMMIT = 'INSERT INTO tail';
const ROLL = 'hot_segment = hot_segment + 1';
const RESOLVE = 'SET epoch = epoch + 1 WHERE';
/** A request that nobody answers is given up after this. Anything else may be as well: then it is resolved. */
const ANSWER_MS = 3_000;

let server: Postgres;
let proxy: CuttingProxy;
let database: string;
/** Nothing goes wrong on it. */
let registry: Registry;
let archive: FleetArchive;
const nodes: Node[] = [];

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
afterAll(async () => {
  await server?.stop();
});
beforeEach(async () => {
  if (skipped) return;
  proxy = await CuttingProxy.start(server.socket);
  database = await server.create();
  registry = await server.open(database);
  archive = await FleetArchive.add(registry, 'anna');
});
afterEach(async () => {
  const used = nodes.splice(0);
  await Promise.all(used.map((node) => node.remove()));
  // Connections that nobody uses would stay for ten seconds: as many as the server takes, if tests are fast.
  await Promise.all([registry, ...used.map((node) => node.registry)].map((one) => one?.close()));
  await proxy?.stop();
});

/** A node behind the proxy that holds the archive. */
async function holder(patience: Patience = patienceOf(10_000), name = 'a'): Promise<Node> {
  const behind = await server.open(database, { answerMs: ANSWER_MS }, proxy.folder);
  const node = new Node(behind, archive, patience);
  nodes.push(node);
  expect(await node.take(await newSession(registry, name))).toBe(true);
  return node;
}

/** A commit of this node succeeds, in the epoch that the registry has, and everything is where it should be. */
async function expectWorking(node: Node): Promise<void> {
  expect(await node.commit()).toBe('acknowledged');
  expect(node.held.lostBy).toBeUndefined();
  const { stored } = await archive.expectTruth();
  expect(node.held.head).toEqual(stored.head);
  await node.open();
}

/** Nothing is sent any more. */
async function expectFenced(node: Node, reason: 'refused' | 'unknown'): Promise<void> {
  const before = await readArchive(registry, archive.archive);
  const batch = node.writer.newBatch();
  batch.addBlob(Buffer.from('late'));
  for (const act of [() => node.writer.commit(batch), () => node.writer.rollIfLarger(1)]) {
    await expect(act()).rejects.toMatchObject({ code: 'log-fenced', facts: { reason } });
  }
  expect(await readArchive(registry, archive.archive)).toEqual(before);
}

describe.skipIf(skipped)('commits of a fleet', () => {
  test('real mail is in the tail and in the copy, in several segments', async () => {
    const node = await holder();
    for (let at = 0; at < 6; at += 1) expect(await node.commit(3)).toBe('acknowledged');
    expect(node.writer.segment).toBeGreaterThan(1);
    const { stored } = await archive.expectTruth();
    expect(stored.head).toEqual(node.held.head);
    expect(stored.head.epoch).toBe(1);
    const sizes = stored.tail.map(({ bytes, rawBytes }) => bytes.length / rawBytes);
    expect(Math.max(...sizes)).toBeLessThan(0.9);
    await node.open();
    // Another machine, from nothing.
    done(await endSession(registry, node.held.session));
    await expectWorking(await holder(undefined, 'b'));
  });

  test('bytes that deflating does not make smaller are stored as they are', async () => {
    const node = await holder();
    const raw = Buffer.concat([sampleMail(1), crypto.getRandomValues(Buffer.alloc(20_000))]);
    const batch = node.writer.newBatch();
    batch.addBlob(raw);
    archive.acknowledged.set(1, (await node.writer.commit(batch)).commit.hash);
    const { stored } = await archive.expectTruth();
    expect(stored.tail).toMatchObject([{ codec: 0, rawBytes: stored.tail[0]?.bytes.length }]);
    await expectWorking(node);
  });

  test.each([
    ['after', 'acknowledged'],
    ['before', 'failed'],
    ['held', 'failed'],
    ['doubled', 'acknowledged'],
  ] as const)('a commit is %s: it is %s, and others follow', async (how, told) => {
    const node = await holder();
    await node.commit();
    proxy.cutNext(COMMIT, how);
    expect(await node.commit()).toBe(told);
    expect(node.held.lease.epoch).toBe(2);
    await archive.expectTruth();
    await proxy.deliver();
    await expectWorking(node);
    expect(node.held.lease.epoch).toBe(2);
  });

  test('a commit has no answer at all: it is resolved when nobody waits any more', async () => {
    const node = await holder();
    await node.commit();
    proxy.cutNext(COMMIT, 'silent');
    // A server that is slower than that has not taken it.
    expect(await node.commit()).toMatch(/acknowledged|failed/);
    expect(node.held.lease.epoch).toBe(2);
    await archive.expectTruth();
    await expectWorking(node);
  });

  test.each(['after', 'before', 'held', 'doubled'] as const)(
    'closing a segment is %s: it is closed or not, and the writer knows',
    async (how) => {
      const node = await holder();
      await node.commit();
      proxy.cutNext(ROLL, how);
      const isClosed = how !== 'before' && how !== 'held';
      const rolling = node.writer.rollIfLarger(1);
      if (isClosed) await rolling;
      else await expect(rolling).rejects.toMatchObject({ code: 'log-write-failed' });
      expect(node.writer.segment).toBe(isClosed ? 2 : 1);
      expect(node.held.head.hotSegment).toBe(isClosed ? 2 : 1);
      await proxy.deliver();
      await expectWorking(node);
      if (!isClosed) expect(await node.writer.rollIfLarger(1)).toBe(true);
      await expectWorking(node);
    },
  );

  const LOST = ['after', 'before', 'held'] as const;
  const pairs = LOST.flatMap((first) => LOST.map((second) => [first, second] as const));

  test.each(pairs)(
    'a commit is lost %s, and the request to resolve it %s',
    async (first, second) => {
      const node = await holder();
      await node.commit();
      proxy.cutNext(COMMIT, first);
      proxy.cutNext(RESOLVE, second);
      expect(await node.commit()).toBe(first === 'after' ? 'acknowledged' : 'failed');
      // What was accepted without an answer is resolved in turn.
      const epoch = second === 'after' ? 3 : 2;
      expect(node.held.lease.epoch).toBe(epoch);
      await proxy.deliver();
      await expectWorking(node);
      expect(node.held.lease.epoch).toBe(epoch);
    },
  );

  test('requests to resolve arrive late, before the next one and after it', async () => {
    const node = await holder(patienceOf(10_000, () => proxy.deliver()));
    await node.commit();
    // The commit is on its way as well, and arrives in either order.
    for (let resolves = 1; resolves <= 3; resolves += 1) {
      proxy.cutNext(COMMIT, 'held');
      for (let at = 0; at < resolves; at += 1) proxy.cutNext(RESOLVE, 'held');
      await node.commit();
      await archive.expectTruth();
      await proxy.deliver();
      await expectWorking(node);
    }
    expect(node.held.lease.epoch).toBeGreaterThan(4);
  });

  test('nobody answers for too long: nothing is promised, and nothing is sent any more', async () => {
    const node = await holder();
    await node.commit();
    proxy.cutNext(COMMIT, 'held');
    for (let at = 0; at < 20; at += 1) proxy.cutNext(RESOLVE, 'before');
    expect(await node.commit()).toBe('fenced');
    expect(node.held.lostBy).toBe('unknown');
    proxy.cutNothing();
    await expectFenced(node, 'unknown');
    // It arrives all the same, and the next holder has it.
    await proxy.deliver();
    done(await endSession(registry, node.held.session));
    const other = await holder(undefined, 'b');
    expect(other.held.head.headNumber).toBe(2);
    await expectWorking(other);
  });

  test.each(LOST)('a takeover after a commit was lost %s: its writer is fenced', async (how) => {
    let other: Node | undefined;
    const node: Node = await holder(
      patienceOf(10_000, async () => {
        if (other !== undefined) return;
        done(await endSession(registry, node.held.session));
        other = await holder(undefined, 'b');
      }),
    );
    await node.commit();
    const before = readFileSync(segmentPath(node.dir, { segment: 1, generation: 1 }));
    proxy.cutNext(COMMIT, how);
    proxy.cutNext(RESOLVE, 'before');
    expect(await node.commit()).toBe('fenced');
    expect(node.held.lostBy).toBe('lease');
    expect(other?.held.head.headNumber).toBe(how === 'after' ? 2 : 1);
    // What arrives late changes nothing.
    await proxy.deliver();
    await expectFenced(node, 'refused');
    expect(readFileSync(segmentPath(node.dir, { segment: 1, generation: 1 }))).toEqual(before);
    if (other !== undefined) await expectWorking(other);
    await archive.expectTruth();
  });

  test('a takeover between two commits: the next one is fenced at once', async () => {
    const node = await holder();
    await node.commit();
    done(await endSession(registry, node.held.session));
    const other = await holder(undefined, 'b');
    await expectWorking(other);
    expect(await node.commit()).toBe('fenced');
    expect(node.held.lostBy).toBe('lease');
    await expectFenced(node, 'refused');
    await expectWorking(other);
  });

  test('an archive that was noted as lost gets no commit, whatever the registry says', async () => {
    const node = await holder();
    await node.commit();
    node.held.lose('session');
    expect(await node.commit()).toBe('fenced');
    await expectFenced(node, 'refused');
    expect((await archive.expectTruth()).commits).toHaveLength(1);
  });

  test('the epoch was raised by another part of the same session: the batch can be offered again', async () => {
    const node = await holder();
    await node.commit();
    done(await resolve(registry, node.held.lease));
    expect(await node.commit()).toBe('failed');
    expect(node.held.lease.epoch).toBe(3);
    await expectWorking(node);
  });

  test('the log has another commit in the same epoch: this writer is not its writer', async () => {
    const node = await holder();
    await node.commit();
    done(await commit(registry, node.held.lease, batchAfter(node.held.head)));
    expect(await node.commit()).toBe('fenced');
    expect(node.held.lostBy).toBe('head');
    await expectFenced(node, 'refused');
  });

  const OTHER_END = [
    'head_hash = sha256(head_hash)',
    'head_number = head_number + 1',
    'head_number = head_number - 1',
    'hot_segment = hot_segment + 2',
  ];

  test.each([...OTHER_END, 'hot_offset = hot_offset + 1', 'hot_ordinal = hot_ordinal + 1'])(
    'the registry has another end of the log (%s): no commit fits it',
    async (change) => {
      const node = await holder();
      await node.open(1024 * 1024);
      await node.commit();
      await (await server.connect(database)).query(`UPDATE archive SET ${change}`);
      expect(await node.commit()).toBe('fenced');
      expect(node.held.lostBy).toBe('head');
      await expectFenced(node, 'refused');
    },
  );

  test.each(OTHER_END)(
    'the registry has another end of the log (%s): the segment is not the one to close',
    async (change) => {
      const node = await holder();
      await node.commit();
      await (await server.connect(database)).query(`UPDATE archive SET ${change}`);
      const fenced = { code: 'log-fenced', facts: { reason: 'refused' } };
      // Numbers are not compared by the registry, and say nothing without the hash.
      proxy.cutNext(ROLL, 'before');
      await expect(node.writer.rollIfLarger(1)).rejects.toMatchObject(fenced);
      expect(node.held.lostBy).toBe('head');
      await expectFenced(node, 'refused');
    },
  );

  test.each([
    ['53100', 'disk-full', 'registry-full'],
    ['40001', 'log-write-failed', 'registry-busy'],
    ['54000', 'log-write-failed', 'registry-limit'],
    ['25006', 'log-write-failed', 'registry-read-only'],
    ['42501', 'log-write-failed', 'registry-access-denied'],
  ])('PostgreSQL refuses with %s: %s, in the same epoch', async (condition, code, cause) => {
    const node = await holder();
    await node.commit();
    const admin = await server.connect(database);
    await admin.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '${condition}'; END $$`);
    await admin.query(
      'CREATE TRIGGER refusing BEFORE UPDATE ON archive FOR EACH ROW EXECUTE FUNCTION refuse()',
    );
    const batch = node.writer.newBatch();
    batch.addBlob(Buffer.from('refused'));
    for (const act of [() => node.writer.commit(batch), () => node.writer.rollIfLarger(1)]) {
      await expect(act()).rejects.toMatchObject({ code, cause: { code: cause } });
    }
    await admin.query('DROP TRIGGER refusing ON archive');
    expect(node.held.lease.epoch).toBe(1);
    await expectWorking(node);
  });

  test('a batch above the limit is not sent', async () => {
    const node = await holder();
    const durability = new FleetDurability(node.held, patienceOf(0));
    const hash = '00'.repeat(32);
    const committed = { number: 1, hash, previousHash: hash, time: 0 };
    const place = { segment: 1, offset: 64, ordinal: 0, nextOrdinal: 2 };
    const bytes = Buffer.alloc(128 * 1024 * 1024 + 1);
    await expect(durability.append(bytes, committed, place)).rejects.toMatchObject({
      code: 'log-write-failed',
      cause: { code: 'registry-limit' },
    });
    await expectWorking(node);
  });
});
