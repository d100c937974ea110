import { getHeapStatistics } from 'node:v8';

/**
 * Returns whether this thread's heap, buffers included, is larger than that many bytes. V8 keeps the space that one
 * large message needed for as long as the thread lives, so that a worn thread is better replaced when its work is done.
 */
export function isWorn(wornBytes: number): boolean {
  const { total_heap_size: heap, external_memory: buffers } = getHeapStatistics();
  return heap + buffers > wornBytes;
}
