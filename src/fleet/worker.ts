import path from 'node:path';
import { archiveError } from '../archive/errors.ts';
import { CATALOG_VERSION } from '../catalog/database.ts';
import { errnoName, hasCode, MailkeepError } from '../core/errors.ts';
import type { NodeFacts } from '../daemon/fleet-metrics.ts';
import { release } from '../registry/leases.ts';
import { unwantedArchives } from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';
import { removeSessions } from '../registry/sessions.ts';
import { upkeepOf } from '../registry/upkeep.ts';
import { ClaimPace } from './claim-pace.ts';
import { Claims, type Wanted } from './claims.ts';
import { type CollectorLimits, collectRound } from './collector.ts';
import { HeldArchive } from './held-archive.ts';
import type { FleetHint } from './hint-notes.ts';
import { type Holding, newHolding } from './holding.ts';
import { inTurns } from './in-turns.ts';
import { type Keeping, KeptArchive } from './kept-archive.ts';
import { pause } from './pause.ts';
import type { Politeness } from './polite-passes.ts';
import type { ReadingHost } from './reading/desk.ts';
import { type Reading, Readings } from './reading/readings.ts';
import type { Refusal } from './reading/request.ts';
import type { WorkerSession } from './session.ts';
import { wipeCopies } from './wiping.ts';
import { WORKER_INTERVALS, type WorkerIntervals } from './worker-intervals.ts';

/** Between two looks at whether requests may be begun, in milliseconds. */
const MANNERS_MS = 1_000;
const NOT_HOLDER = { because: 'not-holder' } as const;
/** Rows of sessions that ended so long ago are removed, in milliseconds. */
const SESSION_ROW_MS = 86_400_000;

export interface WorkerOptions extends Omit<Keeping, 'politeness'> {
  readonly registry: Registry;
  readonly session: WorkerSession;
  readonly node: string;
  /** How many archives are held at most. */
  readonly capacity: number;
  /** The folder with the local copies. */
  readonly cache: string;
  /** Given the worker while it may be read from, then undefined. */
  readonly onReadable?: (host: ReadingHost | undefined) => void;
  readonly intervals?: WorkerIntervals;
  readonly collecting?: CollectorLimits;
  /** Called with how long it took from the claim of an archive until it was open, in milliseconds. */
  readonly onReady?: (ms: number) => void;
}

/** What one session of a worker does: it claims archives, keeps them fresh, and gives them back. */
export class Worker implements ReadingHost {
  readonly #options: WorkerOptions;
  readonly #intervals: WorkerIntervals;
  readonly #claims: Claims;
  readonly #holdings = new Map<number, Holding>();
  /** Archives that failed while they were kept, and why. */
  readonly #failed = new Map<number, unknown>();
  /** Claims that readers asked for and that are under way. */
  readonly #asked = new Set<Promise<unknown>>();
  readonly #pace = new ClaimPace();
  #isOver = false;
  #unsure = new AbortController();
  #upkeptAt: number;
  #saidDrained = false;

  constructor(options: WorkerOptions) {
    const { registry, session, clock, intervals = WORKER_INTERVALS } = options;
    this.#options = options;
    this.#intervals = intervals;
    this.#claims = new Claims(registry, session.id, CATALOG_VERSION);
    this.#upkeptAt = clock.monotonic();
  }

  get session(): string {
    return this.#options.session.id;
  }

