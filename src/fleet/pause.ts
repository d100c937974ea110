import type { DaemonClock } from '../daemon/ports.ts';

/** Resolves after so many milliseconds, or when the signal is aborted. */
export async function pause(
  clock: Pick<DaemonClock, 'after'>,
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      cancel();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    signal.addEventListener('abort', end, { once: true });
  });
}
