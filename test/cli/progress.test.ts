import { stripVTControlCharacters } from 'node:util';
import { expect, test, vi } from 'vitest';
import { planText } from '../../src/cli/commands/sync.ts';
import {
  emptyTally,
  liveProgress,
  type ProgressTally,
  plainProgress,
  storedPerSecond,
  summaryLine,
  sumOf,
  sumTexts,
  timeLeft,
  timeText,
  updateTally,
} from '../../src/cli/progress.ts';
import { streamNotices } from '../../src/cli/warnings.ts';
import type { SyncProgress } from '../../src/sync/result.ts';
import { screen } from './child.ts';

const ana = { account: 'main', address: 'ana@example.org' };
const bob = { account: 'main', address: 'bob@example.org' };
const started: SyncProgress[] = [
  { event: 'mailbox-started', ...ana, messages: 200 },
  { event: 'mailbox-started', ...bob, messages: 0 },
  { event: 'stored', ...ana, messages: 50, bytes: 1_000_000 },
  { event: 'requests', account: 'main', requests: 53, perMinute: 600 },
];

test('what was reported adds up over mailboxes and accounts', () => {
  const tally = after(started);
  expect(sumOf(tally)).toEqual({ ahead: 200, messages: 50, bytes: 1_000_000, requests: 53 });
  // More arrived than the listing had promised: never more than all.
  const more = updateTally(tally, { event: 'stored', ...ana, messages: 230, bytes: 5 }, 1);
  expect(sumOf(more)).toMatchObject({ ahead: 230, messages: 230 });
});

/** The tally after events that come at once, at 0, unless they say when. */
function after(events: readonly (SyncProgress & { readonly at?: number })[]): ProgressTally {
  return events.reduce<ProgressTally>(
    (tally, { at = 0, ...event }) => updateTally(tally, event, at),
    emptyTally(0),
  );
}

const stored = (at: number, messages: number) =>
  ({ event: 'stored', ...ana, messages, bytes: messages * 1_000, at }) as const;
const paced = (perMinute: number) =>
  ({ event: 'requests', account: 'main', requests: 9, perMinute }) as const;
const begun = { event: 'mailbox-started', ...ana, messages: 800 } as const;

test('no time is named before a speed was measured, however late the first message came', () => {
  // The listings take two seconds: the mean since the start would promise 26 minutes for half a minute.
  const early = [begun, paced(1_000_000), stored(2_000, 1), stored(4_000, 41)];
  expect(timeLeft(after([begun]), 60_000)).toBeNull();
  expect(timeLeft(after(early), 4_000)).toBeNull();
  expect(summaryLine(after(early), 4_000)).not.toContain('left');
  const later = after([...early, stored(8_000, 161)]);
  expect(storedPerSecond(later, 8_000)?.messages).toBeCloseTo(160 / 6);
  expect(timeLeft(later, 8_000)).toBeCloseTo((639 / 160) * 6_000);
});

test('the time left follows the last minute, and stretches while nothing comes', () => {
  const burst = [0, 1, 2, 3, 4, 5].map((at) => stored(at * 1_000, at * 100));
  const slow = Array.from({ length: 90 }, (_, i) => stored(6_000 + i * 1_000, 501 + i));
  const now = 95_000;
  const tally = after([begun, paced(1_000_000), ...burst, ...slow]);
  expect(storedPerSecond(tally, now)?.messages).toBeCloseTo(1, 1);
  expect(timeLeft(tally, now)).toBeCloseTo(210_000, -4);
  expect(timeLeft(tally, now + 30_000)).toBeGreaterThan(400_000);
  expect(timeLeft(tally, now + 300_000)).toBeNull();
});

