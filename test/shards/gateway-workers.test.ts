import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { FleetNode } from './servers/fleet-nodes.ts';
import { Servers, withoutServers } from './servers/nodes.ts';
import { buildHurriedProgram } from './worker-histories/hurried-program.ts';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

const ADDRESSES = ['anna@example.org', 'ben@example.org'];

describe.skipIf(withoutServers())('workers of two nodes', () => {
  let servers: Servers;
  let program: string;
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    servers = await Servers.start();
    program = await buildHurriedProgram();
  });
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
    await servers?.stop();
  });

  test('let readers in at both, and after one of them was killed', async () => {
    const sandbox = await startSandbox({ addresses: ADDRESSES, mail: { messages: 60 } });
    closing.push(() => sandbox.close());
    const node = async (name: string, first?: FleetNode) => {
      const listen = `127.0.0.1:${await freePort()}`;
      const made = await FleetNode.make(servers, name, {
        ...(first === undefined ? {} : { first }),
        settings: { web: { listen: '127.0.0.1:0' } },
        fleet: { address: listen, listen },
      });
      closing.push(() => made.remove());
      return made;
    };
    const one = await node('one');
    const two = await node('two', one);
    for (const address of ADDRESSES) {
      const { mailboxUrl: baseUrl, tokens } = sandbox;
      const mailboxes = { include: [address] };
      await one.add(address.replace('@', '.'), { baseUrl, token: tokens.mailbox, mailboxes });
    }
    const first = one.start(program);
    await first.said('run finished', { kind: 'sweep' }, 4);
    const second = two.start(program);
    const urlOf = async (worker: typeof first) => {
      const [said] = await worker.said('readers are let in');
      return z.object({ url: z.string() }).parse(said).url;
    };
    const urls = [await urlOf(first), await urlOf(second)] as const;
    const created = z.object({ token: z.string() });
    const made = await one.json([
      'access',
      'token',
      'anna.example.org',
      '--name',
      'test',
      '--quiet',
    ]);
    const { token } = created.parse(made[0]);
    const search = async (url: string) => {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await fetch(`${url}/api/v1/fleet/search?q=&limit=200`, { headers });
      const { status } = answer;
      return { status, found: JSON.stringify(await answer.json()) };
    };
    const [near, far] = await Promise.all(urls.map(search));
    expect(near?.status).toBe(200);
    expect(far).toEqual(near);
    expect(near?.found).toContain('"mailbox":"anna@example.org"');
    expect(near?.found).not.toContain('"mailbox":"ben@example.org"');
    await first.end('SIGKILL');
    for (;;) {
      const { status, found } = await search(urls[1]);
      if (status === 200 && !found.includes('"missing":["')) {
        expect(found).toBe(near?.found);
        break;
      }
      await delay(100);
    }
    expect(await second.end('SIGTERM')).toBe(0);
  }, 180_000);
});
