import { randomUUID } from 'node:crypto';
import type { Clock } from '../core/concurrency.ts';
import { hasCode, MailkeepError } from '../core/errors.ts';
import type { Registry } from '../registry/registry.ts';
import { beginSession, endSession, renew, type Session } from '../registry/sessions.ts';

/** Milliseconds. */
export interface SessionTimes {
  /** How long a session lives after it was renewed. */
  readonly leaseMs: number;
  readonly renewMs: number;
  /** From this age of the last renewal on, no request to the origin is begun. Less than `leaseMs`. */
  readonly politeMs: number;
}

export const SESSION_TIMES: SessionTimes = { leaseMs: 30_000, renewMs: 10_000, politeMs: 20_000 };

export interface SessionOptions {
  /** With limits that are shorter than a lease, and no connection that others wait for. */
  readonly registry: Registry;
  readonly worker: Omit<Session, 'session'>;
  /** Calls back when a renewal is due. */
  readonly clock: Pick<Clock, 'after'>;
  /** Milliseconds of a clock that is never set, also while the machine sleeps. */
  readonly monotonic: () => number;
  readonly times?: SessionTimes;
  /** Told what keeps a renewal from happening. The next one is tried as usual. */
  readonly onFailure: (error: MailkeepError) => void;
}

/**
 * One start of a worker, which keeps its row in the registry alive. Once the row was refused, the session is dead: others may
 * hold its archives, and only a new session may claim. Nothing relies on this clock: it decides when something is tried, and
 * the registry decides whether it happens.
 */
export class WorkerSession {
  readonly #dead = new AbortController();
  readonly #times: SessionTimes;
  #renewedAt: number;
  #isDraining = false;
  #cancel: (() => void) | undefined;
  #renewing: Promise<void> = Promise.resolve();

  private constructor(
    readonly id: string,
    private readonly options: SessionOptions,
    begunAt: number,
  ) {
    this.#times = options.times ?? SESSION_TIMES;
    this.#renewedAt = begunAt;
    this.#schedule();
  }

  /**
   * Begins a session.
   *
   * @throws the errors of the registry. After `outcome-unknown` there may be a row, which nobody renews
   */
  static async begin(options: SessionOptions): Promise<WorkerSession> {
    const { registry, worker, monotonic, times = SESSION_TIMES } = options;
    for (;;) {
      const session = randomUUID();
      const askedAt = monotonic();
      const { outcome } = await beginSession(registry, { ...worker, session }, times.leaseMs);
      if (outcome === 'committed') return new WorkerSession(session, options, askedAt);
    }
  }

  /** Aborted once the registry said that the session is dead: whatever works for its archives ends. */
  get dead(): AbortSignal {
    return this.#dead.signal;
  }

  /** Whether somebody asked for this worker to take nothing new and to give back what it has. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Whether requests to the origin may be begun: another worker may take over soon if the session is not renewed. */
  get isPolite(): boolean {
    const age = this.options.monotonic() - this.#renewedAt;
    return !this.dead.aborted && age < this.#times.politeMs;
  }

  /** Renews the session now; resolves when the registry answered or did not. */
  async renewNow(): Promise<void> {
    const { registry, monotonic, onFailure } = this.options;
    // When it was asked, not when it was answered: the lease may run from then on.
    const askedAt = monotonic();
    try {
      const renewed = await renew(registry, this.id, this.#times.leaseMs);
      if (renewed.outcome === 'fenced') {
        this.#stop();
        this.#dead.abort();
        return;
      }
      this.#renewedAt = askedAt;
      this.#isDraining = renewed.draining;
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      onFailure(error);
    }
  }

  /**
   * Ends the session, so that others may claim its archives at once.
   *
   * @throws the errors of the registry: the lease then runs out by itself
   */
  async end(): Promise<void> {
    this.#stop();
    await this.#renewing;
    this.#dead.abort();
    try {
      await endSession(this.options.registry, this.id);
    } catch (error) {
      // The lease runs out either way.
      if (!hasCode(error, 'outcome-unknown')) throw error;
    }
  }

  #schedule(): void {
    this.#cancel = this.options.clock.after(this.#times.renewMs, () => {
      this.#renewing = this.renewNow().finally(() => {
        if (this.#cancel !== undefined) this.#schedule();
      });
    });
  }

  #stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
