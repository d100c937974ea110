import { renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import { bytesAsStream } from '../../src/copies/format/manifest.ts';
import { systemClock } from '../../src/core/concurrency.ts';
import { login } from '../../src/imap/oauth.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { ran } from '../cli/surface.ts';
import { AuthorizationServer } from '../imap/authorization-server.ts';
import { startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import { RawClient } from '../imap/raw-client.ts';
import { HttpProxy } from '../objects/servers/http-proxy.ts';
import { freePort } from '../peers/ports.ts';
import { receive } from '../sandbox/webhooks/receiver.ts';
import { FleetNode, type NodeOptions } from './servers/fleet-nodes.ts';
import { Servers, signal, withoutServers } from './servers/nodes.ts';
import { Postgres } from './servers/postgres.ts';
import { statement } from './servers/scene.ts';
import { buildHurriedProgram } from './worker-histories/hurried-program.ts';

const ADDRESSES = ['anna@example.org', 'ben@example.org'];

describe.skipIf(withoutServers())('a worker', () => {
  let servers: Servers;
  let program: string;
  let sandbox: Sandbox;
  let one: FleetNode;
  const closing: (() => unknown)[] = [];

  let shared: Servers;

  beforeAll(async () => {
    shared = await Servers.start();
    program = await buildHurriedProgram();
  });
  beforeEach(async () => {
    servers = shared;
    sandbox = await startSandbox({ addresses: ADDRESSES, mail: { messages: 60 } });
    closing.push(() => sandbox.close());
    one = await node('one');
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    await shared?.stop();
  });

  const node = async (name: string, options: NodeOptions = {}): Promise<FleetNode> => {
    const made = await FleetNode.make(servers, name, options);
    closing.push(() => made.remove());
    return made;
  };
  const hosted = (address: string, token = sandbox.tokens.mailbox) => ({
    ...{ baseUrl: sandbox.mailboxUrl, token },
    mailboxes: { include: [address] },
  });
  const until = async <Row>(query: ReturnType<typeof sql<Row>>): Promise<Row> => {
    for (;;) {
      const [row] = await statement(one.registry, query);
      if (row !== undefined) return row;
      await delay(50);
    }
  };
  const lastError = (account: string, code: string) =>
    until(sql<object>`SELECT 1 FROM account WHERE name = ${account} AND last_error = ${code}`);

  test('serves health and metrics, and says what fails', async () => {
    for (const address of ADDRESSES) await one.add(address.replace('@', '.'), hosted(address));
    const port = await freePort();
    one.configure({ health: { listen: `127.0.0.1:${port}` } });
    const get = async (at: string) => {
      const answer = await fetch(`http://127.0.0.1:${port}${at}`);
      return { status: answer.status, text: await answer.text() };
    };
    const worker = one.start(program);
    await worker.said('health listens', { port });
    await worker.said('run finished', { kind: 'sweep' }, 4);
    await until(sql<object>`SELECT 1 FROM shard WHERE messages > 40`);
    expect(await get('/healthz')).toMatchObject({ status: 200 });
    const ready = await get('/readyz?max-age=1h');
    expect([ready.status, JSON.parse(ready.text)]).toMatchObject([
      200,
      { ok: true, phase: 'ready', shards: [{ shard: 1, open: true, failing: null }], failing: [] },
    ]);
    const metrics = await get('/metrics?addresses=1');
    expect(metrics.text).toMatch(/^mailkeep_messages\{shard="1"\} [1-9]/m);
    expect(metrics.text).toMatch(/^mailkeep_runs_total\{shard="1",kind="sweep",outcome="done"\} /m);
    expect(metrics.text).toContain('\nmailkeep_fleet_purges_waiting 0\n');
    expect(metrics.text).toContain('\nmailkeep_fleet_objects_waiting{state="swept"} ');
    expect(metrics.text).not.toMatch(/anna|ben|account="/);
    // The daemon is killed until that is told to others.
    const said = (wanted: string) => worker.lines.filter(({ msg }) => msg === wanted);
    let killed = 0;
    while (said('shard fails here').length === 0) {
      const next = said('daemon started')[killed];
      if (next === undefined) await worker.news();
      else {
        process.kill(Number(next.pid), 'SIGKILL');
        killed += 1;
      }
    }
    // Each time before, it was started again here.
    expect(killed).toBeGreaterThan(2);
    const failing = { shard: 1, code: 'shard-daemon-ended', node: 'one' };
    for (;;) {
      const { text } = await get('/readyz');
      const found = JSON.parse(text);
      if (found.failing.length === 0) await delay(50);
      else {
        expect(found).toMatchObject({ ok: true, failing: [failing] });
        break;
      }
    }
    const { text } = await get('/metrics');
    const ends = /^mailkeep_fleet_failures_total\{code="shard-daemon-ended"\} (\d+)$/m.exec(text);
    // On a busy machine, more: what failed long ago does not count.
    expect(Number(ends?.[1])).toBeGreaterThanOrEqual(3);
    expect(text).toContain('\nmailkeep_fleet_shards{state="failing"} 1\n');
    await worker.end('SIGTERM');
  });

  test('lets its daemons notify, and gives them the token that replaces a wrong one', async () => {
    const receiver = await receive();
    closing.push(() => receiver.close());
    await one.add('anna', hosted('anna@example.org', 'wrong'));
    one.configure({ notify: { url: receiver.url } });
    const worker = one.start(program);
    await receiver.count(1);
    expect(JSON.parse(receiver.got[0]?.body ?? '')).toMatchObject({ event: 'failing' });
    expect(receiver.got[0]?.body).toContain('a1');
    await until(sql<object>`SELECT 1 FROM account WHERE last_error IS NOT NULL`);
    const stdin = JSON.stringify(hosted('anna@example.org'));
    const updated = await one.json(['account', 'update', 'anna', '--settings', '-'], { stdin });
    expect(updated).toMatchObject([{ account: 'anna', secrets: ['token'] }]);
    await worker.said('run finished', { account: 'a1', kind: 'sweep' });
    await until(sql<object>`SELECT 1 FROM account WHERE last_error IS NULL`);
    await worker.end('SIGTERM');
  });

  test.skipIf(withoutDovecot())('keeps people signed in, on whichever node', async () => {
    const provider = await AuthorizationServer.start({ user: 'anna', expiresIn: 100 });
    closing.push(() => provider.stop());
    const { introspection } = provider;
    const server = await startDovecot({ users: ['anna'], introspection });
    closing.push(() => server.stop());
    const client = await RawClient.login(server);
    await client.append('INBOX', 'Message-ID: <1@x>\r\nSubject: letter\r\n\r\nx\r\n');
    client.close();
    const { issuer } = provider;
    const oauth = { issuer, clientId: 'client-1', scope: 'imap offline_access' };
    const signIn = async () => {
      const settings = { ...oauth, provider: null, appOnly: false, clientSecret: null };
      const who = { account: 'anna', settings, clientSecret: null, clock: systemClock };
      const { refresh } = await login(who, { show: ({ url }) => provider.visit(url) }, signal);
      return refresh.reveal();
    };
    const { host, port } = server;
    const settings = (more: object) => ({
      imap: {
        ...{ host, port, tls: 'none', user: 'anna', address: 'anna@home.example' },
        oauth: { ...oauth, ...more },
      },
    });
    const missing = await one.run(['account', 'add', 'x', '--settings', '-'], {
      stdin: JSON.stringify(settings({})),
    });
    expect(missing.stderr).toContain('imap.oauth.refreshToken');
    const first = await signIn();
    await one.add('anna', settings({ refreshToken: first }));
    const [stored] = await statement<{ settings: object }>(
      one.registry,
      sql`SELECT settings FROM account`,
    );
    expect(JSON.stringify(stored)).not.toContain(first);
    const two = await node('two', { first: one });
    const worker = one.start(program);
    await worker.said('run finished', { account: 'a1', kind: 'sweep' });
    const other = two.start(program);
    await other.said('session started');
    const refreshed = () => provider.requests.flatMap((request) => request.getAll('refresh_token'));
    const before = refreshed().length;
    await worker.end('SIGTERM');
    await other.said('run finished', { account: 'a1', kind: 'sweep' });
    while (refreshed().length < before + 3) await delay(50);
    // The provider would end the sign-in otherwise.
    expect(new Set(refreshed()).size).toBe(refreshed().length);
    expect(refreshed()[0]).toBe(first);
    await provider.revoke();
    await lastError('anna', 'imap.login-needed');
    const spoken = `${worker.story}${other.story}`;
    for (const token of refreshed()) expect(spoken).not.toContain(token);
    await other.end('SIGTERM');
  });

  test('takes in the archive of a single machine', async () => {
    const folder = path.join(one.folder, 'single');
    const accounts = [{ name: 'both', ...hosted('*') }];
    const config = path.join(one.folder, 'single.json');
    const rateLimit = { requestsPerMinute: 1_000_000, concurrency: 4 };
    const single = { dataDir: folder, accounts, rateLimit };
    writeFileSync(config, JSON.stringify(single), { mode: 0o600 });
    const synced = await ran(['sync', '--config', config], { now: Date.now });
    expect(synced).toMatchObject({ code: 0 });
    const places = (dir: string) => {
      const reader = openReaderAt(dir);
      try {
        return [reader.catalog.totals(), reader.catalog.reached().number] as const;
      } finally {
        reader.close();
      }
    };
    const [totals, commit] = places(folder);
    const file = path.join(one.folder, 'accounts.jsonl');
    writeFileSync(file, `${JSON.stringify({ ...accounts[0], name: 'customer' })}\n`);
    const taken = ['import', folder, '--accounts', file, '--tenant', 'acme'];
    expect(await one.json(taken)).toEqual([{ shard: 1, accounts: 1, commit }]);
    expect((await one.run(taken)).stderr).toContain('There is an account customer');
    expect(await one.json(['account', 'list'])).toMatchObject([
      { name: 'customer', tenant: 'acme', shard: 1 },
    ]);
    const worker = one.start(program);
    await worker.said('shard taken over', { from: 'bucket' });
    await worker.said('run finished', { account: 'a1', kind: 'sweep', added: 0, ended: 0 });
    await worker.end('SIGTERM');
    expect(places(path.join(one.cache, '1'))[0]).toEqual(totals);
    expect(await one.json(['verify'])).toMatchObject([{ shard: 1, findings: [] }]);
    expect(await one.json(['verify', '1', '--sample', '1'])).toMatchObject([{ checked: 1 }]);
    const store = one.store();
    for await (const { name, length } of store.list('shards/1/data', signal)) {
      await store.put(name, length, bytesAsStream(Buffer.alloc(length)), { signal });
    }
    await store.close();
    const [damaged] = await one.json(['verify'], { code: 3 });
    expect(Object(damaged).findings.length).toBeGreaterThan(0);
  });

  test('is of no use where the bucket is out of reach, and says so', async () => {
    const http = await HttpProxy.start(servers.radosgw.port);
    closing.push(() => http.stop());
    const postgres = { folder: servers.postgres.socketFolder };
    const two = await node('two', { first: one, through: { sql: postgres, http } });
    for (const address of ADDRESSES) await one.add(address.replace('@', '.'), hosted(address));
    const first = one.start(program);
    await first.said('run finished', { kind: 'sweep' }, 4);
    await until(sql<object>`SELECT 1 FROM shard WHERE messages > 40`);
    const second = two.start(program);
    await second.said('session started');
    http.faultFor = () => ({ do: 'answer', status: 403, code: 'InvalidAccessKeyId' });
    await first.end('SIGTERM');
    await until(sql<object>`SELECT 1 FROM shard
      WHERE failing ->> 'node' = 'two' AND failing ->> 'code' LIKE 'store-%'`);
    const [status] = await one.json(['status'], { code: 1 });
    expect(Object(status).attention.map(({ code }: { code: string }) => code)).toContain('failing');
    await two.json(['drain', '--node', 'two', '--wait']);
    const again = one.start(program);
    await again.said('run finished', { kind: 'sweep' }, 2);
    await until(sql<object>`SELECT 1 FROM shard WHERE failing IS NULL`);
    await Promise.all([again.end('SIGTERM'), second.end('SIGTERM')]);
    const third = two.start(program);
    await third.end('SIGCONT');
    expect(third.stderr).toContain('InvalidAccessKeyId');
  });

  test('keeps its shards while PostgreSQL is away for longer than a lease', async () => {
    const short = await buildHurriedProgram('5_000');
    servers = await Servers.start(Postgres.startOwn());
    const { postgres } = servers;
    closing.push(() => postgres.stop());
    one = await node('one');
    const two = await node('two', { first: one });
    const three = await node('three', { first: one });
    for (const address of ADDRESSES) await one.add(address.replace('@', '.'), hosted(address));
    const workers = [one.start(short), two.start(short)];
    await Promise.all(workers.map((worker) => worker.said('session started')));
    const killed = three.start(short);
    await killed.said('session started');
    await killed.end('SIGKILL');
    // From now on, they may end the sessions of others.
    await until(sql<object>`SELECT 1 FROM worker WHERE node = 'three' AND dead`);
    await until(sql<object>`SELECT 1 FROM shard WHERE messages > 40`);
    const held = sql<object>`SELECT holder, epoch FROM shard`;
    const before = await statement(one.registry, held);
    // Nobody is connected, and nobody can connect.
    const away = `${postgres.socket}.away`;
    const admin = await postgres.connect('postgres');
    renameSync(postgres.socket, away);
    await admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`);
    const said = (msg: string) =>
      workers.flatMap(({ lines }) => lines.filter((one) => one.msg === msg));
    const runs = said('run finished').length;
    // At most one each half a second.
    for (const worker of workers) await worker.said('the session could not be renewed', {}, 12);
    expect(said('run finished').length).toBeGreaterThan(runs);
    renameSync(away, postgres.socket);
    for (const name of ['anna', 'ben']) await one.json(['account', 'pause', `${name}.example.org`]);
    await Promise.any(workers.map((worker) => worker.said('index updated')));
    expect(await statement(one.registry, held)).toEqual(before);
    await until(sql<object>`SELECT 1 FROM worker WHERE NOT dead
      AND lease_until > clock_timestamp() HAVING count(*) = 2`);
    expect((await one.json(['status']))[0]).toMatchObject({ attention: [] });
    for (const worker of workers) await worker.end('SIGTERM');
    expect(said('the session is dead; another one starts')).toEqual([]);
  });
});
