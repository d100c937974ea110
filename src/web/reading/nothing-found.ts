import type { HitCount } from '../../catalog/search/search.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { capital } from '../../wording/sentence.ts';
import { unknownText } from '../../wording/unknown-names.ts';
import { type NothingFound, type OtherQuery, within } from './mail-list.ts';
import { type Term, termsOf, withOther, withoutTerm } from './query-terms.ts';
import type { Understood } from './understood-query.ts';

/** Time for all attempts together, in milliseconds. */
const TRYING_MS = 100;
/** Terms that are left out, one after the other. */
const MOST_TERMS = 12;
/** Letters that are cut off the end of a word at most: an ending of a plural, or of a tense. */
const LONGEST_ENDING = 3;
/** Letters of the beginning of a word at least: fewer are the beginning of anything. */
const SHORTEST_BEGINNING = 4;
/** What a word is sought in. */
const TEXTS: ReadonlySet<string | null> = new Set([null, 'subject', 'body', 'filename']);

/** Counts what another query finds; null for one that cannot be understood. */
type Attempt = (query: string) => HitCount | null;

/**
 * Finds out what would find something where a query finds nothing: the query without one of its terms, or with the
 * beginning of one of its words. Of several terms in the way, the one without which the fewest messages are found is
 * closest to what was meant.
 *
 * @param understand as the query itself was understood
 */
export function nothingFound(
  { catalog }: Pick<Reader, 'catalog'>,
  query: string,
  understand: (query: string) => Understood,
): NothingFound {
  const { request } = understand(query);
  const unknown =
    request === null ? [] : catalog.explainSearch({ ...request, limit: 1, sort: 'newest' }).unknown;
  const notes = unknown.map((name) => `${capital(unknownText(name, name.found))}.`);
  const { terms, isEither } = termsOf(query);
  if (isEither) return { notes, without: null, beginning: null };
  const left = terms.filter(({ operator }) => operator !== 'asof').slice(0, MOST_TERMS);
  const mayContinue = within(TRYING_MS);
  const attempt: Attempt = (other) => {
    const asked = mayContinue() ? understand(other).request : null;
    return asked === null ? null : catalog.countHitsWhile(asked, mayContinue);
  };
  return {
    notes,
    beginning: otherEnding(query, left, attempt),
    without: left.length < 2 ? null : oneLess(query, left, attempt),
  };
}

/** Leaves out each term once. */
function oneLess(query: string, terms: readonly Term[], attempt: Attempt): OtherQuery | null {
  let best: OtherQuery | null = null;
  for (const term of terms) {
    const shorter = withoutTerm(query, term);
    const found = attempt(shorter);
    if (found === null || found.count === 0) continue;
    const isCloser =
      best === null || (found.complete && (!best.found.complete || found.count < best.found.count));
    if (isCloser) best = { term: term.text, query: shorter, found };
  }
  return best;
}

/** Seeks each word as the beginning of others, then with fewer letters: the longest beginning that is found counts. */
function otherEnding(query: string, terms: readonly Term[], attempt: Attempt): OtherQuery | null {
  for (let cut = 0; cut <= LONGEST_ENDING; cut += 1)
    for (const term of terms) {
      const beginning = beginningOf(term, cut);
      if (beginning === null) continue;
      const other = withOther(query, term, beginning);
      const found = attempt(other);
      if (found !== null && found.count > 0) return { term: beginning, query: other, found };
    }
  return null;
}

/** Returns a term that seeks a word with fewer letters as the beginning of others; null where it is no such word. */
function beginningOf({ negated, operator, value, text }: Term, cut: number): string | null {
  if (negated || value === null || !TEXTS.has(operator) || !text.endsWith(value)) return null;
  const letters = [...value];
  if (letters.length - cut < SHORTEST_BEGINNING || !/^\p{L}+$/u.test(value)) return null;
  return `${text.slice(0, -value.length)}${letters.slice(0, letters.length - cut).join('')}*`;
}
