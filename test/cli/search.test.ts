import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stateFile } from '../../src/core/state.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, syncedFrom, type Workplace, workplace } from './child.ts';
import { ran } from './surface.ts';

function letter(day: number, subject: string, body: string, ...headers: string[]): Buffer {
  return Buffer.from(
    [
      `Message-ID: <${day}@example.org>`,
      `Date: ${new Date(Date.UTC(2026, 1, day, 10)).toUTCString()}`,
      'From: Anna Berg <anna@example.org>',
      'To: bob@example.org',
      `Subject: ${subject}`,
      ...headers,
      '',
      body,
      '',
    ].join('\r\n'),
  );
}

const SOURCES = [
  letter(1, 'Ferry', 'When does the ferry leave?'),
  letter(2, 'Re: Ferry', 'At noon, says the lighthouse.', 'In-Reply-To: <1@example.org>'),
  letter(3, 'Tickets', 'Ferry tickets for you.', 'References: <1@example.org> <2@example.org>'),
  letter(4, 'Re: Ferry', 'A program without manners wrote this ferry letter.'),
  letter(5, 'Rent', 'The rent for the ferry house is due.'),
];

let sandbox: Sandbox;
let work: Workplace;

beforeAll(async () => {
  ({ sandbox, work } = await syncedFrom(SOURCES));
});
afterAll(() => sandbox.close());

/** `now` is after the mail; the streams are no terminal. */
const search = (...args: string[]) => ran(['search', ...args, '--data', work.data]);

function field(line: unknown, name: string): string {
  const value: unknown = typeof line === 'object' && line !== null ? Reflect.get(line, name) : null;
  if (typeof value !== 'string') throw new Error(`no ${name} in ${JSON.stringify(line)}`);
  return value;
}
const subjects = (stdout: string) => jsonLines(stdout).map((line) => field(line, 'subject'));

test('a page continues after the last message of the previous one', async () => {
  const all = jsonLines((await search('ferry', '--json')).stdout).map((line) => field(line, 'id'));
  expect(all).toHaveLength(5);
  for (const sort of ['newest', 'oldest']) {
    const paged: string[] = [];
    for (let after: string[] = []; ; after = ['--page-after', paged.at(-1)?.slice(0, 12) ?? '']) {
      const { stdout } = await search('ferry', '--json', '--limit', '2', '--sort', sort, ...after);
      const page = jsonLines(stdout).map((line) => field(line, 'id'));
      if (page.length === 0) break;
      paged.push(...page);
    }
    expect(paged).toEqual(sort === 'newest' ? all : all.toReversed());
  }
  const refused = await search('ferry', '--sort', 'relevance', '--page-after', all[0] ?? '');
  expect(refused).toMatchObject({ code: 2, stdout: '' });
  expect(refused.stderr).toContain('--page-after');
});

test('a thread is found by any of its messages, and shown whole, oldest first', async () => {
  const [first] = jsonLines((await search('noon', '--json')).stdout);
  const id = field(first, 'id').slice(0, 10);
  const thread = ['Re: Ferry', 'Tickets', 'Re: Ferry', 'Ferry'];
  expect(subjects((await search(`thread:${id}`, '--json')).stdout)).toEqual(thread);
  expect(subjects((await search('thread:3@example.org', '--json')).stdout)).toEqual(thread);
  expect((await search(`thread:${id}`, 'tickets', '--count')).stdout).toBe('1\n');
  expect((await search(`-thread:${id}`, '--count')).stdout).toBe('1\n');
  const json = await ran(['show', id, '--thread', '--json', '--data', work.data]);
  expect(jsonLines(json.stdout)).toHaveLength(4);
  const { stdout } = await ran(['show', id, '--thread', '--data', work.data]);
  const places = ['When does', 'At noon', 'tickets for you', 'without manners'].map((text) =>
    stdout.indexOf(text),
  );
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(places[0]).toBeGreaterThan(0);
  const unknown = await search('thread:ffffffff');
  expect(unknown).toMatchObject({ code: 0, stdout: '' });
  expect(unknown.stderr).toContain('the archive has no message "ffffffff"');
});

test('accounts go by their name in the configuration, and by their host', async () => {
  const found = await ran(['search', 'account:MAIN', '--count', '--config', work.config]);
  const host = await search('account:127.0.0.1', '--count');
  expect([found.stdout, host.stdout]).toEqual(['5\n', '5\n']);
});

test.each([
  ['account:main', 5],
  ['account:main tickets', 1],
  ['@bookings', 1],
  ['-@bookings', 4],
])('an export takes what a search takes: %s', async (query, found) => {
  expect((await search('--save', 'bookings', 'subject:tickets')).code).toBe(0);
  const to = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-export-')), 'out');
  const line = ['export', '--query', query, '--format', 'eml', '--to', to];
  const { stdout, stderr } = await ran([...line, '--config', work.config, '--json']);
  rmSync(path.dirname(to), { recursive: true });
  expect(stderr).toBe('');
  expect(jsonLines(stdout)).toMatchObject([{ places: found, exported: found }]);
  expect((await search('--forget', 'bookings')).code).toBe(0);
});

