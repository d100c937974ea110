import { sleep } from '../core/concurrency.ts';
import { selects } from '../core/names.ts';
import type { ProgressListener, SyncPlan, SyncResult } from '../sync/result.ts';
import type { SyncRestrictions } from '../sync/selection.ts';
import { Accounts, accountFailure, archiveFailure, isTemporaryDiskError } from './accounts.ts';
import { Dispatcher, mailboxKey, type Task } from './dispatcher.ts';
import {
  type ChangeNotice,
  type DaemonClock,
  type DaemonEvent,
  type DaemonStatus,
  FULL_SYNC,
  type Observer,
  QUICK_SYNC,
  type RunInfo,
  type RunKind,
  type SyncScope,
  type WatchedMailbox,
} from './ports.ts';
import { Run, type SyncRunner } from './runs.ts';
import { SCHEDULED, type Scheduled, type Timetable } from './schedule.ts';

/** Delays between searches for an announced message that has not appeared, about a minute in total. */
const HINT_RETRIES_MS = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000] as const;

/** Maximum number of awaited messages per mailbox. Notifications can be forged, so any excess only starts a sync. */
const MAX_AWAITED = 1_000;

export class AwaitedMessages {
  /** Number of searches so far, by UID and mailbox. */
  readonly #mailboxes = new Map<string, Map<number, number>>();

  add(mailbox: WatchedMailbox, uid: number): void {
    const key = mailboxKey(mailbox);
    const uids = this.#mailboxes.get(key) ?? new Map<number, number>();
    if (!uids.has(uid) && uids.size < MAX_AWAITED) uids.set(uid, 0);
    this.#mailboxes.set(key, uids);
  }

  /**
   * Called after a sync. Drops messages that have arrived or been awaited for too long. Returns the number given up on,
   * and the milliseconds until the next search (null if none are awaited).
   */
  settle(
    mailbox: WatchedMailbox,
    has: (uid: number) => boolean,
  ): { readonly againMs: number | null; readonly unseen: number } {
    const uids = this.#mailboxes.get(mailboxKey(mailbox));
    if (uids === undefined) return { againMs: null, unseen: 0 };
    let againMs: number | null = null;
    let unseen = 0;
    for (const [uid, tries] of uids) {
      const wait = HINT_RETRIES_MS[tries];
      if (has(uid)) {
        uids.delete(uid);
      } else if (wait === undefined) {
        uids.delete(uid);
        unseen += 1;
      } else {
        uids.set(uid, tries + 1);
        againMs = Math.min(againMs ?? wait, wait);
      }
    }
    if (uids.size === 0) this.#mailboxes.delete(mailboxKey(mailbox));
    return { againMs, unseen };
  }
}

/** A shared/exclusive lock. A waiting exclusive holder takes precedence over later shared holders. */
class SharedTurn {
  readonly #shared = new Set<Promise<unknown>>();
  #exclusive: Promise<void> | undefined;

