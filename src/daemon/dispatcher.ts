import { isDeepStrictEqual } from 'node:util';
import { hasCode } from '../core/errors.ts';
import type { SyncFailure, SyncResult } from '../sync/result.ts';
import { accountFailure, archiveFailure } from './accounts.ts';
import type { DaemonOptions } from './daemon.ts';
import type { RunKind, SyncScope, WatchedMailbox } from './ports.ts';
import { partialResult, type Run } from './runs.ts';

/** From the most to the least urgent. A long-running sync of any rank but the last becomes backlog. */
const RANKS: readonly RunKind[] = ['hint', 'hand', 'sync', 'backlog', 'sweep'];

export interface Task {
  readonly mailbox: WatchedMailbox;
  readonly aim: SyncScope;
  rank: RunKind;
  begunAt: number | undefined;
  readonly runs: Set<Run>;
}

export interface RunningTask {
  readonly task: Task;
  /** On the monotonic clock, in milliseconds. */
  readonly startedAt: number;
  stopping: boolean;
}

/** Returns a key based on the service's id, so that two accounts with the same mailbox do not sync it concurrently. */
export function mailboxKey({ host, resourceId }: WatchedMailbox): string {
  return `${host}/${resourceId}`;
}

/** Age in milliseconds at which a sync of a higher rank becomes backlog. */
export const SLICE_MS = 30_000;
/** Age in milliseconds at which a sync yields to a waiting one of its class. */
export const ROTATE_MS = 600_000;
/** Concurrent syncs per account, by their current class. The limiter controls the request rate independently. */
export const MAX_RUNNING: Readonly<Record<RunKind, number>> = {
  hint: 4,
  hand: 4,
  sync: 4,
  backlog: 4,
  sweep: 1,
};

export function taskClass({ task, startedAt }: RunningTask, monotonic: number): RunKind {
  if (task.rank === 'sweep' || monotonic - startedAt < SLICE_MS) return task.rank;
  return 'backlog';
}

/**
 * Returns which syncs to start and which to interrupt. Only one sync runs per mailbox at a time. An interrupted sync
 * resumes after those that took precedence.
 */
export function decide(
  waiting: readonly Task[],
  underway: readonly RunningTask[],
  monotonic: number,
  isOpen: (account: string) => boolean,
) {
  const busy = new Map(underway.map((one) => [mailboxKey(one.task.mailbox), one]));
  const counts = new Map<string, number>();
  const count = (account: string, kind: RunKind): number => counts.get(slot(account, kind)) ?? 0;
  const add = (account: string, kind: RunKind): void => {
    counts.set(slot(account, kind), count(account, kind) + 1);
  };
  for (const one of underway) add(one.task.mailbox.account, taskClass(one, monotonic));
  const oldest = oldestByClass(underway, monotonic);
  const stop = new Set<RunningTask>();
  const start: Task[] = [];
  for (const rank of RANKS) {
    for (const task of waiting) {
      const { account } = task.mailbox;
      if (task.rank !== rank || !isOpen(account)) continue;
      const other = busy.get(mailboxKey(task.mailbox));
      if (other !== undefined) {
        if (isBetter(rank, taskClass(other, monotonic))) stop.add(other);
      } else if (count(account, rank) < MAX_RUNNING[rank]) {
        add(account, rank);
        start.push(task);
        busy.set(mailboxKey(task.mailbox), { task, startedAt: monotonic, stopping: false });
      } else {
        const first = oldest.get(slot(account, rank));
        if (first !== undefined && monotonic - first.startedAt >= ROTATE_MS) stop.add(first);
      }
    }
  }
  for (const { task } of underway) {
    const { account } = task.mailbox;
    if (count(account, 'backlog') <= MAX_RUNNING.backlog) continue;
    const first = oldest.get(slot(account, 'backlog'));
    if (first !== undefined) stop.add(first);
  }
  return { start, stop: [...stop].filter(({ stopping }) => !stopping) };
}

function isBetter(waiting: RunKind, running: RunKind): boolean {
  if (running !== 'backlog' && running !== 'sweep') return false;
  return waiting === 'hint' || waiting === 'hand' || waiting === 'sync';
}

function slot(account: string, kind: RunKind): string {
  return `${account} ${kind}`;
}

function oldestByClass(
  underway: readonly RunningTask[],
  monotonic: number,
): Map<string, RunningTask> {
  const oldest = new Map<string, RunningTask>();
  for (const one of underway) {
    const key = slot(one.task.mailbox.account, taskClass(one, monotonic));
    const known = oldest.get(key);
    if (known === undefined || one.startedAt < known.startedAt) oldest.set(key, one);
  }
  return oldest;
}

const WEIGH_EVERY_MS = 5_000;
const REPORT_EVERY_MS = 30_000;

