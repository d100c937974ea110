import type { DaemonClock } from '../daemon/ports.ts';
import type { Holder, Note } from '../registry/hints.ts';
import { type FleetHint, notesFor, SentSums } from './hint-notes.ts';

/**
 * What became of hints. `sent` to another worker, or `own`: this one holds the account. `unheld`: nobody holds it. `failed`:
 * the registry was away. `crowded`: too many waited. Of those that came from others: `received`, `late` (this worker holds the
 * account no longer), `unknown` (the account has no such mailbox), `lost` on the way, `malformed`.
 */
export type HintOutcome =
  | 'sent'
  | 'own'
  | 'unheld'
  | 'failed'
  | 'crowded'
  | 'received'
  | 'late'
  | 'unknown'
  | 'lost'
  | 'malformed';

export type CountHints = (outcome: HintOutcome, hints: number) => void;

export interface HintSendingOptions {
  /** Identifies this process to those who listen: letters and digits. */
  readonly sender: string;
  /** `sendHints` of the registry. */
  readonly send: (
    archives: readonly number[],
    notes: (holders: readonly Holder[]) => readonly Note[],
  ) => Promise<readonly Holder[]>;
  /** Gives a hint to an archive that this process holds; false if it does not. */
  readonly own: (hint: FleetHint) => boolean;
  readonly clock: Pick<DaemonClock, 'after'>;
  readonly count: CountHints;
  readonly onFailure: (error: unknown) => void;
}

/** How long hints are gathered, in milliseconds. */
const GATHERING_MS = 50;
/** Hints that wait to be sent. Of more, a pass by the schedule is all there is. */
const MOST_WAITING = 10_000;

/** Brings hints to whoever holds their accounts: gathered, so that a burst costs one transaction. Nothing is tried twice. */
export class HintSending {
  readonly #sums = new SentSums();
  #waiting = new Map<string, FleetHint>();
  #cancel: (() => void) | undefined;
  #sending: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(private readonly options: HintSendingOptions) {}

  /** Takes note of a hint. Those about the same message are sent once. */
  add(hint: FleetHint): void {
    const { own, clock, count } = this.options;
    if (own(hint)) {
      count('own', 1);
      return;
    }
    const key = JSON.stringify(hint);
    if (this.#isClosed || (this.#waiting.size >= MOST_WAITING && !this.#waiting.has(key))) {
      count('crowded', 1);
      return;
    }
    this.#waiting.set(key, hint);
    this.#cancel ??= clock.after(GATHERING_MS, () => this.#flush());
  }

  /** Sends what waits, and resolves when nothing is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#flush();
    await this.#sending;
  }

  #flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    // One after another: those who listen count on their order.
    this.#sending = this.#sending.then(() => this.#send());
  }

  async #send(): Promise<void> {
    const hints = [...this.#waiting.values()];
    this.#waiting = new Map();
    if (hints.length === 0) return;
    const { send, sender, count, onFailure } = this.options;
    const archives = [...new Set(hints.map(({ archive }) => archive))];
    try {
      const holders = await send(archives, (found) => notesFor(hints, found, sender, this.#sums));
      const held = new Set(holders.map(({ archive }) => archive));
      const sent = hints.filter(({ archive }) => held.has(archive)).length;
      count('sent', sent);
      count('unheld', hints.length - sent);
    } catch (error) {
      count('failed', hints.length);
      onFailure(error);
    }
  }
}
