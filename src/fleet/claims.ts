import { hasCode } from '../core/errors.ts';
import { type Claimed, claim, enterCache, resolve } from '../registry/leases.ts';
import type { Head } from '../registry/outcome.ts';
import { heldArchives } from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';
import { markDead } from '../registry/sessions.ts';

/** What a worker takes at a time. */
export interface Wanted {
  /** How many archives at most. */
  readonly most: number;
  /** The one archive to take; any, if undefined. */
  readonly archive?: number;
  /** Also a paused one, to be read. */
  readonly paused?: boolean;
}

/** The archives that a session took and has not let go of. Claims happen one after another. */
export class Claims {
  readonly #held = new Set<number>();
  #last: Promise<unknown> = Promise.resolve();

  /** @param catalogVersion the newest version of the catalog that this program reads */
  constructor(
    private readonly registry: Registry,
    private readonly session: string,
    private readonly catalogVersion: number,
  ) {}

  /**
   * Takes archives that are free, those of dead sessions among them; none if this session is dead or draining. An earlier
   * claim whose answer was lost may have taken some that nobody knows of here, and may still do so. So what the registry
   * says that this session holds is compared each time; what is not known is taken by another epoch, from which on nothing
   * that was sent before can be accepted.
   *
   * @throws the errors of the registry; the outcome of the claim itself may stay unknown
   */
  async take(wanted: Wanted): Promise<readonly Claimed[]> {
    const taking = this.#last.then(() => this.#take(wanted));
    this.#last = taking.catch(() => undefined);
    return taking;
  }

  /**
   * Notes that nothing is done for an archive any more. Only once the registry answered, or did not answer, that it is
   * released or lost: until then, the archive would be taken for one that nobody knows of.
   */
  letGo(archive: number): void {
    this.#held.delete(archive);
  }

  async #take(wanted: Wanted): Promise<readonly Claimed[]> {
    const taken: Claimed[] = [];
    const add = (claimed: Claimed): void => {
      this.#held.add(claimed.head.archive);
      taken.push(claimed);
    };
    try {
      await markDead(this.registry);
      if (wanted.most > 0) (await this.#claim(wanted)).forEach(add);
      for (const head of await heldArchives(this.registry, this.session)) {
        const adopted = this.#held.has(head.archive) ? undefined : await this.#adopt(head);
        if (adopted !== undefined) add(adopted);
      }
      return taken;
    } catch (error) {
      // The caller does not learn of them: the next comparison finds them again.
      for (const { head } of taken) this.#held.delete(head.archive);
      throw error;
    }
  }

  async #claim({ most, archive, paused = false }: Wanted): Promise<readonly Claimed[]> {
    const { session, catalogVersion } = this;
    const one = archive === undefined ? {} : { archive };
    try {
      const result = await claim(this.registry, {
        ...{ session, most, catalogVersion, paused },
        ...one,
      });
      return result.outcome === 'committed' ? result.claimed : [];
    } catch (error) {
      if (!hasCode(error, 'outcome-unknown')) throw error;
      return [];
    }
  }

  async #adopt({ archive, epoch }: Head): Promise<Claimed | undefined> {
    const { registry, session } = this;
    const resolved = await resolve(registry, { archive, epoch, session });
    if (resolved.outcome === 'fenced') return undefined;
    const { head } = resolved;
    const entered = await enterCache(registry, { archive, epoch: head.epoch, session });
    return entered.outcome === 'fenced' ? undefined : { head, entry: entered.entry };
  }
}
