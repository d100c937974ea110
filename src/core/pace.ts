import {
  type Clock,
  type Lane,
  onAbort,
  systemClock,
  type Waiting,
  WaitQueue,
} from './concurrency.ts';
import { fields, nullable, number, type Read, type ReadValue } from './stored-values.ts';

/**
 * Settings for deciding when the next request may start.
 *
 * Requests are evenly spaced, `60 s / rate` apart. Idle time earns a small burst, followed by a compensating pause, so
 * that no 60-second window contains more than `requestsPerMinute`. A burst without the pause would exceed the ceiling,
 * and a strict service would return 429.
 *
 * The rate starts at the ceiling. A 429 halves the rate actually sent. Each minute without a 429 then restores a
 * twentieth of that rate, up to the ceiling.
 */
export interface PacePolicy {
  /** The ceiling: any number above 0. */
  readonly requestsPerMinute: number;
  readonly concurrency: number;
}

function atLeast(least: number): Read<number> {
  return (value) => {
    const found = number(value);
    return found !== undefined && found >= least ? found : undefined;
  };
}
const amount = atLeast(0);
const rate = nullable(atLeast(Number.MIN_VALUE));
/** The number of requests started in the current span and in the previous one. */
const tally = fields({ since: amount, count: amount, before: amount });
type Tally = ReadValue<typeof tally>;

/** Parses the state stored between runs. Losing it is harmless. Times are milliseconds since the epoch. */
export const readPaceState = fields({
  /** Requests per minute, learned from refusals; null if only the ceiling applies. */
  learned: rate,
  /** Increase in the learned rate for each minute without refusals. */
  gain: amount,
  learnedAt: amount,
  /** The service's X-RateLimit-Limit, interpreted as requests per minute. */
  announced: rate,
  due: amount,
  /** Number of requests that can start before they are due, earned by idling. */
  credit: amount,
  /** No request starts before this time. */
  holdUntil: amount,
  /** Number of consecutive 429s. */
  refusals: amount,
  /** A 429 has already been counted if its request started before this time. */
  refusedAt: amount,
  minute: tally,
  second: tally,
});
export type PaceState = ReadValue<typeof readPaceState>;

export interface Answer {
  readonly status: number;
  /** Time at which the request was admitted. */
  readonly startedAt: number;
  /** Retry-After in milliseconds, uncapped; null if absent. */
  readonly retryAfterMs: number | null;
  readonly limit: number | null;
  readonly remaining: number | null;
}

type Decision =
  | { readonly go: true; readonly state: PaceState }
  | { readonly go: false; readonly waitMs: number; readonly reason: 'rate' | 'retry-after' };

const MINUTE_MS = 60_000;
/** Added to the minute. Absorbs varying latency, and bounds bursts if the interval is too short for timers. */
const SLACK_MS = 100;
/** Maximum wait, even if Retry-After is longer. */
export const MAX_HOLD_MS = 3_600_000;
/** Wait after the first 429 without Retry-After. Each subsequent 429 doubles it. */
const FIRST_HOLD_MS = 5_000;
/** A Retry-After of at least this length indicates a per-minute limit; a shorter one indicates a per-second limit. */
const MINUTE_WINDOW_HINT_MS = 10_000;
/** Below this rate, a refusal reveals nothing about a limit, and must not slow requests to a crawl. */
const CONCLUSIVE_RATE = 20;
const DECREASE = 0.5;
const GAIN_SHARE = 0.05;
const MAX_BURST = 10;

export const FRESH_PACE: PaceState = {
  learned: null,
  gain: 0,
  learnedAt: 0,
  announced: null,
  due: 0,
  credit: 0,
  holdUntil: 0,
  refusals: 0,
  refusedAt: 0,
  minute: { since: 0, count: 0, before: 0 },
  second: { since: 0, count: 0, before: 0 },
};

export function currentRate(state: PaceState, policy: PacePolicy): number {
  return Math.min(
    policy.requestsPerMinute,
    state.learned ?? Number.POSITIVE_INFINITY,
    state.announced ?? Number.POSITIVE_INFINITY,
  );
}

/** Returns the maximum number of requests in flight: one after a refusal, until another response arrives. */
export function maxInFlight(state: PaceState, policy: PacePolicy): number {
  return state.refusals > 0 ? 1 : policy.concurrency;
}

