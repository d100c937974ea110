import path from 'node:path';
import { CATALOG_VERSION } from '../catalog/open.ts';
import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import type { Claimed } from '../registry/leases.ts';
import { release } from '../registry/leases.ts';
import { unwantedArchives } from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';
import { removeSessions } from '../registry/sessions.ts';
import { upkeepOf } from '../registry/upkeep.ts';
import { Claims } from './claims.ts';
import { type CollectorLimits, collectRound } from './collector.ts';
import { HeldArchive } from './held-archive.ts';
import { type Keeping, KeptArchive } from './kept-archive.ts';
import { pause } from './pause.ts';
import type { WorkerSession } from './session.ts';
import { wipeCopies } from './wiping.ts';

/** Milliseconds. */
export interface WorkerIntervals {
  /** Between two looks for archives to claim, and for those to give back. */
  readonly claimMs: number;
  /** Between two rounds of upkeep, collection and wiping. */
  readonly upkeepMs: number;
  /** After an archive could not be opened, or failed, doubled each time up to the longest. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
}

export const WORKER_INTERVALS: WorkerIntervals = {
  claimMs: 2_000,
  upkeepMs: 60_000,
  retryMs: 15_000,
  longestRetryMs: 600_000,
};

/** Archives that are opened, or closed, at the same time. */
const AT_ONCE = 4;
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
  readonly intervals?: WorkerIntervals;
  readonly collecting?: CollectorLimits;
}

/** An archive that the session holds: kept fresh, or to be tried again. */
interface Holding {
  readonly held: HeldArchive;
  kept: KeptArchive | undefined;
  failures: number;
  /** By the clock that never goes back. */
  retryAt: number;
}

