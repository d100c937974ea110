import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { mailkeep } from '../cli/child.ts';
import { ran } from '../cli/surface.ts';
import { startCyrus, withoutCyrus } from '../imap/cyrus.ts';
import { startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import { ImapProxy } from '../imap/proxy.ts';
import { RawClient } from '../imap/raw-client.ts';
import { readBack } from '../imap/read-back.ts';

const SERVERS = [
  { name: 'Dovecot', without: withoutDovecot, start: () => startDovecot(), prefix: '' },
  { name: 'Cyrus', without: withoutCyrus, start: () => startCyrus(), prefix: 'INBOX.' },
] as const;

function configured(account: object): { readonly folder: string; readonly config: string } {
  const folder = mkdtempSync(path.join(tmpdir(), 'restore-account-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const config = path.join(folder, 'mailkeep.json');
  writeFileSync(config, JSON.stringify({ accounts: [{ name: 'ada', ...account }] }));
  return { folder, config };
}

function letter(n: number): string {
  const body = `body ${n}\r\n`.repeat(1 + (n % 7) * 40);
  return `From: ada@example.org\r\nSubject: letter ${n}\r\nMessage-ID: <${n}@example.org>\r\n\r\n${body}`;
}

describe.each(SERVERS)('$name', ({ without, start, prefix }) => {
  test.skipIf(without())(
    'a folder that was deleted at the server is restored with the account, and recognised by the next sync',
    async () => {
      const server = await start();
      onTestFinished(() => server.stop());
      const proxy = await ImapProxy.start({ to: server });
      onTestFinished(() => proxy.stop());
      const { host, user, password } = server;
      const imap = {
        ...{ host, port: proxy.port, tls: 'none', user, address: `${user}@example.org` },
        password: { command: ['printf', '%s\n', password] },
      };
      const { config } = configured({ imap });
      const run = (...args: readonly string[]) => mailkeep([...args, '--config', config]);
      const client = await RawClient.login(server);
      onTestFinished(() => client.close());
      const trips = `${prefix}Trips`;
      await client.command(`CREATE "${trips}"`);
      for (let n = 1; n <= 30; n += 1) {
        const flags = n % 3 === 0 ? '(\\Seen kw) ' : '';
        await client.append(n % 2 === 0 ? trips : 'INBOX', letter(n), flags);
      }
      const contents = async () =>
        (await readBack(server)).map(({ folder, messages }) => ({
          folder,
          messages: messages.map(({ sha256, flags }) => `${sha256} ${flags.join(' ')}`).sort(),
        }));
      expect(await run('sync')).toMatchObject({ code: 0 });
      const before = await contents();
      const stored = await run('stats', '--json');
      const listed = await run('list', '--json');

      await client.command('SELECT INBOX');
      expect((await client.command(`DELETE "${trips}"`)).status).toMatch(/^OK/);
      const asOf = new Date().toISOString();
      // A folder that is no longer listed is a pending deletion.
      expect(await run('sync')).toMatchObject({ code: 4 });
      const restored = await run(
        ...['restore', '--to-account', 'ada', '--as-of', asOf, '--in-place', '--json'],
      );
      expect(restored.stderr).toBe('');
      expect(JSON.parse(restored.stdout)).toMatchObject({ planned: 30, appended: 15, present: 15 });
      expect(await contents()).toEqual(before);

      const sources = () => proxy.commands.filter(({ text }) => text.includes('BODY.PEEK[]'));
      const fetched = sources().length;
      expect(await run('sync')).toMatchObject({ code: 0 });
      expect(sources().length).toBe(fetched);
      const ids = (text: string) => [...text.matchAll(/"id":"(\w+)"/g)].map(([, id]) => id).sort();
      expect(ids((await run('list', '--json')).stdout)).toEqual(ids(listed.stdout));
      // Each message is stored once.
      const stats = JSON.parse((await run('stats', '--json')).stdout);
      expect(stats).toEqual(JSON.parse(stored.stdout));
      expect(await run('verify')).toMatchObject({ code: 0 });
    },
    90_000,
  );
});

test('an account of the hosted service is not a place to restore to', async () => {
  const { config, folder } = configured({
    ...{ baseUrl: 'http://127.0.0.1:9', token: 'token' },
  });
  const archive = ['--config', config, '--data', folder];
  const { code, stderr } = await ran(['restore', '--to-account', 'ada', ...archive]);
  expect(stderr).toContain('ada is an account of the hosted mail service');
  expect(code).toBe(2);
  const unknown = await ran(['restore', '--to-account', 'eda', ...archive]);
  expect(unknown.stderr).toContain('ada');
  expect(unknown.code).toBe(2);
  const both = await ran(['restore', '--to-account', 'ada', '--to', 'imaps://a@b.example']);
  expect(both.stderr).toContain('cannot be used');
  const neither = await ran(['restore', ...archive]);
  expect(neither.stderr).toContain('--to-account');
  expect(neither.code).toBe(2);
});
