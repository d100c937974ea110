import { subscribe, unsubscribe } from 'node:diagnostics_channel';

/** Returns how many worker threads are started while `run` runs. */
export async function threadsOf(run: () => Promise<void>): Promise<number> {
  let started = 0;
  const count = (): void => {
    started += 1;
  };
  subscribe('worker_threads', count);
  try {
    await run();
  } finally {
    unsubscribe('worker_threads', count);
  }
  return started;
}
