import type { UploadingStore } from '../copies/object-store.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import { condemnAbandoned, markGone, sweep, sweepAgain } from '../registry/collection.ts';
import { noteFailover } from '../registry/fleet.ts';
import type { Outcome } from '../registry/outcome.ts';
import {
  type CollectionWaits,
  objectsToCollect,
  type Replication,
  replicationOf,
  type WaitingObject,
} from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Milliseconds, and how many objects are looked at in one statement. */
export interface CollectorLimits {
  /** After this, nobody finishes an upload any more. */
  readonly abandonedMs: number;
  /** Between the deletion of an object and the look that finds it gone. */
  readonly settleMs: number;
  /** Before what was condemned is deleted, where a failover could take the condemnation back. */
  readonly unreplicatedMs: number;
  /** The same while a failover is no longer ago than this. */
  readonly failoverMs: number;
  readonly page: number;
}

export const COLLECTOR_LIMITS: CollectorLimits = {
  abandonedMs: DAY_MS,
  settleMs: 15 * MINUTE_MS,
  unreplicatedMs: HOUR_MS,
  failoverMs: DAY_MS,
  page: 500,
};

/** What a collector asks of the store. Each act does nothing where there is nothing. */
export type CollectableStore = Pick<UploadingStore, 'giveUpUpload' | 'delete' | 'head'>;

/** What a round did, in objects. */
export interface Collected {
  readonly abandoned: number;
  readonly swept: number;
  readonly gone: number;
  /** Found again after they were deleted, and deleted again. */
  readonly returned: number;
  /** Kept by a lock of the store. */
  readonly locked: number;
  /** What kept others from being deleted; they are tried again in the next round. */
  readonly failures: readonly { readonly key: string; readonly error: MailkeepError }[];
}

/**
 * Deletes what the registry has condemned. An object counts as gone once it was not there `settleMs` after it was deleted: a
 * store may complete an upload while it aborts it. What to delete is said by the rows alone, never by what a listing lacks.
 * Several may collect at the same time.
 *
 * @throws the errors of the registry; the signal's reason. Failures of the store are part of what is returned
 */
export async function collectRound(
  registry: Registry,
  store: CollectableStore,
  signal: AbortSignal,
  limits: CollectorLimits = COLLECTOR_LIMITS,
): Promise<Collected> {
  await noteFailover(registry);
  const waits = {
    settleMs: limits.settleMs,
    graceMs: graceOf(await replicationOf(registry), limits),
  };
  const abandoned = await condemnAbandoned(registry, limits.abandonedMs, limits.page);
  const round = new Round(registry, store, waits, signal);
  let page: readonly WaitingObject[];
  let last: WaitingObject | undefined;
  do {
    page = await objectsToCollect(registry, waits, limits.page, last);
    for (const object of page) await round.collect(object);
    last = page.at(-1);
  } while (page.length === limits.page);
  return { abandoned: abandoned.length, ...round.done };
}

/** How long ago something has to be condemned so that it may be deleted. */
function graceOf(
  { isSynchronous, failedOverMs }: Replication,
  { unreplicatedMs, failoverMs }: CollectorLimits,
): number {
  if (isSynchronous) return 0;
  return failedOverMs !== undefined && failedOverMs < failoverMs ? failoverMs : unreplicatedMs;
}

class Round {
  #counts = { swept: 0, gone: 0, returned: 0, locked: 0 };
  readonly #failures: { readonly key: string; readonly error: MailkeepError }[] = [];

  constructor(
    private readonly registry: Registry,
    private readonly store: CollectableStore,
    private readonly waits: CollectionWaits,
    private readonly signal: AbortSignal,
  ) {}

  get done(): Omit<Collected, 'abandoned'> {
    return { ...this.#counts, failures: this.#failures };
  }

  async collect(object: WaitingObject): Promise<void> {
    this.signal.throwIfAborted();
    const { key, sweptAt } = object;
    const found = await this.#atStore(object);
    if (found === undefined) return;
    if (sweptAt === null) {
      this.#count('swept', await sweep(this.registry, key));
    } else if (found === 'absent') {
      this.#count('gone', await markGone(this.registry, key, sweptAt, this.waits.settleMs));
    } else {
      this.#count('returned', await sweepAgain(this.registry, key, sweptAt));
    }
  }

  #count(what: 'swept' | 'gone' | 'returned', { outcome }: Outcome): void {
    if (outcome === 'committed') this.#counts[what] += 1;
  }

  /** One object that cannot be deleted does not keep the others: undefined, and it is counted. */
  async #atStore({
    key,
    uploadId,
    sweptAt,
  }: WaitingObject): Promise<'absent' | 'removed' | undefined> {
    try {
      // The upload first: an object that is completed after its deletion would stay. Again at the second look: a part that was
      // under way may have come after the upload was given up.
      await this.store.giveUpUpload({ name: key, uploadId }, this.signal);
      if (sweptAt !== null && (await this.store.head(key, this.signal)) === undefined)
        return 'absent';
      await this.store.delete(key, this.signal);
      return 'removed';
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      if (hasCode(error, 'object-locked')) this.#counts.locked += 1;
      else this.#failures.push({ key, error });
      return undefined;
    }
  }
}
