import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { editImapAccount } from '../../src/core/config-edit.ts';
import { seeded } from '../bench/seeded.ts';
import { mailkeep } from '../cli/child.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';
import type { MailServer } from './server.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function dovecot(subjects: readonly string[]): Promise<MailServer> {
  const server = await startDovecot();
  closing.push(() => server.stop());
  const client = await RawClient.login(server);
  await client.command('CREATE Trips');
  for (const subject of subjects) {
    const source = `Subject: ${subject}\r\nMessage-ID: <${subject}@example.org>\r\n\r\n${subject}\r\n`;
    for (const folder of ['INBOX', 'Trips']) await client.append(folder, source);
  }
  client.close();
  return server;
}

/** The same server at another port, as after a move to another host. */
async function moved(server: MailServer): Promise<ImapProxy> {
  const proxy = await ImapProxy.start({ to: server, readOnly: true });
  closing.push(() => proxy.stop());
  return proxy;
}

function configured({ host, port, user, password }: MailServer) {
  const folder = mkdtempSync(path.join(tmpdir(), 'account-move-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(path.join(folder, 'password'), `${password}\n`, { mode: 0o600 });
  const config = path.join(folder, 'config.json');
  const text = `{
    "accounts": [
        {   "name": "main",
            "imap": { "host": "${host}", "port": ${port}, "tls": "none",
                      "user": "${user}", "address": "${user}@example.org",
                      "password": { "file": "password" } },
            "folders": { "exclude": ["Spam"] } }
    ]
}
`;
  writeFileSync(config, text, { mode: 0o640 });
  const run = (...args: readonly string[]) => mailkeep([...args, '--config', config]);
  const mailboxes = async () => {
    const { mailboxes: all } = JSON.parse((await run('status', '--json')).stdout) as {
      mailboxes: { resourceId: string }[];
    };
    return all.map(({ resourceId }) => resourceId).sort();
  };
  return { folder, config, text, run, mailboxes, kept: `${host}:${port}/${user}` };
}

const LETTERS = Array.from({ length: 30 }, (_, i) => `letter-${i}`);

test.skipIf(withoutDovecot())(
  'an account continues its mailbox at another host, if it is the same mailbox',
  async () => {
    const server = await dovecot(LETTERS);
    const account = configured(server);
    const { config, text, run } = account;
    expect(await run('sync')).toMatchObject({ code: 0 });
    const proxy = await moved(server);
    const move = ['account', 'move', 'main', '--host', '127.0.0.1', '--port', `${proxy.port}`];

    // Nobody can be asked here.
    const asked = await run(...move);
    expect(asked.code).toBe(2);
    expect(asked.stderr).toContain('--yes');
    expect(readFileSync(config, 'utf8')).toBe(text);

    const { code, stdout } = await run(...move, '--yes', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      written: true,
      continues: true,
      mailbox: { kept: account.kept, next: account.kept },
      compared: {
        folders: { same: 2, different: 0, missing: 0 },
        messages: { same: 20, different: 0, missing: 0 },
      },
    });
    // Only these two values changed, and the permissions stay.
    expect(readFileSync(config, 'utf8')).toBe(
      text
        .replace(`"port": ${server.port}`, `"port": ${proxy.port}`)
        .replace('"host": "127.0.0.1",', `"host": "127.0.0.1", "id": "${account.kept}",`),
    );
    expect(statSync(config).mode & 0o777).toBe(0o640);
    expect(readdirSync(account.folder).filter((name) => name.includes('tmp'))).toEqual([]);

    const before = proxy.commands.length;
    expect(await run('sync')).toMatchObject({ code: 0 });
    const later = proxy.commands.slice(before).map(({ text: sent }) => sent);
    expect(later.filter((sent) => sent.includes('BODY.PEEK'))).toEqual([]);
    expect(await account.mailboxes()).toEqual([account.kept]);

    const again = await run(...move, '--yes');
    expect(again.code).toBe(2);
    expect(again.stderr).toContain('already');
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'another mailbox starts next to the old one, which stays as it is',
  async () => {
    const server = await dovecot(LETTERS);
    const account = configured(server);
    const { run } = account;
    expect(await run('sync')).toMatchObject({ code: 0 });
    const other = await dovecot(['other-1', 'other-2']);
    const move = ['account', 'move', 'main', '--host', '127.0.0.1', '--port', `${other.port}`];
    const { stdout } = await run(...move, '--yes');
    expect(stdout).toContain('It does not count as the same mailbox');
    expect(stdout).toContain('The next sync starts another mailbox');
    expect(stdout).toContain(`reads as ${server.user} at 127.0.0.1:${other.port};`);
    // The mailbox that the account had before is not missed.
    expect(await run('sync')).toMatchObject({ code: 0, stderr: '' });
    const next = `127.0.0.1:${other.port}/${server.user}`;
    expect(await account.mailboxes()).toEqual([account.kept, next].sort());
    const { stdout: listed } = await run('list', '--json');
    expect(listed.match(/"subject":"letter-/g)).toHaveLength(60);
    expect(listed.match(/"subject":"other-/g)).toHaveLength(4);
    // Nobody compares the first one any more, and that is no fault.
    const status = await run('status', '--max-age', '1h');
    expect(status).toMatchObject({ code: 0, stderr: '' });
    expect(status.stdout).toMatch(
      /60 places, compared .* ago, complete, left behind on \d+ \w+ \d{4}$/m,
    );
    expect(status.stdout).toMatch(/^4 messages at the service = 4 stored$/m);
    // The second mailbox, not the first one of that account, is the one that moves next.
    const { port } = await moved(other);
    const third = await run(
      'account',
      'move',
      'main',
      '--host',
      '127.0.0.1',
      '--port',
      `${port}`,
      '--yes',
    );
    expect(third.stdout).toContain(`It continues as ${next}`);
    const back = await run(...move.slice(0, -1), `${server.port}`, '--yes');
    expect(back.stdout).toContain(`The next sync continues ${account.kept}, which the archive has`);
    expect(await run('sync')).toMatchObject({ code: 0 });
    expect(await account.mailboxes()).toEqual([account.kept, next].sort());
  },
  60_000,
);

test.skipIf(withoutDovecot())(
  'errors of a move name the options, and the file of the user',
  async () => {
    const server = await dovecot([]);
    const { config, text, folder, run } = configured(server);
    const away = await run('account', 'move', 'main', '--host', 'imap.example.net', '--yes');
    expect(away.code).toBe(2);
    expect(away.stderr).toContain(
      'The account\'s tls would be "none", expected "implicit" or "starttls", since this host is not this machine.',
    );
    const odd = await run('account', 'move', 'main', '--host', 'imap .net', '--yes', '--json');
    expect(odd.code).toBe(2);
    expect(odd.stderr).toContain('host would be \\"imap .net\\", expected a host name');
    for (const { stderr } of [away, odd]) expect(stderr).not.toContain('.tmp');
    expect((await run('account', 'move', 'main', '--yes')).stderr).toContain('already');
    // The port is not the usual one, and stays with the server.
    const other = await run('account', 'move', 'main', '--user', 'nobody', '--yes');
    expect(other.code).toBe(6);
    expect(readFileSync(config, 'utf8')).toBe(text);
    expect(readdirSync(folder).sort()).toEqual(['config.json', 'password']);
  },
);

test.skipIf(withoutDovecot())('a server that refuses the sign-in changes nothing', async () => {
  const server = await dovecot(['one']);
  const { config, text, folder, run } = configured(server);
  const proxy = await moved(server);
  writeFileSync(path.join(folder, 'wrong'), 'wrong\n', { mode: 0o600 });
  const { code, stderr } = await run(
    ...['account', 'move', 'main', '--host', '127.0.0.1', '--port', `${proxy.port}`],
    ...['--password-file', 'wrong', '--yes'],
  );
  expect(code).toBe(6);
  expect(stderr).toContain('refused to sign in');
  expect(readFileSync(config, 'utf8')).toBe(text);
  expect(readdirSync(folder).filter((name) => name.includes('tmp'))).toEqual([]);
  // Before the first sync, there is nothing to continue.
  const first = await run(
    ...['account', 'move', 'main', '--host', '127.0.0.1', '--port', `${proxy.port}`, '--yes'],
  );
  expect(first.stdout).toContain('nothing to continue');
  expect(readFileSync(config, 'utf8')).toBe(text.replace(`${server.port}`, `${proxy.port}`));
});

test('an edited configuration differs only in the fields that were set', () => {
  const random = seeded('config edit', 1);
  for (let round = 0; round < 300; round += 1) {
    const accounts = Array.from({ length: 1 + random.below(4) }, (_, i) => ({
      name: `a${i}`,
      // Equal values in several accounts, and a host in another place.
      imap: {
        host: ['old.example.org', 'b"\\x'][random.below(2)],
        ...(random.below(2) === 0 ? { port: 993 } : {}),
        user: 'ada',
        password: random.below(2) === 0 ? { file: './x' } : 'secret',
      },
      note: { host: 'old.example.org', user: 'ada' },
    }));
    const indent = [undefined, 1, 2, 4, '\t'][random.below(5)];
    const eol = random.below(2) === 0 ? '\n' : '\r\n';
    const content = { $schema: 'old.example.org', accounts };
    const text = JSON.stringify(content, null, indent).replaceAll('\n', eol);
    const name = `a${random.below(accounts.length)}`;
    const changes = {
      host: 'new.example.net',
      port: 1993,
      id: 'old.example.org/ada',
      password: { env: 'PASSWORD' },
    };
    const edited = editImapAccount(text, name, changes);
    const wanted = structuredClone(content) as { accounts: { name: string; imap: object }[] };
    for (const one of wanted.accounts) {
      if (one.name === name) Object.assign(one.imap, changes);
    }
    expect(JSON.parse(edited)).toEqual(wanted);
    // Lines that have none of the fields are as before.
    const fields = /"(?:host|port|id|password|file|env)"/;
    const other = (lines: string) => lines.split(eol).filter((line) => !fields.test(line));
    if (indent !== undefined) {
      const kept = other(edited).filter((line) => !/^\s*\},?$/.test(line));
      expect(kept).toEqual(other(text).filter((line) => !/^\s*\},?$/.test(line)));
    }
  }
});
