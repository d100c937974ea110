import { selects } from '../core/names.ts';
import type { ProgressListener, SyncResult } from '../sync/result.ts';
import type { SyncPlan } from '../sync/run-sync.ts';
import type { Narrowing } from '../sync/selection.ts';
import { Accounts, accountFailure, archiveFailure, isOfTheDisk } from './accounts.ts';
import { Dispatcher, mailboxKey, type Task } from './dispatcher.ts';
import {
  type Aim,
  type DaemonClock,
  type DaemonEvent,
  type DaemonStatus,
  type Hint,
  LOOK,
  type Observer,
  type PassRunner,
  type RunInfo,
  type RunKind,
  type Survey,
  SWEEP,
  type WatchedMailbox,
} from './ports.ts';
import { Run } from './runs.ts';
import { ClockJumps, SCHEDULED, type Scheduled, Timers, type Timetable } from './schedule.ts';

/** Waits before a message that is announced and not there yet is looked for again: about a minute in all. */
const HINT_RETRIES_MS = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000] as const;

/** How many are waited for in a mailbox. Beyond, a pass is all there is: whoever announces so many may make them up. */
const MOST_AWAITED = 1_000;

/** The mailbox that a hint is about: by resource id where it names one, else by address. */
function hintedMailbox(
  { resourceId, address }: Hint,
  mailboxes: readonly WatchedMailbox[],
): WatchedMailbox | undefined {
  return mailboxes.find((mailbox) =>
    resourceId === undefined ? mailbox.address === address : mailbox.resourceId === resourceId,
  );
}

interface Awaited {
  readonly mailbox: WatchedMailbox;
  /** Tries made, by uid. */
  readonly uids: Map<number, number>;
}

export class AwaitedMessages {
  readonly #mailboxes = new Map<string, Awaited>();

  /** Waits for one more message, if not for 1,000 of the mailbox already. */
  add(mailbox: WatchedMailbox, uid: number): void {
    const key = mailboxKey(mailbox);
    const awaited = this.#mailboxes.get(key) ?? { mailbox, uids: new Map<number, number>() };
    if (!awaited.uids.has(uid) && awaited.uids.size < MOST_AWAITED) awaited.uids.set(uid, 0);
    this.#mailboxes.set(key, awaited);
  }

  /**
   * After a pass over the mailbox: forgets what has come, and what was waited for long enough.
   *
   * @returns milliseconds until it is worth looking again (null when nothing is awaited), and how many were given up
   */
  settle(
    mailbox: WatchedMailbox,
    has: (uid: number) => boolean,
  ): { readonly againMs: number | null; readonly unseen: number } {
    const awaited = this.#mailboxes.get(mailboxKey(mailbox));
    if (awaited === undefined) return { againMs: null, unseen: 0 };
    let againMs: number | null = null;
    let unseen = 0;
    for (const [uid, tries] of awaited.uids) {
      const wait = HINT_RETRIES_MS[tries];
      if (has(uid)) {
        awaited.uids.delete(uid);
      } else if (wait === undefined) {
        awaited.uids.delete(uid);
        unseen += 1;
      } else {
        awaited.uids.set(uid, tries + 1);
        againMs = Math.min(againMs ?? wait, wait);
      }
    }
    if (awaited.uids.size === 0) this.#mailboxes.delete(mailboxKey(mailbox));
    return { againMs, unseen };
  }
}

/** Several share something, or one has it alone; whoever waits to be alone goes before those who come later. */
class SharedTurn {
  readonly #sharing = new Set<Promise<unknown>>();
  #alone: Promise<void> | undefined;