/** What one session of a worker does: it claims archives, keeps them fresh, and gives them back. */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #intervals: WorkerIntervals;
  readonly #claims: Claims;
  readonly #holdings = new Map<number, Holding>();
  /** Archives that failed while they were kept, and why. */
  readonly #failed = new Map<number, unknown>();
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

  /** How many archives are kept fresh at the moment. */
  get keeping(): number {
    return [...this.#holdings.values()].filter(({ kept }) => kept !== undefined).length;
  }

  /**
   * Works until the signal is aborted or the session is dead. Then archives are closed, and given back if they still belong to
   * the session.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { session, clock } = this.#options;
    const ended = AbortSignal.any([signal, session.dead]);
    try {
      while (!ended.aborted) {
        const isBusy = await this.#round(ended);
        if (!isBusy) await pause(clock, this.#intervals.claimMs, ended);
      }
    } finally {
      this.#unsure.abort();
      await inTurns([...this.#holdings.keys()], (archive) => this.#giveBack(archive));
    }
  }

  /** Returns whether more is to be claimed at once. */
  async #round(signal: AbortSignal): Promise<boolean> {
    const { session, clock } = this.#options;
    this.#mindManners();
    let isBusy = false;
    await this.#trying('archives could not be claimed', async () => {
      if (session.isDraining) await this.#drain();
      else isBusy = (await this.#claim(signal)) > 0;
    });
    await inTurns([...this.#failed], ([archive, error]) => this.#fail(archive, error));
    await this.#retry(signal);
    if (clock.monotonic() - this.#upkeptAt < this.#intervals.upkeepMs) return isBusy;
    this.#upkeptAt = clock.monotonic();
    await this.#trying('archives could not be given back', () => this.#giveBackUnwanted());
    await this.#trying('upkeep failed', () => this.#upkeep());
    await this.#trying('copies could not be wiped', () => this.#wipe());
    await this.#trying('objects could not be collected', () => this.#collect(signal));
    return isBusy;
  }

  /** While the session was not renewed for too long, nothing is asked of the origin. */
  #mindManners(): void {
    const { isPolite } = this.#options.session;
    if (!isPolite) this.#unsure.abort();
    else if (this.#unsure.signal.aborted) this.#unsure = new AbortController();
  }

  async #claim(signal: AbortSignal): Promise<number> {
    const { capacity } = this.#options;
    const most = Math.max(0, Math.min(AT_ONCE, capacity - this.#holdings.size));
    const claimed = await this.#claims.take({ most });
    await Promise.all(claimed.map((one) => this.#begin(one, signal)));
    return claimed.length;
  }

  async #begin(claimed: Claimed, signal: AbortSignal): Promise<void> {
    const { registry, session } = this.#options;
    const held = new HeldArchive(registry, session.id, claimed);
    const { archive } = claimed.head;
    this.#holdings.set(archive, { held, kept: undefined, failures: 0, retryAt: 0 });
    await this.#open(archive, signal);
  }

  async #open(archive: number, signal: AbortSignal): Promise<void> {
    const holding = this.#holdings.get(archive);
    if (holding === undefined) return;
    const { log } = this.#options;
    const keeping = {
      ...this.#options,
      politeness: () => ({ unsure: this.#unsure.signal, registry: this.#options.registry.label }),
    };
    const onFailed = (error: unknown): void => {
      this.#failed.set(archive, error);
    };
    try {
      const dir = this.#folderOf(archive);
      holding.kept = await KeptArchive.open(keeping, holding.held, dir, onFailed, signal);
      holding.failures = 0;
      log.say('info', 'archive opened', { archive, account: holding.kept.name });
    } catch (error) {
      if (!(error instanceof MailkeepError) && !signal.aborted) throw error;
      await this.#fail(archive, error);
    }
  }

  /** Closes an archive that cannot go on. It is tried again later, unless it belongs to others by now. */
  async #fail(archive: number, error: unknown): Promise<void> {
    this.#failed.delete(archive);
    const holding = this.#holdings.get(archive);
    if (holding === undefined) return;
    const { log, clock, session } = this.#options;
    const isEnding = session.dead.aborted || this.#unsure.signal.aborted;
    if (!isEnding) log.fail('error', `archive ${archive} cannot go on`, error);
    await holding.kept?.close();
    holding.kept = undefined;
    if (holding.held.lostBy !== undefined) {
      this.#forget(archive);
      return;
    }
    const { retryMs, longestRetryMs } = this.#intervals;
    holding.failures += 1;
    const ms = Math.min(longestRetryMs, retryMs * 2 ** Math.min(holding.failures - 1, 20));
    holding.retryAt = clock.monotonic() + ms;
  }

  async #retry(signal: AbortSignal): Promise<void> {
    const now = this.#options.clock.monotonic();
    const due = [...this.#holdings]
      .filter(([, { kept, retryAt }]) => kept === undefined && retryAt <= now)
      .map(([archive]) => archive);
    await inTurns(due, (archive) => this.#open(archive, signal));
  }

  async #drain(): Promise<void> {
    const { log } = this.#options;
    await inTurns([...this.#holdings.keys()], (archive) => this.#giveBack(archive));
    // What a lost claim has taken all the same is given back as well.
    const claimed = await this.#claims.take({ most: 0 });
    for (const one of claimed) await this.#release(new HeldArchive(...this.#heldBy(one)));
    if (!this.#saidDrained) log.say('info', 'drained: nothing is claimed any more');
    this.#saidDrained = true;
  }

  #heldBy(claimed: Claimed): ConstructorParameters<typeof HeldArchive> {
    return [this.#options.registry, this.#options.session.id, claimed];
  }

  async #giveBackUnwanted(): Promise<void> {
    const { registry, session } = this.#options;
    const unwanted = await unwantedArchives(registry, session.id);
    await inTurns(unwanted, ({ archive }) => this.#giveBack(archive));
  }

  /** Closes an archive, and gives it back if it still belongs to this session. */
  async #giveBack(archive: number): Promise<void> {
    const holding = this.#holdings.get(archive);
    if (holding === undefined) return;
    await holding.kept?.close();
    holding.kept = undefined;
    await this.#release(holding.held);
  }

  async #release(held: HeldArchive): Promise<void> {
    const { archive } = held.lease;
    const { lease } = held;
    const isLost = held.lostBy !== undefined;
    held.lose('lease');
    try {
      if (!isLost) await release(this.#options.registry, lease);
    } catch (error) {
      // It ends with the session at the latest.
      if (!(error instanceof MailkeepError)) throw error;
      this.#options.log.fail('error', 'an archive could not be given back', error);
    } finally {
      this.#forget(archive);
    }
  }

  #forget(archive: number): void {
    this.#holdings.delete(archive);
    this.#failed.delete(archive);
    this.#claims.letGo(archive);
  }

  async #upkeep(): Promise<void> {
    const { registry, session } = this.#options;
    const all = await upkeepOf(registry, session.id);
    await inTurns(all, async (upkeep) => {
      await this.#holdings.get(upkeep.archive)?.kept?.upkeep(upkeep);
    });
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

  /** A failure of the registry or the store passes: the next round tries again. */
  async #trying(what: string, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      this.#options.log.fail('error', what, error);
    }
  }
}

/** Acts for all of them, a few at a time. */
async function inTurns<T>(all: readonly T[], act: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const one = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await act(next);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, left.length) }, one));
}
