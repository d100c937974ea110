import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { jsonLines } from './child.ts';
import { ran } from './surface.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-notify-'));

function configured(name: string, notify: object | undefined): string {
  const file = path.join(folder, name);
  const account = { name: 'main', baseUrl: 'http://127.0.0.1:9', token: { env: 'TOKEN' } };
  writeFileSync(file, JSON.stringify({ accounts: [account], notify }));
  return file;
}

async function answering(status: number) {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    text(request)
      .then((body) => bodies.push(body))
      .finally(() => response.writeHead(status).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => new Promise((resolve) => server.close(resolve));
  return { url: `http://127.0.0.1:${port}/ping/SECRET`, bodies, close };
}

test('each configured channel gets a notification that says it is a test', async () => {
  const server = await answering(204);
  const seen = path.join(folder, 'seen');
  const config = configured('both.json', {
    command: `{ printf '%s %s ' "$MAILKEEP_EVENT" "$MAILKEEP_OK"; cat; } >'${seen}'`,
    url: server.url,
  });
  const { code, stdout, stderr } = await ran(['notify', 'test', '--config', config], {
    env: { PATH: process.env.PATH },
  });
  await server.close();
  expect({ code, stdout, stderr }).toEqual({
    code: 0,
    stdout: 'notify.command: sent\nnotify.url: sent\n',
    stderr: '',
  });
  const said = readFileSync(seen, 'utf8');
  expect(said.startsWith('test 1 {')).toBe(true);
  const message = { event: 'test', ok: true, failing: [], recovered: [] };
  expect(JSON.parse(said.slice('test 1 '.length))).toMatchObject(message);
  expect(server.bodies.map((body) => JSON.parse(body))).toMatchObject([message]);
});

test('a channel that fails is named and ends with 1, and the other is tried all the same', async () => {
  const server = await answering(500);
  const config = configured('failing.json', { command: 'exit 7', url: server.url });
  const { code, stdout } = await ran(['notify', 'test', '--config', config, '--json'], {
    env: { PATH: process.env.PATH },
  });
  await server.close();
  expect(code).toBe(1);
  expect(jsonLines(stdout)).toEqual([
    { channel: 'command', sent: false, reason: 'exit code 7' },
    { channel: 'url', sent: false, reason: 'status 500' },
  ]);
  expect(server.bodies).toHaveLength(1);
  expect(stdout).not.toContain('SECRET');
});

test('without a channel there is nothing to try, which is an error', async () => {
  const config = configured('none.json', undefined);
  const { code, stderr } = await ran(['notify', 'test', '--config', config]);
  expect(code).toBe(2);
  expect(stderr).toContain('neither notify.command nor notify.url');
});