  /** Calls `act` as soon as nobody is alone. Throws what it throws. */
  async share<T>(act: () => Promise<T>): Promise<T> {
    while (this.#alone !== undefined) await this.#alone;
    const turn = act();
    this.#sharing.add(turn);
    try {
      return await turn;
    } finally {
      this.#sharing.delete(turn);
    }
  }

  /** Calls `act` when all who share have ended, and lets nobody begin until it is over. Throws what it throws. */
  async alone<T>(act: () => Promise<T>): Promise<T> {
    while (this.#alone !== undefined) await this.#alone;
    let over: () => void = () => {};
    this.#alone = new Promise((resolve) => {
      over = resolve;
    });
    try {
      await Promise.allSettled(this.#sharing);
      return await act();
    } finally {
      this.#alone = undefined;
      over();
    }
  }
}

/** Segments are sealed when the daemon is idle, or after this long. */
const TIDY_EVERY_MS = 600_000;

/** Timers fire late after a suspend, never early: this is how often the clock is checked. */
const LOOK_AT_CLOCK_MS = 30_000;
/** The same while an account waits: a token file may change. */
const LOOK_AT_TOKEN_MS = 2_000;
/** Until the disk is tried again after it failed. */
const DISK_WAIT_MS = 60_000;
/** Where a round of tidying has left something, the next one comes so soon. */
const TIDY_AGAIN_MS = 500;

interface SyncRequest extends Narrowing {
  readonly full: boolean;
  readonly acceptEndings: boolean;
}

export interface DaemonOptions {
  readonly accounts: readonly string[];
  readonly runner: PassRunner;
  readonly clock: DaemonClock;
  readonly timetable: Timetable;
  /** Called when something of the timetable was begun, to remember when. */
  readonly begun: (name: Scheduled, at: number) => void;
  /** Scheduled work other than passes. Each chore reports its own result. */
  readonly chores: {
    verify(signal: AbortSignal): Promise<void>;
    /** Lets go of what retention says, while nothing else writes. */
    prune(signal: AbortSignal): Promise<void>;
  };
  readonly observer: Observer;
  readonly random: () => number;
  /** The archive cannot go on, or there is a mistake in the program: the process has to end. */
  readonly onFatal: (error: unknown) => void;
}

function iso(at: number): string {
  return new Date(at).toISOString();
}

function isoOrNull(at: number | null | undefined): string | null {
  return at === null || at === undefined ? null : iso(at);
}

/** Decides when what is done: by the clock, by hints and by hand. Does nothing itself. */
export class Daemon {
  readonly #dispatcher: Dispatcher;
  readonly #accounts: Accounts;
  readonly #awaited = new AwaitedMessages();
  readonly #stopping = new AbortController();
  readonly #timers: Timers;
  #timetable: Timetable;
  #nextRun = 1;
  #cancelWake: (() => void) | undefined;
  readonly #jumps: ClockJumps;
  #diskWaits = false;
  /** Something was added since the last round of tidying, or that round left something. */
  #untidy = true;
  #isTidying = false;
  #tidiedAt: number;
  readonly #errands = new Set<Promise<void>>();
  /** Verification and pruning, one after the other: each may take hours, and asks nothing of the origin. */
  #chores: Promise<void> = Promise.resolve();
  /** Surveys and tidying share the archive with passes; pruning does not. */
  readonly #turn = new SharedTurn();
  readonly #startedAt: number;