test('the time left is no shorter than the rate in force allows', () => {
  const burst = [0, 2, 4, 6].map((at) => stored(at * 1_000, at * 50));
  const tally = after([begun, paced(1_000_000), ...burst, paced(120)]);
  expect(timeLeft(tally, 6_000)).toBeCloseTo((500 / 120) * 60_000);
  expect(summaryLine(tally, 6_000)).toBe(
    '300 of 800 messages, 300 kB, 50/s, 4 min 10 s left; 9 requests, 90 a minute (budget 120); ana@example.org',
  );
});

test('two accounts wait for the slower one', () => {
  const other = { account: 'other', address: 'eve@example.net' };
  const tally = after([
    begun,
    { event: 'mailbox-started', ...other, messages: 60 },
    paced(6_000),
    { event: 'requests', account: 'other', requests: 1, perMinute: 6 },
    ...[0, 5].map((at) => stored(at * 1_000, at * 100)),
  ]);
  expect(timeLeft(tally, 5_000)).toBeCloseTo(600_000);
});

test('once all is fetched, progress counts what is being indexed', () => {
  const done = [begun, stored(1_000, 800), { event: 'mailbox-finished', ...ana } as const];
  const indexing = (indexed: number) =>
    ({ event: 'indexing', indexed, remaining: 800 - indexed }) as const;
  expect(sumTexts(after([...done, indexing(0)]), 2_000)).toEqual(['indexing 0 of 800 messages']);
  expect(sumTexts(after([...done, indexing(500)]), 2_000)).toEqual([
    'indexing 500 of 800 messages',
  ]);
  expect(sumTexts(after([...done, indexing(800)]), 2_000)).toEqual([
    '800 of 800 messages; reading attachments and tidying up',
  ]);
  // Messages are indexed while others come.
  expect(sumTexts(after([begun, stored(1_000, 400), indexing(300)]), 2_000)[1]).toMatch(
    /^all {2}400 of 800 messages, 400 kB/,
  );
});

test('a rate that nothing shows to be real is no ground for a time', () => {
  const ahead = { requests: 1_035, requestsPerMinute: 1_000_000, hours: 1_035 / 60_000_000 };
  expect(timeText(ahead)).toBe('That is 1,035 requests.');
  expect(timeText({ ...ahead, requestsPerMinute: 162.5, hours: 1_035 / 162.5 / 60 })).toBe(
    'That is 1,035 requests: about 6 min 22 s at 162 a minute.',
  );
});

test('without a terminal, progress is the forecast and a line every ten seconds', () => {
  const { stream, text } = screen();
  let now = 0;
  const notices = streamNotices(stream, { quiet: false, json: false, env: {} });
  const { listen, stop } = plainProgress(notices, () => now);
  listen({
    event: 'forecast',
    account: 'main',
    forecast: {
      mailboxes: 1,
      folders: 5,
      messages: 12_000,
      bytes: 1_200_000_000,
      requests: 12_126,
      requestsPerMinute: 60,
      hours: 12_126 / 3_600,
    },
  });
  for (const event of started) listen(event);
  for (now = 1_000; now <= 20_000; now += 1_000)
    listen({ event: 'stored', ...ana, messages: now / 100, bytes: now });
  stop();
  const lines = text().trimEnd().split('\n');
  expect(lines.slice(0, 3)).toEqual([
    'To fetch: 12,000 messages (counted once per folder), about 1.2 GB, in 5 folders of 1 mailbox.',
    'That is 12,126 requests: about 3 h 22 min at 60 a minute. Newest messages come first; interrupt whenever you like, the next sync continues.',
    'To be faster, raise rateLimit.requestsPerMinute. Your provider knows what the service allows; where it refuses requests, mailkeep slows down, and "mailkeep status" shows the rate that it learned.',
  ]);
  expect(lines.slice(3)).toHaveLength(2);
  // The sum knows what was forecast, also of mailboxes that did not begin yet.
  expect(lines[3]).toMatch(/^100 of 12,000 messages, .* left; 53 requests/);
});

