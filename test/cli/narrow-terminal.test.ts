import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fitNarrow } from '../../src/cli/output.ts';
import { liveProgress, openActivity } from '../../src/cli/progress.ts';
import { streamNotices } from '../../src/cli/warnings.ts';
import { displayWidth } from '../../src/core/terminal-safe.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { screen, synced, type Workplace } from './child.ts';
import { ran } from './surface.ts';

const COLUMNS = 40;

let sandbox: Sandbox;
let work: Workplace;

beforeAll(async () => {
  ({ sandbox, work } = await synced({ seed: 1, mail: { messages: 60 } }));
});
afterAll(() => sandbox.close());

/** A carriage return draws a line again. Words that are longer than a line, such as paths, are nobody's to break. */
function tooWide(text: string): string[] {
  return stripVTControlCharacters(text)
    .split(/[\r\n]/)
    .filter((line) => displayWidth(line) > COLUMNS && line.trim().includes(' '));
}

test.each([
  [['status']],
  [['list', '--limit', '5']],
  [['list', '--deleted']],
  [['search', 'photograph', '--limit', '5']],
  [['search', 'is:unred']],
  [['search', 'in:Nope']],
  [['verify', '--quick']],
  [['search', '--help']],
])('nothing is wider than a terminal of 40 columns: %j', async (args) => {
  const [out, err] = [screen(COLUMNS), screen(COLUMNS)];
  const line = [...args, '--data', work.data];
  await ran(line, { stdout: out.stream, stderr: err.stream, now: Date.now });
  const printed = `${out.text()}${err.text()}`;
  expect(printed).not.toBe('');
  expect(tooWide(printed)).toEqual([]);
});

async function helpAt(columns: number): Promise<string> {
  const out = screen(columns);
  await ran(['verify', '--help'], { stdout: out.stream });
  return out.text();
}

test.each([40, 60, 80, 100, 200])('a help fits a terminal of %d columns', async (columns) => {
  const lines = (await helpAt(columns)).split('\n');
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(Math.min(columns, 100));
  const prose = lines.filter((line) => /^\S.* /.test(line));
  expect(Math.max(...prose.map((line) => line.length))).toBeGreaterThan(
    Math.min(columns, 100) - 20,
  );
  const words = (text: string) => text.split(/\s+/).filter((word) => word !== '');
  expect(words(lines.join(' '))).toEqual(words(await helpAt(100)));
});

test('a help in a pipe has 80 columns, or as many as COLUMNS says', async () => {
  const widest = async (env: Record<string, string>) => {
    const { stdout } = await ran(['verify', '--help'], { env });
    return Math.max(...stdout.split('\n').map((line) => line.length));
  };
  expect(await widest({})).toBeLessThanOrEqual(80);
  expect(await widest({ COLUMNS: '60' })).toBeLessThanOrEqual(60);
});

test('words are not broken at any width, JSON is left as it is, and so is what goes into a pipe', () => {
  const long = 'word '.repeat(40).trim();
  expect(fitNarrow(`{"a":"${long}"}`, 40)).toBe(`{"a":"${long}"}`);
  for (const columns of [40, 80, 100]) {
    const lines = fitNarrow(long, columns).split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
    expect(lines.join(' ')).toBe(long);
  }
  expect(fitNarrow(long, undefined)).toBe(long);
});

test('bars are gone before a result, and a second stop clears nothing', async () => {
  const { stream, text } = screen(COLUMNS);
  const notices = streamNotices(stream, { quiet: false, json: false, env: {} });
  const progress = await liveProgress(notices, () => 0);
  progress.listen({
    event: 'mailbox-started',
    account: 'main',
    address: 'ada@example.org',
    messages: 9,
  });
  progress.stop();
  stream.write('the result');
  progress.stop();
  expect(text().endsWith('the result')).toBe(true);
});

test('a long step has a line after a second, which is gone when it ends', () => {
  const { stream, text } = screen(COLUMNS);
  const notices = streamNotices(stream, { quiet: false, json: false, env: {} });
  let now = 0;
  const activity = openActivity({ notices, now: () => now }, 'reading the log');
  activity.show(() => 'read 1 of 9 segments');
  expect(text()).toBe('');
  now = 1_500;
  activity.show(() => 'read 2 of 9 segments, and this is wider than the terminal');
  activity.show(() => 'too soon');
  const shown = stripVTControlCharacters(text()).split('\r');
  expect(shown).toEqual(['', expect.stringMatching(/^read 2 of 9 segments, .*…$/)]);
  expect(displayWidth(shown[1] ?? '')).toBeLessThan(COLUMNS);
  activity.stop();
  expect(text().endsWith('\r\u001b[2K')).toBe(true);
});

test('without a terminal a long step has a line every five seconds, and none with --quiet', () => {
  for (const quiet of [false, true]) {
    const { stream, text } = screen(COLUMNS);
    const pipe = Object.assign(stream, { isTTY: false });
    const notices = streamNotices(pipe, { quiet, json: false, env: {} });
    let now = 0;
    const activity = openActivity({ notices, now: () => now }, 'reading the log');
    for (; now <= 11_000; now += 1_000) activity.show(() => `at ${now}`);
    activity.stop();
    expect(text()).toBe(quiet ? '' : 'at 5000\nat 10000\n');
  }
});
