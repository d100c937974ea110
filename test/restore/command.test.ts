import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { mailkeep, start } from '../cli/child.ts';
import { ran } from '../cli/surface.ts';
import { StoredArchive, sha256 } from '../export/stored-archive.ts';
import { startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import type { Fault } from '../imap/faults.ts';
import { ImapProxy } from '../imap/proxy.ts';
import { mailBelow } from '../imap/read-back.ts';
import { type MailServer, PASSWORD } from '../imap/server.ts';
import { Exercised } from '../surface/exercised.ts';
import { expectRecorded } from '../surface/recorded.ts';

const without = withoutDovecot();
let server: MailServer;
let archive: StoredArchive;
let folder: string;
let passwordFile: string;
let prefixes = 0;
let prefix = '';

/** So large that each is sent by itself. */
const SOURCES = [1, 2, 3, 4, 5].map((n) =>
  Buffer.from(
    `Message-ID: <${n}@example.org>\r\nSubject: ${n}\r\n\r\n${'A line\r\n'.repeat(40_000)}`,
  ),
);

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'restore-command-'));
  passwordFile = path.join(folder, 'password');
  writeFileSync(passwordFile, `${PASSWORD}\n`, { mode: 0o600 });
  archive = await StoredArchive.create();
  await archive.store(
    SOURCES.map((source, i) => ({ folder: 'INBOX', source, messageId: `<${i + 1}@example.org>` })),
  );
  if (!without) server = await startDovecot();
});
afterAll(async () => {
  await server?.stop();
  archive.remove();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  prefixes += 1;
  prefix = `Run ${prefixes}`;
});

/** The command line of a restore to a port of this machine. */
function restore(port: number, ...more: readonly string[]): string[] {
  const to = ['--to', `imap://${server.user}@127.0.0.1:${port}`, '--into', prefix];
  return ['restore', '--data', archive.dir, ...to, '--password-file', passwordFile, ...more];
}

/** Hashes of what is below the folder of this test. */
async function there(): Promise<string[]> {
  return (await mailBelow(server, prefix)).map((message) => message.sha256).sort();
}

const everything = SOURCES.map(sha256).sort();

describe.skipIf(without)('the command', () => {
  test('plans, restores, and says that all is there', async () => {
    const plan = await ran(restore(server.port, '--dry-run'));
    expect(plan.code).toBe(0);
    expect(plan.stdout).toContain('Would append 5 messages');
    expect(await there()).toEqual([]);
    const first = await ran(restore(server.port));
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toContain('appended 5 messages');
    expect(first.stdout).toMatch(/^Speed: .* a second\.$/m);
    const elsewhere = restore(server.port, '--dry-run', '--new').map((word) =>
      word === prefix ? `${prefix} again` : word,
    );
    const next = await ran(elsewhere);
    expect(next.stdout).toContain('At the rates of the last restore there, that takes ');
    expect(await there()).toEqual(everything);
    const again = await ran(restore(server.port, '--json'));
    expect(JSON.parse(again.stdout)).toMatchObject({ planned: 5, appended: 0, present: 5 });
    expect(again.stdout).not.toContain(PASSWORD);
  });

  test('signs in over TLS, and trusts no certificate of somebody else', async () => {
    const args = (port: number) => [
      ...['restore', '--data', archive.dir, '--into', prefix, '--password-env', 'SECRET'],
      ...['--to', `imaps://${server.user}@localhost:${port}`],
    ];
    const env = { SECRET: PASSWORD };
    const untrusted = await mailkeep(args(server.tlsPort), { env });
    expect(untrusted.stderr).toContain('The certificate of localhost cannot be trusted');
    expect(untrusted.stderr).toContain('No password was sent.');
    expect(await there()).toEqual([]);
    const trusted = { ...env, NODE_EXTRA_CA_CERTS: server.certificate.file };
    expect(await mailkeep(args(server.tlsPort), { env: trusted })).toMatchObject({ code: 0 });
    expect(await there()).toEqual(everything);
    const other = await startDovecot({ certificateNames: ['DNS:elsewhere.example'] });
    onTestFinished(() => other.stop());
    const wrong = await mailkeep(args(other.tlsPort), {
      env: { ...env, NODE_EXTRA_CA_CERTS: other.certificate.file },
    });
    expect(wrong.stderr).toContain('The certificate of localhost cannot be trusted');
    expect(wrong.code).toBe(untrusted.code);
  });

  test('is killed, run again, and nothing is there twice', async () => {
    const fault: Fault = { command: 'APPEND', nth: 3, do: 'hold-answer' };
    const proxy = await ImapProxy.start({ to: server, faults: [fault] });
    onTestFinished(() => proxy.stop());
    const { child, ended } = start(restore(proxy.port));
    await proxy.until(fault);
    // Both would send what neither finds there.
    const meanwhile = await ran(restore(proxy.port));
    expect(meanwhile.stderr).toContain('Another mailkeep carries out this restore');
    expect(meanwhile.code).toBe(5);
    child.kill('SIGKILL');
    await ended;
    expect(await there()).toHaveLength(3);
    // What the server has is not asked for before ten seconds have passed.
    const later = { now: () => Date.now() + 60_000 };
    const plan = await ran(restore(proxy.port, '--dry-run'), later);
    expect(plan.stdout).toContain('This continues the restore that began 20');
    const again = await ran(restore(proxy.port, '--json'), later);
    expect(JSON.parse(again.stdout)).toMatchObject({ continued: true, appended: 2, present: 3 });
    expect(await there()).toEqual(everything);
  });

  test('keeps its journal elsewhere where the archive is read-only', async () => {
    const journal = path.join(folder, `${prefix}.journal`);
    chmodSync(archive.dir, 0o500);
    onTestFinished(() => chmodSync(archive.dir, 0o700));
    expect(await ran(restore(server.port, '--journal', journal))).toMatchObject({ code: 0 });
    const again = await ran(restore(server.port, '--journal', journal, '--json'));
    expect(JSON.parse(again.stdout)).toMatchObject({ present: 5, appended: 0 });
  });

  test('names what the server refuses, and says so by its exit code', async () => {
    const answer: Fault = { command: 'APPEND', nth: 2, do: 'answer', text: 'NO \x1b[31mnot this' };
    const proxy = await ImapProxy.start({ to: server, faults: [answer] });
    onTestFinished(() => proxy.stop());
    const refused = await ran(restore(proxy.port, '--jobs', '1'));
    expect(refused.code).toBe(1);
    expect(refused.stdout).toMatch(/anna@example\.org INBOX uid \d: refused: .*not this/);
    expect(refused.stdout).not.toContain('\x1b');
    const [, next] = [await there(), await ran(restore(proxy.port))];
    expect(next).toMatchObject({ code: 0 });
    expect(await there()).toEqual(everything);
  });

  test('a wrong password ends it, and is not shown', async () => {
    const secret = 'wrong-horse';
    const env = { SECRET: secret };
    const args = restore(server.port).filter(
      (arg) => arg !== '--password-file' && arg !== passwordFile,
    );
    const wrong = await ran([...args, '--password-env', 'SECRET'], { env });
    expect(wrong.stderr).toContain(`127.0.0.1 refused the login of ${server.user}`);
    expect(wrong.stderr + wrong.stdout).not.toContain(secret);
    expect(wrong.code).toBe(6);
    const none = await ran(args);
    expect(none.stderr).toContain('There is no password for');
    expect(none.code).toBe(2);
  });
});

