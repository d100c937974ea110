import type { z } from 'zod';
import { searchRequest } from '../../wire/mailbox-requests.ts';
import { parseUidSet, type UidRange } from '../../wire/uid-set.ts';
import { type Page, pageOffset, pageReply, type Reply } from '../http/reply.ts';
import { searchableBody, searchableHeader, searchableHeaders } from '../message/searchable.ts';
import type { Entry, Folder, SourceFacts } from '../store/folder.ts';
import { hasFlag, type Store } from '../store/store.ts';
import { bodyOf, type Call, folderOf, pageOf, sortOf } from './call.ts';

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

type Criteria = z.output<typeof searchRequest>;

export function searchMessages(call: Call): Reply {
  const { folder } = folderOf(call);
  const page = pageOf(call, 25, 100);
  const sort = sortOf(call);
  const criteria = bodyOf(call, searchRequest);
  const { store } = call.service;
  const spans = spansOfCriteria(criteria, folder);
  const matches = matcherOf(criteria, store);
  const found =
    matches === null && sort.field === 'uid'
      ? pageOfSpans(folder, spans, page, sort.descending)
      : pageOfMatches(folder, spans, matches, page, sort, store);
  return pageReply(
    found.entries.map((entry) => store.records.messageJson(folder, entry)),
    page,
    found.total,
  );
}

function spansOfCriteria(criteria: Criteria, folder: Folder): Span[] {
  const ranges = criteria.uid === undefined ? null : parseUidSet(criteria.uid);
  if (ranges === null) return [{ low: 1, high: folder.lastUid }];
  return spansOf(ranges, folder.lastUid);
}

interface Found {
  readonly entries: readonly Entry[];
  readonly total: number;
}

/** A page of nothing but uid ranges, found without looking at messages outside of it. */
function pageOfSpans(
  folder: Folder,
  spans: readonly Span[],
  page: Page,
  descending: boolean,
): Found {
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

function pageOfMatches(
  folder: Folder,
  spans: readonly Span[],
  matches: Matcher | null,
  page: Page,
  sort: { readonly field: 'uid' | 'date' | 'size'; readonly descending: boolean },
  store: Store,
): Found {
  const all: Entry[] = [];
  for (const { low, high } of spans) {
    for (const entry of folder.between(low, high, 0, folder.count)) {
      if (matches === null || matches(entry)) all.push(entry);
    }
  }
  if (sort.field !== 'uid') sortBy(all, sort.field, store);
  if (sort.descending) all.reverse();
  const offset = pageOffset(page);
  return { entries: all.slice(offset, offset + page.perPage), total: all.length };
}

/** Ascending by a fact of the source, ties by uid. */
function sortBy(entries: Entry[], field: 'date' | 'size', facts: SourceFacts): void {
  const keys = new Map(
    entries.map(({ uid, source }) => [
      uid,
      field === 'date' ? facts.received(source) : facts.size(source),
    ]),
  );
  entries.sort((a, b) => (keys.get(a.uid) ?? 0) - (keys.get(b.uid) ?? 0) || a.uid - b.uid);
}

type Matcher = (entry: Entry) => boolean;

const DAY_MS = 86_400_000;

/**
 * A test of everything but the uid set, or null where nothing else was asked for. Cheap tests come first; the
 * source is read only for those that ask for its text. `subject`, `from`, `to`, `cc` and `body` are
 * alternatives to each other; all else must hold. Days are UTC; `since` includes its day, `before` does not;
 * `larger` and `smaller` exclude their size, as in IMAP.
 */
function matcherOf(criteria: Criteria, store: Store): Matcher | null {
  const tests: Matcher[] = [];
  const { flags, since, before, larger, smaller, header, text } = criteria;
  if (flags !== undefined) {
    tests.push((entry) => flags.every((flag) => hasFlag(entry.flags, flag)));
  }
  if (since !== undefined || before !== undefined) {
    const from = since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(since);
    const to = before === undefined ? Number.POSITIVE_INFINITY : Date.parse(before);
    tests.push(({ source }) => {
      const day = Math.floor(store.received(source) / DAY_MS) * DAY_MS;
      return day >= from && day < to;
    });
  }
  if (larger !== undefined) tests.push(({ source }) => store.size(source) > larger);
  if (smaller !== undefined) tests.push(({ source }) => store.size(source) < smaller);
  if (header !== undefined) {
    const colon = header.indexOf(':');
    const name = header.slice(0, colon).toLowerCase();
    const value = header
      .slice(colon + 1)
      .trim()
      .toLowerCase();
    tests.push(({ source }) =>
      searchableHeader(store.read(source), name).some((found) => found.includes(value)),
    );
  }
  const alternatives = alternativesOf(criteria);
  if (alternatives.length > 0) {
    tests.push(({ source }) => {
      const raw = store.read(source);
      return alternatives.some((alternative) => alternative(raw));
    });
  }
  if (text !== undefined) {
    const wanted = text.toLowerCase();
    tests.push(({ source }) => {
      const raw = store.read(source);
      return searchableHeaders(raw).includes(wanted) || searchableBody(raw).includes(wanted);
    });
  }
  return tests.length === 0 ? null : (entry) => tests.every((test) => test(entry));
}

function alternativesOf(criteria: Criteria): ((raw: Buffer) => boolean)[] {
  const alternatives: ((raw: Buffer) => boolean)[] = [];
  for (const name of ['subject', 'from', 'to', 'cc'] as const) {
    const wanted = criteria[name]?.toLowerCase();
    if (wanted === undefined) continue;
    alternatives.push((raw) => searchableHeader(raw, name).some((found) => found.includes(wanted)));
  }
  const body = criteria.body?.toLowerCase();
  if (body !== undefined) alternatives.push((raw) => searchableBody(raw).includes(body));
  return alternatives;
}
