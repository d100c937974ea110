import { rmSync } from 'node:fs';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openState, readState, type StateFile } from '../../src/core/state.ts';
import type { StoredRun } from '../../src/core/state-runs.ts';
import { daemonLog } from '../../src/daemon/daemon-log.ts';
import { RunRecorder } from '../../src/daemon/daemon-process.ts';
import { failureOf, taskReport } from '../../src/daemon/runs.ts';
import { NO_WORK } from '../../src/sync/committer.ts';
import { emptyResult, type SyncResult } from '../../src/sync/result.ts';
import { verifyError } from '../../src/verify/errors.ts';
import { temporaryDir } from '../catalog/history.ts';
import { mailkeep, type Workplace, workplace } from '../cli/child.ts';
import { DaemonTests } from './running-daemon.ts';

const T0 = Date.UTC(2026, 10, 2, 9);
const RUN = { id: 7, kind: 'sync', account: 'main', startedAt: T0 } as const;

let room: ReturnType<typeof temporaryDir>;
let state: StateFile;
let lines: string[];
let notes: RunRecorder;
beforeEach(() => {
  room = temporaryDir();
  state = openState(room.dir);
  lines = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  notes = new RunRecorder(state, () => T0 + 700, daemonLog(pino(stream)));
});
afterEach(() => {
  state.close();
  room.remove();
});

function certificate(folder: string, stored: number, originTotal = stored) {
  const sums = { assumed: 0, quarantined: 0, held: 0, forgotten: 0 };
  const complete = stored === originTotal;
  return { mailbox: 'ada@example.org', folder, stored, originTotal, complete, ...sums };
}

function finished(more: Partial<SyncResult>): void {
  notes.onEvent({ event: 'run-finished', run: RUN, result: { ...emptyResult(700), ...more } });
}

const newest = (): StoredRun | undefined => state.runs.list({ limit: 1 })[0];

test('a run that changed something is kept with the sums of its folders', () => {
  const counts = { added: 1, quarantined: 2, folders: 2, compared: 2 };
  const comparison = 'all' as const;
  const mailbox = { ...NO_WORK, address: 'ada@example.org', ...counts, comparison };
  finished({
    mailboxes: [mailbox],
    requests: 3,
    certificates: [certificate('INBOX', 12), certificate('Sent', 5)],
  });
  expect(newest()).toMatchObject({
    ...{ kind: 'sync', account: 'main', startedAt: T0, endedAt: T0 + 700, outcome: 'done' },
    ...{ mailboxes: 1, mailbox: 'ada@example.org', added: 1, quarantined: 2, requests: 3 },
    sum: { folders: 2, originTotal: 17, stored: 17, complete: true },
    folders: [{ folder: 'INBOX' }, { folder: 'Sent' }],
  });
});

test('a run that changed nothing is kept with its sum and the folders that do not add up', () => {
  const mailbox = { ...NO_WORK, address: 'ada@example.org' };
  const certificates = [certificate('INBOX', 12), certificate('Late', 4, 5)];
  finished({ mailboxes: [mailbox], certificates });
  expect(newest()).toMatchObject({
    sum: { folders: 2, originTotal: 17, stored: 16, complete: false },
    folders: [{ folder: 'Late', stored: 4, originTotal: 5 }],
  });
});

test('a failure of one message is counted, and nothing of the message is kept', () => {
  const facts = { subject: 'very private', seconds: 9 };
  const failure = { account: 'main', family: 'origin', code: 'api.gone', facts } as const;
  finished({
    mailboxes: [{ ...NO_WORK, address: 'ada@example.org' }],
    failures: [{ ...failure, mailbox: 'ada@example.org', folder: 'INBOX', uid: 4711 }],
  });
  expect(newest()).toMatchObject({
    outcome: 'done',
    failures: 1,
    troubles: [{ mailbox: 'ada@example.org', folder: 'INBOX', code: 'api.gone', text: null }],
  });
  expect(JSON.stringify(newest())).not.toMatch(/private|4711/);
});

test('verifications are kept with what they read, and what they found', () => {
  const damage = verifyError('archive-damaged', { found: 1, findings: ['segment 1 is damaged'] });
  notes.onRun(taskReport('verify', T0, T0 + 98_000, failureOf(damage), { messages: 92_530 }));
  expect(newest()).toMatchObject({
    ...{ kind: 'verify', outcome: 'failed', messages: 92_530, failures: 1 },
    troubles: [{ code: 'archive-damaged', text: expect.stringContaining('damage') }],
  });
});

test('reading attachments is kept where it took some time', () => {
  notes.onTidied(T0 + 650);
  expect(newest()).toBeUndefined();
  notes.onTidied(T0);
  expect(newest()).toMatchObject({ kind: 'index', startedAt: T0, endedAt: T0 + 700 });
});

test('a state that cannot be written is logged, and the daemon continues', () => {
  state.close();
  finished({});
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain('a run could not be kept in state.sqlite');
});

describe('together', () => {
  const work = new DaemonTests({ seed: 5, mail: { messages: 30 } });

  test('the daemon and sync keep their runs in the archive', async () => {
    const byHand = workplace(work.sandbox);
    const daemon = work.daemon();
    await daemon.run('sync');
    expect(await daemon.end()).toBe(0);
    const { code } = await mailkeep(['sync', '--config', byHand.config, '--quiet']);
    expect(code).toBe(0);
    const runsOf = ({ data }: Workplace): StoredRun[] => {
      const read = readState(data);
      const runs = read?.runs.list({ limit: 20 }) ?? [];
      read?.close();
      return runs;
    };
    for (const [at, kind] of [
      [work.place, 'sync'],
      [byHand, 'hand'],
    ] as const) {
      const pass = runsOf(at).find((run) => run.kind === kind);
      expect(pass).toMatchObject({ outcome: 'done', added: 30, failures: 0 });
      expect(pass?.sum).toMatchObject({ originTotal: 30, stored: 30, complete: true });
      expect(pass?.folders.length).toBeGreaterThan(0);
      expect(pass?.requests).toBeGreaterThan(0);
    }
    rmSync(byHand.folder, { recursive: true });
  });
});
