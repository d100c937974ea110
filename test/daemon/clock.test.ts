import { expect, it } from 'vitest';
import { diskFull, logSyncFailed } from '../../src/archive/errors.ts';
import { syncExitCode } from '../../src/cli/warnings.ts';
import { Daemon } from '../../src/daemon/daemon.ts';
import type { DaemonEvent, SyncRequest, WatchedMailbox } from '../../src/daemon/ports.ts';
import { mergeResults, type SyncRunner } from '../../src/daemon/runs.ts';
import { cronTimes, Timetable } from '../../src/daemon/schedule.ts';
import { syncError } from '../../src/sync/errors.ts';
import type { SyncFailure, SyncResult } from '../../src/sync/result.ts';
import { FakeTime, settled } from './fake-time.ts';

const NOTHING = mergeResults([], 0);

function failed(code: string, family: 'auth' | 'origin'): SyncResult {
  const nowhere = { mailbox: null, folder: null, uid: null, facts: {} };
  const failure: SyncFailure = { account: 'main', code, family, ...nowhere };
  return { ...NOTHING, failures: [failure] };
}

/** Stands for archive and service; passes over mailboxes that are `slow` end only when they are interrupted. */
class Runner implements SyncRunner {
  readonly passes: string[] = [];
  readonly slow = new Set<string>();
  readonly present = new Set<number>();
  surveys = 0;
  problem: SyncResult | undefined;
  /** What surveys and passes, those over slow mailboxes apart, are rejected with. */
  readonly broken: { survey?: Error; pass?: Error } = {};
  mark = 'one';
  readonly #names: readonly string[];

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  listMailboxes(account: string): ReturnType<SyncRunner['listMailboxes']> {
    this.surveys += 1;
    if (this.broken.survey !== undefined) return Promise.reject(this.broken.survey);
    const mailboxes = this.#names.map(
      (name): WatchedMailbox => ({ account, host: 'h', resourceId: name, address: `${name}@x` }),
    );
    return Promise.resolve(
      this.problem === undefined
        ? { mailboxes, result: NOTHING }
        : { mailboxes: [], result: this.problem },
    );
  }

  pass({ mailbox, aim, signal }: SyncRequest): Promise<SyncResult> {
    this.passes.push(`${mailbox.resourceId}${aim.full ? ' full' : ''}`);
    if (!this.slow.has(mailbox.resourceId)) {
      return this.broken.pass === undefined
        ? Promise.resolve(this.problem ?? NOTHING)
        : Promise.reject(this.broken.pass);
    }
    return new Promise((_resolve, reject) => {
      const interrupt = () => reject(syncError('sync.interrupted', {}));
      if (signal.aborted) interrupt();
      signal.addEventListener('abort', interrupt);
    });
  }

  plan = (): never => {
    throw new Error('nobody plans here');
  };
  has = (_mailbox: WatchedMailbox, uid: number): boolean => this.present.has(uid);
  tidy = (): Promise<boolean> => Promise.resolve(false);
  recover = (): void => {};
  tokenMark = (): string => this.mark;
}

const SCHEDULE = { sync: '*/5 * * * *', sweep: '0 3 * * *' };

function begin(
  names: readonly string[],
  schedule: { readonly sync: string; readonly sweep: string; readonly prune?: string } = SCHEDULE,
  pruned = Promise.resolve(),
) {
  const time = new FakeTime();
  const runner = new Runner(names);
  const events: DaemonEvent[] = [];
  const fatal: unknown[] = [];
  const entries = (['sync', 'sweep', 'prune'] as const).flatMap((name) => {
    const expression = schedule[name];
    if (expression === undefined) return [];
    const times = cronTimes(expression, 'UTC');
    return [{ name, times, lastAt: null, atStart: name === 'sync' }];
  });
  const daemon = new Daemon({
    accounts: ['main'],
    runner,
    clock: time,
    timetable: new Timetable(entries, () => 0, time.now()),
    started: () => {},
    tasks: {
      verify: async () => {},
      prune: async () => {
        runner.passes.push('pruning');
        await pruned;
        runner.passes.push('pruned');
      },
    },
    observer: (event) => events.push(event),
    random: () => 1,
    onFatal: (error) => fatal.push(error),
  });
  daemon.start();
  return { time, runner, events, daemon, fatal };
}

