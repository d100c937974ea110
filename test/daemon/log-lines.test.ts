import { pino } from 'pino';
import { expect, test } from 'vitest';
import { daemonLog, prettyLine } from '../../src/daemon/daemon-log.ts';
import { Dispatcher } from '../../src/daemon/dispatcher.ts';
import { type DaemonEvent, QUICK_SYNC, type SyncRequest } from '../../src/daemon/ports.ts';
import { Run } from '../../src/daemon/runs.ts';
import { emptyResult, type SyncResult } from '../../src/sync/result.ts';
import { FakeTime } from './fake-time.ts';

const mailbox = { account: 'main', host: 'h', resourceId: 'AC1', address: 'ada@example.org' };

test('on a terminal, a run is one line without zeros', () => {
  const quiet = { run: 3, kind: 'sync', account: 'main', mailboxes: 2, added: 0, failures: 0 };
  const line = { level: 'info', time: '2026-11-28T10:00:00Z', ...quiet, msg: 'run finished' };
  expect(prettyLine(line)).toBe('run finished: run 3, kind sync, account main, mailboxes 2');
  expect(prettyLine({ ...line, added: 12, account: null })).toBe(
    'run finished: run 3, kind sync, mailboxes 2, added 12',
  );
  expect(prettyLine({ msg: 'ready, and waiting', pid: 12 })).toBe('ready, and waiting');
  expect(prettyLine({ msg: 'bug', at: ['one', 'two'], ok: false })).toBe(
    'bug: at ["one","two"], ok false',
  );
});

test('a run that a hint started is quiet only if nothing happened to a message', () => {
  const numbers = { folders: 1, added: 0, ended: 0, flagsChanged: 3, relinked: 0, verified: 0 };
  const none = { ...numbers, corrected: 0, quarantined: 0, held: 0, bytes: 0, compared: 1 };
  const of = { address: 'ada@example.org', heldUntil: null, comparison: 'all' } as const;
  const failure = { account: 'main', mailbox: null, folder: null, uid: null };
  const levelOf = (kind: 'hint' | 'sync', changed: object, part: Partial<SyncResult> = {}) => {
    const levels: unknown[] = [];
    const write = (line: string) => levels.push((JSON.parse(line) as { level: number }).level);
    const log = daemonLog(pino({ level: 'debug' }, { write }));
    const run = { id: 1, kind, account: 'main', startedAt: 0 };
    const mailboxes = [{ ...of, ...none, ...changed }];
    log.observer({ event: 'run-finished', run, result: { ...emptyResult(0), mailboxes, ...part } });
    return levels;
  };
  const { debug, info, warn } = pino.levels.values;
  expect(levelOf('hint', {})).toEqual([debug]);
  expect(levelOf('sync', {})).toEqual([info]);
  for (const name of ['added', 'ended', 'held', 'quarantined'])
    expect([name, levelOf('hint', { [name]: 1 })]).toEqual([name, [info]]);
  const failures = [{ ...failure, family: 'origin', code: 'imap.refused', facts: {} } as const];
  expect(levelOf('hint', {}, { failures })).toEqual([warn]);
});

test('what a service sends cannot control the terminal', () => {
  const hostile = 'a\u001b]0;title\u0007\u001b[2J\r\nready\u202e\u009b1A@example.org';
  const line = prettyLine({ msg: 'failed', address: hostile, nested: { text: hostile } });
  expect(line).toMatch(/^failed: address /);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: controls are what is looked for
  expect(line).not.toMatch(/[\0-\x1f\x7f-\x9f\u202a-\u202e]/);
});

test('a long pass reports every half minute what it has stored, and a short one nothing', async () => {
  const clock = new FakeTime();
  const events: DaemonEvent[] = [];
  let request: SyncRequest | undefined;
  let end: (result: SyncResult) => void = () => {};
  const dispatcher = new Dispatcher({
    clock,
    observer: (event) => events.push(event),
    runner: {
      listMailboxes: () => Promise.reject(new Error('nobody asks for mailboxes here')),
      plan: () => Promise.reject(new Error('nobody plans here')),
      has: () => false,
      tidy: () => Promise.resolve(false),
      recover: () => {},
      tokenMark: () => null,
      pass: (asked) =>
        new Promise((resolve) => {
          request = asked;
          end = resolve;
        }),
    },
    isOpen: () => true,
    onPassed: () => {},
    onFailed: (error) => {
      throw error;
    },
    onIdle: () => {},
  });
  const at = { account: 'main', address: mailbox.address };
  const stored = (messages: number): void =>
    request?.progress({ event: 'stored', ...at, messages, bytes: messages * 100 });
  const info = { id: 1, kind: 'sync', account: 'main', startedAt: clock.now() } as const;
  dispatcher.add(mailbox, 'sync', QUICK_SYNC, new Run(info, clock.now));
  dispatcher.weigh();
  await clock.pass(0);
  request?.progress({ event: 'mailbox-started', ...at, messages: 900 });
  for (let second = 0; second < 70; second += 1) {
    stored(second * 10);
    await clock.pass(1_000);
  }
  expect(events).toEqual([
    { event: 'pass-progress', mailbox, messages: 300, of: 900, bytes: 30_000 },
    { event: 'pass-progress', mailbox, messages: 600, of: 900, bytes: 60_000 },
  ]);
  end(emptyResult(0));
  await clock.pass(0);
  dispatcher.add(mailbox, 'sync', QUICK_SYNC, new Run({ ...info, id: 2 }, clock.now));
  dispatcher.weigh();
  await clock.pass(0);
  stored(5);
  end(emptyResult(0));
  await clock.pass(60_000);
  expect(events).toHaveLength(2);
});
