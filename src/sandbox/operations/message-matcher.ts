import type { z } from 'zod';
import type { searchRequest } from '../../wire/mailbox-requests.ts';
import { searchableBody, searchableHeader, searchableHeaders } from '../message/searchable.ts';
import type { Entry } from '../store/folder.ts';
import { hasFlag, type Store } from '../store/store.ts';

type Criteria = z.output<typeof searchRequest>;
type Matcher = (entry: Entry) => boolean;

const DAY_MS = 86_400_000;

/**
 * A test of everything but the uid set, or null where nothing else was asked for. Cheap tests come first; the
 * source is read only for those that ask for its text. `subject`, `from`, `to`, `cc` and `body` are
 * alternatives to each other; all else must hold. Days are UTC; `since` includes its day, `before` does not;
 * `larger` and `smaller` exclude their size, as in IMAP.
 */
export function matcherOf(criteria: Criteria, store: Store): Matcher | null {
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
