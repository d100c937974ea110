import { MailkeepError } from '../errors/mailkeep-error.ts';
import { OriginRefusal, originError } from '../errors/origin.ts';
import type { Clock } from '../limiter/clock.ts';
import type { Gate } from '../limiter/gate.ts';
import { onAbort } from '../limiter/on-abort.ts';
import type { Operation } from '../wire/operation.ts';

/** How patient a client is. Times in milliseconds. */
export interface RetryPolicy {
  /** Tries in all. A 429 does not count: the limiter spaces those. */
  readonly attempts: number;
  /** The first wait is anything up to this, and the bound doubles. */
  readonly firstWaitMs: number;
  readonly longestWaitMs: number;
  /** From the first failure on; a wait that would pass it is not begun. */
  readonly budgetMs: number;
}

export const RETRY_POLICY: RetryPolicy = {
  attempts: 5,
  firstWaitMs: 500,
  longestWaitMs: 30_000,
  budgetMs: 300_000,
};

/** A limit of an operation's own, such as feedback's, when it does not say how long it lasts. */
const OWN_LIMIT_WAIT_MS = 10_000;

export interface Retries {
  readonly policy: RetryPolicy;
  readonly clock: Clock;
  /** From 0 to 1, as Math.random. */
  readonly random: () => number;
  readonly gate: Gate;
  readonly host: string;
}

/**
 * The one layer that tries again. Reads go again after anything that may pass: 429, 408, 5xx, broken
 * connections, bodies that are not what they should be. Writes go again only after a 429, or when they never
 * left; otherwise the error says that they may have taken effect.
 *
 * @throws the last failure, or origin.outcome-unknown
 */
export async function withRetries<T>(
  retries: Retries,
  operation: Operation,
  signal: AbortSignal | undefined,
  attempt: () => Promise<T>,
): Promise<T> {
  const { policy, clock, gate } = retries;
  let failedSince: number | undefined;
  let failures = 0;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      if (!mayRepeat(operation, error)) throw outcomeOf(retries, operation, error);
      const now = clock.now();
      failedSince ??= now;
      const left = failedSince + policy.budgetMs - now;
      const refusedByRate = error.code === 'origin.rate-limited';
      if (!refusedByRate) failures += 1;
      const wait = waitOf(retries, operation, error, failures);
      if (failures >= policy.attempts || wait > left) throw withHostWait(gate, error);
      // Without a limit of its own, a 429 waits at the gate, as everybody behind it does.
      if (wait > 0 && !(refusedByRate && !operation.ownLimit)) await sleep(clock, wait, signal);
    }
  }
}

function mayRepeat(operation: Operation, error: MailkeepError): boolean {
  if (!error.retryable) return false;
  if (operation.read || error.code === 'origin.rate-limited') return true;
  return error.facts.sent === false;
}

/** Failures that leave open whether a write took effect. The rest are answers: it did not, or it did. */
const UNCERTAIN = new Set([
  'origin.unreachable',
  'origin.timeout',
  'origin.cut-short',
  'origin.not-json',
  'origin.shape',
  'origin.too-large',
]);

function outcomeOf(retries: Retries, operation: Operation, error: MailkeepError): Error {
  if (operation.read || error.facts.sent === false) return error;
  const status = error instanceof OriginRefusal ? error.status : Number(error.facts.status ?? 0);
  const uncertain =
    error instanceof OriginRefusal
      ? error.retryable && error.code === 'origin.status'
      : UNCERTAIN.has(error.code) && (status < 300 || status >= 500);
  if (!uncertain) return error;
  return originError(
    'origin.outcome-unknown',
    { operation: operation.name, host: retries.host, reason: error.code, status },
    { cause: error },
  );
}

function waitOf(
  retries: Retries,
  operation: Operation,
  error: MailkeepError,
  failures: number,
): number {
  const asked = error instanceof OriginRefusal ? error.retryAfterMs : null;
  if (error.code === 'origin.rate-limited') {
    return operation.ownLimit ? (asked ?? OWN_LIMIT_WAIT_MS) : retries.gate.heldForMs;
  }
  const { firstWaitMs, longestWaitMs } = retries.policy;
  const bound = Math.min(longestWaitMs, firstWaitMs * 2 ** (failures - 1));
  return Math.max(asked ?? 0, retries.random() * bound);
}

/** Adds to a rate-limited failure how long the host still has to be left alone, as far as the gate knows. */
function withHostWait(gate: Gate, error: MailkeepError): Error {
  if (!isRateLimited(error)) return error;
  const { code, facts, status, answer, retryAfterMs, retryable } = error;
  const waitMs = Math.max(retryAfterMs ?? 0, gate.heldForMs);
  return new OriginRefusal(code, { ...facts, waitMs }, status, answer, retryAfterMs, { retryable });
}

function isRateLimited(error: MailkeepError): error is OriginRefusal<'origin.rate-limited'> {
  return error instanceof OriginRefusal && error.code === 'origin.rate-limited';
}

function sleep(clock: Clock, ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted === true) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    let release = () => {};
    const cancel = clock.after(ms, () => {
      release();
      resolve();
    });
    if (signal !== undefined) {
      release = onAbort(signal, () => {
        cancel();
        reject(signal.reason);
      });
    }
  });
}
