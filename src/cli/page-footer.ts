import type { HitCount } from '../catalog/search/search.ts';
import { count, counted } from '../wording/amounts.ts';

/** Counting starts when the page is printed, and only a person waits for it. */
const COUNTING_MS = 100;

/** Returns a function that says whether there is time left to count what does not fit on a page. */
export function countingTime(now: () => number): () => boolean {
  const end = now() + COUNTING_MS;
  return () => now() < end;
}

/**
 * Returns the line below a page: how many there are in all, and how to get more.
 *
 * @param noun what is counted, such as `message`
 * @param more options that print more, such as `-n`
 */
export function footerText(shown: number, all: HitCount, noun: string, more: string): string {
  if (all.complete && all.count <= shown) return counted(shown, noun);
  const many = all.complete ? counted(all.count, noun) : `more than ${counted(all.count, noun)}`;
  return `${count(shown)} of ${many}; more with ${more}`;
}
