import type { Claimed } from '../registry/leases.ts';
import type { FencedBy, Head, Lease } from '../registry/outcome.ts';
import type { Registry } from '../registry/registry.ts';

/** Why an archive is lost; `unknown` if the registry could not be asked for too long whether it is. */
export type LostBy = FencedBy | 'unknown';

/**
 * An archive that this session claimed: the lease and the end of the log as they are now. Everything that writes for the
 * archive shares one of these, because settling an unknown outcome gives the lease another epoch.
 */
export class HeldArchive {
  #head: Head;
  #lostBy: LostBy | undefined;

  constructor(
    readonly registry: Registry,
    readonly session: string,
    readonly claimed: Claimed,
  ) {
    this.#head = claimed.head;
  }

  /** The fence of the next transaction. */
  get lease(): Lease {
    const { archive, epoch } = this.#head;
    return { archive, epoch, session: this.session };
  }

  /** What the registry acknowledged last. */
  get head(): Head {
    return this.#head;
  }

  /** Why the archive is no longer this session's; undefined while it is, as far as is known. */
  get lostBy(): LostBy | undefined {
    return this.#lostBy;
  }

  /** Notes what the registry acknowledged. */
  moved(head: Partial<Head>): void {
    this.#head = { ...this.#head, ...head };
  }

  /**
   * Notes that a transaction was refused for good, or that the archive is given back: nothing that is done for it counts any
   * more. Whoever releases it does this first, because a claim of the same session may follow.
   */
  lose(by: LostBy): void {
    this.#lostBy ??= by;
  }
}
