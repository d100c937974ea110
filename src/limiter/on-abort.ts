/** One listener a signal, however many wait on it: thousands of requests share the signal of one run. */
const waiting = new WeakMap<AbortSignal, Waiting>();

interface Waiting {
  readonly calls: Set<() => void>;
  readonly listener: () => void;
}

/**
 * Calls back when the signal aborts; the returned function takes it back, and leaves nothing on the signal where
 * nobody waits any more. The signal must not have aborted yet: callers check `signal.throwIfAborted()` first.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const { calls, listener } = waiting.get(signal) ?? listen(signal);
  // A wrapper of its own for each caller: the same function may wait twice.
  const entry = () => call();
  calls.add(entry);
  return () => {
    calls.delete(entry);
    if (calls.size > 0 || waiting.get(signal)?.calls !== calls) return;
    waiting.delete(signal);
    signal.removeEventListener('abort', listener);
  };
}

function listen(signal: AbortSignal): Waiting {
  const calls = new Set<() => void>();
  const listener = (): void => {
    waiting.delete(signal);
    for (const each of [...calls]) each();
  };
  const made = { calls, listener };
  waiting.set(signal, made);
  signal.addEventListener('abort', listener, { once: true });
  return made;
}

/**
 * A controller that aborts with the signal, and on its own account. `release` lets go of the signal; it has to be called.
 *
 * In the place of `AbortSignal.any`: what that makes stays alive in Node.js 20 as long as anything listens to it or to
 * what it was made of, and here the one is made anew for every pass while the other lives as long as the process.
 */
export function following(signal: AbortSignal): {
  readonly controller: AbortController;
  readonly release: () => void;
} {
  const controller = new AbortController();
  if (signal.aborted) {
    controller.abort(signal.reason);
    return { controller, release: () => {} };
  }
  return { controller, release: onAbort(signal, () => controller.abort(signal.reason)) };
}
