import type { UidRange } from '../wire/uid-set.ts';
import { type Page, pageOffset } from './reply.ts';

/** The messages of a folder in the order of their uids. */
export interface UidOrder<Entry> {
  /** How many there are. */
  readonly count: number;
  /** The highest uid; 0 in an empty folder. */
  readonly lastUid: number;
  /** How many have `low <= uid <= high`. */
  countBetween(low: number, high: number): number;
  /** Returns messages of a uid range, ascending; `skip` of them are passed over. */
  between(low: number, high: number, skip: number, limit: number): Entry[];
}

/** A page of messages, and how many there are on all pages. */
export interface FoundPage<Entry> {
  readonly entries: readonly Entry[];
  readonly total: number;
}

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

/** Returns all messages of some uid ranges, ascending. */
export function allWithin<Entry>(folder: UidOrder<Entry>, spans: readonly Span[]): Entry[] {
  return spans.flatMap(({ low, high }) => folder.between(low, high, 0, folder.count));
}

/** Returns a page of nothing but uid ranges, found without looking at messages outside of it. */
export function pageOfSpans<Entry>(
  folder: UidOrder<Entry>,
  spans: readonly Span[],
  page: Page,
  descending: boolean,
): FoundPage<Entry> {
  const counts = spans.map(({ low, high }) => folder.countBetween(low, high));
  const total = counts.reduce((sum, count) => sum + count, 0);
  const offset = pageOffset(page);
  // A descending page is an ascending stretch read backwards.
  const first = descending ? Math.max(0, total - offset - page.perPage) : offset;
  const stop = descending ? Math.max(0, total - offset) : Math.min(total, offset + page.perPage);
  const entries: Entry[] = [];
  let passed = 0;
  spans.forEach(({ low, high }, index) => {
    const count = counts[index] ?? 0;
    const skip = Math.max(0, first - passed);
    const limit = Math.min(count, stop - passed) - skip;
    if (limit > 0) entries.push(...folder.between(low, high, skip, limit));
    passed += count;
  });
  return { entries: descending ? entries.reverse() : entries, total };
}

/**
 * Returns a page of messages that are all there.
 *
 * @param all ascending by uid; sorted in place
 * @param keyOf what they are sorted by, ties by uid; null sorts by uid
 */
export function pageOfSorted<Entry extends { readonly uid: number }>(
  all: Entry[],
  keyOf: ((entry: Entry) => number) | null,
  page: Page,
  descending: boolean,
): FoundPage<Entry> {
  if (keyOf !== null) {
    const keys = new Map(all.map((entry) => [entry.uid, keyOf(entry)]));
    all.sort((a, b) => (keys.get(a.uid) ?? 0) - (keys.get(b.uid) ?? 0) || a.uid - b.uid);
  }
  if (descending) all.reverse();
  const offset = pageOffset(page);
  return { entries: all.slice(offset, offset + page.perPage), total: all.length };
}
