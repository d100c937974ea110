import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, program, workplace } from '../cli/child.ts';
import { daemonWorkplace, RunningDaemon } from '../daemon/running-daemon.ts';
import { startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import { writePrunable } from '../retention/prunable-archive.ts';
import { allCommands } from '../surface/command-walk.ts';

/**
 * No command passes over mail in silence: something that cannot be taken or written is planted for each of them. It is
 * named in the output, and the exit code says so. A new command has to be put into one of these lists.
 */

const base = mkdtempSync(path.join(tmpdir(), 'mailkeep-skipped-'));
const sound = path.join(base, 'sound');
/** An encrypted copy of the archive, with its recovery key. */
const copied = path.join(base, 'copied');
const recoveryKey = path.join(base, 'recovery-key.txt');
let id = '';

const LARGE = Buffer.from(
  Array.from({ length: 150_000 }, (_, i) => (i * 2_654_435_761) >>> 24),
).toString('base64');

function mail(subject: string, more = ''): string {
  return `From: ada@example.org\r\nDate: Mon, 2 Mar 2020 10:00:00 +0000\r\nMessage-ID: <${subject}@example.org>\r\nSubject: ${subject}\r\n${more === '' ? '\r\nHello\r\n' : more}`;
}

const WITH_FILE = `MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nSee the file.\r\n--b\r\nContent-Type: application/octet-stream; name=plans.bin\r\nContent-Disposition: attachment; filename=plans.bin\r\nContent-Transfer-Encoding: base64\r\n\r\n${LARGE.match(/.{1,76}/g)?.join('\r\n')}\r\n--b--\r\n`;

beforeAll(async () => {
  const folder = path.join(base, 'mail');
  mkdirSync(folder);
  writeFileSync(path.join(folder, 'one.eml'), mail('one'));
  writeFileSync(path.join(folder, 'plans.eml'), mail('plans', WITH_FILE));
  const imported = await mailkeep(['import', folder, '--data', sound, '--mailbox', 'old']);
  expect(imported.code, imported.stderr).toBe(0);
  const found = await mailkeep(['search', 'subject:plans', '--format', 'ids', '--data', sound]);
  id = found.stdout.trim();
  expect(id).toMatch(/^[0-9a-f]{64}$/);
  const init = ['copy', 'init', '--to', copied, '--recovery-key-file', recoveryKey];
  for (const args of [init, ['copy', '--to', copied]]) {
    const { code, stderr } = await mailkeep([...args, '--data', sound]);
    expect(code, stderr).toBe(0);
  }
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** Returns a copy of the archive, after `change`. */
function archive(change: (data: string) => void = () => {}): string {
  const data = mkdtempSync(path.join(base, 'archive-'));
  cpSync(sound, data, { recursive: true });
  change(data);
  return data;
}

/** Flips a bit in the large attachment, which fills most of the log. */
function damageMail(data: string): void {
  const [largest = ''] = readdirSync(path.join(data, 'log'))
    .map((name) => path.join(data, 'log', name))
    .sort((one, other) => statSync(other).size - statSync(one).size);
  flipBit(largest);
}

function flipBit(file: string): void {
  const bytes = readFileSync(file);
  const middle = bytes.length >> 1;
  bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle);
  writeFileSync(file, bytes);
}

/**
 * Returns the arguments of a command about the encrypted copy, after all objects below `where` in it were damaged.
 * Another archive than the one that made it knows nothing of the copy yet.
 */
function onDamagedCopy(where: string, args: readonly string[], known = true): string[] {
  const target = fresh('copy');
  cpSync(copied, target, { recursive: true });
  // The archive knows a copy by its address.
  const data = archive((one) => {
    const folder = path.join(one, 'copies');
    if (!known) rmSync(folder, { recursive: true });
    else
      for (const name of readdirSync(folder).filter((file) => file.endsWith('.json'))) {
        const file = path.join(folder, name);
        writeFileSync(file, readFileSync(file, 'utf8').replaceAll(copied, target));
      }
  });
  const found = path.join(target, where);
  const isFolder = statSync(found).isDirectory();
  for (const file of isFolder ? readdirSync(found).map((name) => path.join(found, name)) : [found])
    flipBit(file);
  return ['copy', ...args, '--to', target, '--data', data];
}

/** No file gets larger than 100 KiB: as on a full disk, a write fails in the middle of a file. */
const WITHOUT_ROOM = ['sh', '-c', 'trap "" XFSZ; ulimit -f 200; exec "$@"', 'sh'];

function damageCatalog(data: string): void {
  writeFileSync(path.join(data, 'catalog.sqlite'), 'this is not a database'.repeat(500));
}

/** Where a folder is expected, a file; permissions would not stop the superuser. */
function blocked(): string {
  const file = path.join(mkdtempSync(path.join(base, 'blocked-')), 'file');
  writeFileSync(file, 'in the way');
  return path.join(file, 'below');
}

interface Case {
  /** The command's words, as `allCommands` has them. */
  readonly of: string;
  readonly what: string;
  readonly args: () => readonly string[] | Promise<readonly string[]>;
  readonly code: number;
  /** A command that runs the program. */
  readonly under?: readonly string[];
  /** What the output must name. */
  readonly names: () => readonly (string | RegExp)[];
}

const short = () => id.slice(0, 8);
const damaged = (...args: string[]) => [...args, '--data', archive(damageMail)];
const unindexed = (...args: string[]) => [...args, '--data', archive(damageCatalog)];
const fresh = (name: string) => path.join(mkdtempSync(path.join(base, 'to-')), name);

const CASES: readonly Case[] = [
  {
    of: 'import',
    what: 'files that are no mail, empty, or links to nothing',
    args: () => {
      const folder = mkdtempSync(path.join(base, 'odd-'));
      writeFileSync(path.join(folder, 'good.eml'), mail('good'));
      writeFileSync(path.join(folder, 'empty.eml'), '');
      symlinkSync('/nowhere/at-all', path.join(folder, 'dangling.eml'));
      return ['import', folder, '--data', fresh('data')];
    },
    code: 1,
    names: () => ['imported 1 message', 'empty.eml', 'dangling.eml'],
  },
  ...['eml', 'mbox', 'maildir', 'zip'].map(
    (format): Case => ({
      of: 'export',
      what: `a damaged message, as ${format}`,
      args: () =>
        damaged('export', '--format', format, '--to', fresh(format === 'zip' ? 'a.zip' : 'a')),
      code: 3,
      names: () => ['exported 1 place', '1 place could not be exported', short()],
    }),
  ),
  {
    of: 'export',
    what: 'a target that cannot be made',
    args: () => ['export', '--format', 'eml', '--to', blocked(), '--data', archive()],
    code: 1,
    names: () => ['blocked-'],
  },
  {
    of: 'show',
    what: 'a damaged message',
    args: () => damaged('show', id),
    code: 3,
    names: () => [/stored bytes of [0-9a-f]{64} are damaged/],
  },
  {
    of: 'attachments',
    what: 'a damaged message',
    args: () => damaged('attachments', id, '--save', fresh('files')),
    code: 3,
    names: () => [/stored bytes of [0-9a-f]{64} are damaged/],
  },
  {
    of: 'attachments',
    what: 'a folder that cannot be made',
    args: () => ['attachments', id, '--save', blocked(), '--data', archive()],
    code: 1,
    names: () => ['blocked-'],
  },
  {
    of: 'verify',
    what: 'a damaged message',
    args: () => damaged('verify'),
    code: 3,
    names: () => [/DAMAGED|damaged/, short()],
  },
  {
    of: 'rebuild',
    what: 'a damaged message',
    args: () => damaged('rebuild'),
    code: 3,
    names: () => ['DAMAGED'],
  },
  {
    of: 'copy',
    what: 'a damaged message',
    args: () => damaged('copy', '--to', fresh('copy')),
    code: 3,
    names: () => [/damaged/i],
  },
  {
    of: 'copy',
    what: 'a target that cannot be made',
    args: () => ['copy', '--to', blocked(), '--data', archive()],
    code: 1,
    names: () => ['blocked-'],
  },
  {
    of: 'checkpoint',
    what: 'a file that cannot be made',
    args: () => ['checkpoint', '--to', blocked(), '--data', archive()],
    code: 1,
    names: () => ['blocked-'],
  },
  {
    of: 'forget',
    what: 'a damaged message',
    args: () => damaged('forget', id, '--yes'),
    code: 3,
    names: () => ['The log is damaged', /\.seg at byte \d+/, 'Nothing was changed'],
  },
  {
    of: 'prune',
    what: 'a damaged segment',
    args: async () => {
      const folder = mkdtempSync(path.join(base, 'prune-'));
      const data = path.join(folder, 'data');
      mkdirSync(data, { mode: 0o700 });
      await writePrunable(data);
      damageMail(data);
      const config = path.join(folder, 'config.json');
      const accounts = [{ name: 'main', baseUrl: 'https://mail.example.org', token: 'secret' }];
      const retention = { endedAfterDays: 30 };
      writeFileSync(config, JSON.stringify({ accounts, dataDir: data, retention }), {
        mode: 0o600,
      });
      return ['prune', '--apply', '--config', config];
    },
    code: 3,
    names: () => ['The log is damaged', /\.seg at byte \d+/, 'Nothing was changed'],
  },
  {
    of: 'copy init',
    what: 'a target that cannot be made',
    args: () => {
      const key = ['--recovery-key-file', fresh('key.txt')];
      return ['copy', 'init', '--to', blocked(), ...key, '--data', archive()];
    },
    code: 1,
    names: () => ['blocked-'],
  },
  {
    of: 'copy adopt',
    what: 'a damaged description',
    args: () =>
      onDamagedCopy('mailkeep-copy', ['adopt', '--recovery-key-file', recoveryKey], false),
    code: 3,
    names: () => ['"mailkeep-copy"', 'its signature is invalid'],
  },
  {
    of: 'copy drop',
    what: 'a copy that is not known',
    args: () => ['copy', 'drop', '--to', blocked(), '--data', archive()],
    code: 2,
    names: () => [/No copy at .*blocked-/],
  },
  ...['list', 'add', 'rotate'].map(
    (name): Case => ({
      of: `copy key ${name}`,
      what: 'a damaged recipient',
      args: () => {
        const key = name === 'list' ? [] : ['--recovery-key-file', fresh('key.txt')];
        return onDamagedCopy('keys', ['key', name, ...key]);
      },
      code: 3,
      names: () => [/keys\/[0-9a-f]{32}/, 'damaged'],
    }),
  ),
  {
    of: 'copy key remove',
    what: 'the last recipient',
    args: () => {
      const [recipient = ''] = readdirSync(path.join(copied, 'keys'));
      return onDamagedCopy('data', ['key', 'remove', recipient]);
    },
    code: 2,
    names: () => ['Nothing was removed', 'nobody else could open'],
  },
  ...(
    [
      [
        'import',
        () => ['import', path.join(base, 'mail'), '--mailbox', 'new'],
        /0000000001.*\.seg/,
      ],
      ['export', () => ['export', '--format', 'eml', '--to', fresh('a')], 'plans'],
      ['export', () => ['export', '--format', 'mbox', '--to', fresh('a')], '.mbox'],
      ['attachments', () => ['attachments', id, '--save', fresh('files')], 'plans.bin'],
      ['copy', () => ['copy', '--to', fresh('readable')], /0000000001.*\.seg/],
      ['forget', () => ['forget', id, '--yes'], /catalog\.sqlite|\.seg/],
      ['rebuild', () => ['rebuild'], 'catalog.sqlite'],
    ] as const
  ).map(
    ([of, args, name]): Case => ({
      of,
      what: 'a disk without room',
      args: () => [...args(), '--data', archive()],
      under: WITHOUT_ROOM,
      code: 1,
      names: () => [name, /cannot be (?:read or )?written/],
    }),
  ),
  ...['list', 'search one', 'stats --by year', 'status', 'history ID', 'show ID', 'attachments ID']
    .map((line) => line.split(' '))
    .map(
      ([name = '', ...rest]): Case => ({
        of: name,
        what: 'a damaged catalog',
        args: () => unindexed(name, ...rest.map((word) => (word === 'ID' ? id : word))),
        code: 3,
        names: () => [/catalog/],
      }),
    ),
];

test.each(CASES)('$of: $what', async ({ args, code, under = [], names }) => {
  const ended = await mailkeep([...(await args())], { under });
  const text = ended.stdout + ended.stderr;
  expect(ended.code, text).toBe(code);
  for (const name of names()) expect(text).toMatch(name);
});

test.each([404, 500] as const)(
  'sync: a message that the service answers with %s for good',
  async (status) => {
    const sandbox = await startSandbox({ seed: 3, mail: { messages: 8 } });
    try {
      const { config } = workplace(sandbox);
      sandbox.fault({ kind: 'status', status, operation: 'getMessageSource', times: 60 });
      const first = await mailkeep(['sync', '--config', config]);
      expect(first.code, first.stderr).toBe(1);
      expect(first.stdout).toMatch(/\d+ incomplete/);
      const named = await mailkeep(['quarantine', '--config', config, '--json']);
      const lost = jsonLines(named.stdout).length;
      expect(lost).toBeGreaterThan(0);
      expect(first.stdout).toMatch(new RegExp(`8 messages at the service = .*${lost} incomplete`));
      expect(first.stderr).toContain('example.org');
    } finally {
      await sandbox.close();
    }
  },
);

test('daemon: a message that the service refuses for good is counted, and named', async () => {
  const sandbox = await startSandbox({ seed: 3, mail: { messages: 8 } });
  onTestFinished(() => sandbox.close());
  const place = daemonWorkplace(sandbox);
  sandbox.fault({ kind: 'status', status: 404, operation: 'getMessageSource', times: 60 });
  const daemon = new RunningDaemon(place);
  await daemon.line(({ quarantined }) => typeof quarantined === 'number' && quarantined > 0);
  daemon.child.kill('SIGTERM');
  await daemon.ended;
  const named = await mailkeep(['quarantine', '--config', place.config, '--json']);
  const lost = jsonLines(named.stdout).length;
  expect(lost).toBeGreaterThan(0);
  const status = await mailkeep(['status', '--data', place.data]);
  expect(status.stdout).toMatch(new RegExp(`${lost} incomplete`));
});

test('mcp: a damaged message is not called intact', async () => {
  const client = new Client({ name: 'test', version: '1.0.0' });
  onTestFinished(() => client.close());
  const args = [program, ...damaged('mcp')];
  await client.connect(new StdioClientTransport({ command: process.execPath, args }));
  const result = await client.callTool({ name: 'get_message', arguments: { id } });
  expect(result.structuredContent).toMatchObject({ message: { id }, intact: false });
});

test.skipIf(withoutDovecot())(
  'restore: a damaged message is counted and named, and the other one restored',
  async () => {
    const server = await startDovecot();
    onTestFinished(() => server.stop());
    const to = ['--to', `imap://${server.user}@127.0.0.1:${server.port}`];
    const ended = await mailkeep(damaged('restore', ...to, '--password-env', 'SECRET'), {
      env: { SECRET: server.password },
    });
    expect(ended.code, ended.stdout + ended.stderr).toBe(3);
    expect(ended.stdout).toContain('appended 1 message');
    expect(ended.stdout).toMatch(/INBOX uid \d: DAMAGED/);
  },
);

/** Commands that a test above tries, which needs a server. */
const WITH_SERVER = ['sync', 'daemon', 'mcp', 'restore'];

/** Commands that a test elsewhere tries: its file and title. */
const ELSEWHERE: Readonly<Record<string, readonly [file: string, title: string]>> = {
  compact: [
    'test/cli/compact.test.ts',
    'leaves a damaged segment as it is, names it, and rewrites the others',
  ],
  web: [
    'test/web/damaged.test.ts',
    'a message whose bytes changed is reported, and its source is not sent',
  ],
};

/** Commands that neither take nor write nor show mail. */
const WITHOUT_MAIL =
  /^(?:account|init|quarantine|webhooks|notify|token|doctor|config|fleet|api|sandbox|completion)\b|^(?:copy key|daemon install)$/;

test('every command that takes, writes or shows mail is tried', async () => {
  const words = (await allCommands()).map((command) => command.words);
  const tried = new Set([...CASES.map(({ of }) => of), ...WITH_SERVER, ...Object.keys(ELSEWHERE)]);
  expect(words.filter((name) => !tried.has(name) && !WITHOUT_MAIL.test(name))).toEqual([]);
  expect([...tried].filter((name) => !words.includes(name))).toEqual([]);
  for (const [file, title] of Object.values(ELSEWHERE))
    expect(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')).toContain(
      `test('${title}'`,
    );
});