  constructor(private readonly options: DaemonOptions) {
    const { clock, observer, random } = options;
    this.#timetable = options.timetable;
    this.#timers = new Timers(clock);
    this.#startedAt = clock.now();
    this.#jumps = new ClockJumps(clock.now(), clock.monotonic());
    this.#tidiedAt = clock.monotonic();
    this.#accounts = new Accounts(clock, (event) => this.#report(event), random);
    this.#accounts.set(options.accounts);
    this.#dispatcher = new Dispatcher({
      runner: options.runner,
      clock,
      observer,
      isOpen: (account) => this.#accounts.isOpen(account),
      onPassed: (task, kind, result) => this.#passed(task, kind, result),
      onFailed: (error) => this.#failed(error),
      onIdle: () => this.#tidy(),
    });
  }

  start(): void {
    this.#wake();
  }

  /** Ends passes at the next safe point; what was collected is durable when it resolves. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#cancelWake?.();
    this.#timers.cancel();
    await this.#dispatcher.close();
    await Promise.all([...this.#errands, this.#chores]);
  }

  /**
   * Applies another configuration between two passes. `change` replaces what the passes are made with; when it throws,
   * everything continues as it was.
   */
  async reload(
    accounts: readonly string[],
    timetable: Timetable,
    change: () => Promise<void>,
  ): Promise<void> {
    // What asks with the old configuration has answered before it goes; passes need not wait for that.
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
    for (const account of accounts) this.#errand(this.#round('sync', account, LOOK));
    this.#wake();
  }

  /** A pass over what is asked for, begun after this call. It is over when the run's promise resolves. */
  sync(request: SyncRequest, progress: ProgressListener): Run {
    const { full, acceptEndings, folders, account, mailboxes } = request;
    const chosen = this.#chosen(account);
    const run = this.#openRun('hand', chosen.length === 1 ? (chosen[0] ?? null) : null, progress);
    const wanted = (mailbox: WatchedMailbox): boolean =>
      mailboxes.length === 0 || selects({ include: mailboxes, exclude: [] }, mailbox.address);
    run.begin();
    for (const name of chosen) {
      this.#errand(this.#enqueue(run, name, { full, acceptEndings, folders }, true, wanted));
    }
    run.end();
    return run;
  }

  #chosen(account: string | undefined): string[] {
    return this.#accounts.names.filter((name) => account === undefined || name === account);
  }

  plan(narrowing: Narrowing, full: boolean, signal: AbortSignal): Promise<SyncPlan> {
    const chosen = this.#chosen(narrowing.account);
    return this.options.runner.plan(chosen, narrowing, full, signal);
  }

  /** Looks at a mailbox at once. Hints that come while one waits are folded together. */
  hint(hint: Hint): void {
    const mailbox = hintedMailbox(hint, this.#accounts.mailboxes(hint.account));
    if (mailbox === undefined) {
      this.#report({ event: 'hint-unknown' });
      return;
    }
    const where = { account: mailbox.account, mailbox: mailbox.resourceId };
    this.#report({ event: 'hint', ...where, uids: hint.uid === undefined ? 0 : 1 });
    if (hint.uid !== undefined) this.#awaited.add(mailbox, hint.uid);
    if (!this.#dispatcher.isExpected(mailbox)) this.#look(mailbox);
  }

  /**
   * Checks mailboxes before the others that the schedule has in line, and after hints and passes by hand: that
   * something may have changed in them is no more than a rumour.
   */
  checkSooner(account: string, mailboxes: readonly string[]): void {
    if (!this.#accounts.isOpen(account)) return;
    const known = new Map(this.#accounts.mailboxes(account).map((one) => [one.resourceId, one]));
    const chosen = mailboxes
      .flatMap((id) => known.get(id) ?? [])
      .filter((one) => !this.#dispatcher.isExpected(one));
    if (chosen.length === 0) return;
    const run = this.#openRun('hint', account);
    run.begin();
    this.#report({ event: 'run-started', run: run.info, mailboxes: chosen.length });
    this.#dispatcher.addFirst(chosen, 'sync', LOOK, run);
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
        const trouble = this.#accounts.trouble(name);
        const { round, everyMs } = this.#accounts.freshness(name);
        return {
          name,
          state: trouble?.state ?? 'ok',
          code: trouble?.code ?? null,
          since: isoOrNull(trouble?.since),
          retryAt: isoOrNull(trouble?.retryAt),
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
    const { clock, runner, begun, chores } = this.options;
    this.#cancelWake?.();
    const now = clock.now();
    this.#detectClockJumps(now);
    for (const name of this.#timetable.due(now)) {
      begun(name, now);
      if (name === 'verify' || name === 'prune') {
        if (name === 'verify') this.#chore((signal) => chores.verify(signal));
        else this.#chore((signal) => this.#undisturbed(() => chores.prune(signal)));
        continue;
      }
      for (const account of this.#accounts.names) {
        this.#errand(this.#round(name, account, name === 'sweep' ? SWEEP : LOOK));
      }
    }
    for (const account of this.#accounts.due((name) => runner.tokenMark(name))) {
      this.#errand(this.#probe(account));
    }
    if (clock.monotonic() - this.#tidiedAt > TIDY_EVERY_MS) this.#tidy();
    const often = this.#accounts.anyWaiting ? LOOK_AT_TOKEN_MS : LOOK_AT_CLOCK_MS;
    const waitMs = Math.min(often, this.#timetable.waitMs(now));
    this.#cancelWake = clock.after(waitMs, () => this.#wake());
  }

  /** After a sleep or a change of the time nothing that was reckoned in it holds. */
  #detectClockJumps(now: number): void {
    const ms = this.#jumps.look(now, this.options.clock.monotonic());
    if (ms === null) return;
    this.#report({ event: 'clock-jumped', ms });
    this.#accounts.retryNow();
  }

  /** A run by the clock over all mailboxes of an account, unless the last one is not over or the account waits. */
  async #round(kind: 'sync' | 'sweep', account: string, aim: Aim): Promise<void> {
    if (kind === 'sweep') this.#accounts.oweSweep(account);
    if (!this.#accounts.isOpen(account)) return;
    if (!this.#accounts.open(account, kind)) {
      this.#report({ event: 'skipped', kind, account });
      return;
    }
    const run = this.#openRun(kind, account);
    void run.done.then((result) => {
      this.#accounts.close(account, kind);
      const { startedAt } = run.info;
      const mailboxes = this.#accounts.mailboxes(account).length;
      if (kind === 'sync' && accountFailure(result) === undefined) {
        this.#accounts.rounded(account, { startedAt, durationMs: result.durationMs, mailboxes });
      }
    });
    await this.#enqueue(run, account, aim, false, () => true);
    // The sweep that was begun here is under way, or waits with its mailboxes; an earlier one could not begin.
    const owed = this.#accounts.settleSweep(account);
    if (owed && kind === 'sync') await this.#round('sweep', account, SWEEP);
  }

  async #enqueue(
    run: Run,
    account: string,
    aim: Aim,
    fresh: boolean,
    wanted: (mailbox: WatchedMailbox) => boolean,
  ): Promise<void> {
    run.begin();
    try {
      const mailboxes = await this.#survey(run, account, fresh);
      const chosen = mailboxes.filter(wanted);
      this.#report({ event: 'run-started', run: run.info, mailboxes: chosen.length });
      for (const mailbox of chosen) this.#dispatcher.add(mailbox, run.info.kind, aim, run);
    } catch (error) {
      run.fail([archiveFailure(account, error)]);
      const known = aim.full ? this.#accounts.mailboxes(account).filter(wanted) : [];
      for (const mailbox of known) this.#dispatcher.add(mailbox, 'sweep', aim, undefined);
      throw error;
    } finally {
      run.end();
    }
    this.#dispatcher.weigh();
  }

  async #survey(run: Run, account: string, fresh: boolean): Promise<readonly WatchedMailbox[]> {
    const { mailboxes, result } = await this.#ask(account, fresh);
    run.add(result);
    if (this.#noted(account, result)) return [];
    this.#accounts.recovered(account);
    this.#accounts.setMailboxes(account, mailboxes);
    return mailboxes;
  }

  async #ask(account: string, fresh: boolean): Promise<Survey> {
    const { runner } = this.options;
    const survey = await this.#turn.share(() =>
      runner.survey(account, fresh, this.#stopping.signal),
    );
    this.#report({ event: 'surveyed', account, result: survey.result });
    return survey;
  }

  #noted(account: string, result: SyncResult): boolean {
    const failure = accountFailure(result);
    if (failure === undefined) return false;
    this.#accounts.failed(account, failure, this.options.runner.tokenMark(account));
    this.#dispatcher.fail(account, result);
    // The watch over its token begins.
    this.#wake();
    return true;
  }

  /** One request shows whether an account is back; if so, a run makes up for what was missed. */
  async #probe(account: string): Promise<void> {
    try {
      const { mailboxes, result } = await this.#ask(account, true);
      if (this.#noted(account, result)) return;
      this.#accounts.setMailboxes(account, mailboxes);
      this.#accounts.recovered(account);
    } finally {
      this.#accounts.probed(account);
    }
    await this.#round('sync', account, LOOK);
  }

  #passed({ mailbox, aim }: Task, kind: RunKind, result: SyncResult): void {
    const isNarrow = aim.folders.length > 0;
    this.#report({ event: 'pass-finished', kind, mailbox, isNarrow, result });
    this.#noted(mailbox.account, result);
    if (result.mailboxes.some(({ added }) => added > 0)) this.#untidy = true;
    const { runner } = this.options;
    const { againMs, unseen } = this.#awaited.settle(mailbox, (uid) => runner.has(mailbox, uid));
    if (unseen > 0) {
      const { account, resourceId } = mailbox;
      this.#report({ event: 'hint-unseen', account, mailbox: resourceId });
    }
    if (againMs !== null) this.#timers.after(againMs, () => this.#look(mailbox));
  }

  #look(mailbox: WatchedMailbox): void {
    const run = this.#openRun('hint', mailbox.account);
    run.begin();
    this.#dispatcher.add(mailbox, 'hint', LOOK, run);
    run.end();
    this.#dispatcher.weigh();
  }

  #failed(error: unknown): void {
    const { clock, runner, onFatal } = this.options;
    if (this.#stopping.signal.aborted) return;
    const paused = this.#diskWaits ? undefined : this.#dispatcher.pause();
    for (const account of this.#accounts.names) {
      this.#dispatcher.abandon(account, [archiveFailure(account, error)]);
    }
    if (!isOfTheDisk(error)) {
      onFatal(error);
      return;
    }
    // Concurrent passes fail because of the same disk.
    if (paused === undefined) return;
    this.#diskWaits = true;
    const retryAt = clock.now() + DISK_WAIT_MS;
    this.#report({ event: 'archive-failed', error, retryAt });
    this.#errand(
      paused.then(() => {
        this.#timers.after(DISK_WAIT_MS, () => {
          this.#diskWaits = false;
          runner.recover();
          this.#dispatcher.resume();
        });
      }),
    );
  }

  /** Starts a round of tidying, unless nothing was added since the last one or a round is running. */
  #tidy(): void {
    if (this.#stopping.signal.aborted || !this.#untidy || this.#isTidying) return;
    this.#untidy = false;
    this.#isTidying = true;
    this.#errand(this.#tidyOnce());
  }

  async #tidyOnce(): Promise<void> {
    const { clock, runner } = this.options;
    try {
      const isMore = await this.#turn.share(() => runner.tidy(this.#stopping.signal));
      if (!isMore) return;
      this.#untidy = true;
      this.#timers.after(TIDY_AGAIN_MS, () => this.#dispatcher.weigh());
    } finally {
      this.#isTidying = false;
      this.#tidiedAt = clock.monotonic();
    }
  }

  /** Runs `act` after earlier chores. The failure of one does not concern the next. */
  #chore(act: (signal: AbortSignal) => Promise<void>): void {
    const { signal } = this.#stopping;
    this.#chores = this.#chores
      .then(() => (signal.aborted ? undefined : act(signal)))
      .catch((error: unknown) => {
        if (!signal.aborted) this.#failed(error);
      });
  }

  /** Runs `act` while no pass, survey or round of tidying is running; none starts before it ends. */
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

  /** Work that nobody waits for: its failure is the daemon's. */
  #errand(work: Promise<void>): void {
    const errand = work.catch((error: unknown) => {
      if (!this.#stopping.signal.aborted) this.#failed(error);
    });
    this.#errands.add(errand);
    void errand.finally(() => this.#errands.delete(errand));
  }

  #report(event: DaemonEvent): void {
    this.options.observer(event);
  }
}
