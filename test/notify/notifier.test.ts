import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openState, type StateFile } from '../../src/core/state.ts';
import { Notifier, type NotifierOptions } from '../../src/daemon/notifier.ts';
import type { RunReport } from '../../src/verify/facts.ts';
import { type Receiver, receive, statuses } from '../sandbox/webhooks/receiver.ts';

const START = Date.UTC(2026, 10, 20);
const MINUTE = 60_000;

let folder: string;
let state: StateFile;
let time: number;
let outcomes: string[];
let errors: unknown[];
const open: Receiver[] = [];

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-notify-'));
  state = openState(folder);
  [time, outcomes, errors] = [START, [], []];
});
afterEach(async () => {
  state.close();
  await Promise.all(open.splice(0).map((receiver) => receiver.close()));
  rmSync(folder, { recursive: true });
});

function notifier(more: Partial<NotifierOptions>): Notifier {
  return new Notifier({
    command: null,
    url: null,
    memory: state,
    env: {
      PATH: process.env.PATH,
      SECRET_TOKEN: 'hush',
      CREDENTIALS_DIRECTORY: '/creds',
      NOTIFY_SOCKET: '/n',
    },
    now: () => time,
    host: 'machine',
    version: '9.9.9',
    onSent: (channel, event, outcome) =>
      outcomes.push(`${channel} ${event} ${outcome.sent ? 'sent' : outcome.reason}`),
    onError: (error) => errors.push(error),
    ...more,
  });
}

async function listening(...answer: Parameters<typeof receive>): Promise<Receiver> {
  const receiver = await receive(...answer);
  open.push(receiver);
  return receiver;
}

function run(code: string | null): RunReport {
  const failure = {
    account: 'main',
    mailbox: null,
    family: 'auth' as const,
    code: code ?? '',
    message: 'The "token" is $(refused) `now`; $HOME.',
  };
  return {
    kind: 'sync',
    startedAt: time - 1_000,
    endedAt: time,
    outcome: 'done',
    failures: code === null ? [] : [failure],
    accounts: ['main'],
    mailboxes: [],
    counts: { added: 0, ended: 0, bytes: 0, requests: 0 },
  };
}

test('the command hears of failure and recovery in its environment and on standard input, and of nothing secret', async () => {
  const command = `cat > "${folder}/in-$MAILKEEP_EVENT.json"; env > "${folder}/env-$MAILKEEP_EVENT"; printf %s "$MAILKEEP_SUMMARY" > "${folder}/line-$MAILKEEP_EVENT"`;
  const notify = notifier({ command });
  notify.onRun(run('origin.unauthorized'));
  await notify.idle();
  const input: unknown = JSON.parse(readFileSync(path.join(folder, 'in-failing.json'), 'utf8'));
  expect(input).toEqual({
    event: 'failing',
    ok: false,
    at: '2026-11-20T00:00:00.000Z',
    host: 'machine',
    version: '9.9.9',
    summary: expect.stringContaining('account main'),
    failing: [
      {
        kind: 'account',
        name: 'main',
        code: 'origin.unauthorized',
        message: 'The "token" is $(refused) `now`; $HOME.',
        since: '2026-11-20T00:00:00.000Z',
        until: null,
        reminder: false,
      },
    ],
    recovered: [],
  });
  expect(readFileSync(path.join(folder, 'line-failing'), 'utf8')).toBe(
    'mailkeep: failing: account main (The "token" is $(refused) `now`; $HOME.)',
  );
  const env = readFileSync(path.join(folder, 'env-failing'), 'utf8');
  expect(env).toMatch(/^PATH=/m);
  for (const word of ['hush', 'CREDENTIALS', 'NOTIFY_SOCKET']) expect(env).not.toContain(word);
  time += 10 * MINUTE;
  notify.onRun(run(null));
  await notify.idle();
  expect(readFileSync(path.join(folder, 'line-recovered'), 'utf8')).toBe(
    'mailkeep: works again: account main',
  );
  expect(outcomes).toEqual(['command failing sent', 'command recovered sent']);
});