  /**
   * Returns an archive to read from, once it is open; or why it cannot be read here. A paused one that is claimed for this is
   * given back when nobody reads it any more.
   *
   * @param mayClaim whether it is claimed if this session does not hold it
   * @throws the errors of the registry
   */
  async reading(archive: number, mayClaim: boolean): Promise<Reading | Refusal> {
    if (mayClaim && !this.#isOver && !this.#holdings.has(archive)) {
      const { session, capacity } = this.#options;
      if (session.isDraining || this.#holdings.size >= capacity) return { because: 'full' };
      const taking = this.#take({ most: 1, archive, paused: true });
      this.#asked.add(taking);
      await taking.finally(() => this.#asked.delete(taking));
    }
    const holding = this.#holdings.get(archive);
    await holding?.opening;
    // What is closed, or lost by what is known here, is looked up again.
    if (holding === undefined || this.#holdings.get(archive) !== holding) return NOT_HOLDER;
    const { kept, held, failure, readings } = holding;
    if (this.#isOver || held.lostBy !== undefined || this.#options.session.dead.aborted) {
      return NOT_HOLDER;
    }
    if (kept !== undefined) return readings.begin(kept.readable);
    const error = this.#failed.get(archive) ?? failure;
    if (error === undefined) return NOT_HOLDER;
    const code = error instanceof MailkeepError ? error.code : errnoName(error);
    return { because: 'unready', code };
  }

  /**
   * Works until the signal is aborted or the session is dead. Then archives are closed, and given back if they still belong to
   * the session.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { session, clock } = this.#options;
    const ended = AbortSignal.any([signal, session.dead]);
    const over = new AbortController();
    const manners = this.#keepManners(AbortSignal.any([ended, over.signal]));
    this.#options.onReadable?.(this);
    try {
      while (!ended.aborted) {
        const isBusy = await this.#round(ended);
        if (!isBusy) await this.#pace.next(clock, this.#intervals.claimMs, ended);
      }
    } finally {
      over.abort();
      this.#options.onReadable?.(undefined);
      this.#isOver = true;
      // What these have taken is given back as well.
      await Promise.allSettled(this.#asked);
      await inTurns([...this.#holdings.keys()], (archive) => this.#giveBack(archive));
      await manners;
    }
  }

  /** What the session has at the moment, for metrics. */
  facts(): NodeFacts {
    const all = [...this.#holdings.values()];
    const open = all.flatMap(({ kept }) => kept ?? []);
    const budgets = open.flatMap(({ budget }) => budget ?? []);
    return { held: all.length, open: open.length, budgets };
  }

  /**
   * Has an archive that is held looked at now.
   *
   * @returns null if this session does not hold it; else whether the account has the mailbox
   */
  hint(hint: FleetHint): boolean | null {
    const holding = this.#holdings.get(hint.archive);
    if (holding === undefined || holding.held.lostBy !== undefined) return null;
    // Its first pass looks at everything.
    return holding.kept?.hint(hint) ?? true;
  }

  /** While the session was not renewed for too long, nothing is asked of the origin, whatever a round waits for. */
  async #keepManners(ended: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!ended.aborted) {
      this.#mindManners();
      await pause(clock, MANNERS_MS, ended);
    }
    this.#unsure.abort();
  }

  #mindManners(): void {
    const { isPolite } = this.#options.session;
    if (!isPolite) this.#unsure.abort();
    else if (this.#unsure.signal.aborted) this.#unsure = new AbortController();
  }

  #politeness(): Politeness {
    if (!this.#options.session.isPolite) this.#unsure.abort();
    return { unsure: this.#unsure.signal, registry: this.#options.registry.label };
  }

  /** Returns whether more is to be claimed at once. */
  async #round(signal: AbortSignal): Promise<boolean> {
    const { session, clock } = this.#options;
    let isBusy = false;
    await this.#trying('archives could not be claimed', signal, async () => {
      if (session.isDraining) await this.#drain();
      else isBusy = (await this.#claim()) > 0;
    });
    await inTurns([...this.#failed], ([archive, error]) => this.#fail(archive, error));
    this.#retry();
    if (signal.aborted || clock.monotonic() - this.#upkeptAt < this.#intervals.upkeepMs) {
      return isBusy;
    }
    this.#upkeptAt = clock.monotonic();
    await this.#trying('archives could not be given back', signal, () => this.#giveBackUnwanted());
    await this.#trying('upkeep failed', signal, () => this.#upkeep(signal));
    await this.#trying('copies could not be wiped', signal, () => this.#wipe());
    await this.#trying('objects could not be collected', signal, () => this.#collect(signal));
    return isBusy;
  }

  async #claim(): Promise<number> {
    const { capacity } = this.#options;
    const room = Math.min(this.#pace.roomWith(this.#opening), capacity - this.#holdings.size);
    return this.#take({ most: Math.max(0, room) });
  }

  get #opening(): number {
    return [...this.#holdings.values()].filter((one) => one.opening !== undefined).length;
  }

  /** Claims archives and begins to open them; returns how many. */
  async #take(wanted: Wanted): Promise<number> {
    const { registry, session, clock } = this.#options;
    const claimed = await this.#claims.take(wanted);
    for (const one of claimed) {
      const { archive } = one.head;
      const held = new HeldArchive(registry, session.id, one);
      this.#holdings.set(archive, newHolding(held, clock.monotonic()));
      this.#open(archive);
    }
    return claimed.length;
  }

  /** Begins to open an archive; other work continues meanwhile. */
  #open(archive: number): void {
    const holding = this.#holdings.get(archive);
    if (holding === undefined) return;
    holding.opening = this.#opened(archive, holding).finally(() => {
      holding.opening = undefined;
      this.#pace.opened(this.#opening);
    });
  }

  async #opened(archive: number, holding: Holding): Promise<void> {
    const { log, clock, session } = this.#options;
    const { held, controller, purges } = holding;
    const signal = AbortSignal.any([controller.signal, session.dead]);
    const keeping = { ...this.#options, politeness: () => this.#politeness() };
    const onFailed = (error: unknown) => void this.#failed.set(archive, error);
    try {
      const dir = this.#folderOf(archive);
      const kept = await KeptArchive.open(keeping, held, dir, { signal, onFailed, purges });
      holding.readings = new Readings();
      holding.kept = kept;
      holding.purges = kept.purges;
      const now = clock.monotonic();
      if (holding.openedAt === null) this.#options.onReady?.(now - holding.claimedAt);
      holding.openedAt = now;
      log.say('info', 'archive opened', { archive, account: kept.name });
    } catch (error) {
      // The next round sees to it: whatever it is, it concerns this archive.
      if (!signal.aborted) this.#failed.set(archive, error);
    }
  }

  /** Closes an archive that cannot go on. It is tried again later, unless it belongs to others by now. */
  async #fail(archive: number, error: unknown): Promise<void> {
    this.#failed.delete(archive);
    const holding = this.#holdings.get(archive);
    if (holding === undefined) return;
    const { log, clock } = this.#options;
    log.fail('error', `archive ${archive} cannot go on`, error);
    holding.failure = error;
    const wasKept = holding.kept !== undefined;
    await this.#close(archive, holding);
    if (holding.held.lostBy !== undefined) {
      this.#forget(archive);
      return;
    }
    const { retryMs, longestRetryMs } = this.#intervals;
    const now = clock.monotonic();
    if (wasKept && now - (holding.openedAt ?? now) >= longestRetryMs) holding.failures = 0;
    holding.failures += 1;
    const ms = Math.min(longestRetryMs, retryMs * 2 ** Math.min(holding.failures - 1, 20));
    holding.retryAt = now + ms;
  }

  #retry(): void {
    const now = this.#options.clock.monotonic();
    for (const [archive, { kept, opening, retryAt }] of this.#holdings) {
      const waits = this.#failed.has(archive);
      if (kept === undefined && opening === undefined && !waits && retryAt <= now) {
        this.#open(archive);
      }
    }
  }

  async #drain(): Promise<void> {
    const { log, registry, session } = this.#options;
    await inTurns([...this.#holdings.keys()], (archive) => this.#giveBack(archive));
    // What a lost claim has taken all the same is given back as well.
    const claimed = await this.#claims.take({ most: 0 });
    for (const one of claimed) await this.#release(new HeldArchive(registry, session.id, one));
    if (!this.#saidDrained) log.say('info', 'drained: nothing is claimed any more');
    this.#saidDrained = true;
  }

  async #giveBackUnwanted(): Promise<void> {
    const { registry, session } = this.#options;
    const unwanted = await unwantedArchives(registry, session.id);
    const archives = new Set(unwanted.map(({ archive }) => archive));
    for (const [archive, { kept, readings }] of this.#holdings) {
      if (kept?.isPaused !== true) continue;
      // Held to be read, and for as long as it is: it may also have been resumed, and is claimed again then.
      if (readings.areAny) archives.delete(archive);
      else archives.add(archive);
    }
    await inTurns([...archives], (archive) => this.#giveBack(archive));
  }

  /** Closes an archive, and gives it back if it still belongs to this session. */
  async #giveBack(archive: number): Promise<void> {
    const holding = this.#holdings.get(archive);
    if (holding === undefined) return;
    holding.controller.abort();
    await holding.opening;
    await this.#close(archive, holding);
    await this.#release(holding.held);
  }

  async #close(archive: number, holding: Holding): Promise<void> {
    const { session, log } = this.#options;
    const { kept, readings } = holding;
    holding.kept = undefined;
    await readings.end();
    try {
      await kept?.close(session.isPolite);
    } catch (error) {
      log.fail('error', `archive ${archive} was not closed well`, error);
    }
  }

  async #release(held: HeldArchive): Promise<void> {
    const { lease } = held;
    const isLost = held.lostBy !== undefined || this.#options.session.dead.aborted;
    held.lose('lease');
    try {
      if (!isLost) await release(this.#options.registry, lease);
    } catch (error) {
      // It ends with the session at the latest.
      if (!(error instanceof MailkeepError)) throw error;
      this.#options.log.fail('error', 'an archive could not be given back', error);
    } finally {
      this.#forget(lease.archive);
    }
  }

  #forget(archive: number): void {
    this.#holdings.delete(archive);
    this.#failed.delete(archive);
    this.#claims.letGo(archive);
  }

  async #upkeep(signal: AbortSignal): Promise<void> {
    const { registry, session } = this.#options;
    const before = new Set(this.#holdings.keys());
    const all = await upkeepOf(registry, session.id);
    for (const { archive } of all) before.delete(archive);
    // The registry names another holder: nobody has told us yet, since nothing was written.
    for (const archive of before) this.#holdings.get(archive)?.held.lose('lease');
    await inTurns(all, async (upkeep) => {
      const { archive } = upkeep;
      const holding = this.#holdings.get(archive);
      if (signal.aborted || holding?.kept === undefined || this.#failed.has(archive)) return;
      if (!holding.kept.hasToForget(upkeep)) return holding.kept.upkeep(upkeep);
      await this.#close(archive, holding);
      this.#open(archive);
    });
    for (const [archive, { held }] of this.#holdings) {
      if (held.lostBy !== undefined)
        this.#failed.set(archive, archiveError('log-fenced', { commit: null, reason: 'refused' }));
    }
  }

  async #wipe(): Promise<void> {
    const { registry, node, log } = this.#options;
    const { archives, failures } = await wipeCopies(registry, node, (one) => this.#folderOf(one));
    for (const archive of archives) log.say('info', 'a copy was wiped for a purge', { archive });
    for (const { error } of failures) {
      if (!hasCode(error, 'archive-in-use')) log.fail('error', 'a copy could not be wiped', error);
    }
  }

  async #collect(signal: AbortSignal): Promise<void> {
    const { registry, objects, log, collecting } = this.#options;
    const { failures } = await collectRound(registry, objects, signal, collecting);
    const [first] = failures;
    if (first !== undefined) log.fail('error', 'objects could not be deleted', first.error);
    await removeSessions(registry, SESSION_ROW_MS);
  }

  #folderOf(archive: number): string {
    return path.join(this.#options.cache, String(archive));
  }

  /** A failure of the registry or the store passes: the next round tries again. What is called off has no next round. */
  async #trying(what: string, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof MailkeepError)) throw error;
      this.#options.log.fail('error', what, error);
    }
  }
}