interface DispatcherOptions extends Pick<DaemonOptions, 'runner' | 'clock' | 'observer'> {
  readonly isOpen: (account: string) => boolean;
  /** Called when a sync has finished, with or without service failures. */
  readonly onPassed: (task: Task, kind: RunKind, result: SyncResult) => void;
  readonly onFailed: (error: unknown) => void;
  readonly onIdle: () => void;
}

interface Pass extends RunningTask {
  readonly controller: AbortController;
  stored: { messages: number; bytes: number };
  ahead: number;
  reportedAt: number;
  readonly ended: Promise<void>;
}

export class Dispatcher {
  #waiting: Task[] = [];
  readonly #underway = new Map<string, Pass>();
  #cancelTimer: (() => void) | undefined;
  #paused = 0;
  #closing = false;

  constructor(private readonly options: DispatcherOptions) {}

  /** Queues a sync, or joins a waiting one with the same aim. The run counts it until it finishes. */
  add(mailbox: WatchedMailbox, rank: RunKind, aim: SyncScope, run: Run | undefined): void {
    const match = this.#match(mailbox, aim);
    const task = match ?? { mailbox, aim, rank, begunAt: undefined, runs: new Set<Run>() };
    if (match === undefined) this.#waiting.push(task);
    if (RANKS.indexOf(rank) < RANKS.indexOf(task.rank)) task.rank = rank;
    if (run !== undefined && !task.runs.has(run)) {
      run.begin();
      task.runs.add(run);
    }
  }

  /** Queues syncs before all others of their rank, in the given order. Moves any already waiting. */
  addFirst(mailboxes: readonly WatchedMailbox[], rank: RunKind, aim: SyncScope, run: Run): void {
    for (const mailbox of mailboxes) this.add(mailbox, rank, aim, run);
    const turns = new Map(mailboxes.map((mailbox, turn) => [mailboxKey(mailbox), turn]));
    const turnOf = ({ mailbox }: Task): number =>
      turns.get(mailboxKey(mailbox)) ?? mailboxes.length;
    this.#waiting.sort((a, b) => turnOf(a) - turnOf(b));
  }

  isExpected(mailbox: WatchedMailbox): boolean {
    const key = mailboxKey(mailbox);
    return this.#waiting.some((task) => task.rank === 'hint' && mailboxKey(task.mailbox) === key);
  }

