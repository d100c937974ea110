import { once } from 'node:events';
import { createServer } from 'node:net';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { deliver } from '../../../src/sandbox/faults.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import type { Place } from './place.ts';
import { addAccounts, nodeOf, RunningWorker } from './running-worker.ts';

const skipped = withoutServers();
/** Nothing happens by the clock but the first pass. */
const NEVER = { sync: '0 0 29 2 *', sweep: '0 0 29 2 *', jitterSeconds: 0 };

let servers: Servers;
let sandbox: Sandbox;
const places: Place[] = [];
const running: RunningWorker[] = [];

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
  sandbox = await startSandbox({ seed: 7, mail: { messages: 10 } });
}, 120_000);
afterAll(async () => {
  for (const worker of running) await worker.end('SIGKILL');
  for (const place of places) place.remove();
  await sandbox?.close();
  await servers?.stop();
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function started(
  name: string,
  port: number,
  publicUrl: string,
  first?: Place,
): Promise<{ place: Place; worker: () => RunningWorker }> {
  const health = { listen: '127.0.0.1:0' };
  const settings = { schedule: NEVER, health, webhook: { listen: `127.0.0.1:${port}`, publicUrl } };
  const place = await nodeOf(servers, name, {
    ...(first === undefined ? {} : { first }),
    settings: { ...settings, log: { level: 'debug' } },
    fleet: { createWebhooks: true },
  });
  places.push(place);
  return {
    place,
    worker: () => {
      const worker = new RunningWorker(place);
      running.push(worker);
      return worker;
    },
  };
}

function arrive(subject: string): void {
  const [mailbox] = sandbox.service.store.mailboxes.values();
  if (mailbox === undefined) throw new Error('no mailbox');
  const inbox = sandbox.service.store.folderFor(mailbox, 'INBOX');
  deliver(sandbox.service, mailbox, inbox, Buffer.from(`Subject: ${subject}\r\n\r\nHello.\r\n`));
}

describe.skipIf(skipped)('webhooks of a fleet', () => {
  test('come to any node, and the holder fetches at once what they announce', async () => {
    const url = `http://127.0.0.1:${await freePort()}/mail`;
    const port = Number(new URL(url).port);
    const one = await started('one', 0, url);
    const accounts = [...(await addAccounts(one.place, sandbox)).keys()];
    // An earlier holder was cut off before it could store the secret of what it had created.
    const [orphaned] = sandbox.service.store.mailboxes.values();
    if (orphaned === undefined) throw new Error('no mailbox');
    const own = { name: 'mailkeep', description: null, events: ['message.received'], url };
    const orphan = sandbox.service.webhooks.create(orphaned, { ...own, status: 'active' });
    const { id, secret: before } = orphan;
    const holder = one.worker();
    const all = new Set(sandbox.service.store.mailboxes.keys());
    await holder.said('run finished', accounts.length);
    await holder.said('a webhook was registered', all.size);
    const hooks = sandbox.service.webhooks.of(all);
    expect(hooks.map((hook) => [hook.mailbox, hook.url])).toEqual([...all].map((id) => [id, url]));

    expect(hooks[0]?.id).toBe(id);
    expect(hooks[0]?.secret).not.toBe(before);

    // The node that receives holds nothing.
    const two = await started('two', port, url, one.place);
    const receiver = two.worker();
    await receiver.said('webhooks are received');
    arrive('announced');
    const [hinted] = await holder.saidOf('run finished', { kind: 'hint', added: 1 }, 1);
    expect(hinted).toBeDefined();
    expect(receiver.lines.filter(({ msg }) => msg === 'archive opened')).toEqual([]);

    // Monitoring sees both ends, and no account.
    const get = async (worker: RunningWorker, path: string) => {
      const [listening] = await worker.said('health listens');
      return fetch(`http://127.0.0.1:${listening?.port}${path}`);
    };
    const paths = ['/healthz', '/readyz', '/readyz?max-age=1h', '/elsewhere'];
    const answers = await Promise.all(paths.map((path) => get(holder, path)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 404]);
    const count = accounts.length;
    expect(await answers[0]?.json()).toMatchObject({ ok: true, held: count, open: count });
    const metrics = await (await get(holder, '/metrics')).text();
    for (const sample of [
      `fleet_archives{state="open"} ${count}`,
      `fleet_claim_to_ready_seconds_count ${count}`,
      `fleet_epochs_raised_total ${count}`,
      'fleet_hints_total{outcome="received"} 1',
      'fleet_replica_synchronous 0',
      'fleet_attention{code="not-synchronous"} 1',
    ]) {
      expect(metrics).toContain(`mailkeep_${sample}\n`);
    }
    expect(metrics).toMatch(/fleet_commit_duration_seconds_count [1-9]/);
    expect(metrics).toMatch(/fleet_budget_requests_per_minute\{host="[^"]+"\} [1-9]/);
    expect(metrics).not.toMatch(/@|account-0/);
    const sent = await (await get(receiver, '/metrics')).text();
    expect(sent).toContain('mailkeep_fleet_hints_total{outcome="sent"} 1\n');
    expect(sent).toContain('mailkeep_webhook_requests_total{outcome="delivery"} 1\n');

    // Whoever does not know a secret is refused as by a daemon, and repeating a delivery only asks again.
    const [hook] = hooks;
    const post = (secret: string, body: string, at = url) =>
      fetch(at, { method: 'POST', headers: { authorization: `Bearer ${secret}` }, body });
    const mallory = 'guessed-by-mallory';
    const statuses = [
      await fetch(url, { method: 'POST', body: '{}' }),
      await post(mallory, '{"mailbox":"anna@example.org"}'),
      await post(hook?.secret ?? '', 'x'.repeat(300_000)),
      await post(hook?.secret ?? '', '{}', `${url}/elsewhere`),
      await post(hook?.secret ?? '', '{"mailbox":"nobody@example.org","data":{"uid":9e15}}'),
      await post(hook?.secret ?? '', '['.repeat(50_000)),
    ].map(({ status }) => status);
    expect(statuses).toEqual([401, 401, 413, 404, 204, 204]);

    // A takeover registers nothing again, and hears of new mail by its own receiver.
    await holder.end('SIGKILL');
    await two.place.registry.statement(
      'let a lease run out',
      sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s' WHERE node = 'one'`,
    );
    await receiver.said('archive opened', accounts.length);
    await receiver.saidOf('run finished', { kind: 'sync' }, accounts.length);
    arrive('announced to the new holder');
    await receiver.saidOf('run finished', { kind: 'hint', added: 1 }, 1);
    expect(await receiver.end('SIGTERM')).toBe(0);
    expect(sandbox.service.webhooks.of(all)).toEqual(hooks);

    // No secret is anywhere in the clear.
    const rows = await two.place.registry.read<{ row: string }>(
      'look at every secret',
      sql`SELECT s::text AS row FROM secret s UNION ALL SELECT w::text FROM webhook w`,
    );
    const seen = [...running.flatMap(({ lines }) => lines), ...rows].map((at) =>
      JSON.stringify(at),
    );
    for (const { secret } of [...hooks, { secret: mallory }]) {
      expect(seen.filter((text) => text.includes(secret))).toEqual([]);
      const hex = Buffer.from(secret).toString('hex');
      expect(seen.filter((text) => text.includes(hex))).toEqual([]);
    }
  }, 240_000);
});
