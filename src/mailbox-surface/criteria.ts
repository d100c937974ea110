import type { z } from 'zod';
import type { searchRequest } from '../wire/mailbox-requests.ts';
import { parseUidSet } from '../wire/uid-set.ts';
import { searchableBody, searchableHeader, searchableHeaders } from './message/searchable.ts';
import { type Span, spansOf } from './uid-pages.ts';

/** What a search asks for; all of it must hold, but the alternatives among its substrings. */
export type Criteria = z.output<typeof searchRequest>;

/** Returns the uid ranges of a search in a folder whose highest uid is `last`. */
export function spansOfCriteria({ uid }: Criteria, last: number): Span[] {
  const ranges = uid === undefined ? null : parseUidSet(uid);
  return ranges === null ? [{ low: 1, high: last }] : spansOf(ranges, last);
}

/** What is known of a message without reading it. */
export interface MessageFacts {
  readonly flags: readonly string[];
  /** Milliseconds since the epoch. */
  received(): number;
  /** Bytes. */
  size(): number;
}

type Test<T> = (of: T) => boolean;

const DAY_MS = 86_400_000;

/**
 * Returns the test of the criteria that need no source, or null where there are none. Days are UTC; `since` includes its
 * day, `before` does not; `larger` and `smaller` exclude their size, as in IMAP.
 */
export function factsTest(criteria: Criteria): Test<MessageFacts> | null {
  const { flags, since, before, larger, smaller } = criteria;
  const tests: Test<MessageFacts>[] = [];
  // A million times the same flag is one flag.
  const wanted = [...new Set(flags?.map((flag) => flag.toLowerCase()))];
  if (flags !== undefined) tests.push((of) => wanted.every((flag) => hasFlag(of.flags, flag)));
  if (since !== undefined || before !== undefined) {
    // Messages without a date are before every day, and match none.
    const from = since === undefined ? Number.MIN_SAFE_INTEGER : Date.parse(since);
    const to = before === undefined ? Number.POSITIVE_INFINITY : Date.parse(before);
    tests.push((of) => {
      const day = Math.floor(of.received() / DAY_MS) * DAY_MS;
      return day >= from && day < to;
    });
  }
  if (larger !== undefined) tests.push((of) => of.size() > larger);
  if (smaller !== undefined) tests.push((of) => of.size() < smaller);
  return all(tests);
}

/**
 * Returns the test of the criteria that look into the raw source, or null where there are none. `subject`, `from`, `to`,
 * `cc` and `body` are alternatives to each other; all else must hold.
 */
export function sourceTest(criteria: Criteria): Test<Buffer> | null {
  const { header, text } = criteria;
  const tests: Test<Buffer>[] = [];
  if (header !== undefined) {
    const colon = header.indexOf(':');
    const name = header.slice(0, colon).toLowerCase();
    const value = header
      .slice(colon + 1)
      .trim()
      .toLowerCase();
    tests.push((raw) => searchableHeader(raw, name).some((found) => found.includes(value)));
  }
  const alternatives = alternativesOf(criteria);
  if (alternatives.length > 0) tests.push((raw) => alternatives.some((test) => test(raw)));
  if (text !== undefined) {
    const wanted = text.toLowerCase();
    tests.push(
      (raw) => searchableHeaders(raw).includes(wanted) || searchableBody(raw).includes(wanted),
    );
  }
  return all(tests);
}

/** Returns whether the criteria look beyond the headers of a message. */
export function needsBody({ body, text }: Criteria): boolean {
  return body !== undefined || text !== undefined;
}

function alternativesOf(criteria: Criteria): Test<Buffer>[] {
  const alternatives: Test<Buffer>[] = [];
  for (const name of ['subject', 'from', 'to', 'cc'] as const) {
    const wanted = criteria[name]?.toLowerCase();
    if (wanted === undefined) continue;
    alternatives.push((raw) => searchableHeader(raw, name).some((found) => found.includes(wanted)));
  }
  const body = criteria.body?.toLowerCase();
  if (body !== undefined) alternatives.push((raw) => searchableBody(raw).includes(body));
  return alternatives;
}

/** A test that holds where all of them do; cheap ones come first. */
function all<T>(tests: readonly Test<T>[]): Test<T> | null {
  return tests.length === 0 ? null : (of) => tests.every((test) => test(of));
}

/** Returns whether a flag is among others, in whatever case (RFC 3501, 2.3.2). */
export function hasFlag(flags: readonly string[], flag: string): boolean {
  const wanted = flag.toLowerCase();
  return flags.some((candidate) => candidate.toLowerCase() === wanted);
}