test.skipIf(without)('JSON has the key paths and types that are recorded', async () => {
  const limited = await startDovecot({ maxMessageBytes: 2000 });
  onTestFinished(() => limited.stop());
  const odd = await StoredArchive.create();
  onTestFinished(() => odd.remove());
  const large = Buffer.concat([Buffer.from('Subject: large\n\n'), Buffer.alloc(3000, 'x\n')]);
  await odd.store(
    [
      { folder: 'INBOX', source: Buffer.from('Subject: LF\n\nx\n'), flags: ['\\Deleted'] },
      { folder: 'INBOX', source: large },
    ],
    { quarantined: [{ folder: 'INBOX', uid: 9 }] },
  );
  const found = new Exercised();
  const args = restore(limited.port).slice(1);
  args[1] = odd.dir;
  await found.run({ of: 'restore', as: '--dry-run', args, code: 1 });
  await found.run({ of: 'restore', args, code: 1 });
  expectRecorded('restore-json', found.entries());
});

const BAD_LINES: readonly (readonly [name: string, args: readonly string[], words: string])[] = [
  ['no TLS', ['--to', 'imap://anna@mail.example.org'], 'Without TLS'],
  ['a password', ['--to', 'imaps://anna:hunter2@mail.example.org'], 'a password in it'],
  ['no user', ['--to', 'imaps://mail.example.org'], 'it names no user'],
  ['a path', ['--to', 'imaps://anna@mail.example.org/INBOX'], 'something follows the host'],
  ['another protocol', ['--to', 'https://anna@mail.example.org'], 'does not begin with imaps://'],
  ['no URL', ['--to', 'anna:hunter2@mail.example.org'], 'no address of an IMAP server'],
  ['no slashes', ['--to', 'imaps:anna:hunter2@mail.example.org'], 'it names no user'],
  ['an empty prefix', ['--to', 'imaps://a@b.example', '--into', '/'], '--into'],
  ['two places', ['--to', 'imaps://a@b.example', '--into', 'A', '--in-place'], 'cannot be used'],
  ['an unknown folder', ['--to', 'imaps://a@b.example', '--folder', 'Nowhere'], 'Nowhere'],
  [
    'an empty variable',
    ['--to', 'imaps://a@b.example', '--password-env', 'NOT_SET'],
    'cannot be read from NOT_SET',
  ],
];

test.each(BAD_LINES)('refuses %s', async (_, args, words) => {
  const { code, stderr } = await ran(['restore', '--data', archive.dir, ...args]);
  expect(stderr).toContain(words);
  expect(stderr).not.toContain('hunter2');
  expect(code).toBe(2);
});
