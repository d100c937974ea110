import { describe, expect, it } from 'vitest';
import {
  decide,
  MAX_RUNNING,
  ROTATE_MS,
  type RunningTask,
  SLICE_MS,
  type Task,
  taskClass,
} from '../../src/daemon/dispatcher.ts';
import type { RunKind, WatchedMailbox } from '../../src/daemon/ports.ts';

const LOOK = { full: false, acceptEndings: false, folders: [] };

function mailbox(n: number | string, account = 'main'): WatchedMailbox {
  return { account, host: 'h', resourceId: `${account}-${n}`, address: `${n}@example.org` };
}

function task(n: number | string, rank: RunKind, account?: string): Task {
  const aim = { ...LOOK, full: rank === 'sweep' };
  return { mailbox: mailbox(n, account), aim, rank, begunAt: undefined, runs: new Set() };
}

function underway(of: Task, startedAt = 0): RunningTask {
  return { task: of, startedAt, stopping: false };
}

const open = (): boolean => true;
const names = (tasks: readonly Task[]): string[] => tasks.map(({ mailbox }) => mailbox.resourceId);

describe('what comes first', () => {
  it('is hints before passes by hand before new mail before backlog before sweeps', () => {
    const waiting = [
      task(1, 'sweep'),
      task(2, 'backlog'),
      task(3, 'sync'),
      task(4, 'hint'),
      task(5, 'hand'),
    ];
    const { start } = decide(waiting, [], 0, open);
    expect(names(start)).toEqual(['main-4', 'main-5', 'main-3', 'main-2', 'main-1']);
  });

  it('never is two passes over one mailbox, also by two accounts', () => {
    const twin = { ...task(1, 'sync', 'other'), mailbox: { ...mailbox(1), account: 'other' } };
    const { start } = decide([task(1, 'hint'), task(1, 'sync'), twin], [], 0, open);
    expect(start).toHaveLength(1);
    expect(start[0]?.rank).toBe('hint');
  });

  it('leaves room: each class has its slots, and each account its own', () => {
    const many = Array.from({ length: 50 }, (_, n) => task(n, 'sync'));
    const others = Array.from({ length: 50 }, (_, n) => task(n, 'sync', 'other'));
    const { start } = decide([...many, ...others, task('h', 'hint')], [], 0, open);
    expect(start.filter(({ mailbox: { account } }) => account === 'other')).toHaveLength(
      MAX_RUNNING.sync,
    );
    expect(start).toHaveLength(2 * MAX_RUNNING.sync + 1);
  });

  it('is nothing of an account that waits', () => {
    expect(decide([task(1, 'sync')], [], 0, () => false).start).toEqual([]);
  });
});

describe('what is interrupted', () => {
  it('is a backlog or a sweep of the mailbox that somebody waits for, and no short pass', () => {
    for (const rank of ['hint', 'hand', 'sync'] as const) {
      const long = underway(task(1, 'sync'));
      expect(decide([task(1, rank)], [long], SLICE_MS - 1, open).stop).toEqual([]);
      expect(decide([task(1, rank)], [long], SLICE_MS, open).stop).toEqual([long]);
      const sweep = underway(task(1, 'sweep'));
      expect(decide([task(1, rank)], [sweep], 1, open).stop).toEqual([sweep]);
    }
    expect(decide([task(1, 'sweep')], [underway(task(1, 'sync'))], SLICE_MS, open).stop).toEqual(
      [],
    );
  });

  it('is nothing twice', () => {
    const sweep = { ...underway(task(1, 'sweep')), stopping: true };
    expect(decide([task(1, 'hint')], [sweep], 1, open).stop).toEqual([]);
  });

  it('is the longest backlog when there are too many', () => {
    const long = Array.from({ length: MAX_RUNNING.backlog + 1 }, (_, n) =>
      underway(task(n, 'sync'), n),
    );
    const { stop } = decide([], long, SLICE_MS * 2, open);
    expect(stop).toEqual([long[0]]);
  });

  it('is a backlog or a sweep after a while when another of its kind waits', () => {
    for (const rank of ['backlog', 'sweep'] as const) {
      const long = Array.from({ length: MAX_RUNNING[rank] }, (_, n) => underway(task(n, rank), n));
      const waits = [task('w', rank)];
      expect(decide(waits, long, ROTATE_MS - 1, open).stop).toEqual([]);
      expect(decide(waits, long, ROTATE_MS, open).stop).toEqual([long[0]]);
      expect(decide([], long, ROTATE_MS, open).stop).toEqual([]);
    }
  });
});

it('calls a pass that takes long a backlog, so that its slot is free for new mail', () => {
  const slow = Array.from({ length: MAX_RUNNING.sync }, (_, n) => underway(task(n, 'sync')));
  expect(decide([task('next', 'sync')], slow, SLICE_MS - 1, open).start).toEqual([]);
  expect(names(decide([task('next', 'sync')], slow, SLICE_MS, open).start)).toEqual(['main-next']);
  expect(taskClass(underway(task(1, 'sweep')), SLICE_MS)).toBe('sweep');
});
