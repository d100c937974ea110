import { readSize } from '../search/sizes.ts';

/** Bytes a second of a rate such as `500k` or `2M`; undefined for any other text, and for a rate of nothing. */
export function parseRate(text: string): number | undefined {
  return readSize(text.replace(/\/s$/, '')) || undefined;
}
