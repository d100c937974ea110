import {
  encodePurgeWork,
  type PurgeJournal,
  type PurgeWork,
  parsePurgeWork,
} from '../archive/purge-journal.ts';
import { hasCode } from '../core/errors.ts';
import type { DecidedPurge } from '../registry/commits.ts';
import { endPurge } from '../registry/purges.ts';
import type { StoredArchive } from '../registry/reading.ts';
import { fleetArchiveError } from './errors.ts';
import type { HeldArchive } from './held-archive.ts';
import type { PurgedRecords } from './publish-sealed.ts';
import { underLease } from './under-lease.ts';

/** A purge that was decided and is not finished. */
interface Unfinished {
  readonly purges: number;
  readonly work: PurgeWork;
}

/**
 * The purges of an archive that a session holds, in the registry: one transaction has a purge and the commit that decides it,
 * so none was written down and never decided. Each is carried out on this node first, and is finished once nothing that the
 * registry knows of has its bytes. One of these lives as long as the claim: a new holder carries everything out again.
 */
export class FleetPurges implements PurgeJournal {
  readonly #unfinished: Unfinished[];
  readonly #carriedOut = new Set<number>();
  #deciding: { readonly work: PurgeWork; readonly decided: DecidedPurge } | undefined;

  /**
   * @param stored what the registry has of the archive, read since it was claimed
   * @throws purge-damaged
   */
  constructor(
    private readonly held: HeldArchive,
    { purges: stored }: Pick<StoredArchive, 'purges'>,
  ) {
    const { archive } = held.lease;
    this.#unfinished = stored.map(({ purges, records }) => {
      const work = parsePurgeWork(records);
      if (work === undefined) throw fleetArchiveError('purge-damaged', { archive, purges });
      return { purges, work };
    });
  }

  /** Whether nothing on this node is older than the last purge: only then, a copy of it may be taken for one without it. */
  get areCarriedOut(): boolean {
    return this.#deciding === undefined && this.#next() === undefined;
  }

  /** Returns the oldest purge that is not carried out on this node. */
  async read(): Promise<PurgeWork | undefined> {
    return this.#next()?.work;
  }

  async decide<T>(
    work: PurgeWork,
    commits: readonly number[],
    commit: () => Promise<T>,
  ): Promise<T> {
    this.#deciding = { work, decided: { commits, records: JSON.parse(encodePurgeWork(work)) } };
    try {
      return await commit();
    } finally {
      this.#deciding = undefined;
    }
  }

  /** Notes that the purge that `read` returns is carried out on this node. */
  async end(): Promise<void> {
    const next = this.#next();
    if (next !== undefined) this.#carriedOut.add(next.purges);
  }

  /** The purge that the commit of this number decides; undefined for any other commit. */
  deciding(number: number): DecidedPurge | undefined {
    const deciding = this.#deciding;
    return deciding?.work.after.number === number - 1 ? deciding.decided : undefined;
  }

  /** Notes that the registry took the commit of `deciding`, as this purge. Before anything counts with its number. */
  decided(purges: number): void {
    if (this.#deciding !== undefined) this.#unfinished.push({ purges, work: this.#deciding.work });
  }

  /** Returns what is to be removed by purges that are not finished, each by its number. */
  records(): PurgedRecords {
    return new Map(this.#unfinished.map(({ purges, work }) => [purges, work.records]));
  }

  /**
   * Finishes what can be finished: purges that are carried out on this node, and of which nothing else has bytes. Objects
   * settle for some time, and other nodes wipe their copies, so it is to be asked again.
   *
   * @returns the numbers of the purges that are left
   * @throws the errors of the registry; not outcome-unknown: the next call finds out
   */
  async finish(): Promise<readonly number[]> {
    for (const one of [...this.#unfinished]) {
      if (this.#carriedOut.has(one.purges) && (await this.#isFinished(one.purges))) {
        this.#unfinished.splice(this.#unfinished.indexOf(one), 1);
      }
    }
    return this.#unfinished.map(({ purges }) => purges);
  }

  #next(): Unfinished | undefined {
    return this.#unfinished.find(({ purges }) => !this.#carriedOut.has(purges));
  }

  async #isFinished(purges: number): Promise<boolean> {
    try {
      const outcome = await underLease(this.held, (lease) =>
        endPurge(this.held.registry, lease, purges),
      );
      // It was finished by an earlier call whose answer was lost: nobody else does so while this session holds the archive.
      return outcome.outcome === 'committed' || outcome.by === 'purges';
    } catch (error) {
      if (hasCode(error, 'outcome-unknown')) return false;
      throw error;
    }
  }
}