/** Decides whether a request may start now, and counts it if so. */
export function requestTurn(state: PaceState, policy: PacePolicy, now: number): Decision {
  const holdMs = remainingHold(state.holdUntil, now);
  if (holdMs > 0) return { go: false, waitMs: holdMs, reason: 'retry-after' };
  const rate = currentRate(state, policy);
  const interval = (MINUTE_MS + SLACK_MS) / rate;
  const most = Math.min(MAX_BURST, Math.max(1, Math.floor(rate / 15)));
  // A due time beyond the longest possible burst means that the clock was set back.
  const due = state.due - now > interval * most + 1 ? now + interval : state.due;
  const delay = now - due;
  if (delay >= 0) {
    const catchUp = interval < SLACK_MS ? Math.min(delay, SLACK_MS) : 0;
    const earned = (delay - catchUp) / interval;
    const credit = Math.min(most - 1, state.credit + earned);
    return { go: true, state: startRequest(state, now, now - catchUp + interval, credit) };
  }
  if (state.credit >= 1) {
    return {
      go: true,
      state: startRequest(state, now, due + interval, Math.min(most, state.credit) - 1),
    };
  }
  return { go: false, waitMs: -delay, reason: 'rate' };
}

/** Returns how many milliseconds of a hold remain, or 0 if implausibly many, because the clock was set back. */
function remainingHold(until: number, now: number): number {
  const remaining = until - now;
  return remaining > MAX_HOLD_MS ? 0 : Math.max(0, remaining);
}

function startRequest(state: PaceState, now: number, due: number, credit: number): PaceState {
  return {
    ...state,
    due,
    credit,
    minute: addToTally(state.minute, MINUTE_MS, now),
    second: addToTally(state.second, 1000, now),
  };
}

function addToTally(tally: Tally, span: number, now: number): Tally {
  const age = now - tally.since;
  if (age >= 0 && age < span) {
    return { ...tally, count: tally.count + 1 };
  }
  return { since: now, count: 1, before: age >= 0 && age < 2 * span ? tally.count : 0 };
}

/** Returns the number of requests in the last span: the current count plus a prorated share of the previous one. */
function recent(tally: Tally, span: number, now: number): number {
  const age = now - tally.since;
  if (age < 0 || age >= 2 * span) return 0;
  if (age >= span) return tally.count;
  return tally.count + tally.before * (1 - age / span);
}

export function learnFromResponse(
  state: PaceState,
  policy: PacePolicy,
  answer: Answer,
  now: number,
): PaceState {
  const next = adoptLimit(state, answer, policy, now);
  if (answer.status !== 429) return recover(next, policy, now);
  const pause = answer.retryAfterMs === null ? null : Math.min(answer.retryAfterMs, MAX_HOLD_MS);
  // Requests in flight at the same time are refused together, which counts as one refusal.
  if (answer.startedAt < state.refusedAt) return hold(next, now, pause ?? 0);
  const sent =
    pause !== null && pause >= MINUTE_WINDOW_HINT_MS
      ? recent(state.minute, MINUTE_MS, now)
      : Math.max(recent(state.minute, MINUTE_MS, now), recent(state.second, 1000, now) * 60);
  const before = Math.min(currentRate(state, policy), Math.max(sent, CONCLUSIVE_RATE));
  const refusals = state.refusals + 1;
  const backoff = Math.min(MAX_HOLD_MS, FIRST_HOLD_MS * 2 ** Math.min(refusals - 1, 20));
  return hold(
    {
      ...next,
      learned: Math.max(before * DECREASE, Math.min(1, policy.requestsPerMinute)),
      gain: Math.max(before * GAIN_SHARE, Math.min(1, policy.requestsPerMinute)),
      learnedAt: now,
      credit: 0,
      refusals,
      refusedAt: now,
    },
    now,
    Math.max(pause ?? backoff, MINUTE_MS / policy.requestsPerMinute / 2),
  );
}

