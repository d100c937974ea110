import type { UidRange } from '../../wire/uid-set.ts';

/** A closed range of uids, `low <= high`. */
export interface Span {
  readonly low: number;
  readonly high: number;
}

/**
 * The uids a set stands for in a folder whose highest uid is `last`: sorted, disjoint, not touching. `*` is
 * the highest uid, so `n:*` with n beyond it is the last message, as in IMAP (RFC 3501, 6.4.8).
 */
export function spansOf(ranges: readonly UidRange[], last: number): Span[] {
  const sorted = ranges
    .map(({ from, to }) => {
      const a = from === '*' ? last : from;
      const b = to === '*' ? last : to;
      return { low: Math.min(a, b), high: Math.max(a, b) };
    })
    .sort((a, b) => a.low - b.low);
  const spans: Span[] = [];
  for (const span of sorted) {
    const before = spans.at(-1);
    if (before === undefined || span.low > before.high + 1) spans.push(span);
    else spans[spans.length - 1] = { low: before.low, high: Math.max(before.high, span.high) };
  }
  return spans;
}