  async share<T>(act: () => Promise<T>): Promise<T> {
    while (this.#exclusive !== undefined) await this.#exclusive;
    const turn = act();
    this.#shared.add(turn);
    try {
      return await turn;
    } finally {
      this.#shared.delete(turn);
    }
  }

  async alone<T>(act: () => Promise<T>): Promise<T> {
    while (this.#exclusive !== undefined) await this.#exclusive;
    let finish: () => void = () => {};
    this.#exclusive = new Promise((resolve) => {
      finish = resolve;
    });
    try {
      await Promise.allSettled(this.#shared);
      return await act();
    } finally {
      this.#exclusive = undefined;
      finish();
    }
  }
}

/** Maximum time between sealing segments, which also happens whenever the daemon is idle. */
const TIDY_EVERY_MS = 600_000;

/** Interval between clock checks, because timers fire late after a suspend, but never early. */
const LOOK_AT_CLOCK_MS = 30_000;
/** Larger differences between the clocks mean a suspend or a clock change. */
const JUMP_MS = 60_000;
const LOOK_AT_TOKEN_MS = 2_000;
const DISK_WAIT_MS = 60_000;
const TIDY_AGAIN_MS = 500;

interface SyncRequest extends SyncRestrictions {
  readonly full: boolean;
  readonly acceptEndings: boolean;
}

export interface DaemonOptions {
  readonly accounts: readonly string[];
  readonly runner: SyncRunner;
  readonly clock: DaemonClock;
  readonly timetable: Timetable;
  readonly started: (name: Scheduled, at: number) => void;
  /** Scheduled work other than syncs. Each task reports its own result. */
  readonly tasks: {
    verify(signal: AbortSignal): Promise<void>;
    prune(signal: AbortSignal): Promise<void>;
  };
  readonly observer: Observer;
  readonly random: () => number;
  /** Called if the archive cannot continue, or after an internal error. The process must then exit. */
  readonly onFatal: (error: unknown) => void;
}

function iso(at: number): string {
  return new Date(at).toISOString();
}

function isoOrNull(at: number | null | undefined): string | null {
  return at === null || at === undefined ? null : iso(at);
}

/** Decides what to do and when: on schedule, after notifications and on request. Delegates the work itself. */
export class Daemon {
  readonly #dispatcher: Dispatcher;
  readonly #accounts: Accounts;
  readonly #awaited = new AwaitedMessages();
  readonly #stopping = new AbortController();
  #timetable: Timetable;
  #nextRun = 1;
  #cancelWake: (() => void) | undefined;
  /** Both clocks at the last check. Only the wall clock advances while the machine is suspended. */
  #seen: { readonly wall: number; readonly monotonic: number };
  #diskWaits = false;
  /** True if data has been added since the last tidying round, or that round did not finish. */
  #untidy = true;
  #isTidying = false;
  #tidiedAt: number;
  readonly #errands = new Set<Promise<void>>();
  /** Verification and pruning, one after the other. Either can take hours, and neither accesses the service. */
  #tasks: Promise<void> = Promise.resolve();
  /** Listing and tidying run alongside syncs. Pruning does not. */
  readonly #turn = new SharedTurn();
  readonly #startedAt: number;