/** Adopts a limit advertised by the service, clamped between one per minute and the ceiling. */
function adoptLimit(state: PaceState, answer: Answer, policy: PacePolicy, now: number): PaceState {
  const announced = answer.limit === null ? state.announced : Math.max(1, answer.limit);
  const changed = announced === state.announced ? state : { ...state, announced };
  if (answer.remaining !== 0 || answer.status === 429) return changed;
  // The Platform API sends Retry-After with every response, so ignore it until no requests remain.
  const wait = answer.retryAfterMs ?? Math.max(1000, MINUTE_MS / currentRate(changed, policy));
  return hold(changed, now, Math.min(wait, MAX_HOLD_MS));
}

function hold(state: PaceState, now: number, ms: number): PaceState {
  const until = now + ms;
  return until <= state.holdUntil ? state : { ...state, holdUntil: until };
}

function recover(state: PaceState, policy: PacePolicy, now: number): PaceState {
  const base = state.refusals === 0 ? state : { ...state, refusals: 0 };
  if (base.learned === null || now - base.learnedAt < MINUTE_MS) return base;
  const learned = base.learned + base.gain;
  if (learned >= policy.requestsPerMinute) return { ...base, learned: null, gain: 0 };
  return { ...base, learned, learnedAt: now };
}

/** Consecutive 429s that pause all requests to a host, because continuing could get the address blocked. */
const REFUSALS_TO_PAUSE = 3;
const FIRST_PAUSE_MS = 60_000;

/** Parses a host's pause, which applies to all of its tokens and is stored between runs. */
export const readHostPause = fields({
  /** Milliseconds since the epoch. */
  until: amount,
  /** Pauses since the host's last response other than 429. */
  pauses: amount,
});
export type HostPause = ReadValue<typeof readHostPause>;

const NO_PAUSE: HostPause = { until: 0, pauses: 0 };

/** Returns the next pause: one minute, doubling each time up to an hour, but no shorter than the host's Retry-After. */
function nextPause(pause: HostPause, retryAfterMs: number | null, now: number): HostPause {
  const backoff = FIRST_PAUSE_MS * 2 ** Math.min(pause.pauses, 10);
  const ms = Math.min(MAX_HOLD_MS, Math.max(backoff, retryAfterMs ?? 0));
  return { until: Math.max(pause.until, now + ms), pauses: pause.pauses + 1 };
}

interface Turn {
  readonly lane: Lane;
  /** Unit of fairness within the lane: a mailbox. */
  readonly key: string;
  readonly signal?: AbortSignal | undefined;
}

type WaitReason = 'rate' | 'retry-after' | 'paused';

export interface Wait {
  readonly host: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  readonly reason: WaitReason;
}

/** One host's pause, shared by the gates of all its tokens. */
interface SharedPause {
  pause: HostPause;
  readonly gates: Set<Gate>;
}

/** Shorter waits are normal pacing. */
const REPORT_FROM_MS = 1000;

interface Waiter {
  readonly go: (startedAt: number) => void;
  release: () => void;
}

interface GateOptions {
  readonly host: string;
  readonly policy: PacePolicy;
  readonly shared: SharedPause;
  readonly clock: Clock;
  readonly state: PaceState;
  /** Called when the state has changed and must be stored; `urgent` if losing it could get the address blocked. */
  readonly onChange: (urgent: boolean) => void;
  readonly onWait?: ((wait: Wait) => void) | undefined;
}

/** Admits requests with one token to one host. Each admitted caller must call `leave` once. */
export class Gate {
  readonly #lines = new WaitQueue<Waiter>();
  #state: PaceState;
  #inFlight = 0;
  #cancelTimer: (() => void) | undefined;

  constructor(private readonly options: GateOptions) {
    this.#state = options.state;
    options.shared.gates.add(this);
  }

  get state(): PaceState {
    return this.#state;
  }