const MINUTE = 60_000;

it('makes up once for a night that the machine slept through', async () => {
  const { time, runner, events } = begin(['a']);
  await time.pass(6 * MINUTE);
  expect(runner.passes).toEqual(['a', 'a']);
  time.sleep(20 * 60 * MINUTE);
  await time.pass(MINUTE);
  expect(runner.passes.slice(2).sort()).toEqual(['a', 'a full']);
  expect(events.filter(({ event }) => event === 'clock-jumped')).toHaveLength(1);
  await time.pass(5 * MINUTE);
  expect(runner.passes).toHaveLength(5);
});

it('continues when the clock is set back', async () => {
  const { time, runner } = begin(['a']);
  await time.pass(MINUTE);
  time.sleep(-24 * 60 * MINUTE);
  await time.pass(10 * MINUTE);
  expect(runner.passes).toEqual(['a', 'a', 'a']);
});

it('keeps looking for new mail everywhere while mailboxes take for ever', async () => {
  const names = Array.from({ length: 12 }, (_, n) => `m${n}`);
  const { time, runner } = begin(names);
  for (const name of ['m0', 'm1', 'm2', 'm3', 'm4', 'm5']) runner.slow.add(name);
  await time.pass(60 * MINUTE);
  for (const name of names) {
    const passes = runner.passes.filter((pass) => pass === name).length;
    expect(passes).toBeGreaterThanOrEqual(10);
  }
});

it('looks again for a message that was announced, for a minute', async () => {
  const { time, runner, daemon, events } = begin(['a']);
  await time.pass(1000);
  daemon.hint({ resourceId: 'a', uid: 7 });
  await time.pass(5_000);
  const before = runner.passes.length;
  expect(before).toBe(4);
  runner.present.add(7);
  await time.pass(30_000);
  expect(runner.passes.length).toBe(5);
  daemon.hint({ address: 'a@x', uid: 8 });
  await time.pass(70_000);
  expect(runner.passes.length).toBe(5 + 7);
  expect(events.filter(({ event }) => event === 'hint-unseen')).toHaveLength(1);
});

it('folds a burst of hints together', async () => {
  const { time, runner, daemon } = begin(['a']);
  await time.pass(1000);
  for (let n = 0; n < 500; n += 1) daemon.hint({ resourceId: 'a' });
  await settled();
  expect(runner.passes.length).toBeLessThanOrEqual(3);
});

it('checks named mailboxes before others that wait, and not twice', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const { daemon, runner, time } = begin(names);
  for (const name of ['a', 'b', 'c', 'd']) runner.slow.add(name);
  await settled();
  expect(runner.passes).toEqual(['a', 'b', 'c', 'd']);
  daemon.checkSooner('main', ['h', 'f', 'unknown']);
  daemon.checkSooner('nobody', ['e']);
  await time.pass(31_000);
  expect(runner.passes).toEqual(['a', 'b', 'c', 'd', 'h', 'f', 'e', 'g']);
  await daemon.stop();
});

it('asks rarely with a token that is refused, and at once with another', async () => {
  const { time, runner, events } = begin(['a']);
  await time.pass(1000);
  runner.problem = failed('auth.refused', 'auth');
  await time.pass(5 * MINUTE);
  const before = runner.surveys;
  await time.pass(180 * MINUTE);
  expect(runner.surveys - before).toBeLessThan(8);
  expect(runner.surveys - before).toBeGreaterThan(1);
  runner.mark = 'two';
  runner.problem = undefined;
  await time.pass(5_000);
  expect(events.at(-1)).toMatchObject({ event: 'run-finished' });
  expect(events.some(({ event }) => event === 'account-recovered')).toBe(true);
});

