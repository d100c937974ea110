import { getHeapSpaceStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';
import { openThreadPort } from '../../src/core/in-thread.ts';
import { type HeapLimits, WorkerThread } from '../../src/core/worker-thread.ts';

/**
 * Starts a thread, which allocates 100 MB of garbage, and waits until it has ended.
 *
 * @returns the bytes of its young generation by then
 */
export async function startThread(heap?: HeapLimits): Promise<number> {
  return await new Promise<number>((resolve) => {
    let young = 0;
    const thread = new WorkerThread<'allocate', { readonly young: number }>(
      { name: 'test', file: new URL(import.meta.url), ...(heap !== undefined && { heap }) },
      {
        message: (allocated) => {
          young = allocated.young;
          void thread.end();
        },
        ended: () => resolve(young),
      },
    );
    thread.post('allocate');
  });
}

if (!isMainThread) {
  const port = openThreadPort<'allocate', { readonly young: number }>(() => {
    let last: number[] = [];
    for (let each = 0; each < 2_000_000; each += 1) last = [each, last.length];
    const spaces = getHeapSpaceStatistics();
    port.send({
      young: spaces.find(({ space_name: name }) => name === 'new_space')?.space_size ?? 0,
    });
  });
}
