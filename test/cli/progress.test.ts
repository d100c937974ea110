import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { expect, test, vi } from 'vitest';
import { planText } from '../../src/cli/commands/sync/sync-report.ts';
import { streamNotices } from '../../src/cli/notices.ts';
import { summaryLine } from '../../src/cli/progress/progress-text.ts';
import { liveProgress, plainProgress } from '../../src/cli/progress/sync-progress.ts';
import { emptyTally, sumOf, tallied, timeLeft } from '../../src/cli/progress/tally.ts';
import type { SyncProgress } from '../../src/sync/progress.ts';

const ana = { account: 'main', address: 'ana@example.org' };
const bob = { account: 'main', address: 'bob@example.org' };
const started: SyncProgress[] = [
  { event: 'mailbox-started', ...ana, messages: 200 },
  { event: 'mailbox-started', ...bob, messages: 0 },
  { event: 'stored', ...ana, messages: 50, bytes: 1_000_000 },
  { event: 'requests', account: 'main', requests: 53 },
];

function remembered(tty = false, columns = 120) {
  let text = '';
  const stream = Object.assign(
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        text += chunk.toString('utf8');
        done();
      },
    }),
    tty ? { isTTY: true, columns } : {},
  );
  return { stream, text: () => text };
}

test('what was reported adds up over mailboxes and accounts', () => {
  const tally = started.reduce(tallied, emptyTally(0));
  expect(sumOf(tally)).toEqual({ ahead: 200, messages: 50, bytes: 1_000_000, requests: 53 });
  // More arrived than the listing had promised: never more than all.
  const more = tallied(tally, { event: 'stored', ...ana, messages: 230, bytes: 5 });
  expect(sumOf(more)).toMatchObject({ ahead: 230, messages: 230 });
});

test('the time left is the mean rate carried on', () => {
  expect(timeLeft(50, 200, 10_000)).toBe(30_000);
  expect(timeLeft(0, 200, 10_000)).toBeNull();
  const line = summaryLine(started.reduce(tallied, emptyTally(0)), 10_000, 600);
  expect(line).toBe(
    '50 of 200 messages, 1.0 MB, 5/s, 30 s left; 53 requests, 318 a minute (budget 600); ana@example.org and bob@example.org',
  );
});

test('without a terminal, progress is the forecast and a line every ten seconds', () => {
  const { stream, text } = remembered();
  let now = 0;
  const notices = streamNotices(stream, { quiet: false, json: false, env: {} });
  const { listen, stop } = plainProgress(notices, () => now, 60);
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
  const plan = { mailboxes: [], requests: 20, hours: 1 / 180 };
  expect([0, 1, 12].map((messages) => planText({ ...plan, messages }).split(' and ')[0])).toEqual([
    'Total: 0 messages',
    'Total: 1 message',
    'Total: 12 messages (counted once per folder)',
  ]);
});

test('--quiet and --json leave stderr empty', () => {
  for (const options of [
    { quiet: true, json: false },
    { quiet: false, json: true },
  ]) {
    const { stream, text } = remembered(true);
    const notices = streamNotices(stream, { ...options, env: {} });
    expect(notices.live).toBe(false);
    notices.say('progress');
    notices.warn('look');
    expect(text()).toBe('');
  }
});

test('on a terminal there are bars for mailboxes at work and for all, and nothing is left behind', async () => {
  const { stream, text } = remembered(true);
  const notices = streamNotices(stream, { quiet: false, json: false, env: { NO_COLOR: '1' } });
  let now = 0;
  const { listen, stop } = liveProgress(notices, () => now, 600);
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
    const { stream, text } = remembered(true, columns);
    const notices = streamNotices(stream, { quiet: false, json: false, env: { NO_COLOR: '1' } });
    let now = 0;
    const { listen, stop } = liveProgress(notices, () => now, 600);
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
    // A line that was cut says so.
    expect(lines.some((line) => line.endsWith('…'))).toBe(true);
  }
});
