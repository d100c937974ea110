import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';
import type { MailServer } from './server.ts';

let server: MailServer;
let folder: string;
const closing: (() => unknown)[] = [];

beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'imap-key-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  if (withoutDovecot()) return;
  server = await startDovecot();
  closing.push(() => server.stop());
  const client = await RawClient.login(server);
  for (const n of [1, 2, 3])
    await client.append('INBOX', `Subject: ${n}\r\nMessage-ID: <${n}@example.org>\r\n\r\n${n}\r\n`);
  client.close();
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Another port of the same server, as after a move to another host. */
async function anotherPort(): Promise<number> {
  const proxy = await ImapProxy.start({ to: server, readOnly: true });
  closing.push(() => proxy.stop());
  return proxy.port;
}

function account(name: string, port: number, more: object = {}) {
  const { host, user, password } = server;
  const address = `${user}@example.org`;
  return { name, imap: { host, port, tls: 'none', user, address, password, ...more } };
}

function run(accounts: readonly object[], ...args: readonly string[]) {
  const config = path.join(folder, 'config.json');
  writeFileSync(config, JSON.stringify({ accounts }), { mode: 0o600 });
  return mailkeep([...args, '--config', config]);
}

async function mailboxes(accounts: readonly object[]): Promise<readonly unknown[]> {
  const { stdout } = await run(accounts, 'status', '--json');
  const { mailboxes } = JSON.parse(stdout) as { mailboxes: { resourceId: string }[] };
  return mailboxes.map(({ resourceId }) => resourceId);
}

test.skipIf(withoutDovecot())(
  'a mailbox keeps its key when the server moves, and no second one starts without a word',
  async () => {
    const port = await anotherPort();
    const before = account('main', server.port);
    expect(await run([before], 'sync')).toMatchObject({ code: 0 });
    const kept = `127.0.0.1:${server.port}/${server.user}`;
    expect(await mailboxes([before])).toEqual([kept]);

    // Under the same name, and under another name with the same address.
    for (const name of ['main', 'other']) {
      const { code, stderr } = await run([account(name, port)], 'sync', '--json');
      expect(code).toBe(2);
      const { error } = JSON.parse(stderr) as { error: { code: string; hint: string } };
      expect(error.code).toBe('imap.mailbox-changed');
      expect(error.hint).toContain(`"id": "${kept}"`);
      expect(error.hint).toContain(`"id": "127.0.0.1:${port}/${server.user}"`);
    }
    expect(await mailboxes([before])).toEqual([kept]);

    // With the id, nothing is fetched again and nothing counts as deleted.
    const moved = account('main', port, { id: kept });
    const { code, stdout } = await run([moved], 'sync', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ mailboxes: [{ added: 0, ended: 0 }] });
    expect(await mailboxes([moved])).toEqual([kept]);

    // A second mailbox starts if its id is given, or if another account claims the first.
    const second = account('second', port, { id: 'second' });
    expect(await run([moved, second], 'sync')).toMatchObject({ code: 0 });
    expect(await mailboxes([moved, second])).toEqual([kept, 'second']);
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'account: finds the mailbox of one of two accounts on a host',
  async () => {
    const ada = account('ada', server.port);
    const other = account('Other', await anotherPort());
    expect(await run([ada, other], 'sync')).toMatchObject({ code: 0, stderr: '' });
    const client = await RawClient.login(server);
    await client.append('INBOX', 'Subject: 4\r\n\r\n4\r\n');
    client.close();
    expect(await run([ada, other], 'sync', '--account', 'ada')).toMatchObject({ code: 0 });
    const found = async (value: string) => {
      const { stdout } = await run([ada, other], 'search', `account:${value}`, '--json');
      return jsonLines(stdout).length;
    };
    expect(await found('ada')).toBe(4);
    expect(await found('other')).toBe(3);
    expect(await found('127.0.0.1')).toBe(4);
    // A new name for the account is a new name in the archive.
    const renamed = { ...ada, name: 'grace' };
    expect(await run([renamed, other], 'sync')).toMatchObject({ code: 0 });
    expect(await found('grace')).toBe(4);
  },
  60_000,
);
