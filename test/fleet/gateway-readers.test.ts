import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { endSession } from '../../src/fleet/sessions.ts';
import { start } from '../cli/child.ts';
import { StoredArchive } from '../export/stored-archive.ts';
import { askAt, idOf } from '../web/served.ts';
import { GatewayFleet, listMailbox } from './servers/gateways.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { done } from './servers/scene.ts';

const READERS = 100;
/** MiB of a message, more than all buffers on its way. */
const SIZE = 8;
const MEGABYTE = 1024 * 1024;
const program = fileURLToPath(new URL('./servers/gateway-process.ts', import.meta.url));

/** Bytes that a process has in memory. */
function memoryOf({ pid }: ChildProcess): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024;
}

/** A message of incompressible lines. */
function largeMessage(bytes: number): Buffer {
  const lines = randomBytes((bytes * 3) / 4)
    .toString('base64')
    .replaceAll(/.{76}/g, '$&\r\n');
  return Buffer.from(`Message-ID: <large@example.org>\r\nSubject: Large\r\n\r\n${lines}\r\n`);
}

describe.skipIf(withoutPostgres())('readers of one shard, through processes', () => {
  let postgres: Postgres;
  let fleet: GatewayFleet;
  let archive: StoredArchive;
  let web: ReturnType<typeof start>;
  const running: ChildProcess[] = [];
  const message = largeMessage(SIZE * MEGABYTE);
  let socket: string;
  let shard: number;

  const node = async (name: string, holds: readonly { shard: number; socket: string }[] = []) => {
    const registry = `postgresql:///${fleet.database}?host=${postgres.socketFolder}&port=5432&user=fleet`;
    const order = JSON.stringify({ registry, node: name, holds });
    const child = spawn(process.execPath, ['--import', 'tsx', program, order], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    running.push(child);
    const [line] = await once(createInterface({ input: child.stdout }), 'line');
    const said = z.object({ url: z.string(), session: z.string() }).parse(JSON.parse(line));
    return { child, ...said };
  };

  beforeAll(async () => {
    postgres = await Postgres.start();
    fleet = await GatewayFleet.create(postgres);
    archive = await StoredArchive.create();
    await archive.store([{ folder: 'INBOX', source: message }]);
    listMailbox(archive.dir, 'acme-anna', {
      ...{ host: 'mail.example.net', mailbox: 'AC-anna@example.org', address: 'anna@example.org' },
    });
    ({ shard } = await fleet.shard(['acme', 'anna']));
    socket = path.join(mkdtempSync(path.join(tmpdir(), 'relayed-')), 'web.sock');
    web = start(['web', '--json', '--data', archive.dir, '--relayed', socket]);
    const [line] = await once(createInterface({ input: web.child.stdout }), 'line');
    expect(JSON.parse(line)).toEqual({ socket });
  });
  afterAll(async () => {
    for (const child of running) child.kill('SIGKILL');
    web?.child.kill('SIGKILL');
    await fleet?.end();
    await postgres?.stop();
    archive?.remove();
  });

  const open = async (url: string, cookie: string): Promise<IncomingMessage> => {
    const { hostname, port } = new URL(url);
    const headers = { cookie: `mailkeep-${port}=${cookie}` };
    const target = `/m/${idOf(message)}/source`;
    const asked = httpRequest({ host: hostname, port, path: target, headers, agent: false });
    asked.end();
    const [response] = await once(asked, 'response');
    asked.on('error', () => undefined);
    return response;
  };

  const signIn = async (url: string): Promise<string> => {
    const expiresAt = new Date(Date.now() + 600_000);
    const rights = { accounts: null, mailboxes: null };
    const { secret } = await fleet.grant({ use: 'link', rights, expiresAt });
    const opened = await fetch(`${url}/enter`);
    const token = /name="token" value="([^"]+)"/.exec(await opened.text())?.[1] ?? '';
    const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? '';
    const body = new URLSearchParams({ code: secret, token });
    const entered = await fetch(`${url}/enter`, {
      ...{ method: 'POST', body, headers: { cookie }, redirect: 'manual' as const },
    });
    return entered.headers.getSetCookie()[0]?.split(';')[0]?.split('=')[1] ?? '';
  };

  test(`${READERS} at once get every byte, in little memory, and one that is cut off notices`, async () => {
    const near = await node('near', [{ shard, socket }]);
    const far = await node('far');
    const cookie = await signIn(far.url);
    const sizeOf = async (response: IncomingMessage): Promise<number> => {
      let bytes = 0;
      for await (const piece of response) bytes += piece.length;
      return bytes;
    };
    const whole = async () => sizeOf(await open(far.url, cookie));
    // Buffers of the first requests are not counted.
    for (let warm = 0; warm < 3; warm += 1) expect(await whole()).toBe(message.length);
    const processes = { near: near.child, far: far.child, web: web.child };
    const names = ['near', 'far', 'web'] as const;
    const peaks: (readonly number[])[] = [];
    const before = names.map((name) => memoryOf(processes[name]));
    for (let round = 0; round < 2; round += 1) {
      let most = before;
      const watch = setInterval(() => {
        const now = names.map((name) => memoryOf(processes[name]));
        most = most.map((bytes, at) => Math.max(bytes, now[at] ?? 0));
      }, 50);
      const responses = await Promise.all(
        Array.from({ length: READERS }, () => open(far.url, cookie)),
      );
      // All wait with a full buffer, then all read.
      for (const response of responses) await once(response, 'readable');
      const from = performance.now();
      const sizes = await Promise.all(responses.map(sizeOf));
      clearInterval(watch);
      const seconds = (performance.now() - from) / 1000;
      expect(sizes).toEqual(Array.from({ length: READERS }, () => message.length));
      const grown = most.map((bytes, at) => Math.round((bytes - (before[at] ?? 0)) / MEGABYTE));
      const facts = names.map((name, at) => `${name} +${grown[at]} MiB`).join(', ');
      console.info(`${READERS} × ${SIZE} MiB in ${seconds.toFixed(1)} s: ${facts}`);
      peaks.push(grown);
    }
    // Neither node keeps what its reader does not take, and nothing stays.
    for (const at of [0, 1]) {
      const [first = 0, second = 0] = peaks.map((grown) => grown[at] ?? 0);
      expect(first, names[at]).toBeLessThan(200);
      expect(second, names[at]).toBeLessThan(first + 50);
    }
    // Short answers, for the record.
    const { hostname: host, port } = new URL(far.url);
    const short = async (): Promise<void> => {
      const headers = { cookie: `mailkeep-${port}=${cookie}`, 'sec-fetch-site': 'same-origin' };
      for (let asked = 0; asked < 10; asked += 1) {
        const answer = await askAt({ host, port: Number(port) }, '/api/rows', { headers });
        expect(answer.status).toBe(200);
      }
    };
    const began = performance.now();
    await Promise.all(Array.from({ length: READERS }, short));
    const each = (10 * READERS * 1000) / (performance.now() - began);
    console.info(`${READERS} readers, short answers: ${Math.round(each)} a second`);
    // The holder is killed while it sends.
    const cut = await open(far.url, cookie);
    await once(cut, 'readable');
    const failed = once(cut, 'error');
    near.child.kill('SIGKILL');
    cut.resume();
    expect(String(await failed)).toContain('aborted');
    expect((await open(far.url, cookie)).statusCode).toBe(503);
    done(await endSession(fleet.registry, near.session));
    const next = await node('next', [{ shard, socket }]);
    expect(next.session).not.toBe(near.session);
    expect(await whole()).toBe(message.length);
  }, 600_000);
});
