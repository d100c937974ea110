import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { mailkeep } from '../cli/child.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { RawClient } from './raw-client.ts';

/** What the command line says of an IMAP account to a person who has just configured it. */

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function mailbox(folders: Readonly<Record<string, number>>) {
  const server = await startDovecot({ specialFolders: false });
  closing.push(() => server.stop());
  const client = await RawClient.login(server);
  closing.push(() => client.close());
  for (const [folder, messages] of Object.entries(folders)) {
    if (folder !== 'INBOX') await client.command(`CREATE ${folder}`);
    for (let i = 0; i < messages; i += 1) await client.append(folder, letter(`${folder} ${i}`));
  }
  const dir = mkdtempSync(path.join(tmpdir(), 'imap-line-'));
  closing.push(() => rmSync(dir, { recursive: true, force: true }));
  const config = path.join(dir, 'config.json');
  const { host, port, user, password } = server;
  const imap = { host, port, tls: 'none', user, address: `${user}@example.org`, password };
  writeFileSync(config, JSON.stringify({ accounts: [{ name: 'main', imap }] }), { mode: 0o600 });
  const run = (...args: readonly string[]) => mailkeep([...args, '--config', config]);
  return { client, run, server, dir, config };
}

function letter(subject: string): string {
  const id = subject.replaceAll(' ', '-');
  return `Subject: ${subject}\r\nMessage-ID: <${id}@example.org>\r\n\r\n${subject.repeat(20)}\r\n`;
}

test.skipIf(withoutDovecot())(
  'unverified messages come with the command that verifies them',
  async () => {
    const { client, run } = await mailbox({ INBOX: 6, Trips: 0 });
    await run('sync');
    await client.command('SELECT INBOX');
    await client.command('MOVE 1:4 Trips');
    const hint =
      '4 not yet verified, because a message was moved or copied: "mailkeep verify --origin" fetches them and compares them now, the daemon 20 an hour';
    expect((await run('sync')).stdout).toContain(`${hint}.\n`);
    expect((await run('status')).stdout).toContain(`\n${hint}\n`);
    expect((await run('verify', '--origin')).stdout).toContain(
      'compared with the service: no difference. 4 relinked messages had the bytes that were assumed',
    );
    expect((await run('status')).stdout).toContain('\n6 messages at the service = 6 stored\n');
  },
);

test.skipIf(withoutDovecot())('a comparison that could not be made finds no equality', async () => {
  const { run, config } = await mailbox({ INBOX: 1 });
  await run('sync');
  writeFileSync(config, readFileSync(config, 'utf8').replace('"password":"', '"password":"not-'));
  const { code, stdout } = await run('verify', '--origin');
  expect(code).toBe(6);
  expect(stdout).toContain(
    'Nothing was compared with the service; not everything could be compared.',
  );
});

test.skipIf(withoutDovecot())('a mistyped pattern is no reason to mirror nothing', async () => {
  const { run, config } = await mailbox({ INBOX: 2, Trips: 1 });
  expect((await run('sync')).code).toBe(0);
  const settings = JSON.parse(readFileSync(config, 'utf8'));
  const withFolders = (...include: string[]) => {
    settings.accounts[0].folders = { include };
    writeFileSync(config, JSON.stringify(settings));
  };
  withFolders('Inbx');
  const sync = await run('sync', '--quiet');
  expect(sync.code).toBe(1);
  expect(sync.stderr).toContain('selects none of the 2 folders that account main can read');
  expect(sync.stderr).toContain('Nothing matches "Inbx" (folders.include). Did you mean "INBOX"?');
  const doctor = await run('doctor');
  expect(doctor.stdout).toMatch(/warning folders \(main\): .*selects none of .*"INBOX"/);
  const verify = await run('verify', '--origin');
  expect([verify.code, verify.stdout]).toEqual([
    1,
    expect.stringContaining('Nothing was compared with the service'),
  ]);
  const status = await run('status', '--max-age', '0s', '--quiet');
  expect([status.code, status.stdout]).toEqual([1, expect.stringContaining('Stale: ')]);

  withFolders('INBOX', 'Tripps');
  const warning =
    'Nothing matches "Tripps" (folders.include of account main). Did you mean "Trips"?';
  const some = await run('sync');
  expect([some.code, some.stdout]).toEqual([0, expect.stringContaining(`Warning: ${warning}`)]);
  expect((await run('doctor')).stdout).toContain(`warning folders (main): ${warning}`);
});

test('what is wrong with an IMAP account is said of a password and a server', async () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'imap-line-'));
  closing.push(() => rmSync(dir, { recursive: true, force: true }));
  const config = path.join(dir, 'config.json');
  const imap = { host: '127.0.0.1', port: 1, tls: 'none', user: 'ada@example.org' };
  const run = (password: object, ...args: readonly string[]) => {
    const accounts = [{ name: 'main', imap: { ...imap, password } }];
    writeFileSync(config, JSON.stringify({ accounts }), { mode: 0o600 });
    return mailkeep([...args, '--config', config]);
  };
  const missing = { file: './none' };
  const absent = `There is no password: the password file ${dir}/none does not exist.`;
  const sync = await run(missing, 'sync');
  expect(sync.stderr).toContain(absent);
  expect(sync.stderr).toContain('Put the password there');
  expect((await run(missing, 'config', 'check')).stdout).toContain(`account main: ${absent}`);
  expect((await run(missing, 'doctor')).stdout).toContain(absent);
  writeFileSync(path.join(dir, 'empty'), '');
  expect((await run({ file: './empty' }, 'doctor')).stdout).toContain('Put the password there.');
  const kept = await run({ credential: 'pass' }, 'doctor');
  expect(kept.stdout).toContain('systemd passes the secret to the unit only, so the server was');
});

test.skipIf(withoutDovecot())(
  'a restore of deleted messages includes pending deletions',
  async () => {
    const { client, run } = await mailbox({ INBOX: 2, Trips: 3, Other: 0 });
    await run('sync');
    // One of them is still in another folder.
    await client.command('SELECT Trips');
    await client.command('COPY 1 Other');
    await client.command('CLOSE');
    await run('sync', '--full');
    await client.command('DELETE Trips');
    expect((await run('sync')).code).toBe(4);
    const restore = ['restore', '--to-account', 'main', '--deleted', '--in-place'];
    const { code, stdout } = await run(...restore);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/Trips +Trips +2 +2 +0 +0$/m)]);
    expect((await run(...restore)).stdout).toMatch(/Trips +Trips +2 +0 +2 +0$/m);
  },
);

test.skipIf(withoutDovecot())(
  'a dry run knows renamed, deleted and recreated folders',
  async () => {
    const { client, run } = await mailbox({ INBOX: 2, Trips: 3, Old: 4, Work: 5 });
    await run('sync');
    await client.command('RENAME Trips Travels');
    await client.command('DELETE Old');
    await client.command('DELETE Work');
    await client.command('CREATE Work');
    const { stdout } = await run('sync', '--dry-run');
    expect(stdout).toContain(
      'Travels: look at the newest page (seems to be Trips, renamed: then nothing is fetched)',
    );
    expect(stdout).toContain(
      'Old: nothing to do (no longer listed; what the archive has of it stays)',
    );
    expect(stdout).toMatch(/Work: walk through it \(its messages were renumbered; known ones /);
    expect(stdout).toContain('Total: 0 messages. No message was fetched or written.');
    expect((await run('sync')).stdout).not.toContain(' new ');
  },
);