test('a plan says how messages are counted', () => {
  const plan = { mailboxes: [], requests: 20, requestsPerMinute: 60, hours: 1 / 180 };
  expect(
    [0, 1, 12].map((messages) =>
      planText({ ...plan, messages })
        .split('. ')
        .slice(0, 2),
    ),
  ).toEqual([
    ['Total: 0 messages', 'That is 20 requests: about 20 s at 60 a minute'],
    ['Total: 1 message', 'That is 20 requests: about 20 s at 60 a minute'],
    [
      'Total: 12 messages (counted once per folder)',
      'That is 20 requests: about 20 s at 60 a minute',
    ],
  ]);
});

test('--quiet and --json leave stderr empty', () => {
  for (const options of [
    { quiet: true, json: false },
    { quiet: false, json: true },
  ]) {
    const { stream, text } = screen(120);
    const notices = streamNotices(stream, { ...options, env: {} });
    expect(notices.live).toBe(false);
    notices.say('progress');
    notices.warn('look');
    expect(text()).toBe('');
  }
});

test('on a terminal there are bars for mailboxes at work and for all, and nothing is left behind', async () => {
  const { stream, text } = screen(120);
  const notices = streamNotices(stream, { quiet: false, json: false, env: { NO_COLOR: '1' } });
  let now = 0;
  const { listen, stop } = await liveProgress(notices, () => now);
  for (const event of started) {
    now += 500;
    listen(event);
  }
  await vi.waitFor(() => expect(text()).toContain('ana@example.org'), 60_000);
  stop();
  expect(text()).toContain('50 of 200 messages');
  expect(text()).toContain('(budget 600)');
  expect(text()).not.toContain('bob@example.org');
  // The cursor is shown again.
  expect(text()).toContain('\u001b[?25h');
});

test('a bar fits its terminal, and one of unknown size', async () => {
  for (const columns of [60, 80, 0]) {
    const { stream, text } = screen(columns);
    const notices = streamNotices(stream, { quiet: false, json: false, env: { NO_COLOR: '1' } });
    let now = 0;
    const { listen, stop } = await liveProgress(notices, () => now);
    for (const event of started) {
      now += 500;
      listen(event);
    }
    await vi.waitFor(() => expect(text()).toContain('ana@example.org'), 60_000);
    stop();
    const lines = stripVTControlCharacters(text())
      .split(/[\r\n]+|(?<![█░])(?=[█░])/)
      .filter((line) => line.includes('messages'));
    expect(lines.length).toBeGreaterThan(1);
    for (const line of lines) expect(line.length).toBeLessThan(columns || 80);
    // Details give way; no line is cut.
    expect(lines.filter((line) => line.includes('…'))).toEqual([]);
    expect(lines.at(-1)).toContain('50 of 200 messages');
  }
});

test('accounts without a limit of requests show messages and bytes a second', () => {
  const tally = after([begun, paced(0), stored(2_000, 1), stored(4_000, 41), stored(8_000, 161)]);
  expect(summaryLine(tally, 8_000)).toMatch(
    /^161 of 800 messages, 161 kB, 27 messages and 26\.7 kB a second, \d+ s left; ana@example\.org$/,
  );
  const traffic = { limit: 2e9, speed: { messages: 40, bytes: 1_000_000 } };
  const plan = { requests: 0, requestsPerMinute: 0, hours: 0, messages: 5_000, traffic };
  expect(timeText({ ...plan, bytes: 30_000_000 })).toBe(
    'That takes about 2 min 5 s; an earlier sync fetched 40 messages and 1.0 MB a second.',
  );
  // The limit of a day determines the duration.
  expect(timeText({ ...plan, bytes: 10e9 })).toBe(
    'That takes about 5 d; an earlier sync fetched 40 messages and 1.0 MB a second. At most 2.0 GB are exchanged a day (imap.maxBytesPerDay).',
  );
  expect(timeText({ ...plan, traffic: { limit: null, speed: null } })).toBe(
    'The duration depends on the server.',
  );
});
