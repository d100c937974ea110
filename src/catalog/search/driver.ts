import type { Connection } from '../connection.ts';
import type { View } from './conditions.ts';
import { type Conjunct, hasStar } from './formula.ts';
import { type Direction, type Driver, needsMatch, newestOf, type Range, type Side } from './sql.ts';

/** A conjunct with what its walk follows, and its bounds narrowed to where hits can be. */
export interface Drive {
  readonly conjunct: Conjunct;
  readonly driver: Driver;
  /** Where the walk is to stop and choose again: it goes no further than `low` (newest first) or `high`. */
  readonly stretch: Pick<Conjunct, 'low' | 'high'>;
}

/*
 * What the three ways cost, measured on a million messages in processor time: a hit of the full-text index walked past,
 * 0.1 µs; a candidate of another index put on the list that hits are held against, 0.2 µs; a hit looked up to be asked
 * about its places, 3 µs; a candidate about which the full-text index is asked, 8 to 20 µs.
 */
/** Where the other side has more candidates by this factor, each hit of the text is looked up. */
const TEXT_ALONE = 16;
/** Where the text has more hits by this factor, the index is asked about each candidate. */
const SIDE_ALONE = 64;
/** Candidates of each side that are sampled to choose between them. */
const SAMPLE = 32;
/** Candidates of a side that are put on one list. */
const LISTED = 100_000;
/** Folders or flag sets of one filter that are walked side by side. */
const TOGETHER = 16;
/** Candidates in the first stretch of a walk by the text, by a side, and by both (of its rarer side). */
const STRETCH = { match: 2_000, side: 256, both: 512 };

/** How dense a side's candidates are where the walk begins. */
interface Density<D> {
  readonly driver: D;
  /** The first candidate; undefined when there is none at all. */
  readonly first: number | undefined;
  /** Candidates per docid. */
  readonly rate: number;
}

/**
 * Chooses the side that drives. A page is full the sooner, the denser the hits are that come of each candidate,
 * so the choice is made on the first candidates of each side and costs the same in an archive of any size. Since
 * older mail may be of another kind, it holds for one stretch of the walk: `grown` times as many candidates as for
 * the first. Only the present has indexes for flags and folders: as of a commit, text drives, or a thread, or everything.
 */
export function chooseDriver(
  connection: Connection,
  conjunct: Conjunct,
  view: View,
  direction: Direction,
  grown = 1,
): Drive {
  const match = needsMatch(conjunct);
  const fallback = match ? ({ by: 'match' } as const) : ({ by: 'all' } as const);
  const rivals = rivalsOf(conjunct, view);
  const [only] = rivals;
  if (only === undefined) return { conjunct, driver: fallback, stretch: conjunct };
  if (rivals.length === 1 && !match) return { conjunct, driver: only, stretch: conjunct };
  const range = rangeOf(connection, conjunct);
  if (match && hasPrefix(conjunct)) return inOneGo(connection, conjunct, rivals, direction, range);
  const measure = <D extends { readonly by: 'match' } | Side>(driver: D) =>
    density(connection, conjunct, driver, direction, range);
  const best = rivals.map(measure).reduce((a, b) => (b.rate < a.rate ? b : a));
  const nothing = { ...conjunct, low: 0, high: 0 };
  if (best.first === undefined) return { conjunct: nothing, driver: best.driver, stretch: nothing };
  // Nothing that is found comes before the first candidate of any side.
  let first = best.first;
  let driver: Driver = best.driver;
  let span = (STRETCH.side * grown) / best.rate;
  if (match) {
    const text = measure({ by: 'match' });
    if (text.first === undefined)
      return { conjunct: nothing, driver: text.driver, stretch: nothing };
    first = direction === 'newest' ? Math.min(first, text.first) : Math.max(first, text.first);
    if (best.rate > text.rate * TEXT_ALONE) {
      driver = text.driver;
      span = (STRETCH.match * grown) / text.rate;
    } else if (text.rate <= best.rate * SIDE_ALONE) {
      driver = { by: 'both', rare: best.driver };
      span = (STRETCH.both * grown) / Math.max(best.rate, text.rate / 4);
    }
  }
  const within = Math.ceil(span);
  if (direction === 'newest') {
    const high = Math.min(conjunct.high, first + 1);
    const low = Math.max(conjunct.low, high - within);
    return { conjunct: { ...conjunct, high }, driver, stretch: { low, high } };
  }
  const low = Math.max(conjunct.low, first);
  const high = Math.min(conjunct.high, low + within);
  return { conjunct: { ...conjunct, low }, driver, stretch: { low, high } };
}

