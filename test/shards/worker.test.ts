import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { FleetNode } from './servers/fleet-nodes.ts';
import { Servers, withoutServers } from './servers/nodes.ts';
import { statement } from './servers/scene.ts';
import { buildHurriedProgram } from './worker-histories/hurried-program.ts';

describe.skipIf(withoutServers())('a worker', () => {
  let servers: Servers;
  let program: string;

  beforeAll(async () => {
    servers = await Servers.start();
    program = await buildHurriedProgram();
  });
  afterAll(async () => {
    await servers?.stop();
  });

  test('mirrors accounts, and another one takes over from it', async () => {
    const addresses = ['anna@example.org', 'ben@example.org'];
    const sandbox = await startSandbox({ addresses, mail: { messages: 60 } });
    const one = await FleetNode.make(servers, 'one');
    const two = await FleetNode.make(servers, 'two', { first: one });
    try {
      for (const address of addresses) {
        await one.add(address.split('@')[0] ?? '', {
          baseUrl: sandbox.mailboxUrl,
          token: sandbox.tokens.mailbox,
          mailboxes: { include: [address] },
        });
      }
      const first = one.start(program);
      await first.said('run finished', { kind: 'sweep' }, 2);
      expect(await one.json(['status'])).toEqual([
        expect.objectContaining({
          attention: [],
          nodes: [expect.objectContaining({ node: 'one' })],
        }),
      ]);
      const second = two.start(program);
      await second.said('session started');
      expect(await first.end('SIGTERM')).toBe(0);
      await second.said('run finished', { kind: 'sweep' });
      await second.end('SIGTERM');
      const [shard] = await statement<{ holder: string | null; messages: number }>(
        one.registry,
        sql`SELECT holder, messages FROM shard`,
      );
      expect(shard).toMatchObject({ holder: null });
      expect(shard?.messages).toBeGreaterThan(30);
    } finally {
      await one.remove();
      await two.remove();
      await sandbox.close();
    }
  });
});
