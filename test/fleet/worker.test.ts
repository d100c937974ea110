import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openReaderAt } from '../../src/catalog/open-reader.ts';
import { sealWork } from '../../src/fleet/account-settings.ts';
import { encodeWork } from '../../src/fleet/exclusive.ts';
import { readFleetKeys } from '../../src/fleet/keys.ts';
import { decidePurge } from '../../src/fleet/purges.ts';
import { importRegistry } from '../../src/fleet/registry-export.ts';
import { requireFleet } from '../../src/fleet/schema.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines } from '../cli/child.ts';
import { type Ran, ran } from '../cli/surface.ts';
import { startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import { RawClient } from '../imap/raw-client.ts';
import { freePort } from '../peers/ports.ts';
import { FleetNode, type NodeOptions } from './servers/fleet-nodes.ts';
import { Servers, withoutServers } from './servers/nodes.ts';
import { Rows } from './servers/rows.ts';
import { done, statement } from './servers/scene.ts';
import { buildHurriedProgram } from './worker-histories/hurried-program.ts';

const ADDRESSES = ['anna@example.org', 'ben@example.org'];

describe.skipIf(withoutServers())('a worker', () => {
  let servers: Servers;
  let program: string;
  let sandbox: Sandbox;
  let one: FleetNode;
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    servers = await Servers.start();
    program = await buildHurriedProgram();
  });
  beforeEach(async () => {
    sandbox = await startSandbox({ addresses: ADDRESSES, mail: { messages: 60 } });
    closing.push(() => sandbox.close());
    one = await node('one');
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    await servers?.stop();
  });

  const node = async (name: string, options: NodeOptions = {}): Promise<FleetNode> => {
    const made = await FleetNode.make(servers, name, options);
    closing.push(() => made.remove());
    return made;
  };
  const hosted = (address: string) => ({
    ...{ baseUrl: sandbox.mailboxUrl, token: sandbox.tokens.mailbox },
    mailboxes: { include: [address] },
  });
  const addBoth = async () => {
    for (const address of ADDRESSES) await one.add(address.replace('@', '.'), hosted(address));
  };
  /** Waits until a query returns a row. */
  const until = async <Row>(query: ReturnType<typeof sql<Row>>): Promise<Row> => {
    for (;;) {
      const [row] = await statement(one.registry, query);
      if (row !== undefined) return row;
      await delay(50);
    }
  };
  const shippedCommit = async (): Promise<number> => {
    const [row] = await statement<{ number: number }>(
      one.registry,
      sql`SELECT commit_number AS number FROM shard`,
    );
    return row?.number ?? 0;
  };
  const messagesIn = (dir: string): number => {
    const reader = openReaderAt(dir);
    try {
      return reader.catalog.totals().messages;
    } finally {
      reader.close();
    }
  };

  test('mirrors accounts of both kinds, and another one takes them over', async () => {
    await addBoth();
    const two = await node('two', { first: one });
    const first = one.start(program);
    await first.said('run finished', { kind: 'sweep' }, 4);
    expect(await one.json(['status'])).toMatchObject([
      { attention: [], nodes: [{ node: 'one', shards: 1, accounts: 2 }] },
    ]);
    const second = two.start(program);
    await second.said('session started');
    expect(await first.end('SIGTERM')).toBe(0);
    await second.said('run finished', { kind: 'sweep' });
    expect(await second.end('SIGTERM')).toBe(0);
    const messages = messagesIn(path.join(two.cache, '1'));
    expect(messages).toBe(messagesIn(path.join(one.cache, '1')));
    expect(messages).toBeGreaterThan(40);
    expect(await statement(one.registry, sql`SELECT holder, messages FROM shard`)).toEqual([
      { holder: null, messages },
    ]);
  });

  test.skipIf(withoutDovecot())('mirrors an IMAP account', async () => {
    const server = await startDovecot({ users: ['anna@home.example'] });
    closing.push(() => server.stop());
    const client = await RawClient.login(server);
    for (let n = 1; n <= 5; n += 1) {
      await client.append('INBOX', `Message-ID: <${n}@x>\r\nSubject: letter ${n}\r\n\r\nx\r\n`);
    }
    client.close();
    const { host, port, user, password } = server;
    await one.add('home', { imap: { host, port, tls: 'none', user, password } });
    // The mailbox is taken: the others are mirrored all the same.
    await one.add('again', { imap: { host, port, tls: 'none', user, password } });
    await one.add('anna', hosted('anna@example.org'));
    const worker = one.start(program);
    await worker.said('run finished', { account: 'a1', kind: 'sweep' });
    await worker.said('run finished', { account: 'a3', kind: 'sweep' });
    await until(sql<object>`SELECT 1 FROM account WHERE last_error = 'config-invalid'`);
    expect(await one.json(['account', 'list'])).toMatchObject([
      { name: 'again', lastError: 'config-invalid' },
      { name: 'anna', lastError: null },
      { name: 'home', lastError: null },
    ]);
    await worker.end('SIGTERM');
    const reader = openReaderAt(path.join(one.cache, '1'));
    const boxes = reader.catalog.folders.mailboxes().map(({ address }) => address);
    reader.close();
    expect(boxes.toSorted()).toEqual(['anna@example.org', 'anna@home.example']);
  });

  test('follows accounts that are added, paused and resumed', async () => {
    await one.add('anna', hosted('anna@example.org'));
    const worker = one.start(program);
    await worker.said('run finished', { account: 'a1', kind: 'sweep' });
    await one.add('ben', hosted('ben@example.org'));
    await worker.said('run finished', { account: 'a2', kind: 'sweep' });
    await one.json(['account', 'pause', 'anna']);
    await one.json(['account', 'pause', 'ben']);
    await worker.said('ended');
    await one.json(['account', 'resume', 'ben']);
    const [before] = await worker.said('ended');
    const isAfter = () =>
      worker.lines
        .slice(worker.lines.indexOf(before ?? { msg: '' }))
        .some((line) => line.msg === 'run finished' && line.account === 'a2');
    while (!isAfter()) await worker.news();
    expect(worker.lines.filter(({ msg }) => msg === 'daemon started')).toHaveLength(2);
  });

  test('does not give the secrets of the fleet to its daemons, and leaves none behind', async () => {
    await addBoth();
    const worker = one.start(program);
    const [started] = await worker.said('daemon started');
    const environment = readFileSync(`/proc/${started?.pid}/environ`, 'latin1');
    expect(environment).not.toContain(one.env.AWS_SECRET_ACCESS_KEY);
    const line = readFileSync(`/proc/${started?.pid}/cmdline`, 'latin1').split('\0');
    const config = line[line.indexOf('--config') + 1] ?? '';
    expect(readFileSync(config, 'utf8')).toContain(sandbox.tokens.mailbox);
    await worker.end('SIGTERM');
    expect(existsSync(path.dirname(config))).toBe(false);
  });

  test('forgets a message everywhere', async () => {
    await addBoth();
    const worker = one.start(program);
    await worker.said('run finished', { kind: 'sweep' }, 4);
    const dir = path.join(one.cache, '1');
    await until(sql<object>`SELECT 1 FROM shard WHERE messages > 40`);
    const reader = openReaderAt(dir);
    const [hit] = reader.catalog.list({});
    reader.close();
    const message = hit?.id ?? '';
    expect(message).toMatch(/^[0-9a-f]{64}$/);
    const fleet = await requireFleet(one.registry);
    const { session, epoch } = await until(
      sql<{ session: string; epoch: number }>`SELECT holder AS session, epoch FROM shard`,
    );
    const work = encodeWork({ messages: [message] });
    const sealed = sealWork(readFleetKeys(one.keyFile), fleet.id, 1, work);
    const purge = { reason: 'forgotten', work: sealed, askedBy: 'anna' } as const;
    done(await decidePurge(one.registry, { shard: 1, epoch, session }, purge));
    await worker.said('purges carried out', { done: 1 });
    await until(sql<object>`SELECT 1 FROM purge WHERE ended_at IS NOT NULL`);
    const after = openReaderAt(dir);
    expect(after.catalog.messages.purgedFor(message)).toBe('forgotten');
    after.close();
    const sweeps = worker.lines.filter(({ kind }) => kind === 'sweep').length;
    await worker.said('run finished', { kind: 'sweep' }, sweeps + 2);
    await worker.end('SIGTERM');
    expect((await ran(['verify', '--data', dir], { now: Date.now })).code).toBe(0);
  });

  test.each(['its folder has', 'a take-over that was killed had set aside'])(
    'takes a shard back to merge what %s and nobody shipped',
    async (where) => {
      await addBoth();
      const first = one.start(program);
      await first.said('run finished', { kind: 'sweep' }, 4);
      await first.end('SIGTERM');
      const { store } = sandbox.service;
      const mailbox = store.mailboxByAddress('anna@example.org');
      if (mailbox === null) throw new Error('there is no mailbox');
      const inbox = store.folderFor(mailbox, 'INBOX');
      const deliver = (subject: string) =>
        store.add(inbox, Buffer.from(`Subject: ${subject}\r\n\r\nx\r\n`), Date.now(), []);
      const uid = deliver('unshipped');
      const dir = path.join(one.cache, '1');
      const config = path.join(one.folder, 'single.json');
      const accounts = [{ name: 'a1', ...hosted('anna@example.org') }];
      writeFileSync(config, JSON.stringify({ accounts }), { mode: 0o600 });
      const line = ['sync', '--config', config, '--data', dir];
      expect((await ran(line, { now: Date.now })).stderr).toBe('');
      store.remove(inbox, uid);
      const two = await node('two', { first: one });
      const second = two.start(program);
      await second.said('shard taken over', { from: 'bucket' });
      const before = await shippedCommit();
      deliver('later');
      await until(sql<object>`SELECT 1 FROM shard WHERE commit_number > ${before}`);
      if (where !== 'its folder has') renameSync(dir, `${dir}.aside-1`);
      const again = one.start(program);
      await second.said('shard released');
      await again.said('a folder that ran ahead was merged', { merged: 1 });
      const query = 'subject:unshipped is:deleted';
      const found = await ran(['search', query, '--json', '--data', dir], { now: Date.now });
      expect(jsonLines(found.stdout)).toHaveLength(1);
      await Promise.all([again.end('SIGTERM'), second.end('SIGTERM')]);
    },
  );

  test('lets one customer forget a message that another one keeps', async () => {
    const raw = 'From: news@example.org\r\nSubject: to everybody\r\n\r\nthe same to all\r\n';
    const { store } = sandbox.service;
    for (const mailbox of store.mailboxes.values()) {
      store.add(store.folderFor(mailbox, 'INBOX'), Buffer.from(raw), Date.now(), []);
    }
    const id = hash('sha256', raw);
    one.configure({}, { address: `127.0.0.1:${await freePort()}` });
    await addBoth();
    const worker = one.start(program);
    await worker.said('readers are let in');
    await worker.said('run finished', { kind: 'sweep' }, 4);
    await until(sql<object>`SELECT 1 FROM shard WHERE messages > 40`);
    const shown = (account: string): Promise<Ran> =>
      one.command(['show', id, '--raw', '--fleet-account', account]);
    expect((await shown('anna.example.org')).stdout).toBe(raw);
    const [planned] = await one.json(['forget', 'anna.example.org', id.slice(0, 9), '--dry-run']);
    expect(planned).toMatchObject({ wouldForget: { messages: [{ id, subject: 'to everybody' }] } });
    expect(await one.json(['forget', 'anna.example.org', id.slice(0, 9), '--yes'])).toEqual([
      {
        ...{ shard: 1, number: 1, ended: true },
        ...{ messages: [id], mailboxes: ['anna@example.org'] },
      },
    ]);
    expect(await one.json(['forget', 'anna.example.org', '--list'])).toMatchObject([
      { number: 1, hasEnded: true, askedBy: 'default/anna.example.org' },
    ]);
    expect(await one.json(['forget', 'ben.example.org', '--list'])).toEqual([]);
    const sweeps = worker.lines.filter(({ kind }) => kind === 'sweep').length;
    await worker.said('run finished', { kind: 'sweep' }, sweeps + 4);
    expect((await shown('ben.example.org')).stdout).toBe(raw);
    expect(await shown('anna.example.org')).toMatchObject({ code: 2, stdout: '' });
    await worker.end('SIGTERM');
    const dir = path.join(one.cache, '1');
    const reader = openReaderAt(dir);
    const places = [...reader.catalog.list({})].filter((line) => line.id === id);
    reader.close();
    expect(places.map(({ mailbox }) => mailbox)).toEqual(['ben@example.org']);
    expect((await ran(['verify', '--data', dir], { now: Date.now })).code).toBe(0);
  });

  test('lets readers in, at any node', async () => {
    await addBoth();
    const port = await freePort();
    const reader = await node('two', { first: one });
    one.configure({}, { address: `127.0.0.1:${port}` });
    const worker = one.start(program);
    await worker.said('readers are let in');
    await worker.said('run finished', { kind: 'sweep' }, 4);
    const search = async (): Promise<Ran> =>
      reader.command(['search', '--fleet-account', 'anna.example.org', '--json', 'folder:INBOX']);
    const { code, stdout, stderr } = await search();
    if (code !== 0) throw new Error(`${stderr}${worker.story}`);
    const found = jsonLines(stdout).map((line) => Object(line).mailbox);
    expect(new Set(found)).toEqual(new Set(['anna@example.org']));
    await worker.end('SIGTERM');
  });

  /** Delivers a message to every mailbox. Returns what removes it again. */
  const deliverAll = (subject: string) => {
    const { store } = sandbox.service;
    const removals = [...store.mailboxes.values()].map((mailbox) => {
      const inbox = store.folderFor(mailbox, 'INBOX');
      const raw = Buffer.from(`Subject: ${subject}\r\n\r\n${subject}\r\n`);
      const uid = store.add(inbox, raw, Date.now(), []);
      return () => store.remove(inbox, uid);
    });
    return () => {
      for (const remove of removals) remove();
    };
  };

  /** Runs `fleet recover --all` with short waits. */
  const recoverAll = (): unknown[] => {
    const line = [program, 'fleet', 'recover', '--all', '--json'];
    const env = { ...one.env, PATH: process.env.PATH };
    const options = { cwd: one.folder, env, encoding: 'utf8' } as const;
    return jsonLines(execFileSync(process.execPath, line, options));
  };

  /** Keeps the rows of the registry, and returns once more was shipped since. */
  const keepRowsAndShip = async (): Promise<Rows> => {
    await until(sql<object>`SELECT 1 FROM shard WHERE messages > 40`);
    const rows = await Rows.keep(await servers.postgres.connect(one.database));
    deliverAll('later');
    const before = await shippedCommit();
    await until(sql<object>`SELECT 1 FROM shard WHERE commit_number > ${before}`);
    return rows;
  };

  test('lets readers see the mail of accounts that are all paused, also at the next node', async () => {
    // Too few for a snapshot of the catalog.
    const few = await startSandbox({ addresses: ADDRESSES, mail: { messages: 10 } });
    closing.push(() => few.close());
    const server = { baseUrl: few.mailboxUrl, token: few.tokens.mailbox };
    for (const name of ['anna', 'ben']) {
      await one.add(name, { ...server, mailboxes: { include: [`${name}@example.org`] } });
    }
    const two = await node('two', { first: one });
    two.configure({}, { address: `127.0.0.1:${await freePort()}` });
    const first = one.start(program);
    await first.said('run finished', { kind: 'sweep' }, 4);
    await one.json(['account', 'pause', 'anna']);
    await one.json(['account', 'pause', 'ben']);
    await first.end('SIGTERM');
    rmSync(path.join(one.cache, '1'), { recursive: true });
    const second = two.start(program);
    await second.said('readers are let in');
    await second.said('shard taken over', { from: 'bucket' });
    await second.said('index updated');
    const line = ['search', '--fleet-account', 'anna', '--json', 'folder:INBOX'];
    const { stdout, stderr } = await one.command(line);
    expect(jsonLines(stdout).length, `${stderr}${second.story}`).toBeGreaterThan(0);
    await second.end('SIGTERM');
    expect(second.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('recovers by itself after PostgreSQL was restored to an earlier copy', async () => {
    await addBoth();
    const first = one.start(program);
    await first.said('run finished', { kind: 'sweep' }, 4);
    const rows = await keepRowsAndShip();
    await first.end('SIGKILL');
    const shipped = await shippedCommit();
    await rows.restore();
    await statement(one.registry, sql`UPDATE shard SET timeline = 'another'`);
    // Also without the disk of the first node.
    const two = await node('two', { first: one });
    const second = two.start(program);
    const [recovered] = await second.said('shard recovered');
    expect(recovered).toMatchObject({ commit: shipped, skipped: 0 });
    await second.said('shard taken over', { from: 'bucket' });
    await second.said('run finished', { kind: 'sweep' }, 4);
    await second.end('SIGTERM');
    const dir = path.join(two.cache, '1');
    expect((await ran(['verify', '--data', dir], { now: Date.now })).code).toBe(0);
  });

  test('is recovered by a command after the disk of PostgreSQL was reset to a snapshot', async () => {
    await addBoth();
    const first = one.start(program);
    await first.said('run finished', { kind: 'sweep' }, 4);
    const rows = await keepRowsAndShip();
    await first.end('SIGTERM');
    const shipped = await shippedCommit();
    await rows.restore();
    // In the snapshot, the session is alive. Its lease has run out.
    await statement(one.registry, sql`UPDATE worker SET lease_until = clock_timestamp()`);
    expect(recoverAll()).toMatchObject([{ shard: 1, commit: shipped, skipped: 0 }]);
  });

  test.each(['a change', 'a ship'])(
    'recovers by itself after a dump was loaded into the same cluster, which %s shows',
    async (by) => {
      await addBoth();
      const worker = one.start(program);
      await worker.said('run finished', { kind: 'sweep' }, 4);
      const rows = await keepRowsAndShip();
      if (by === 'a change') await one.json(['account', 'pause', 'ben.example.org']);
      const shipped = await shippedCommit();
      await rows.restore();
      deliverAll('after');
      const [recovered] = await worker.said('shard recovered');
      expect(Number(recovered?.commit)).toBeGreaterThanOrEqual(shipped);
      await worker.said('shard taken over', { from: 'folder' });
      await until(sql<object>`SELECT 1 FROM shard WHERE commit_number > ${shipped}`);
      await worker.end('SIGTERM');
    },
  );

  test('does not wipe what only a folder has after the bucket lost objects', async () => {
    await addBoth();
    const first = one.start(program);
    await first.said('run finished', { kind: 'sweep' }, 4);
    await until(sql<object>`SELECT 1 FROM shard WHERE messages > 40`);
    const before = await shippedCommit();
    const remove = deliverAll('only here');
    await until(sql<object>`SELECT 1 FROM shard WHERE commit_number > ${before}`);
    await first.end('SIGTERM');
    remove();
    const [row] = await statement(
      one.registry,
      sql<{ manifest: string }>`SELECT manifest FROM shard`,
    );
    const store = one.store();
    await store.delete(`shards/1/${row?.manifest}`, new AbortController().signal);
    await store.close();
    recoverAll();
    const two = await node('two', { first: one });
    const second = two.start(program);
    await second.said('shard taken over');
    await second.said('run finished', { kind: 'sweep' }, 2);
    const recovered = await shippedCommit();
    deliverAll('elsewhere');
    await until(sql<object>`SELECT 1 FROM shard WHERE commit_number > ${recovered}`);
    const again = one.start(program);
    await again.said('a folder that ran ahead was merged');
    await Promise.all([again.end('SIGTERM'), second.end('SIGTERM')]);
    const line = [
      'search',
      'subject:only is:deleted',
      '--json',
      '--data',
      path.join(one.cache, '1'),
    ];
    const found = await ran(line, { now: Date.now });
    expect(jsonLines(found.stdout)).not.toEqual([]);
  });

  test('has what a new PostgreSQL needs after the old one was lost', async () => {
    await addBoth();
    const first = one.start(program);
    await first.said('run finished', { kind: 'sweep' }, 4);
    await one.json(['account', 'pause', 'ben.example.org']);
    const { store } = sandbox.service;
    const [shipped] = await statement<{ number: number }>(
      one.registry,
      sql`SELECT commit_number AS number FROM shard`,
    );
    await first.said('registry exported', {}, 2);
    await first.end('SIGTERM');
    const objects = one.store();
    const signal = new AbortController().signal;
    const lost = { database: await servers.postgres.create() };
    const two = await node('two', { first: one, ...lost });
    const registry = await servers.postgres.open(lost.database);
    const keys = readFleetKeys(one.keyFile);
    const { accounts } = await importRegistry(registry, keys, objects, signal);
    expect(accounts).toBe(2);
    await expect(importRegistry(registry, keys, objects, signal)).rejects.toMatchObject({
      code: 'fleet-registry-used',
    });
    await objects.close();
    expect(await two.json(['account', 'list'])).toMatchObject([
      { name: 'anna.example.org', state: 'active', shard: 1 },
      { name: 'ben.example.org', state: 'paused', shard: 1 },
    ]);
    const second = two.start(program);
    const [recovered] = await second.said('shard recovered');
    expect(Number(recovered?.commit)).toBeGreaterThanOrEqual(shipped?.number ?? 0);
    await second.said('shard taken over', { from: 'bucket' });
    const [mailbox] = store.mailboxes.values();
    if (mailbox === undefined) throw new Error('there is no mailbox');
    store.add(store.folderFor(mailbox, 'INBOX'), Buffer.from('A: b\r\n\r\n'), Date.now(), []);
    await second.said('run finished', { kind: 'sweep' }, 2);
    await second.end('SIGTERM');
    await two.add('carl', hosted('carl@example.org'));
    const [next] = await statement<{ id: number }>(
      registry,
      sql`SELECT max(id) AS id FROM account`,
    );
    // Number 3 may have been given to an account that no export has.
    expect(next?.id).toBeGreaterThan(1_000);
  });

  describe('on a node that is not fit for it', () => {
    const refusal = async (place: FleetNode, limits?: string): Promise<string> => {
      const worker = place.start(program, limits);
      await worker.end('SIGCONT');
      return worker.stderr;
    };

    test('a key is missing, or is another one', async () => {
      await addBoth();
      const two = await node('two', { first: one });
      writeFileSync(two.keyFile, `other ${'7'.repeat(64)}\n`);
      expect(await refusal(two)).toContain('is not among the keys of the fleet here');
      const [name = ''] = readFileSync(one.keyFile, 'utf8').split(' ');
      writeFileSync(two.keyFile, `${name} ${'7'.repeat(64)}\n`);
      expect(await refusal(two)).toContain('it was changed, or that key is another one');
      expect(await statement(one.registry, sql`SELECT 1 FROM worker`)).toEqual([]);
    });

    test('its name is that of another disk', async () => {
      const worker = one.start(program);
      await worker.said('session started');
      const copied = await node('one', { first: one });
      expect(await refusal(copied)).toContain('The node one has another disk than');
      await worker.end('SIGTERM');
      await one.json(['node', 'remove', 'one', '--disk-destroyed']);
      const next = copied.start(program);
      await next.said('session started');
      await next.end('SIGTERM');
    });

    test('it may open too few files', async () => {
      expect(await refusal(one, 'ulimit -n 1024')).toContain('may have only 1024 files open');
    });

    test('the disk is short', async () => {
      one.configure({ minFreeBytes: '900000G' });
      expect(await refusal(one)).toMatch(/Only .+ are free in .+cache/);
    });

    test('a shard moves away from a disk that fills up, and comes back', async () => {
      const disk = path.join(one.folder, 'disk');
      mkdirSync(disk);
      if (!mounted(disk)) return;
      closing.push(() => execFileSync('umount', ['-l', disk]));
      const small = await node('small', {
        first: one,
        settings: { minFreeBytes: '4M' },
        fleet: { cache: disk },
      });
      await addBoth();
      const worker = small.start(program);
      await worker.said('run finished', { kind: 'sweep' }, 4);
      writeFileSync(path.join(disk, 'ballast'), Buffer.alloc(45 * 1024 * 1024));
      await until(sql<object>`SELECT 1 FROM shard
        WHERE failing ->> 'code' = 'fleet-disk-short' AND holder IS NULL`);
      expect(await one.json(['status'], { code: 1 })).toMatchObject([
        { attention: expect.arrayContaining([expect.objectContaining({ code: 'failing' })]) },
      ]);
      const other = one.start(program);
      await other.said('run finished', { kind: 'sweep' }, 2);
      await until(sql<object>`SELECT 1 FROM shard WHERE failing IS NULL`);
      rmSync(path.join(disk, 'ballast'));
      await other.end('SIGTERM');
      await worker.said('shard claimed', {}, 2);
      await worker.end('SIGTERM');
    });
  });

  test('drains, rebalances and removes nodes', async () => {
    for (let n = 0; n < 60; n += 1) {
      await one.add(`a${n}`, hosted(ADDRESSES[n % 2] ?? ''));
    }
    const two = await node('two', { first: one });
    const first = one.start(program);
    await until(sql<object>`SELECT 1 FROM shard HAVING count(*) > 1 AND count(holder) = count(*)`);
    const second = two.start(program);
    await second.said('session started');
    const moves = await one.json(['rebalance']);
    expect(moves.length).toBeGreaterThan(0);
    await second.said('shard taken over', {}, moves.length);
    await one.json(['drain', '--node', 'one', '--wait']);
    await until(sql<object>`SELECT 1 FROM shard s JOIN worker w ON w.session = s.holder
      GROUP BY w.node HAVING w.node = 'two' AND count(*) = (SELECT count(*) FROM shard)`);
    await first.end('SIGTERM');
    expect((await one.run(['node', 'remove', 'one'])).stderr).toContain('may have copies');
    await one.json(['node', 'remove', 'one', '--disk-destroyed']);
    await second.end('SIGTERM');
  });

  test('adds many accounts, and those that are missing when it is repeated', async () => {
    const lines = ADDRESSES.map((address, n) =>
      JSON.stringify({ name: `m${n}`, tenant: 'acme', ...hosted(address) }),
    );
    writeFileSync(path.join(one.folder, 'many.jsonl'), `${lines[0]}\n`);
    const added = (existing: number) => [{ added: 1, existing }];
    expect(await one.json(['account', 'add', '--bulk', 'many.jsonl'])).toEqual(added(0));
    writeFileSync(path.join(one.folder, 'many.jsonl'), `${lines.join('\n')}\n`);
    expect(await one.json(['account', 'add', '--bulk', 'many.jsonl'])).toEqual(added(1));
    const wrong = { name: 'x', baseUrl: sandbox.mailboxUrl, token: { env: 'TOKEN' } };
    writeFileSync(path.join(one.folder, 'many.jsonl'), `${JSON.stringify(wrong)}\n`);
    const refused = await one.run(['account', 'add', '--bulk', 'many.jsonl']);
    expect(refused.stderr).toContain('the secret itself');
    const odd = { name: 'x', tenant: 'a b', ...hosted('anna@example.org') };
    writeFileSync(path.join(one.folder, 'many.jsonl'), JSON.stringify(odd));
    const named = await one.run(['account', 'add', '--bulk', 'many.jsonl']);
    expect(named.stderr).toContain('"tenant" is not a plain name');
  });
});

function mounted(folder: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48M', 'none', folder], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
