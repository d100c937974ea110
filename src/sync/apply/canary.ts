import { syncError } from '../../errors/sync.ts';
import type { FolderKey, Listing } from '../../mail/words.ts';
import { concernsOnly } from './failure-scope.ts';
import { isRecent, type Memory, type Origin } from './ports.ts';
import { walkRange } from './walk/walk.ts';

/** Scope of memory: when a host last showed that reading a source leaves a message unseen. */
const CANARY = 'canary';
/** The proof is valid for a day: one request per day and host. */
const PROOF_HOLDS_MS = 86_400_000;
/** The owner may have read one message that turned seen in the meantime; two in a row were marked by us. */
const WITNESSES = 2;
const SEEN = '\\Seen';

/**
 * Checks, per host, that reading a source does not mark an unseen message as seen. No documentation guarantees it,
 * and a backup must not change what its owner has read.
 */
export class Canary {
  #watching = false;
  #turned = 0;

  constructor(
    private readonly origin: Origin,
    private readonly memory: Memory,
    private readonly now: () => number,
  ) {}

  /**
   * Checks a message again after its source was read. Costs a request only for an unseen message, and only until the
   * host has passed the check for the day.
   *
   * @throws MailkeepError `sync.marks-seen` when two messages in a row turned seen: nothing more is read
   */
  async watch(at: FolderKey, listing: Listing, signal: AbortSignal): Promise<void> {
    if (listing.flags.includes(SEEN) || this.#watching || this.#isProven()) return;
    this.#watching = true;
    try {
      const now = await this.#listAgain(at, listing.uid, signal);
      if (now === undefined) return;
      if (!now.flags.includes(SEEN)) {
        this.#turned = 0;
        this.memory.set(CANARY, at.host, { provenAt: this.now() });
        return;
      }
      this.#turned += 1;
      if (this.#turned >= WITNESSES) {
        throw syncError('sync.marks-seen', { host: at.host });
      }
    } finally {
      this.#watching = false;
    }
  }

  /** Returns the message as it is listed now; undefined when it is gone, or the origin does not answer. */
  async #listAgain(at: FolderKey, uid: number, signal: AbortSignal): Promise<Listing | undefined> {
    const deps = { origin: this.origin, memory: this.memory, signal };
    try {
      // Newest first: where a host does not search by uid, new mail is on the first page.
      for await (const { items } of walkRange(deps, at, { lo: uid, hi: uid }, 'descending')) {
        const found = items.find((item) => item.uid === uid);
        if (found !== undefined) return found;
      }
    } catch (error) {
      signal.throwIfAborted();
      // This failure says nothing about the message: its source arrived.
      if (!concernsOnly(error)) throw error;
    }
    return undefined;
  }

  #isProven(): boolean {
    const proof = this.memory.get(CANARY, this.origin.host);
    return proof !== undefined && isRecent(proof.provenAt, this.now(), PROOF_HOLDS_MS);
  }
}
