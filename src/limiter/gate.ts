import type { Clock } from './clock.ts';
import { type HostPause, pauseAgain, REFUSALS_TO_PAUSE } from './host-pause.ts';
import { type Lane, type Waiting, WaitingLines } from './lanes.ts';
import { onAbort } from './on-abort.ts';
import {
  type Answer,
  ask,
  learn,
  leftOf,
  type PacePolicy,
  type PaceState,
  rateOf,
  widthOf,
} from './pace.ts';

export interface Turn {
  readonly lane: Lane;
  /** Whose turn it is within the lane: a mailbox, so that mailboxes share fairly. */
  readonly key: string;
  readonly signal?: AbortSignal | undefined;
}

export type WaitReason = 'rate' | 'retry-after' | 'paused';

/** What a gate does about waiting, for whoever shows it. */
export interface Wait {
  readonly host: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  readonly reason: WaitReason;
}

/** One host's pause, shared by the gates of all its tokens. */
export interface SharedPause {
  pause: HostPause;
  /** Gates to wake when the pause changes. */
  readonly gates: Set<Gate>;
}

/** Shorter waits are pacing, and not worth reporting. */
const REPORT_FROM_MS = 1000;

interface Waiter {
  readonly go: (startedAt: number) => void;
  release: () => void;
}

export interface GateOptions {
  readonly host: string;
  readonly policy: PacePolicy;
  readonly shared: SharedPause;
  readonly clock: Clock;
  readonly state: PaceState;
  /** Called when there is something new to remember; `urgent` when losing it could provoke a block. */
  readonly onChange: (urgent: boolean) => void;
  readonly onWait?: ((wait: Wait) => void) | undefined;
}

/**
 * Lets requests of one token to one host through, one decision at a time. Whoever passes must call `leave`
 * once, with the answer or with null where none came.
 */
export class Gate {
  readonly #lines = new WaitingLines<Waiter>();
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

  /** Requests a minute in force now. */
  get rate(): number {
    return rateOf(this.#state, this.options.policy);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get waiting(): number {
    return this.#lines.size;
  }

  /** How long the host wants to be left alone; 0 when it does not. Pacing does not count. */
  get heldForMs(): number {
    const now = this.options.clock.now();
    return Math.max(
      leftOf(this.options.shared.pause.until, now),
      leftOf(this.#state.holdUntil, now),
    );
  }

  /** Passes at once if nothing waits: returns the time of passing, else null (then call `enter`). */
  tryEnter(): number | null {
    if (this.#lines.size > 0) return null;
    const now = this.options.clock.now();
    return this.#pass(now) === 0 ? now : null;
  }

  /**
   * Waits for its turn and resolves with the time of passing.
   *
   * @throws the signal's reason when it aborts first
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

  /** Ends a passage. `answer` is null where no answer came, which teaches nothing. */
  leave(answer: Answer | null): void {
    this.#inFlight -= 1;
    if (answer !== null) this.#learn(answer);
    if (this.#lines.size > 0) this.wake();
  }

  #learn(answer: Answer): void {
    const now = this.options.clock.now();
    const before = this.#state;
    this.#state = learn(before, this.options.policy, answer, now);
    const { refusals } = this.#state;
    if (answer.status !== 429) {
      if (this.options.shared.pause.pauses > 0) this.options.shared.pause = { until: 0, pauses: 0 };
    } else if (refusals > before.refusals && refusals >= REFUSALS_TO_PAUSE) {
      this.options.shared.pause = pauseAgain(this.options.shared.pause, answer.retryAfterMs, now);
      // Their timers would let them go into the pause.
      for (const gate of this.options.shared.gates) if (gate !== this) gate.wake();
    }
    this.options.onChange(answer.status === 429);
  }

  /** Lets through whoever may go, and sets the timer for the next. */
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

  /** 0 when one may pass, and then it has; the milliseconds to wait; null when it is others' leaving that must be awaited. */
  #pass(now: number): number | null {
    if (this.#inFlight >= widthOf(this.#state, this.options.policy)) return null;
    const paused = leftOf(this.options.shared.pause.until, now);
    if (paused > 0) return this.#wait(now, paused, 'paused');
    const decision = ask(this.#state, this.options.policy, now);
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
