import type { Reader } from '../../engine/archive/reader.ts';
import { capital } from '../../wording/sentence.ts';
import { unknownText } from '../../wording/unknown-names.ts';
import { type NothingFound, within } from './mail-list.ts';
import { termsOf, withoutTerm } from './query-terms.ts';
import type { Understood } from './understood-query.ts';

/** Time for all attempts together, in milliseconds. */
const TRYING_MS = 100;
/** Terms that are left out, one after the other. */
const MOST_TERMS = 12;

/**
 * Finds out what is in the way of a query that finds nothing: each of its terms is left out once. Of several that would
 * help, the one that leaves the fewest messages is closest to what was meant.
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
  const left = terms.filter(({ operator }) => operator !== 'asof');
  if (isEither || left.length < 2) return { notes, without: null };
  let without: NothingFound['without'] = null;
  const mayContinue = within(TRYING_MS);
  for (const term of left.slice(0, MOST_TERMS)) {
    if (!mayContinue()) break;
    const shorter = withoutTerm(query, term);
    const attempt = understand(shorter).request;
    const found = attempt === null ? null : catalog.countHitsWhile(attempt, mayContinue);
    if (found === null || found.count === 0) continue;
    const isCloser =
      without === null ||
      (found.complete && (!without.found.complete || found.count < without.found.count));
    if (isCloser) without = { term: term.text, query: shorter, found };
  }
  return { notes, without };
}
