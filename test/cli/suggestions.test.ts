import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { parseQuery } from '../../src/search/parse.ts';
import { sentenceOf } from '../../src/wording/sentence-of.ts';
import { type Workplace, workplace } from './child.ts';
import { ran } from './surface.ts';

let sandbox: Sandbox;
let work: Workplace;

beforeAll(async () => {
  sandbox = await startSandbox({ seed: 1 });
  work = workplace(sandbox);
  expect((await ran(['sync', '--config', work.config])).code).toBe(0);
});
afterAll(() => sandbox.close());

function hintOf(query: string): string | null {
  try {
    parseQuery(query, { now: 0 });
  } catch (error) {
    return sentenceOf(error).hint;
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
  const at = Date.UTC(2026, 2, 1);
  const check = (args: readonly string[], now: number) =>
    ran(['status', '--data', work.data, '--quiet', ...args], { now: () => now });
  expect(await check(['--max-age', '1h'], at)).toMatchObject({ code: 0, stdout: '' });
  const stale = await check(['--max-age', '1h'], at + 7_200_000);
  expect(stale.code).toBe(1);
  expect(stale.stdout).toMatch(/^Stale: \S+@\S+.*\n$/);
  expect((await check([], at)).stdout).toContain('messages in');
  const json = await check(['--max-age', '1h', '--json'], at);
  expect(JSON.parse(json.stdout)).toMatchObject({ fresh: true });
});
