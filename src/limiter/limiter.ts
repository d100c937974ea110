import { type Clock, systemClock } from './clock.ts';
import { Gate, type SharedPause, type Wait } from './gate.ts';
import { type HostPause, NO_PAUSE, readHostPause } from './host-pause.ts';
import { FRESH_PACE, type PacePolicy, type PaceState, readPaceState } from './pace.ts';

/** Where a limiter remembers what it learned between runs. Losing it costs a few refusals, no data. */
export interface LimiterStore {
  /** What was saved under this key, or anything else where nothing was. */
  load(key: string): unknown;
  save(key: string, state: PaceState | HostPause): void;
}

/** What was merely counted is saved this often at most; refusals at once. */
const SAVE_EVERY_MS = 5_000;

export interface LimiterOptions {
  readonly policy: PacePolicy;
  readonly clock?: Clock;
  readonly store?: LimiterStore;
  /** Called when a wait of a second or more begins. */
  readonly onWait?: (wait: Wait) => void;
}

/**
 * The one limiter of a process: a gate for each token and host, and one pause for each host. `label` names a
 * token without being one: the account's name and the surface, say.
 */
export class Limiter {
  readonly clock: Clock;
  readonly #gates = new Map<string, Gate>();
  readonly #hosts = new Map<string, SharedPause>();
  readonly #unsaved = new Map<string, { readonly host: string; readonly gate: Gate }>();
  #savedAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: LimiterOptions) {
    const { requestsPerMinute, concurrency } = options.policy;
    if (!(requestsPerMinute > 0)) throw new RangeError('requestsPerMinute must be above 0');
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new RangeError('concurrency must be a whole number above 0');
    }
    this.clock = options.clock ?? systemClock;
  }

  get concurrency(): number {
    return this.options.policy.concurrency;
  }

  /** The gate of a token (by its label) to a host (name and port). Asking again gives the same gate. */
  gate(host: string, label: string): Gate {
    const key = `gate ${host} ${label}`;
    const known = this.#gates.get(key);
    if (known !== undefined) return known;
    const gate: Gate = new Gate({
      host,
      policy: this.options.policy,
      shared: this.#sharedPause(host),
      clock: this.clock,
      state: readPaceState(this.options.store?.load(key)) ?? FRESH_PACE,
      onChange: (urgent) => {
        this.#unsaved.set(key, { host, gate });
        const now = this.clock.now();
        if (urgent || now - this.#savedAt >= SAVE_EVERY_MS || now < this.#savedAt) this.save();
      },
      onWait: this.options.onWait,
    });
    this.#gates.set(key, gate);
    return gate;
  }

  /** Saves what was not saved yet; call it once more before the process ends. */
  save(): void {
    this.#savedAt = this.clock.now();
    for (const [key, { host, gate }] of this.#unsaved) {
      this.options.store?.save(key, gate.state);
      this.options.store?.save(hostKey(host), this.#sharedPause(host).pause);
    }
    this.#unsaved.clear();
  }

  #sharedPause(host: string): SharedPause {
    let shared = this.#hosts.get(host);
    if (shared === undefined) {
      const pause = readHostPause(this.options.store?.load(hostKey(host))) ?? NO_PAUSE;
      shared = { pause, gates: new Set() };
      this.#hosts.set(host, shared);
    }
    return shared;
  }
}

function hostKey(host: string): string {
  return `host ${host}`;
}
