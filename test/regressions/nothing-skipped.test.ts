import {
  cpSync,
  existsSync,
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
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, workplace } from '../cli/child.ts';
import { allCommands } from '../surface/command-walk.ts';

/**
 * No command passes over mail in silence: something that cannot be taken or written is planted for each of them. It is
 * named in the output, and the exit code says so. A new command has to be put into one of these lists.
 */

const base = mkdtempSync(path.join(tmpdir(), 'mailkeep-skipped-'));
const sound = path.join(base, 'sound');
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
  const bytes = readFileSync(largest);
  const middle = bytes.length >> 1;
  bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle);
  writeFileSync(largest, bytes);
}

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

test.each(CASES)('$of: $what', async ({ args, code, names }) => {
  const ended = await mailkeep([...(await args())]);
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

/** Commands with a test of their own for this, which needs a server. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  sync: 'test/regressions/nothing-skipped.test.ts',
  restore: 'test/restore/command.test.ts',
  compact: 'test/cli/compact.test.ts',
  prune: 'test/retention/purge.test.ts',
  forget: 'test/retention/purge.test.ts',
  daemon: 'test/daemon/process.test.ts',
  web: 'test/web',
  mcp: 'test/mcp',
  ...Object.fromEntries(
    ['init', 'adopt', 'drop', 'key', 'key list', 'key add', 'key remove', 'key rotate'].map(
      (name) => [`copy ${name}`, 'test/offsite'],
    ),
  ),
};

/** Commands that neither take nor write nor show mail. */
const WITHOUT_MAIL =
  /^(init|quarantine|webhooks|notify|token|doctor|config|service|fleet|api|sandbox|completion)\b/;

test('every command that takes, writes or shows mail is tried', async () => {
  const words = (await allCommands()).map((command) => command.words);
  const tried = new Set([...CASES.map(({ of }) => of), ...Object.keys(ELSEWHERE)]);
  expect(words.filter((name) => !tried.has(name) && !WITHOUT_MAIL.test(name))).toEqual([]);
  expect([...tried].filter((name) => !words.includes(name))).toEqual([]);
  const files = Object.values(ELSEWHERE);
  expect(files.filter((file) => !existsSync(new URL(`../../${file}`, import.meta.url)))).toEqual(
    [],
  );
});
