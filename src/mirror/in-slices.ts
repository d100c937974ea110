import { setImmediate as nextTurn } from 'node:timers/promises';

/** Messages of a slice: each costs some microseconds of queries. */
const SLICE = 500;

/** Does something with each item, and lets other requests in between: a folder may have a million messages. */
export async function inSlices<T>(items: readonly T[], act: (item: T) => void): Promise<void> {
  for (let start = 0; start < items.length; start += SLICE) {
    if (start > 0) await nextTurn();
    for (const item of items.slice(start, start + SLICE)) act(item);
  }
}