/** A walk asks each candidate, which takes some twenty times as long as having a message in a set or not. */
const SPARSE = 16;

/**
 * True when few messages are candidates of any of the drives, so that walks are done before sets would be made. Of
 * words with a star the lists would be merged for each alternative that has them.
 */
export function isSparse(
  connection: Connection,
  drives: readonly Drive[],
  direction: Direction,
): boolean {
  const [first] = drives;
  if (first === undefined) return true;
  const all = rateOf(connection, first.conjunct, { by: 'all' }, direction);
  let candidates = 0;
  for (const { conjunct, driver } of drives) {
    const side = driver.by === 'both' ? driver.rare : driver;
    const merges = hasPrefix(conjunct) && (side.by === 'match' || drives.length > 1);
    if (side.by === 'all' || merges) return false;
    candidates += rateOf(connection, conjunct, side, direction);
    if (candidates * SPARSE > all) return false;
  }
  return true;
}

function rateOf(
  connection: Connection,
  conjunct: Conjunct,
  side: { readonly by: 'match' } | Side,
  direction: Direction,
): number {
  return density(connection, conjunct, side, direction, rangeOf(connection, conjunct)).rate;
}

/**
 * Before it gives the first hit of a word with a star, FTS5 merges the lists of all words that begin so. It is
 * asked once, for everything there is, and never about single messages.
 */
function inOneGo(
  connection: Connection,
  conjunct: Conjunct,
  rivals: readonly Side[],
  direction: Direction,
  range: Range,
): Drive {
  const [rare] = rivals
    .map((side) => density(connection, conjunct, side, direction, range))
    .toSorted((a, b) => a.rate - b.rate);
  const listed = rare !== undefined && rare.rate * (range.high - range.low) < LISTED;
  const driver: Driver = listed ? { by: 'both', rare: rare.driver } : { by: 'match' };
  return { conjunct, driver, stretch: conjunct };
}

function hasPrefix({ has, lacks }: Conjunct): boolean {
  return [...has, ...lacks].some(hasStar);
}

function rivalsOf({ places, members, deleted }: Conjunct, { asOf, scope }: View): Side[] {
  const rivals: Side[] = members
    .filter(({ values }) => values.length <= TOGETHER)
    .map((some) => ({ by: some.column === 'node' ? 'message-id' : 'thread', members: some }));
  if (asOf !== null) return rivals;
  // The other indexes know what is deleted everywhere, and not what is deleted in a scope.
  if (scope !== null)
    return [
      ...rivals,
      ...places.flatMap(({ folders }): Side[] => {
        const walked = folders !== null && folders.length <= TOGETHER;
        return walked ? [{ by: 'folders', folders }] : [];
      }),
    ];
  if (deleted === true) rivals.push({ by: 'ended' });
  for (const { folders, flagSets, indexed } of places) {
    if (folders !== null && folders.length <= TOGETHER) rivals.push({ by: 'folders', folders });
    if (indexed !== null) rivals.push({ by: indexed });
    else if (flagSets !== null && flagSets.length <= TOGETHER)
      rivals.push({ by: 'flags', flagSets });
  }
  return rivals;
}

/** The docids among which a conjunct is looked for. */
function rangeOf(connection: Connection, { low, high }: Conjunct): Range {
  // Two statements: SQLite finds one end of an index in an instant, but walks it for both at once.
  const end = (which: 'min' | 'max'): number => {
    for (const { docid } of connection.text<{ docid: number | null }>(
      `SELECT ${which}(docid) AS docid FROM messages`,
      [],
    ))
      return docid ?? 0;
    return 0;
  };
  return { low: Math.max(low, end('min')), high: Math.min(high, end('max') + 1) };
}

function density<D extends { readonly by: 'match' } | Side>(
  connection: Connection,
  conjunct: Conjunct,
  driver: D,
  direction: Direction,
  { low, high }: Range,
): Density<D> {
  const { sql, params } = newestOf(conjunct, driver, direction, SAMPLE);
  const docids = [...connection.text<{ docid: number }>(sql, params)]
    .map(({ docid }) => docid)
    .sort((a, b) => (direction === 'newest' ? b - a : a - b))
    .slice(0, SAMPLE);
  const [first] = docids;
  const last = docids.at(-1) ?? 0;
  const reached = direction === 'newest' ? high - last : last - low;
  const span = docids.length < SAMPLE ? high - low : reached;
  return { driver, first, rate: docids.length / Math.max(1, span) };
}
