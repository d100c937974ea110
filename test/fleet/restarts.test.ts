import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CuttingProxy } from '../registry/servers/cutting-proxy.ts';
import { newSession } from '../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../registry/servers/postgres.ts';
import { FleetArchive, Node, patienceOf } from './commits/fleet-archive.ts';

const skipped = withoutPostgres();
let server: Postgres;
let proxy: CuttingProxy;
let database: string;
let archive: FleetArchive;
let node: Node;
/** What happens while the outcome of a commit is not known. */
let onWait: () => Promise<void>;

beforeAll(async () => {
  if (!skipped) server = await Postgres.startOwn();
});
afterAll(async () => {
  await server?.stop();
});
beforeEach(async () => {
  if (skipped) return;
  onWait = async () => {};
  database = await server.create();
  proxy = await CuttingProxy.start(server.socket);
  const registry = await server.open(database);
  archive = await FleetArchive.add(registry, 'anna');
  const behind = await server.open(database, {}, proxy.folder);
  node = new Node(
    behind,
    archive,
    patienceOf(60_000, () => onWait()),
  );
  await node.take(await newSession(registry, 'a'));
  await node.commit();
});
afterEach(async () => {
  await node?.remove();
  await proxy?.stop();
});

/** Restarts the server the first time it is called, and lets the test ask it on a connection of now. */
function restartOnce(): () => Promise<void> {
  const restart = async () => {
    await server.kill();
    await server.restart();
    archive.registry = await server.open(database);
  };
  let restarting: Promise<void> | undefined;
  return () => {
    restarting ??= restart();
    return restarting;
  };
}

async function expectWorking(): Promise<void> {
  // Connections that were lost while nobody used them may fail once more.
  while ((await node.commit()) === 'failed');
  expect(node.held.lostBy).toBeUndefined();
  await archive.expectTruth();
  await node.open();
}

describe.skipIf(skipped)('PostgreSQL is killed', () => {
  test('while a commit waits for a row: nothing of it is in the log', async () => {
    const admin = await server.connect(database);
    await admin.query('BEGIN');
    await admin.query('SELECT 1 FROM archive FOR UPDATE');
    onWait = restartOnce();
    const told = node.commit();
    await server.waiting(database, 1);
    await onWait();
    expect(await told).toBe('failed');
    expect((await archive.expectTruth()).commits).toHaveLength(1);
    await expectWorking();
  });

  test('before the writer heard of its commit: it is there', async () => {
    onWait = restartOnce();
    proxy.cutNext('INSERT INTO tail', 'after');
    proxy.cutNext('SET epoch = epoch + 1 WHERE', 'before');
    expect(await node.commit()).toBe('acknowledged');
    expect((await archive.expectTruth()).commits).toHaveLength(2);
    await expectWorking();
  });

  test('before the request to resolve was answered: its epoch is found, and resolved', async () => {
    onWait = restartOnce();
    proxy.cutNext('INSERT INTO tail', 'before');
    proxy.cutNext('SET epoch = epoch + 1 WHERE', 'after');
    expect(await node.commit()).toBe('failed');
    expect(node.held.lease.epoch).toBe(3);
    await expectWorking();
  });

  test('for longer than anybody waits: the writer stops, and its archive is taken again', async () => {
    await server.kill();
    const told = await node.commit();
    await server.restart();
    archive.registry = await server.open(database);
    // A connection may work a moment longer. Where it was noticed to be lost, nothing was sent.
    expect(told).toMatch(/acknowledged|failed|fenced/);
    expect(node.held.lostBy).toBe(told === 'fenced' ? 'unknown' : undefined);
    const admin = await server.connect(database);
    await admin.query('UPDATE worker SET dead = true');
    expect(await node.take(await newSession(archive.registry, 'b'))).toBe(true);
    await expectWorking();
  });
});
