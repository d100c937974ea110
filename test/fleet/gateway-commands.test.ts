import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { serveRelayed } from '../../src/web/relayed.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import type { StoredArchive } from '../export/stored-archive.ts';
import {
  archiveWith,
  menu,
  OTHERS,
  OURS,
  THEIRS,
  theirs,
  timetable,
} from '../web/equal-archives.ts';
import { HOST } from '../web/foreign-calls.ts';
import { idOf, NOW } from '../web/served.ts';
import { GatewayFleet, type GatewayNode, listMailbox } from './servers/gateways.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { statement } from './servers/scene.ts';

describe.skipIf(withoutPostgres())('reading commands with --fleet-account', () => {
  let postgres: Postgres;
  let fleet: GatewayFleet;
  let archive: StoredArchive;
  let near: GatewayNode;
  let shard: number;
  let socket: string;
  const folder = mkdtempSync(path.join(tmpdir(), 'fleet-account-'));

  beforeAll(async () => {
    postgres = await Postgres.start();
    fleet = await GatewayFleet.create(postgres);
    archive = await archiveWith(OTHERS[2] ?? null);
    const at = (address: string) => ({ host: HOST, mailbox: `AC-${address}`, address });
    listMailbox(archive.dir, 'acme-anna', at(OURS));
    listMailbox(archive.dir, 'other-anna', at(THEIRS));
    socket = path.join(mkdtempSync(path.join(tmpdir(), 'relayed-')), 'web.sock');
    const relayed = await serveRelayed({
      ...{ dataDir: archive.dir, socket, accounts: () => new Map(), now: () => NOW },
      onError: (error) => expect.unreachable(String(error)),
    });
    fleet.later(async () => {
      await relayed.close();
      archive.remove();
    });
    ({ shard } = await fleet.shard(['acme', 'anna'], ['other', 'anna']));
    near = await fleet.node('near');
    await near.hold(shard, socket);
    writeFileSync(path.join(folder, 'keys'), `key-1 ${'5a'.repeat(32)}\n`, { mode: 0o600 });
    const config = {
      fleet: {
        registry: `postgresql:///${fleet.database}?host=${postgres.socketFolder}&user=fleet`,
        store: { bucket: 'fleet', prefix: 'mail', endpoint: 'http://127.0.0.1:9' },
        ...{ keyFile: 'keys', cache: 'cache', node: 'desk' },
      },
      web: { publicUrl: 'https://mail.example.org' },
    };
    writeFileSync(path.join(folder, 'config.json'), JSON.stringify(config));
  });
  afterAll(async () => {
    await fleet?.end();
    await postgres?.stop();
  });

  const run = (args: readonly string[], input?: string) => {
    const [command = '', ...rest] = args;
    const of = ['--config', 'config.json', '--fleet-account', 'anna'];
    const tenant = args.includes('--fleet-tenant') ? [] : ['--fleet-tenant', 'acme'];
    const options = { cwd: folder, ...(input === undefined ? {} : { input }) };
    return mailkeep([command, ...of, ...tenant, ...rest], options);
  };
  const local = (args: readonly string[]) =>
    mailkeep([...args, '--data', archive.dir], { cwd: folder });
  const ids = (stdout: string) =>
    jsonLines(stdout).map((line) => z.object({ id: z.string() }).parse(line).id);
  const fine = async (args: readonly string[], input?: string) => {
    const ended = await run(args, input);
    expect({ code: ended.code, stderr: ended.stderr }).toEqual({ code: 0, stderr: '' });
    return ended;
  };

  test('search and list print what the archive has of the account', async () => {
    const query = ['ferry', '--json'];
    const found = ids((await fine(['search', ...query])).stdout);
    const limited = ids((await local(['search', `mailbox:${OURS}`, ...query])).stdout);
    expect(found.length).toBeGreaterThan(1);
    expect(found).toEqual(limited);
    expect((await fine(['search', 'ferry', '-n', '1'])).stdout).toContain('As listed');
    expect((await run(['search', 'zebra'])).stderr).toContain('Nothing found.');
    const listed = ids((await fine(['list', '--folder', 'INBOX', '--json'])).stdout);
    expect(listed).toContain(idOf(menu));
    expect(listed).not.toContain(idOf(theirs[0] ?? ''));
    expect(ids((await fine(['list', '--deleted', '--json'])).stdout)).toHaveLength(1);
  });

  test('show, attachments and history read a message, by its beginning', async () => {
    const id = idOf(timetable);
    expect((await fine(['show', id, '--raw'])).bytes).toEqual(timetable);
    const own = await local(['show', id, '--no-pager']);
    expect((await fine(['show', id, '--no-pager'])).stdout.replaceAll(/ --data \S+/g, '')).toBe(
      own.stdout.replaceAll(/ --data \S+/g, ''),
    );
    expect((await fine(['show', id.slice(0, 12), '--headers'])).stdout).toContain(
      'Subject: Timetable',
    );
    expect((await fine(['attachments', id])).stdout).toContain('timetable.txt');
    await fine(['attachments', id, '--save', 'saved']);
    expect(readdirSync(path.join(folder, 'saved'))).toEqual(['timetable.txt']);
    const events = (await fine(['history', id])).stdout;
    expect(events).toContain(`${OURS} / INBOX`);
    expect(events).not.toContain(THEIRS);
    const foreign = await run(['show', idOf(theirs[0] ?? ''), '--raw']);
    expect([foreign.code, foreign.stdout]).toEqual([2, '']);
  });

  test('export writes one file, and nothing that is there is replaced', async () => {
    await fine(['export', '--format', 'mbox', '--to', 'all.mbox', '--query', 'in:INBOX']);
    const written = readFileSync(path.join(folder, 'all.mbox'));
    expect(written.includes(menu.subarray(0, 40))).toBe(true);
    expect(written.includes('Not for us')).toBe(false);
    const eml = ['export', '--format', 'eml', '--query', `id:${idOf(menu)}`, '--to', 'menu.eml'];
    await fine(eml);
    const hash = createHash('sha256').update(readFileSync(path.join(folder, 'menu.eml')));
    expect(hash.digest('hex')).toBe(idOf(menu));
    expect((await run(eml)).code).not.toBe(0);
    expect((await run(['export', '--format', 'maildir', '--to', 'x'])).code).toBe(2);
  });

  test('an assistant is answered, and status says how fresh the archive is', async () => {
    const ask = (id: number, method: string, params: object) =>
      `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
    const info = { name: 'test', version: '1' };
    const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: info };
    const call = { name: 'search', arguments: { query: 'ferry' } };
    const input = ask(1, 'initialize', hello) + ask(2, 'tools/call', call);
    const [first, second] = jsonLines((await fine(['mcp'], input)).stdout);
    expect(first).toMatchObject({ id: 1, result: { serverInfo: { name: 'mailkeep' } } });
    expect(JSON.stringify(second)).toContain(idOf(menu));
    expect(JSON.stringify(second)).not.toContain(idOf(theirs[0] ?? ''));
    const status = JSON.parse((await fine(['status', '--json'])).stdout);
    expect(status.mailboxes).toHaveLength(1);
  });

  test('a command names one account, and leaves a revoked token and an event', async () => {
    const ambiguous = await mailkeep(
      ['search', '--config', 'config.json', '--fleet-account', 'anna', 'x'],
      { cwd: folder },
    );
    expect(ambiguous.stderr).toContain('acme');
    expect((await run(['search', '--count', 'x'])).stderr).toContain('--count cannot be used');
    const left = await statement<{ open: number; read: number }>(
      fleet.registry,
      sql`SELECT count(*) FILTER (WHERE revoked_at IS NULL) AS open, count(*) AS read FROM token
        WHERE name LIKE '% at desk'`,
    );
    expect(left[0]?.open).toBe(0);
    expect(left[0]?.read).toBeGreaterThan(10);
  });

  test('access is given, listed and taken away', async () => {
    const access = async (...args: readonly string[]) => {
      const line = ['fleet', 'access', ...args, '--config', 'config.json', '--json', '--quiet'];
      const { code, stdout, stderr } = await mailkeep(line, { cwd: folder });
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return jsonLines(stdout);
    };
    const created = z.object({ id: z.string(), token: z.string() });
    const [made] = await access('token', 'anna', '--tenant', 'acme', '--name', 'phone');
    const { id, token } = created.parse(made);
    expect((await near.api('/api/v1/account', token)).status).not.toBe(401);
    const tenant = ['--tenant', 'acme', '--mailbox', `${HOST}/AC-${OURS}`];
    const [wide] = await access('token', ...tenant, '--name', 'all', '--expires', '1');
    const search = '/api/v1/fleet/search?q=ferry';
    const all = await near.api(search, created.parse(wide).token);
    expect(JSON.parse(all.text).data.messages.length).toBeGreaterThan(1);
    const [link] = await access('link', 'anna', '--tenant', 'acme');
    const { signInUrl } = z.object({ signInUrl: z.string() }).parse(link);
    expect(signInUrl).toMatch(/^https:\/\/mail\.example\.org\/enter#/);
    expect((await near.enter(signInUrl.replace(/^.*#/, ''))).status).toBe(303);
    const listed = JSON.stringify(await access('list', '--tenant', 'acme'));
    expect(listed).toContain(id);
    expect(listed).not.toContain(token);
    expect(await access('revoke', id)).toEqual([{ revoked: id }]);
    expect((await near.api('/api/v1/account', token)).status).toBe(401);
  });

  test('a command waits for the next holder', async () => {
    await near.release(shard);
    const found = run(['search', 'ferry']);
    const next = await fleet.node('next');
    await next.hold(shard, socket);
    expect((await found).stdout).toContain('timetable of the ferry');
  });
});