it('comes back soon after a lost network, and waits longer the longer it lasts', async () => {
  const { time, runner, events } = begin(['a']);
  await time.pass(1000);
  runner.problem = failed('origin.unreachable', 'origin');
  await time.pass(65 * MINUTE);
  const stopped = events.filter(({ event }) => event === 'account-stopped').length;
  expect(stopped).toBeGreaterThan(10);
  expect(stopped).toBeLessThan(30);
  runner.problem = undefined;
  await time.pass(6 * MINUTE);
  expect(events.some(({ event }) => event === 'account-recovered')).toBe(true);
});

const LOOK = { account: undefined, mailboxes: [], folders: [], full: false, acceptEndings: false };

function runsOf(events: readonly DaemonEvent[], kind: string) {
  return events.flatMap((event) =>
    event.event === 'run-finished' && event.run.kind === kind ? [event.result] : [],
  );
}

it('waits as long as an IMAP server, or the limit of a day, asks', async () => {
  const { time, runner, daemon } = begin(['a']);
  const hours = 5 * 60 * MINUTE;
  const until = new Date(time.now() + hours).toISOString();
  for (const [code, facts] of [
    ['imap.day-limit', { until }],
    ['imap.throttled', { waitMs: hours }],
  ] as const) {
    const [failure] = failed(code, 'origin').failures;
    if (failure === undefined) throw new Error('no failure');
    runner.problem = { ...NOTHING, failures: [{ ...failure, facts }] };
    await time.pass(10 * MINUTE);
    const surveys = runner.surveys;
    await time.pass(hours - 20 * MINUTE);
    expect(runner.surveys, code).toBe(surveys);
    runner.problem = undefined;
    await time.pass(20 * MINUTE);
    expect(daemon.status().accounts[0]?.state, code).toBe('ok');
  }
});

it('continues its rounds after a survey that a disk error ended, and names the error', async () => {
  const { time, runner, events } = begin(['a']);
  await time.pass(MINUTE);
  runner.broken.survey = diskFull('catalog.sqlite', 4096, null);
  await time.pass(5 * MINUTE);
  expect(runsOf(events, 'sync').slice(1)).toMatchObject([
    { failures: [{ account: 'main', mailbox: null, family: 'disk', code: 'disk-full' }] },
  ]);
  delete runner.broken.survey;
  await time.pass(10 * MINUTE);
  expect(runner.passes).toEqual(['a', 'a', 'a']);
  expect(events.filter(({ event }) => event === 'skipped')).toEqual([]);
});

it('names a full disk in every run that waits, and makes the sweep once there is room', async () => {
  const { time, runner, daemon, events, fatal } = begin(['a', 'b'], {
    sync: '0 0 1 1 *',
    sweep: '0 11 * * *',
  });
  await time.pass(MINUTE);
  runner.slow.add('b');
  runner.broken.pass = diskFull('log', 4096, null);
  const handed = daemon.sync(LOOK, () => {});
  await time.pass(1000);
  const result = await handed.done;
  expect(result.failures).toMatchObject([{ code: 'disk-full', facts: { file: 'log' } }]);
  expect(syncExitCode(result)).toBe(1);
  runner.slow.delete('b');
  await time.pass(64 * MINUTE);
  expect(runsOf(events, 'sweep')).toMatchObject([{ failures: [{ code: 'disk-full' }] }]);
  delete runner.broken.pass;
  runner.passes.length = 0;
  await time.pass(2 * MINUTE);
  expect(runner.passes.filter((pass) => pass.endsWith('full')).sort()).toEqual([
    'a full',
    'b full',
  ]);
  expect(fatal).toEqual([]);
});

