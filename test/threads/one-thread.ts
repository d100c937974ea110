import { WorkerThread } from '../../src/threads/worker-thread.ts';

/** Starts a thread that has nothing to do, and waits until it has ended. */
export async function startThread(): Promise<void> {
  await new Promise<void>((resolve) => {
    new WorkerThread(
      { name: 'test', file: new URL(import.meta.url) },
      {
        message: () => {},
        ended: () => resolve(),
      },
    );
  });
}
