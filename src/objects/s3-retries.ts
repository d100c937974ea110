import { hasCode, MailkeepError } from '../errors/mailkeep-error.ts';
import { objectError } from '../errors/objects.ts';
import type { Clock } from '../limiter/clock.ts';
import { sleep } from './sleep.ts';

/** How patient a store is. Times in milliseconds. */
export interface RetryPolicy {
  /** Tries in all, until one of them got further. */
  readonly attempts: number;
  /** The first wait is anything up to this, and the bound doubles. */
  readonly firstWaitMs: number;
  readonly longestWaitMs: number;
  /** From the first failure on; a wait that would pass it is not begun. */
  readonly budgetMs: number;
}

export const RETRY_POLICY: RetryPolicy = {
  attempts: 8,
  firstWaitMs: 500,
  longestWaitMs: 30_000,
  budgetMs: 300_000,
};

export interface RetryTools {
  readonly policy: RetryPolicy;
  readonly clock: Clock;
  /** From 0 to 1, as Math.random. */
  readonly random: () => number;
}

/** The one layer that tries again: counts the failures of one operation, and waits between its tries. */
export class Patience {
  #failures = 0;
  #failedSince: number | undefined;

  constructor(
    private readonly tools: RetryTools,
    private readonly signal: AbortSignal,
  ) {}

  /** Notes that the operation got further: what fails from now on is counted from one. */
  progressed(): void {
    this.#failures = 0;
    this.#failedSince = undefined;
  }

  /**
   * Waits before the next try.
   *
   * @param askedMs how long the server asked to wait
   * @throws the error, with the number of tries, if it cannot pass or the patience is over; the signal's reason
   */
  async afterFailure(error: unknown, askedMs = 0): Promise<void> {
    this.signal.throwIfAborted();
    if (!(error instanceof MailkeepError) || !error.retryable) throw error;
    const { policy, clock, random } = this.tools;
    this.#failures += 1;
    this.#failedSince ??= clock.now();
    const bound = Math.min(policy.longestWaitMs, policy.firstWaitMs * 2 ** (this.#failures - 1));
    const wait = Math.max(askedMs, random() * bound);
    const left = this.#failedSince + policy.budgetMs - clock.now();
    if (this.#failures >= policy.attempts || wait > left) throw withTries(error, this.#failures);
    await sleep(clock, wait, this.signal);
  }
}

function withTries(error: MailkeepError, tries: number): MailkeepError {
  const store = String(error.facts.store);
  const operation = String(error.facts.operation);
  const { cause } = error;
  if (hasCode(error, 'store-unreachable')) {
    const reason = String(error.facts.reason);
    return objectError('store-unreachable', { store, operation, reason, tries }, cause);
  }
  if (!hasCode(error, 'store-busy')) return error;
  const { status, answer } = error.facts;
  const facts = { store, operation, status: Number(status), answer: String(answer), tries };
  return objectError('store-busy', facts, cause);
}
