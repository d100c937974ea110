import { searchError } from '../../errors/usage.ts';
import type { Connection } from '../connection.ts';
import type { View } from './conditions.ts';
import type { Drive } from './driver.ts';
import { type Conjunct, starsIn } from './formula.ts';
import { ranked, rankedAmong } from './sql.ts';

/** The most words to rank by: each costs a visit to all its occurrences in every hit. */
const RANKED_LIMIT = 16;
/** Hits that are ranked, the newest: what ranking takes must not grow with the archive. */
const RANKED_HITS = 50_000;
/** The same of several alternatives, whose hits have to be found before, and listed to be ranked. */
const RANKED_AMONG = 25_000;

function rankedWords({ has }: Pick<Conjunct, 'has'>): number {
  return has
    .flatMap((expression) => expression.match(STRINGS) ?? [])
    .filter((string) => !string.startsWith('meta')).length;
}

/** How many hits are ranked: the fewer, the more words each is looked through for. */
function rankedHits(has: readonly string[], most: number): number {
  const stars = has.reduce((sum, expression) => sum + starsIn(expression), 0);
  const words = rankedWords({ has }) + STAR_WEIGHT * stars;
  return Math.ceil(most / Math.max(1, words / FEW_WORDS));
}

/** Up to here words cost about the same, since a hit itself has a cost. */
const FEW_WORDS = 3;
/** Words that one with a star counts for besides. */
const STAR_WEIGHT = 3;

/** Words and phrases in an expression of ours; those of the meta column, which has no weight, begin with its name. */
const STRINGS = /(?:- )?(?:meta : )?"[^"]*"/g;

/**
 * The lowest bm25 first, and the newest of equal ones. What several alternatives find is ranked together, by the words
 * of all of them: as it is by those of one expression.
 *
 * @param inOrder everything that is found, the newest first
 * @returns docids
 * @throws `search-too-complex`
 */
export function byRelevance(
  connection: Connection,
  drives: readonly Drive[],
  limit: number,
  view: View,
  inOrder: () => Iterable<number>,
): number[] {
  const has = [...new Set(drives.flatMap(({ conjunct }) => conjunct.has))].filter(
    (expression) => rankedWords({ has: [expression] }) > 0,
  );
  if (rankedWords({ has }) > RANKED_LIMIT)
    throw searchError('search-too-complex', { limit: RANKED_LIMIT, of: 'ranked' });
  const [only] = drives;
  const most = rankedHits(has, drives.length > 1 ? RANKED_AMONG : RANKED_HITS);
  if (only !== undefined && drives.length === 1 && has.length > 0) {
    const { sql, params } = ranked(only.conjunct, only.driver, limit, most, view);
    return inRank(connection.text<RankRow>(sql, params));
  }
  const newest = firstOf(inOrder(), has.length > 0 ? most : limit);
  if (has.length === 0) return newest;
  const { sql, params } = rankedAmong(`(${has.join(' OR ')})`, newest, limit);
  const best = inRank(connection.text<RankRow>(sql, params));
  // Those that have none of the words come last, and have a place only where all others are on the page.
  return best.length < limit ? [...new Set([...best, ...newest])].slice(0, limit) : best;
}

interface RankRow {
  readonly docid: number;
  readonly rank: number;
}

function inRank(rows: Iterable<RankRow>): number[] {
  return [...rows].sort((a, b) => a.rank - b.rank || b.docid - a.docid).map(({ docid }) => docid);
}

function firstOf(docids: Iterable<number>, most: number): number[] {
  const first: number[] = [];
  for (const docid of docids) {
    if (first.length >= most) break;
    first.push(docid);
  }
  return first;
}