  /** Decides again which syncs to run. Must be called after every event that can affect the decision. */
  weigh(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    if (this.#paused > 0 || this.#closing) return;
    const { clock, isOpen, onIdle } = this.options;
    const now = clock.monotonic();
    const underway = [...this.#underway.values()];
    for (const pass of underway) this.#release(pass, now);
    const { start, stop } = decide(this.#waiting, underway, now, isOpen);
    for (const one of stop) {
      one.stopping = true;
      this.#underway.get(mailboxKey(one.task.mailbox))?.controller.abort();
    }
    for (const task of start) this.#start(task, now);
    if (this.#underway.size > 0) {
      this.#cancelTimer = clock.after(WEIGH_EVERY_MS, () => this.weigh());
    } else if (this.#waiting.length === 0) {
      onIdle();
    }
  }

  /** Ends all runs that are waiting for an account's syncs, and reports the failures. The syncs remain queued. */
  fail(account: string, failures: readonly SyncFailure[]): void {
    for (const task of this.#waiting) {
      if (task.mailbox.account === account) settle(task, (run) => run.fail(failures));
    }
  }

  /** Fails all runs that wait for an account's syncs, even those in progress. The syncs happen later. */
  abandon(account: string, failures: readonly SyncFailure[]): void {
    for (const { task, stored } of this.#underway.values()) {
      if (task.mailbox.account === account) settleFailed({ task, stored }, failures);
    }
    this.fail(account, failures);
  }

  keep(accepts: (mailbox: WatchedMailbox) => boolean): void {
    for (const task of this.#waiting) if (!accepts(task.mailbox)) settle(task, () => {});
    this.#waiting = this.#waiting.filter(({ mailbox }) => accepts(mailbox));
  }

  waiting(): Readonly<Record<RunKind, number>> {
    const counts = { hint: 0, hand: 0, sync: 0, backlog: 0, sweep: 0 };
    for (const { rank } of this.#waiting) counts[rank] += 1;
    return counts;
  }

  underway(): {
    readonly mailbox: WatchedMailbox;
    readonly kind: RunKind;
    readonly forMs: number;
  }[] {
    const now = this.options.clock.monotonic();
    return [...this.#underway.values()].map((pass) => ({
      mailbox: pass.task.mailbox,
      kind: taskClass(pass, now),
      forMs: now - pass.startedAt,
    }));
  }

  /** Interrupts and requeues all syncs. Resolves once they have stopped. None starts until every pause is resumed. */
  async pause(): Promise<void> {
    this.#paused += 1;
    this.#cancelTimer?.();
    const passes = [...this.#underway.values()];
    for (const { controller } of passes) controller.abort();
    await Promise.all(passes.map(({ ended }) => ended));
  }

  resume(): void {
    this.#paused -= 1;
    this.weigh();
  }

  /** Interrupts all syncs permanently. Waiting runs never finish, so their callers must detect this in another way. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.pause();
  }

  #start(task: Task, monotonic: number): void {
    this.#waiting.splice(this.#waiting.indexOf(task), 1);
    task.begunAt ??= this.options.clock.now();
    const controller = new AbortController();
    const pass: Pass = {
      task,
      startedAt: monotonic,
      stopping: false,
      controller,
      stored: { messages: 0, bytes: 0 },
      ahead: 0,
      reportedAt: monotonic,
      ended: Promise.resolve().then(() => this.#run(pass)),
    };
    this.#underway.set(mailboxKey(task.mailbox), pass);
  }

  async #run(pass: Pass): Promise<void> {
    const { runner, clock, onPassed, onFailed } = this.options;
    const { task, controller } = pass;
    const kind = task.rank;
    try {
      const result = await runner.pass({
        mailbox: task.mailbox,
        aim: task.aim,
        begunAt: task.begunAt ?? clock.now(),
        byHand: kind === 'hand',
        lane: () => {
          const current = taskClass(pass, clock.monotonic());
          return current === 'hint' || current === 'sweep' ? current : undefined;
        },
        signal: controller.signal,
        progress: (event) => {
          if (event.event === 'mailbox-started') pass.ahead = event.messages;
          if (event.event === 'stored') {
            pass.stored = { messages: event.messages, bytes: event.bytes };
            this.#report(pass);
          }
          for (const run of task.runs) run.progress(event);
        },
      });
      this.#underway.delete(mailboxKey(task.mailbox));
      const hasFailed = accountFailure(result) !== undefined;
      settle(task, (run) => run.add(result));
      // A full sync that was cut short by an account failure must be repeated.
      if (hasFailed && task.aim.full) this.add(task.mailbox, 'sweep', task.aim, undefined);
      onPassed(task, taskClass(pass, clock.monotonic()), result);
    } catch (error) {
      this.#underway.delete(mailboxKey(task.mailbox));
      if (hasCode(error, 'sync.interrupted')) {
        const { rank, mailbox } = task;
        this.options.observer({ event: 'pass-preempted', kind: rank, mailbox });
        for (const run of task.runs) run.add(partialResult(mailbox, pass.stored));
        this.#requeue(pass, rank === 'sweep' ? 'sweep' : 'backlog');
      } else {
        settleFailed(pass, [archiveFailure(task.mailbox.account, error)]);
        if (task.aim.full) this.#requeue(pass, 'sweep');
        onFailed(error);
      }
    }
    this.weigh();
  }

  #report(pass: Pass): void {
    const now = this.options.clock.monotonic();
    if (now - pass.reportedAt < REPORT_EVERY_MS) return;
    pass.reportedAt = now;
    const { task, stored, ahead } = pass;
    const of = Math.max(ahead, stored.messages);
    this.options.observer({ event: 'pass-progress', mailbox: task.mailbox, ...stored, of });
  }

  #requeue({ task }: Pass, rank: RunKind): void {
    if (this.#closing) return;
    const match = this.#match(task.mailbox, task.aim);
    if (match === undefined) {
      this.#waiting.push({ ...task, rank, runs: new Set(task.runs) });
      return;
    }
    match.begunAt ??= task.begunAt;
    for (const run of task.runs) {
      if (match.runs.has(run)) run.end();
      else match.runs.add(run);
    }
  }

  /** Returns the waiting task with the same mailbox and aim. */
  #match(mailbox: WatchedMailbox, aim: SyncScope): Task | undefined {
    return this.#waiting.find(
      (task) =>
        mailboxKey(task.mailbox) === mailboxKey(mailbox) && isDeepStrictEqual(task.aim, aim),
    );
  }

  /** A scheduled run does not wait for backlog, because the next run must look for new mail. */
  #release(pass: Pass, monotonic: number): void {
    if (monotonic - pass.startedAt < SLICE_MS) return;
    for (const run of pass.task.runs) {
      if (run.info.kind !== 'sync' && run.info.kind !== 'hint') continue;
      pass.task.runs.delete(run);
      run.add(partialResult(pass.task.mailbox, pass.stored));
      run.end();
    }
  }
}

function settle(task: Task, report: (run: Run) => void): void {
  for (const run of [...task.runs]) {
    task.runs.delete(run);
    report(run);
    run.end();
  }
}

function settleFailed(
  { task, stored }: Pick<Pass, 'task' | 'stored'>,
  failures: readonly SyncFailure[],
): void {
  settle(task, (run) => {
    run.add(partialResult(task.mailbox, stored));
    run.fail(failures);
  });
}
