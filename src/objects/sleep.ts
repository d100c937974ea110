import type { Clock } from '../limiter/clock.ts';
import { onAbort } from '../limiter/on-abort.ts';

/** Waits for a number of milliseconds. @throws the signal's reason when it aborts */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => {
      release();
      resolve();
    });
    const release = onAbort(signal, () => {
      cancel();
      reject(signal.reason);
    });
  });
}
