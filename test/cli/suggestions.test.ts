import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { describeError } from '../../src/core/errors.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { synced, type Workplace } from './child.ts';
import { ran } from './surface.ts';

/** The clock of `ran`. */
const NOW = Date.UTC(2026, 2, 1);
let sandbox: Sandbox;
let work: Workplace;

beforeAll(async () => {
  ({ sandbox, work } = await synced({ seed: 1, mail: { messages: 60 } }, () => NOW));
});
afterAll(() => sandbox.close());

function hintOf(query: string): string | null {
  try {
    parseQuery(query, { now: 0 });
  } catch (error) {
    return describeError(error).hint;
  }
  return expect.fail(`${query} is a query`);
}

test.each(['Re: Draft', 'FWD: Draft', 'Aw: Draft'])(
  'the beginning of a subject is to be quoted, and no operator: %s',
  (query) => {
    expect(hintOf(query)).toMatch(/^Put it in quotes to search for it as text\./);
  },
);

test('a mistyped operator is still suggested', () => {
  expect(hintOf('form:anna')).toMatch(/^Did you mean from:\?/);
});

test.each([
  ['size:>1M', 'larger:1M'],
  ['size:<=20k', 'smaller:20k'],
])('a comparison of sizes has an operator of its own: %s', (query, meant) => {
  expect(hintOf(query)).toMatch(`Write ${meant} instead.`);
  expect(() => parseQuery(meant, { now: 0 })).not.toThrow();
});

test('an address as an argument of sync is meant as --mailbox', async () => {
  const { code, stderr } = await ran(['sync', 'ada@example.com']);
  expect(code).toBe(2);
  expect(stderr).toContain('Did you mean --mailbox ada@example.com?');
});

test('commands that are suggested work on the archive that --data names', async () => {
  const status = await ran(['status', '--data', work.data]);
  expect(status.stdout).toContain(`"mailkeep verify --data ${work.data}" reads every byte`);
  const listed = await ran(['search', 'has:attachment', '--format', 'ids', '--data', work.data]);
  const [id = ''] = listed.stdout.split('\n');
  const shown = await ran(['show', id, '--data', work.data]);
  const command = `mailkeep attachments ${id.slice(0, 12)} --save DIR --data ${work.data}`;
  expect(shown.stdout).toContain(command);
});

test('a check of the age with --quiet prints only what is wrong', async () => {
  const check = (args: readonly string[], now: number) =>
    ran(['status', '--data', work.data, '--quiet', ...args], { now: () => now });
  expect(await check(['--max-age', '1h'], NOW)).toMatchObject({ code: 0, stdout: '' });
  const stale = await check(['--max-age', '1h'], NOW + 7_200_000);
  expect(stale.code).toBe(1);
  expect(stale.stdout).toMatch(/^Stale: \S+@\S+.*\n$/);
  expect((await check([], NOW)).stdout).toContain('messages in');
  const json = await check(['--max-age', '1h', '--json'], NOW);
  expect(JSON.parse(json.stdout)).toMatchObject({ fresh: true });
});

describe('words of other programs', () => {
  test.each([
    ['backup', /sync mirrors mailboxes, and copy updates a second copy/],
    ['ls', /list prints messages/],
    ['version', /--version prints the version/],
    ['log', /history shows what happened to a message/],
    ['start', /daemon keeps the archive up to date/],
    ['serch', /Did you mean search\?/],
    ['constructor', /Unknown command 'constructor'/],
  ])('a command: %s', async (word, hint) => {
    for (const args of [[word], ['help', word], ['--help', word]]) {
      const { code, stdout, stderr } = await ran(args);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(hint);
    }
  });

  test.each([
    [['search', '--folder', 'INBOX'], 'mailkeep search in:INBOX'],
    [['search', '--from', 'anna'], 'mailkeep search from:anna'],
    [['search', 'rent', '--older-than', '3d'], 'mailkeep search older_than:'],
    [['search', '--unread'], 'mailkeep search is:unread'],
    [['export', '--to', 'x', '--format', 'eml', '--from', 'anna'], '--query from:anna'],
    [['stats', '--subject', 'rent'], '--query subject:rent'],
    [['list', '--from', 'anna'], 'mailkeep search from:anna'],
    [['sync', '--rate', '60'], 'rateLimit.requestsPerMinute'],
    [['export', '--to', 'x', '--format', 'eml', '--out', 'y'], 'Did you mean --to?'],
    [['list', '--csv'], 'Did you mean --format csv?'],
    [['list', '--archive', 'x'], 'Did you mean --data?'],
    [['list', '--foldr', 'x'], 'Did you mean --folder?'],
  ])('an option: %j', async (args, hint) => {
    const { code, stdout, stderr } = await ran(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(hint);
  });

  test('--help before a command prints the help of the command', async () => {
    const { stdout } = await ran(['search', '--help']);
    for (const args of [
      ['--help', 'search'],
      ['-h', 'search'],
      ['--json', '--help', 'search'],
    ])
      expect(await ran(args)).toEqual({ code: 0, stdout, stderr: '' });
  });
});

test('a moment before the archive is said to be one', async () => {
  for (const args of [
    ['list', '--as-of', '1999'],
    ['search', 'rent', '--as-of', '1999'],
    ['search', 'rent asof:1999'],
    ['export', '--to', path.join(work.data, '..', 'old.zip'), '--format', 'zip', '--as-of', '1999'],
  ]) {
    const { code, stderr } = await ran([...args, '--data', work.data]);
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /The archive begins at \d{4}-\d\d-\d\dT.*Z: it knows nothing from before/,
    );
  }
  expect((await ran(['list', '--data', work.data])).stderr).toBe('');
});

test('a folder for attachments that is a file is named as one', async () => {
  const listed = await ran(['search', 'has:attachment', '--format', 'ids', '--data', work.data]);
  const [id = ''] = listed.stdout.split('\n');
  const { code, stderr } = await ran([
    'attachments',
    id,
    '--save',
    work.config,
    '--data',
    work.data,
  ]);
  expect(code).toBe(1);
  expect(stderr).toContain('it is a file, not a folder');
});

test('mcp on a terminal says what it waits for', async () => {
  const stdin = () => Object.assign(Readable.from([]), { isTTY: true });
  const { code, stderr } = await ran(['mcp', '--data', work.data], { stdin });
  expect(code).toBe(0);
  expect(stderr).toContain('Waiting for an assistant');
  expect((await ran(['mcp', '--data', work.data])).stderr).toBe('');
});

test('a file that is no mail is not served by the sandbox', async () => {
  const file = path.join(work.data, '..', 'passwd');
  writeFileSync(file, 'root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\n');
  const { code, stdout, stderr } = await ran(['sandbox', '--from', file]);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain('it is not a message');
});

test('without an archive, status says how to get one', async () => {
  const missing = await ran(['status', '--data', path.join(work.data, 'nowhere')]);
  expect(missing.code).toBe(2);
  expect(missing.stderr).toContain('"mailkeep init"');
});