test('an export refuses a query with a name that the archive never had', async () => {
  const to = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-export-')), 'out');
  const line = ['export', '--query', 'ferry -in:Recieved', '--format', 'eml', '--to', to];
  const { code, stderr } = await ran([...line, '--data', work.data]);
  expect([code, existsSync(to)]).toEqual([2, false]);
  rmSync(path.dirname(to), { recursive: true });
  expect(stderr).toContain('The archive has no folder "Recieved".');
});

test.each([
  ['in:INBXO', 'The archive has no folder "INBXO".', 'Did you mean "INBOX"?'],
  ['ferry -in:Recieved', 'The archive has no folder "Recieved".', '"mailkeep status" lists'],
  ['mailbox:adda', 'The archive has no mailbox "adda".', 'Did you mean "ada@example.org"?'],
  ['mailbox:nobody@example.net', 'The archive has no mailbox', 'It has ada@example.org'],
  ['account:elsewhere', 'The archive has no account "elsewhere".', 'It has 127.0.0.1'],
])(
  'a name that the archive never had is refused in every form of output: %s',
  async (query, message, hint) => {
    for (const how of [[], ['--quiet'], ['--count'], ['--explain'], ['--as-of', '2026-03-01']]) {
      const { code, stdout, stderr } = await search(query, ...how);
      expect([how, code, stdout]).toEqual([how, 2, '']);
      expect(stderr).toContain(message);
      expect(stderr).toContain(hint);
    }
    for (const how of [['--json'], ['--json', '--count']]) {
      const { code, stdout, stderr } = await search(query, ...how);
      expect([how, code, stdout]).toEqual([how, 2, '']);
      expect(JSON.parse(stderr)).toEqual({
        error: {
          code: 'usage-unknown-name',
          message: expect.stringContaining(message),
          hint: expect.stringContaining(hint),
        },
      });
    }
  },
);

test('saved searches are kept, listed, used, combined and forgotten', async () => {
  expect((await search('--save', 'trip', 'ferry OR lighthouse')).code).toBe(0);
  expect((await search('--save', 'recent', '@trip after:2026-02-03')).code).toBe(0);
  expect(jsonLines((await search('--saved', '--json')).stdout)).toEqual([
    { name: 'recent', query: '(ferry OR lighthouse) after:2026-02-03' },
    { name: 'trip', query: 'ferry OR lighthouse' },
  ]);
  expect((await search('@trip', '--count')).stdout).toBe('5\n');
  expect((await search('@trip', 'rent', '--count')).stdout).toBe('1\n');
  expect((await search('-@trip', '--count')).stdout).toBe('0\n');
  expect((await search('@recent', '--count')).stdout).toBe('3\n');
  // An address is no name.
  expect((await search('from:@example.org', '--count')).stdout).toBe('5\n');
  expect((await search('--forget', 'recent')).code).toBe(0);
  const gone = await search('@recent');
  expect(gone.code).toBe(2);
  const slip = await search('@tripp');
  expect(slip.stderr).toContain('@trip');
  expect((await search('--save', 'a/b', 'ferry')).code).toBe(2);
  // A name that is taken is not given to another query by mistake; the same query may be saved again.
  const again = await search('--save', 'trip', 'ferry');
  expect([again.code, again.stdout]).toEqual([2, '']);
  expect(again.stderr).toContain('--replace');
  expect((await search('--save', 'trip', '--replace', 'ferry')).code).toBe(0);
  expect((await search('--save', 'trip', 'ferry')).code).toBe(0);
  // What cannot be understood is not saved.
  expect((await search('--save', 'wrong', 'frm:anna')).code).toBe(2);
  expect(jsonLines((await search('--saved', '--json')).stdout)).toHaveLength(1);
});

test('searching an archive without a state file makes none', async () => {
  const own = workplace(sandbox);
  const { code, stderr } = await mailkeep(['sync', '--config', own.config]);
  expect(code, stderr).toBe(0);
  for (const end of ['', '-wal', '-shm']) rmSync(`${stateFile(own.data)}${end}`, { force: true });
  const found = await ran(['search', 'ferry', '--count', '--data', own.data]);
  const listed = await ran(['search', '--saved', '--data', own.data]);
  expect([found.stdout, listed.stdout]).toEqual(['5\n', '']);
  expect(existsSync(stateFile(own.data))).toBe(false);
});

test('a quotation mark that a shell left alone gets a hint', async () => {
  const { code, stderr } = await search('"open');
  expect(code).toBe(2);
  expect(stderr).toContain('character 1');
  expect(stderr).toContain('Close it');
});