  constructor(private readonly options: DaemonOptions) {
    const { clock, observer, random } = options;
    this.#timetable = options.timetable;
    this.#startedAt = clock.now();
    this.#seen = { wall: clock.now(), monotonic: clock.monotonic() };
    this.#tidiedAt = clock.monotonic();
    this.#accounts = new Accounts(clock, (event) => this.#report(event), random);
    this.#accounts.set(options.accounts);
    this.#dispatcher = new Dispatcher({
      runner: options.runner,
      clock,
      observer,
      isOpen: (account) => this.#accounts.isOpen(account),
      onPassed: (task, kind, result) => this.#onPassed(task, kind, result),
      onFailed: (error) => this.#onFailed(error),
      onIdle: () => this.#tidy(),
    });
  }

  start(): void {
    this.#wake();
  }

  /** Stops syncs at the next safe point. Resolves once collected messages are durable. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#cancelWake?.();
    await this.#dispatcher.close();
    await Promise.all([...this.#errands, this.#tasks]);
  }

  /** Applies a new configuration between two syncs. If `change` throws, the old sync settings remain in effect. */
  async reload(
    accounts: readonly string[],
    timetable: Timetable,
    change: () => Promise<void>,
  ): Promise<void> {
    // Requests with the old configuration finish first. Syncs need not wait for them.
    await Promise.all(this.#errands);
    await this.#dispatcher.pause();
    try {
      await Promise.all(this.#errands);
      await change();
      this.#accounts.set(accounts);
      this.#accounts.retryNow();
      this.#timetable = timetable;
      this.#dispatcher.keep(({ account }) => accounts.includes(account));
    } finally {
      this.#dispatcher.resume();
    }
    for (const account of accounts) this.#track(this.#round('sync', account, QUICK_SYNC));
    this.#wake();
  }

  /** Syncs the requested mailboxes, starting after this call. The run's promise resolves when the run is complete. */
  sync(request: SyncRequest, progress: ProgressListener): Run {
    const { full, acceptEndings, folders, account, mailboxes } = request;
    const names = this.#accountNames(account);
    const run = this.#openRun('hand', names.length === 1 ? (names[0] ?? null) : null, progress);
    const accepts = (mailbox: WatchedMailbox): boolean =>
      mailboxes.length === 0 || selects({ include: mailboxes, exclude: [] }, mailbox.address);
    run.begin();
    for (const name of names) {
      this.#track(this.#enqueue(run, name, { full, acceptEndings, folders }, true, accepts));
    }
    run.end();
    return run;
  }

  #accountNames(account: string | undefined): string[] {
    return this.#accounts.names.filter((name) => account === undefined || name === account);
  }

  plan(narrowing: SyncRestrictions, full: boolean, signal: AbortSignal): Promise<SyncPlan> {
    const names = this.#accountNames(narrowing.account);
    return this.options.runner.plan(names, narrowing, full, signal);
  }

  /** Syncs a mailbox immediately. While that sync is waiting, later notifications are merged into it. */
  hint(hint: ChangeNotice): void {
    const { resourceId, address } = hint;
    const mailbox = this.#accounts
      .mailboxes(hint.account)
      .find((one) =>
        resourceId === undefined ? one.address === address : one.resourceId === resourceId,
      );
    if (mailbox === undefined) {
      this.#report({ event: 'hint-unknown' });
      return;
    }
    const ids = { account: mailbox.account, mailbox: mailbox.resourceId };
    this.#report({ event: 'hint', ...ids, uids: hint.uid === undefined ? 0 : 1 });
    if (hint.uid !== undefined) this.#awaited.add(mailbox, hint.uid);
    if (!this.#dispatcher.isExpected(mailbox)) this.#syncHinted(mailbox);
  }

  /** Syncs mailboxes before other scheduled ones, but after notifications and requests, since this is only a guess. */
  checkSooner(account: string, mailboxes: readonly string[]): void {
    if (!this.#accounts.isOpen(account)) return;
    const byId = new Map(this.#accounts.mailboxes(account).map((one) => [one.resourceId, one]));
    const queue = mailboxes
      .flatMap((id) => byId.get(id) ?? [])
      .filter((one) => !this.#dispatcher.isExpected(one));
    if (queue.length === 0) return;
    const run = this.#openRun('hint', account);
    run.begin();
    this.#report({ event: 'run-started', run: run.info, mailboxes: queue.length });
    this.#dispatcher.addFirst(queue, 'sync', QUICK_SYNC, run);
    run.end();
    this.#dispatcher.weigh();
  }

  status(): DaemonStatus {
    return {
      pid: process.pid,
      startedAt: iso(this.#startedAt),
      now: iso(this.options.clock.now()),
      schedule: SCHEDULED.map((name) => ({
        name,
        lastAt: isoOrNull(this.#timetable.lastAt(name)),
        nextAt: isoOrNull(this.#timetable.nextAt(name)),
      })),
      waiting: this.#dispatcher.waiting(),
      underway: this.#dispatcher.underway().map(({ mailbox, kind, forMs }) => ({
        account: mailbox.account,
        mailbox: mailbox.address,
        kind,
        forMs: Math.round(forMs),
      })),
      accounts: this.#accounts.names.map((name) => {
        const { waiting, round, everyMs = null } = this.#accounts.get(name) ?? {};
        const problem = waiting?.problem;
        return {
          name,
          state: problem?.state ?? 'ok',
          code: problem?.code ?? null,
          since: isoOrNull(problem?.since),
          retryAt: isoOrNull(problem?.retryAt),
          mailboxes: this.#accounts.mailboxes(name).length,
          roundAt: isoOrNull(round?.startedAt),
          roundMs: round?.durationMs ?? null,
          everyMs,
        };
      }),
    };
  }

  #wake(): void {
    if (this.#stopping.signal.aborted) return;
    const { clock, runner, started, tasks } = this.options;
    this.#cancelWake?.();
    const now = clock.now();
    this.#detectClockJumps(now);
    for (const name of this.#timetable.due(now)) {
      started(name, now);
      if (name === 'verify' || name === 'prune') {
        if (name === 'verify') this.#runTask((signal) => tasks.verify(signal));
        else this.#runTask((signal) => this.#undisturbed(() => tasks.prune(signal)));
        continue;
      }
      for (const account of this.#accounts.names) {
        this.#track(this.#round(name, account, name === 'sweep' ? FULL_SYNC : QUICK_SYNC));
      }
    }
    for (const account of this.#accounts.due((name) => runner.tokenMark(name))) {
      this.#track(this.#probe(account));
    }
    if (clock.monotonic() - this.#tidiedAt > TIDY_EVERY_MS) this.#tidy();
    const interval = this.#accounts.anyWaiting ? LOOK_AT_TOKEN_MS : LOOK_AT_CLOCK_MS;
    const waitMs = Math.min(interval, this.#timetable.waitMs(now));
    this.#cancelWake = clock.after(waitMs, () => this.#wake());
  }

  #detectClockJumps(now: number): void {
    const monotonic = this.options.clock.monotonic();
    const ms = now - this.#seen.wall - (monotonic - this.#seen.monotonic);
    this.#seen = { wall: now, monotonic };
    if (Math.abs(ms) < JUMP_MS) return;
    this.#report({ event: 'clock-jumped', ms });
    this.#accounts.retryNow();
  }

  /** Starts a scheduled run over an account's mailboxes, unless the last is unfinished or the account is waiting. */
  async #round(kind: 'sync' | 'sweep', account: string, aim: SyncScope): Promise<void> {
    const state = this.#accounts.get(account);
    if (state === undefined) return;
    if (kind === 'sweep') state.owesSweep = true;
    if (state.waiting !== undefined) return;
    if (state.open.has(kind)) {
      this.#report({ event: 'skipped', kind, account });
      return;
    }
    state.open.add(kind);
    const run = this.#openRun(kind, account);
    void run.done.then((result) => {
      state.open.delete(kind);
      if (kind !== 'sync' || accountFailure(result) !== undefined) return;
      const { startedAt } = run.info;
      state.everyMs = state.round === undefined ? null : startedAt - state.round.startedAt;
      state.round = { startedAt, durationMs: result.durationMs };
    });
    await this.#enqueue(run, account, aim, false, () => true);
    if (state.waiting !== undefined || !state.owesSweep) return;
    // Starts a full sync that is still owed, because it could not start earlier.
    state.owesSweep = false;
    if (kind === 'sync') await this.#round('sweep', account, FULL_SYNC);
  }

  async #enqueue(
    run: Run,
    account: string,
    aim: SyncScope,
    fresh: boolean,
    accepts: (mailbox: WatchedMailbox) => boolean,
  ): Promise<void> {
    run.begin();
    try {
      const mailboxes = await this.#listMailboxes(account, fresh, run);
      const matches = (mailboxes ?? []).filter(accepts);
      this.#report({ event: 'run-started', run: run.info, mailboxes: matches.length });
      for (const mailbox of matches) this.#dispatcher.add(mailbox, run.info.kind, aim, run);
    } catch (error) {
      run.fail([archiveFailure(account, error)]);
      const known = aim.full ? this.#accounts.mailboxes(account).filter(accepts) : [];
      for (const mailbox of known) this.#dispatcher.add(mailbox, 'sweep', aim, undefined);
      throw error;
    } finally {
      run.end();
    }
    this.#dispatcher.weigh();
  }

  /** Lists an account's mailboxes. Returns null if the listing failed for the whole account. */
  async #listMailboxes(
    account: string,
    fresh: boolean,
    run?: Run,
  ): Promise<readonly WatchedMailbox[] | null> {
    const { mailboxes, result } = await this.#turn.share(() =>
      this.options.runner.listMailboxes(account, fresh, this.#stopping.signal),
    );
    this.#report({ event: 'surveyed', account, result });
    run?.add(result);
    if (this.#handleFailure(account, result)) return null;
    this.#accounts.recovered(account, mailboxes);
    return mailboxes;
  }

  #handleFailure(account: string, result: SyncResult): boolean {
    const failure = accountFailure(result);
    if (failure === undefined) return false;
    this.#accounts.failed(account, failure, this.options.runner.tokenMark(account));
    this.#dispatcher.fail(
      account,
      result.failures.filter(({ mailbox }) => mailbox === null),
    );
    this.#wake();
    return true;
  }

  /** Sends one request to check whether an account works again. If so, starts a run to catch up. */
  async #probe(account: string): Promise<void> {
    try {
      if ((await this.#listMailboxes(account, true)) === null) return;
    } finally {
      const state = this.#accounts.get(account);
      if (state !== undefined) state.probing = false;
    }
    await this.#round('sync', account, QUICK_SYNC);
  }

  #onPassed({ mailbox, aim }: Task, kind: RunKind, result: SyncResult): void {
    const isNarrow = aim.folders.length > 0;
    this.#report({ event: 'pass-finished', kind, mailbox, isNarrow, result });
    this.#handleFailure(mailbox.account, result);
    if (result.mailboxes.some(({ added }) => added > 0)) this.#untidy = true;
    const { runner } = this.options;
    const { againMs, unseen } = this.#awaited.settle(mailbox, (uid) => runner.has(mailbox, uid));
    if (unseen > 0) {
      const { account, resourceId } = mailbox;
      this.#report({ event: 'hint-unseen', account, mailbox: resourceId });
    }
    if (againMs !== null) this.#after(againMs, () => this.#syncHinted(mailbox));
  }

  #syncHinted(mailbox: WatchedMailbox): void {
    const run = this.#openRun('hint', mailbox.account);
    run.begin();
    this.#dispatcher.add(mailbox, 'hint', QUICK_SYNC, run);
    run.end();
    this.#dispatcher.weigh();
  }

  #onFailed(error: unknown): void {
    const { clock, runner, onFatal } = this.options;
    if (this.#stopping.signal.aborted) return;
    const pause = this.#diskWaits ? undefined : this.#dispatcher.pause();
    for (const account of this.#accounts.names) {
      this.#dispatcher.abandon(account, [archiveFailure(account, error)]);
    }
    if (!isTemporaryDiskError(error)) {
      onFatal(error);
      return;
    }
    // Concurrent syncs fail too, because they use the same disk.
    if (pause === undefined) return;
    this.#diskWaits = true;
    const retryAt = clock.now() + DISK_WAIT_MS;
    this.#report({ event: 'archive-failed', error, retryAt });
    this.#track(
      pause.then(() => {
        this.#after(DISK_WAIT_MS, () => {
          this.#diskWaits = false;
          runner.recover();
          this.#dispatcher.resume();
        });
      }),
    );
  }

  /** Starts a tidying round, unless one is running or nothing has been added since the last one. */
  #tidy(): void {
    if (this.#stopping.signal.aborted || !this.#untidy || this.#isTidying) return;
    this.#untidy = false;
    this.#isTidying = true;
    this.#track(this.#tidyOnce());
  }

  async #tidyOnce(): Promise<void> {
    const { clock, runner } = this.options;
    try {
      const isMore = await this.#turn.share(() => runner.tidy(this.#stopping.signal));
      if (!isMore) return;
      this.#untidy = true;
      this.#after(TIDY_AGAIN_MS, () => this.#dispatcher.weigh());
    } finally {
      this.#isTidying = false;
      this.#tidiedAt = clock.monotonic();
    }
  }

  /** Runs `act` after earlier tasks, whether or not they failed. */
  #runTask(act: (signal: AbortSignal) => Promise<void>): void {
    const { signal } = this.#stopping;
    this.#tasks = this.#tasks
      .then(() => (signal.aborted ? undefined : act(signal)))
      .catch((error: unknown) => {
        if (!signal.aborted) this.#onFailed(error);
      });
  }

  /** Runs `act` exclusively: no sync, listing or tidying runs at the same time. */
  async #undisturbed(act: () => Promise<void>): Promise<void> {
    await this.#turn.alone(async () => {
      await this.#dispatcher.pause();
      try {
        await act();
      } finally {
        this.#dispatcher.resume();
      }
    });
  }

  #openRun(kind: RunKind, account: string | null, progress?: ProgressListener): Run {
    const { clock } = this.options;
    const info: RunInfo = { id: this.#nextRun, kind, account, startedAt: clock.now() };
    this.#nextRun += 1;
    const run = new Run(info, () => clock.now(), progress);
    void run.done.then((result) => this.#report({ event: 'run-finished', run: info, result }));
    return run;
  }

  /** Calls `act` after a time, unless the daemon stops first. */
  #after(ms: number, act: () => void): void {
    void sleep(this.options.clock, ms, this.#stopping.signal).then(act, () => {});
  }

  /** Tracks background work. If it fails, the daemon fails. */
  #track(work: Promise<void>): void {
    const errand = work.catch((error: unknown) => {
      if (!this.#stopping.signal.aborted) this.#onFailed(error);
    });
    this.#errands.add(errand);
    void errand.finally(() => this.#errands.delete(errand));
  }

  #report(event: DaemonEvent): void {
    this.options.observer(event);
  }
}
