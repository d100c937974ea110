/** One listener a signal, however many wait on it: thousands of requests share the signal of one run. */
const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls back when the signal aborts; the returned function takes it back. The signal must not have aborted
 * yet: callers check `signal.throwIfAborted()` first.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  let calls = waiting.get(signal);
  if (calls === undefined) {
    const all = new Set<() => void>();
    calls = all;
    waiting.set(signal, all);
    signal.addEventListener(
      'abort',
      () => {
        waiting.delete(signal);
        for (const each of [...all]) each();
      },
      { once: true },
    );
  }
  // A wrapper of its own for each caller: the same function may wait twice.
  const entry = () => call();
  calls.add(entry);
  return () => calls.delete(entry);
}
