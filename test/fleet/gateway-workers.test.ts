import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { freePort } from '../peers/ports.ts';
import { FleetNode } from './servers/fleet-nodes.ts';
import { Servers, withoutServers } from './servers/nodes.ts';
import { buildHurriedProgram } from './worker-histories/hurried-program.ts';

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
    const found = z.object({
      data: z.object({
        messages: z.array(z.object({ line: z.object({ id: z.string(), mailbox: z.string() }) })),
        missing: z.array(z.string()),
      }),
    });
    const search = async (url: string) => {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await fetch(`${url}/api/v1/fleet/search?q=&limit=200`, { headers });
      const { messages, missing } = found.parse(await answer.json()).data;
      return {
        missing,
        ids: messages.map(({ line }) => line.id).toSorted(),
        mailboxes: [...new Set(messages.map(({ line }) => line.mailbox))],
      };
    };
    const [near, far] = await Promise.all(urls.map(search));
    expect(near).toMatchObject({ missing: [], mailboxes: ['anna@example.org'] });
    expect(far).toEqual(near);
    await first.end('SIGKILL');
    // Until another node holds the shard, the search says that it lacks the account.
    let last = await search(urls[1]);
    while (last.missing.length > 0) {
      await delay(100);
      last = await search(urls[1]);
    }
    expect(last).toEqual(near);
    expect(await second.end('SIGTERM')).toBe(0);
  }, 180_000);
});