it('owes the sweep whose survey the disk has ended', async () => {
  const { time, runner } = begin(['a'], { sync: '0 0 1 1 *', sweep: '0 11 * * *' });
  await time.pass(MINUTE);
  runner.broken.survey = diskFull('catalog.sqlite', 4096, null);
  await time.pass(60 * MINUTE);
  delete runner.broken.survey;
  await time.pass(2 * MINUTE);
  expect(runner.passes).toEqual(['a', 'a full']);
});

it('reports to a handed-over sync what ends the daemon', async () => {
  const { time, runner, daemon, fatal } = begin(['a', 'b']);
  await time.pass(MINUTE);
  runner.slow.add('b');
  const error = logSyncFailed('log', null);
  runner.broken.pass = error;
  const handed = daemon.sync(LOOK, () => {});
  await time.pass(1000);
  expect((await handed.done).failures).toMatchObject([{ code: 'log-sync-failed' }]);
  expect(fatal).toEqual([error]);
});

it('continues as before when another configuration cannot be applied', async () => {
  const { time, runner, daemon } = begin(['a']);
  await time.pass(MINUTE);
  const error = new Error('no such file');
  const wrong = daemon.reload(['other'], new Timetable([], () => 0, time.now()), () =>
    Promise.reject(error),
  );
  await expect(wrong).rejects.toBe(error);
  await time.pass(10 * MINUTE);
  expect(runner.passes).toEqual(['a', 'a', 'a']);
  expect(daemon.status().accounts).toMatchObject([{ name: 'main' }]);
});

it('takes another configuration when what asks with the old one has answered', async () => {
  const { time, runner, daemon } = begin(['a']);
  await time.pass(MINUTE);
  let answer = (): void => {};
  const survey = runner.listMailboxes.bind(runner);
  runner.listMailboxes = async (account) => {
    await new Promise<void>((resolve) => {
      answer = resolve;
    });
    return await survey(account);
  };
  daemon.sync(LOOK, () => {});
  let changed = 0;
  const reload = daemon.reload(['main'], new Timetable([], () => 0, time.now()), () => {
    changed += 1;
    return Promise.resolve();
  });
  await settled();
  expect(changed).toBe(0);
  answer();
  await reload;
  expect(changed).toBe(1);
});

it('prunes while nothing passes: what was under way makes room, what comes waits', async () => {
  let end = (): void => {};
  const pruned = new Promise<void>((resolve) => {
    end = resolve;
  });
  const { time, runner, daemon, events } = begin(
    ['a', 'b'],
    { sync: '*/5 * * * *', sweep: '0 3 * * *', prune: '2 10 * * *' },
    pruned,
  );
  runner.slow.add('b');
  await time.pass(MINUTE);
  expect(runner.passes).toEqual(['a', 'b']);
  await time.pass(MINUTE);
  expect(runner.passes).toEqual(['a', 'b', 'pruning']);
  runner.slow.clear();
  const surveys = runner.surveys;
  const handed = daemon.sync(LOOK, () => {});
  daemon.hint({ resourceId: 'a' });
  await time.pass(10 * MINUTE);
  expect([runner.passes.length, runner.surveys]).toEqual([3, surveys]);
  end();
  await time.pass(MINUTE);
  expect(runner.passes.slice(2, 4)).toEqual(['pruning', 'pruned']);
  expect(runner.passes.slice(4).sort()).toEqual(expect.arrayContaining(['a', 'b']));
  expect((await handed.done).failures).toEqual([]);
  expect(events.filter(({ event }) => event === 'archive-failed')).toEqual([]);
});

it('makes up for the sweep that fell due while its account waited', async () => {
  const { time, runner } = begin(['a'], { sync: '*/5 * * * *', sweep: '5 10 * * *' });
  await time.pass(1000);
  runner.problem = failed('origin.unreachable', 'origin');
  await time.pass(20 * MINUTE);
  expect(runner.passes.filter((pass) => pass.endsWith('full'))).toEqual([]);
  runner.problem = undefined;
  await time.pass(11 * MINUTE);
  expect(runner.passes.filter((pass) => pass.endsWith('full'))).toEqual(['a full']);
});