test('the address hears of failure, recovery and signs of life, over restarts and without a storm', async () => {
  const receiver = await listening();
  const url = { reveal: () => `${receiver.url}/{code}/{status}` };
  for (let minute = 0; minute < 20; minute += 5) {
    const notify = notifier({ url });
    notify.onRun(run('origin.unauthorized'));
    notify.onRun(run('origin.unauthorized'));
    await notify.close();
    time += 5 * MINUTE;
  }
  const notify = notifier({ url });
  notify.onRun(run(null));
  notify.onRun(run(null));
  await notify.idle();
  time += MINUTE;
  notify.onRun(run(null));
  await notify.idle();
  const bodies = receiver.got.map(({ body, path: at }) => {
    const { event, ok } = JSON.parse(body) as { event: string; ok: boolean };
    return [event, ok, at];
  });
  expect(bodies).toEqual([
    ['failing', false, '/hook/1/down'],
    ['recovered', true, '/hook/0/up'],
    ['alive', true, '/hook/0/up'],
    ['alive', true, '/hook/0/up'],
  ]);
  expect(receiver.got[0]?.headers['content-type']).toBe('application/json');
});

test('what could not be sent is sent again later, each channel for itself', async () => {
  const receiver = await listening(statuses(500, 500, 200));
  const notify = notifier({
    command: `echo ran >> "${folder}/ran"; exit 0`,
    url: { reveal: () => receiver.url },
  });
  notify.onRun(run('origin.unauthorized'));
  await notify.idle();
  notify.tick();
  await notify.idle();
  time += 5 * MINUTE;
  notify.tick();
  await notify.idle();
  time += 5 * MINUTE;
  notify.tick();
  await notify.idle();
  time += 60 * MINUTE;
  notify.tick();
  await notify.idle();
  expect(outcomes.filter((line) => line.startsWith('url'))).toEqual([
    'url failing status 500',
    'url failing status 500',
    'url failing sent',
  ]);
  expect(readFileSync(path.join(folder, 'ran'), 'utf8')).toBe('ran\n');
});

test('an address that does not exist, and a command that fails or hangs, are reported by a code', async () => {
  const receiver = await listening();
  await receiver.close();
  const notify = notifier({ command: 'exit 3', url: { reveal: () => receiver.url } });
  notify.onRun(run('origin.unauthorized'));
  await notify.idle();
  expect(outcomes.sort()).toEqual(['command failing exit code 3', 'url failing ECONNREFUSED']);

  outcomes = [];
  time += 5 * MINUTE;
  // It leaves a child behind that has the marker open: the whole group must end.
  const hanging = notifier({
    command: `(sleep 1000; touch "${folder}/late") & sleep 1000`,
    timeoutMs: 200,
  });
  hanging.tick();
  await hanging.idle();
  expect(outcomes).toEqual(['command failing timeout']);
  expect(readdirSync(folder)).not.toContain('late');

  outcomes = [];
  time += 5 * MINUTE;
  const stopped = notifier({ command: 'sleep 1000' });
  stopped.tick();
  await stopped.close(50);
  expect(outcomes).toEqual(['command failing stopped']);
  expect(errors).toEqual([]);
});

test('without a channel nothing is remembered', async () => {
  const notify = notifier({});
  notify.onRun(run('origin.unauthorized'));
  await notify.close();
  expect(state.entries('notify')).toEqual([]);
});

test('an address that redirects has failed, and nothing is sent to the target', async () => {
  const elsewhere = await listening();
  const leads = [301, 302, 303, 307, 308];
  const leading = await listening((n, response) => {
    response.writeHead(leads[n - 1] ?? 200, { location: elsewhere.url }).end();
  });
  const notify = notifier({ url: { reveal: () => leading.url } });
  notify.onRun(run('origin.unauthorized'));
  await notify.idle();
  while (outcomes.length < leads.length) {
    const before = outcomes.length;
    time += 60 * MINUTE;
    notify.tick();
    await notify.idle();
    expect(outcomes).toHaveLength(before + 1);
  }
  expect(outcomes).toEqual(leads.map((status) => `url failing status ${status}`));
  expect(elsewhere.got).toEqual([]);
});
