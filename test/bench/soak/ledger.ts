import { STOCK_MESSAGES } from './stock.ts';

/**
 * Things that writers made, so that a lost write shows: what was acknowledged must be there, what was begun
 * and never answered may be, and nothing else must.
 */
export class Claims {
  readonly #prefix: string;
  readonly #begun = new Set<string>();
  readonly #acknowledged = new Set<string>();
  #made = 0;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Acknowledged so far, whether or not it was settled since. */
  total = 0;

  begin(): string {
    this.#made += 1;
    const id = `${this.#prefix}${this.#made}`;
    this.#begun.add(id);
    return id;
  }

  acknowledge(id: string): void {
    this.#acknowledged.add(id);
    this.total += 1;
  }

  /** From now on it may be there or not: it is being removed. */
  doubt(id: string): void {
    this.#acknowledged.delete(id);
  }

  /** It is gone for good. */
  settle(id: string): void {
    this.#begun.delete(id);
    this.#acknowledged.delete(id);
  }

  mustBeThere(): ReadonlySet<string> {
    return new Set(this.#acknowledged);
  }

  mayBeThere(id: string): boolean {
    return this.#begun.has(id);
  }
}

/** Flags rotate through so many names. */
const FLAG_NAMES = 64;

interface FlagState {
  begun: number;
  acknowledged: number;
}

/** The last flag set on each message of the stock. */
export class FlagClaims {
  readonly #states = new Map<number, FlagState>();
  /** Uids that no request is under way for. */
  readonly #free: number[] = [];

  constructor() {
    for (let uid = 1; uid <= STOCK_MESSAGES; uid += 1) {
      this.#states.set(uid, { begun: -1, acknowledged: -1 });
      this.#free.push(uid);
    }
  }

  total = 0;

  /** The change of a message that nobody else changes meanwhile. */
  begin(): { readonly uid: number; readonly add: string; readonly remove: string } {
    const uid = this.#free.shift();
    const state = this.#states.get(uid ?? 0);
    if (uid === undefined || state === undefined) throw new Error('more connections than stock');
    state.begun += 1;
    return { uid, add: flagName(state.begun), remove: flagName(state.begun - 1) };
  }

  acknowledge(uid: number): void {
    const state = this.#states.get(uid);
    if (state === undefined) return;
    state.acknowledged = state.begun;
    this.total += 1;
    this.#free.push(uid);
  }

  /** What the flag may be at rest; empty for none. */
  allowed(uid: number): readonly string[] {
    const { begun, acknowledged } = this.#states.get(uid) ?? { begun: -1, acknowledged: -1 };
    const kept = acknowledged < 0 ? '' : flagName(acknowledged);
    return begun > acknowledged ? [kept, flagName(begun)] : [kept];
  }
}

function flagName(n: number): string {
  return `k${(n + FLAG_NAMES) % FLAG_NAMES}`;
}

export interface Ledger {
  readonly mail: Claims;
  readonly folders: Claims;
  readonly flags: FlagClaims;
}
