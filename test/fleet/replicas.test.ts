import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newSession } from '../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../registry/servers/postgres.ts';
import { cancelWaits, replicasAwaited } from '../registry/servers/replicas.ts';
import { FleetArchive, Node, patienceOf } from './commits/fleet-archive.ts';

const skipped = withoutPostgres();
let server: Postgres;

beforeAll(async () => {
  if (!skipped) server = await Postgres.startOwn();
});
afterAll(async () => {
  await server?.stop();
});

describe.skipIf(skipped)('a commit that does not reach the replicas', () => {
  test('is not acknowledged, though the head has it and every request to resolve it', async () => {
    const database = await server.create();
    const registry = await server.open(database);
    const archive = await FleetArchive.add(registry, 'anna');
    const node = new Node(await server.open(database), archive, patienceOf(1_500));
    const admin = await server.connect(database);
    await node.take(await newSession(registry, 'a'));
    expect(await node.commit()).toBe('acknowledged');
    await admin.query("ALTER SYSTEM SET synchronous_standby_names = 'nowhere'");
    await admin.query('SELECT pg_reload_conf()');
    try {
      await replicasAwaited(server, database, admin);
      let isOver = false;
      const told = node.commit().finally(() => {
        isOver = true;
      });
      while (!isOver) await cancelWaits(admin);
      expect(await told).toBe('fenced');
    } finally {
      await admin.query('ALTER SYSTEM RESET synchronous_standby_names');
      await admin.query('SELECT pg_reload_conf()');
    }
    expect(node.held.lostBy).toBe('unknown');
    const { stored } = await archive.expectTruth();
    expect(stored.head.headNumber).toBe(2);
    expect(stored.head.epoch).toBeGreaterThan(2);
    await node.remove();
  });
});