  get rate(): number {
    return currentRate(this.#state, this.options.policy);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get waiting(): number {
    return this.#lines.size;
  }

  /** Remaining pause for the host in milliseconds, excluding pacing. */
  get heldForMs(): number {
    const now = this.options.clock.now();
    return Math.max(
      remainingHold(this.options.shared.pause.until, now),
      remainingHold(this.#state.holdUntil, now),
    );
  }

  /** Admits a request and returns the time. Returns null if the request has to wait (then call `enter`). */
  tryEnter(): number | null {
    if (this.#lines.size > 0) return null;
    const now = this.options.clock.now();
    return this.#pass(now) === 0 ? now : null;
  }

  /**
   * Waits its turn and resolves with the time of admission.
   * @throws the signal's reason if it aborts first
   */
  enter(turn: Turn): Promise<number> {
    const { signal } = turn;
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    const at = this.tryEnter();
    if (at !== null) return Promise.resolve(at);
    return new Promise((resolve, reject) => {
      const { lane, key } = turn;
      const waiting: Waiting<Waiter> = { lane, key, item: { go: resolve, release: () => {} } };
      if (signal !== undefined) {
        waiting.item.release = onAbort(signal, () => {
          this.#lines.remove(waiting);
          if (this.#lines.size === 0) this.#stopTimer();
          reject(signal.reason);
        });
      }
      this.#lines.add(waiting);
      this.wake();
    });
  }

  /**
   * Ends an admitted request.
   * @param answer null if no response arrived, which leaves the pace unchanged
   */
  leave(answer: Answer | null): void {
    this.#inFlight -= 1;
    if (answer !== null) this.#learn(answer);
    if (this.#lines.size > 0) this.wake();
  }

  #learn(answer: Answer): void {
    const now = this.options.clock.now();
    const before = this.#state;
    this.#state = learnFromResponse(before, this.options.policy, answer, now);
    const { refusals } = this.#state;
    if (answer.status !== 429) {
      if (this.options.shared.pause.pauses > 0) this.options.shared.pause = { until: 0, pauses: 0 };
    } else if (refusals > before.refusals && refusals >= REFUSALS_TO_PAUSE) {
      this.options.shared.pause = nextPause(this.options.shared.pause, answer.retryAfterMs, now);
      // The timers of other gates would release requests during the pause.
      for (const gate of this.options.shared.gates) if (gate !== this) gate.wake();
    }
    this.options.onChange(answer.status === 429);
  }

  /** Admits all requests that may start now, and sets a timer for the next. */
  wake(): void {
    this.#stopTimer();
    while (this.#lines.size > 0) {
      const now = this.options.clock.now();
      const waitMs = this.#pass(now);
      if (waitMs === null) return;
      if (waitMs > 0) {
        this.#cancelTimer = this.options.clock.after(waitMs, () => this.wake());
        return;
      }
      const next = this.#lines.next();
      if (next === undefined) return;
      next.item.release();
      next.item.go(now);
    }
  }

  /** Returns 0 if a request was admitted, the wait in milliseconds, or null if another request must leave first. */
  #pass(now: number): number | null {
    if (this.#inFlight >= maxInFlight(this.#state, this.options.policy)) return null;
    const paused = remainingHold(this.options.shared.pause.until, now);
    if (paused > 0) return this.#wait(now, paused, 'paused');
    const decision = requestTurn(this.#state, this.options.policy, now);
    if (!decision.go) return this.#wait(now, decision.waitMs, decision.reason);
    this.#state = decision.state;
    this.#inFlight += 1;
    return 0;
  }

  #wait(now: number, ms: number, reason: WaitReason): number {
    if (ms >= REPORT_FROM_MS && (reason !== 'rate' || this.#lines.size > 0)) {
      this.options.onWait?.({ host: this.options.host, until: now + ms, reason });
    }
    return Math.max(1, Math.ceil(ms));
  }

  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }
}

/** Stores limiter state between runs. Losing the state costs a few refusals, but no data. */
export interface LimiterStore {
  /** Returns the value saved under this key, or anything at all if none was saved. */
  load(key: string): unknown;
  save(key: string, state: PaceState | HostPause): void;
}

/** Interval between saves of the counts. Refusals are saved immediately. */
const SAVE_EVERY_MS = 5_000;

interface LimiterOptions {
  readonly policy: PacePolicy;
  readonly clock?: Clock | undefined;
  readonly store?: LimiterStore | undefined;
  /** Called when a wait of a second or more starts. */
  readonly onWait?: ((wait: Wait) => void) | undefined;
}

/**
 * One gate per token and host, and one pause per host. A process has a single limiter. `label` identifies a token
 * without revealing it.
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

  /** Saves pending state. Call it once more before the process exits. */
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
