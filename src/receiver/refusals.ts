/** Why a request was not taken as a delivery. */
export type RefusalReason = 'path' | 'method' | 'secret' | 'rate' | 'too-large' | 'broken';

const EVERY_MS = 60_000;

/** Says at most once a minute that requests are refused, and how many since it last did: anybody can send them. */
export class RefusalTally {
  readonly #since = new Map<RefusalReason, { at: number; times: number }>();

  /** How many to tell of now; 0 for none. */
  note(reason: RefusalReason, now: number): number {
    const known = this.#since.get(reason);
    if (known !== undefined && now - known.at < EVERY_MS && now >= known.at) {
      known.times += 1;
      return 0;
    }
    this.#since.set(reason, { at: now, times: 0 });
    return 1 + (known?.times ?? 0);
  }
}
