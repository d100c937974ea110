import type { Connection } from './database.ts';
import {
  type Conjunct,
  candidateConditions,
  ftsMatch,
  hasPrefixStar,
  type MemberSet,
  type View,
} from './resolve-query.ts';

/**
 * SQL with its parameters: FTS5 expressions and docids. Docids are bigints, because better-sqlite3 would bind a number
 * as REAL, which FTS5 ignores. Other numbers are part of the text. Docids are not, so that a continued search reuses
 * its prepared statement.
 */
export interface Sql {
  readonly sql: string;
  readonly params: readonly (string | bigint)[];
}

export type Direction = 'newest' | 'oldest';

/**
 * The index to walk in docid order. All other conditions are checked per candidate, so the choice affects only speed.
 */
type AccessPath = { readonly by: 'match' } | { readonly by: 'both'; readonly rare: Side } | Side;

type Side =
  | { readonly by: 'folders'; readonly folders: readonly number[] }
  | { readonly by: 'unread' | 'starred' }
  | { readonly by: 'thread' | 'message-id'; readonly members: MemberSet }
  | { readonly by: 'flags'; readonly flagSets: readonly number[] }
  | { readonly by: 'ended' }
  | { readonly by: 'all' };

/**
 * Returns statements that together yield every docid of a conjunct, possibly more than once. Each yields in docid
 * order, so the walks are merged and stopped when the page is full.
 *
 * The full-text index is ordered by `msg_fts.rowid` and joined with CROSS. Any other form makes SQLite sort all hits.
 */
export function walkStatements(
  conjunct: Conjunct,
  accessPath: AccessPath,
  direction: Direction,
  view: View,
): Sql[] {
  const order = direction === 'newest' ? 'DESC' : 'ASC';
  if (accessPath.by === 'match' || accessPath.by === 'both') {
    const { from, where, params } = matchSource(conjunct, accessPath, view);
    return [
      {
        sql: `SELECT msg_fts.rowid AS docid FROM ${from} WHERE ${where} ORDER BY msg_fts.rowid ${order}`,
        params,
      },
    ];
  }
  const match = needsMatch(conjunct) ? [ftsMatch(conjunct.has, conjunct.lacks)] : [];
  const asked = [
    ...candidateConditions(conjunct, view),
    ...match.map(
      () => 'EXISTS (SELECT 1 FROM msg_fts WHERE msg_fts MATCH ? AND msg_fts.rowid = m.docid)',
    ),
  ];
  return sources(accessPath).map(({ from, docid, where }) => {
    const within = bounds(docid, conjunct);
    return {
      sql: `SELECT ${docid} AS docid FROM ${from} WHERE ${[...where, ...within.where, ...asked].join(' AND ') || '1'} ORDER BY ${docid} ${order}`,
      params: [...within.params, ...match],
    };
  });
}

/** Returns a statement that counts a conjunct; undefined if one index is not enough. */
export function countStatement(conjunct: Conjunct, view: View): Sql | undefined {
  if (candidateConditions(conjunct, view).length > 0) return undefined;
  if (needsMatch(conjunct)) {
    const { from, where, params } = matchSource(conjunct, { by: 'match' }, view);
    return { sql: `SELECT count(*) AS n FROM ${from} WHERE ${where}`, params };
  }
  return within('SELECT count(*) AS n FROM messages m', 'm.docid', conjunct);
}

function matchSource(
  conjunct: Conjunct,
  accessPath: AccessPath,
  view: View,
): { readonly from: string; readonly where: string; readonly params: Sql['params'] } {
  const filters = candidateConditions(conjunct, view);
  const within = bounds('msg_fts.rowid', conjunct);
  const among = accessPath.by === 'both' ? candidates(accessPath.rare, conjunct) : undefined;
  return {
    // For a plain word, a query without the join takes a third of the time.
    from:
      filters.length === 0 ? 'msg_fts' : 'msg_fts CROSS JOIN messages m ON m.docid = msg_fts.rowid',
    where: [
      'msg_fts MATCH ?',
      ...within.where,
      // The plus hides the list from FTS5, which would otherwise search again for each member.
      ...(among === undefined ? [] : [`+msg_fts.rowid IN (${among.sql})`]),
      ...filters,
    ].join(' AND '),
    params: [
      ftsMatch(conjunct.has, conjunct.lacks),
      ...within.params,
      ...(among === undefined ? [] : among.params),
    ],
  };
}

function candidates(side: Side, conjunct: Conjunct): Sql {
  return unionOf(
    sources(side, false).map(({ docid, from, where }) =>
      within(`SELECT ${docid} FROM ${from}`, docid, conjunct, where),
    ),
  );
}

export function unionOf(parts: readonly Sql[]): Sql {
  return {
    sql: parts.map(({ sql }) => sql).join(' UNION ALL '),
    params: parts.flatMap(({ params }) => params),
  };
}

/** Returns an unsorted sample: the first `limit` candidates of each source. */
function newestOf(
  conjunct: Conjunct,
  accessPath: { readonly by: 'match' } | Side,
  direction: Direction,
  limit: number,
): Sql {
  const order = direction === 'newest' ? 'DESC' : 'ASC';
  const firstOf = (docid: string, from: string, where: readonly string[]): Sql => {
    const { sql, params } = within(`SELECT ${docid} AS docid FROM ${from}`, docid, conjunct, where);
    return { sql: `SELECT docid FROM (${sql} ORDER BY ${docid} ${order} LIMIT ${limit})`, params };
  };
  if (accessPath.by === 'match') {
    const { sql, params } = firstOf('rowid', 'msg_fts', ['msg_fts MATCH ?']);
    return { sql, params: [ftsMatch(conjunct.has, conjunct.lacks), ...params] };
  }
  return unionOf(
    sources(accessPath, false).map(({ docid, from, where }) => firstOf(docid, from, where)),
  );
}

/**
 * Returns the best `limit` of a conjunct's newest `among` hits with their bm25 rank (lower is better). Ranks are read
 * in index order and sorted outside FTS5, whose own sort takes twice as long because it includes word positions.
 */
export function rankNewest(
  conjunct: Conjunct,
  accessPath: AccessPath,
  limit: number,
  among: number,
  view: View,
): Sql {
  const listed: AccessPath =
    accessPath.by === 'match' || accessPath.by === 'both' || accessPath.by === 'all'
      ? accessPath
      : { by: 'both', rare: accessPath };
  const { from, where, params } = matchSource(conjunct, listed, view);
  return {
    sql: `SELECT docid, best AS rank FROM (SELECT msg_fts.rowid AS docid, rank AS best FROM ${from} WHERE ${where} ORDER BY msg_fts.rowid DESC LIMIT ${among}) ORDER BY best LIMIT ${limit}`,
    params,
  };
}

/** Returns the best `limit` of the given docids (newest first) that match an expression. */
export function rankDocids(expression: string, docids: readonly number[], limit: number): Sql {
  return {
    // See `matchSource` for the plus. Without the inner limit, FTS5 would rank and sort all its hits.
    sql: `SELECT docid, best AS rank FROM (SELECT rowid AS docid, rank AS best FROM msg_fts WHERE msg_fts MATCH ? AND rowid >= ? AND +rowid IN (SELECT value FROM json_each(?)) ORDER BY rowid DESC LIMIT ${docids.length}) ORDER BY best LIMIT ${limit}`,
    params: [expression, BigInt(docids.at(-1) ?? 0), JSON.stringify(docids)],
  };
}

function needsMatch({ has, lacks }: Conjunct): boolean {
  return has.length > 0 || lacks.length > 0;
}

interface Source {
  readonly from: string;
  readonly docid: string;
  readonly where: readonly string[];
}

/**
 * Returns the sources of a side's candidates. A message without a current place is found by its last one, so deleted
 * messages are always included.
 */
function sources(accessPath: Side, joined = true): readonly Source[] {
  const walk = (where: string): Source => ({
    from: joined ? 'places p CROSS JOIN messages m ON m.docid = p.docid' : 'places p',
    docid: 'p.docid',
    where: [where],
  });
  const ended: Source = { from: 'messages m', docid: 'm.docid', where: ['m.open_places = 0'] };
  switch (accessPath.by) {
    case 'folders':
      return accessPath.folders.flatMap((folder) => [
        walk(`p.folder_id = ${folder} AND p.to_commit IS NULL`),
        walk(`p.folder_id = ${folder} AND p.to_commit IS NOT NULL`),
      ]);
    case 'thread':
    case 'message-id':
      return accessPath.members.values.map((value) => ({
        from: joined
          ? 'thread_members p CROSS JOIN messages m ON m.docid = p.docid'
          : 'thread_members p',
        docid: 'p.docid',
        where: [`p.${accessPath.members.column} = ${value}`],
      }));
    case 'flags':
      return [
        ...accessPath.flagSets.map((set) => walk(`p.flag_set = ${set} AND p.to_commit IS NULL`)),
        ended,
      ];
    case 'unread':
      return [walk('p.to_commit IS NULL AND p.marks & 1 = 0'), ended];
    case 'starred':
      return [walk('p.to_commit IS NULL AND p.marks & 2 = 2'), ended];
    case 'ended':
      return [ended];
    case 'all':
      return [{ from: 'messages m', docid: 'm.docid', where: [] }];
  }
}

export interface Range {
  readonly low: number;
  readonly high: number;
}

function bounds(
  docid: string,
  { low, high }: Range,
): { readonly where: readonly string[]; readonly params: readonly bigint[] } {
  const from = low > 0;
  const to = high < Number.MAX_SAFE_INTEGER;
  return {
    where: [...(from ? [`${docid} >= ?`] : []), ...(to ? [`${docid} < ?`] : [])],
    params: [...(from ? [BigInt(low)] : []), ...(to ? [BigInt(high)] : [])],
  };
}

function edgeOf(range: Range, direction: Direction, count: number): Sql {
  const { sql, params } = within('SELECT m.docid FROM messages m', 'm.docid', range);
  const order = direction === 'newest' ? 'DESC' : 'ASC';
  return { sql: `${sql} ORDER BY m.docid ${order} LIMIT 1 OFFSET ${count}`, params };
}

/**
 * Narrows a SELECT to a range of docids.
 *
 * @param docid SQL for the docid
 * @param conditions additional conditions, with the parameters `params`
 */
export function within(
  select: string,
  docid: string,
  range: Range,
  conditions: readonly string[] = [],
  params: Sql['params'] = [],
): Sql {
  const ofRange = bounds(docid, range);
  return {
    sql: `${select} WHERE ${[...conditions, ...ofRange.where].join(' AND ') || '1'}`,
    params: [...params, ...ofRange.params],
  };
}

/** A conjunct, the index to walk, and bounds narrowed to the possible hits. */
export interface PlannedWalk {
  readonly conjunct: Conjunct;
  readonly accessPath: AccessPath;
  readonly stretch: Pick<Conjunct, 'low' | 'high'>;
}

/**
 * Costs in processor time, with a million messages: skipping a full-text hit 0.1 µs, adding a candidate to a list for
 * comparison 0.2 µs, looking up a hit's places 3 µs, checking a candidate in the full-text index 8 to 20 µs.
 */
/** If the other side has this many times more candidates, only the text drives, and each hit is looked up. */
const TEXT_ALONE = 16;
/** If the text has this many times more hits, only the side drives, and each candidate is checked in the index. */
const SIDE_ALONE = 64;
const SAMPLE = 32;
/** Maximum number of candidates from a side in one list. */
const LISTED = 100_000;
/** Maximum number of folders or flag sets that one filter walks in parallel. */
const TOGETHER = 16;
/** Candidates in the first range of a walk. `both` counts those of the rarer side. */
const STRETCH = { match: 2_000, side: 256, both: 512 };

/** Density of a side's candidates at the start of the walk. */
interface Density<D> {
  readonly accessPath: D;
  readonly first: number | undefined;
  readonly rate: number;
}

/**
 * Chooses the index that drives a walk. The denser the hits, the sooner a page is full, so the choice compares the
 * first candidates of each side. Its cost does not depend on the size of the archive. Older mail may differ, so the
 * choice applies to one range, `growth` times as long as the first. Flags and folders are indexed only for the present:
 * for a past commit, the walk is driven by text, a thread or everything.
 */
export function chooseAccessPath(
  connection: Connection,
  conjunct: Conjunct,
  view: View,
  direction: Direction,
  growth = 1,
): PlannedWalk {
  const match = needsMatch(conjunct);
  const fallback = match ? ({ by: 'match' } as const) : ({ by: 'all' } as const);
  const rivals = rivalsOf(conjunct, view);
  const [only] = rivals;
  if (only === undefined) return { conjunct, accessPath: fallback, stretch: conjunct };
  if (rivals.length === 1 && !match) return { conjunct, accessPath: only, stretch: conjunct };
  const range = rangeOf(connection, conjunct);
  if (match && hasPrefix(conjunct))
    return planWholeWalk(connection, conjunct, rivals, direction, range);
  const measure = <D extends { readonly by: 'match' } | Side>(accessPath: D) =>
    density(connection, conjunct, accessPath, direction, range);
  const best = rivals.map(measure).reduce((a, b) => (b.rate < a.rate ? b : a));
  const empty = { ...conjunct, low: 0, high: 0 };
  if (best.first === undefined)
    return { conjunct: empty, accessPath: best.accessPath, stretch: empty };
  let first = best.first;
  let accessPath: AccessPath = best.accessPath;
  let span = (STRETCH.side * growth) / best.rate;
  if (match) {
    const text = measure({ by: 'match' });
    if (text.first === undefined)
      return { conjunct: empty, accessPath: text.accessPath, stretch: empty };
    first = direction === 'newest' ? Math.min(first, text.first) : Math.max(first, text.first);
    if (best.rate > text.rate * TEXT_ALONE) {
      accessPath = text.accessPath;
      span = (STRETCH.match * growth) / text.rate;
    } else if (text.rate <= best.rate * SIDE_ALONE) {
      accessPath = { by: 'both', rare: best.accessPath };
      span = (STRETCH.both * growth) / Math.max(best.rate, text.rate / 4);
    }
  }
  const length = Math.ceil(span);
  if (direction === 'newest') {
    const high = Math.min(conjunct.high, first + 1);
    const low = Math.max(conjunct.low, high - length);
    return { conjunct: { ...conjunct, high }, accessPath, stretch: { low, high } };
  }
  const low = Math.max(conjunct.low, first);
  const high = Math.min(conjunct.high, low + length);
  return { conjunct: { ...conjunct, low }, accessPath, stretch: { low, high } };
}

/** Checking a candidate in a walk takes about twenty times as long as a set operation. */
const SPARSE = 16;

/** Reports whether walks would finish before sets could be built. Each alternative merges its own words with a star. */
export function isSparse(
  connection: Connection,
  drives: readonly PlannedWalk[],
  direction: Direction,
): boolean {
  const [first] = drives;
  if (first === undefined) return true;
  const all = rateOf(connection, first.conjunct, { by: 'all' }, direction);
  let candidates = 0;
  for (const { conjunct, accessPath } of drives) {
    const side = accessPath.by === 'both' ? accessPath.rare : accessPath;
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

/** Plans one walk over a whole range, because FTS5 merges all words with a prefix before it returns the first hit. */
function planWholeWalk(
  connection: Connection,
  conjunct: Conjunct,
  rivals: readonly Side[],
  direction: Direction,
  range: Range,
): PlannedWalk {
  const [rare] = rivals
    .map((side) => density(connection, conjunct, side, direction, range))
    .toSorted((a, b) => a.rate - b.rate);
  const isListed = rare !== undefined && rare.rate * (range.high - range.low) < LISTED;
  const accessPath: AccessPath = isListed ? { by: 'both', rare: rare.accessPath } : { by: 'match' };
  return { conjunct, accessPath, stretch: conjunct };
}

function hasPrefix({ has, lacks }: Conjunct): boolean {
  return [...has, ...lacks].some(hasPrefixStar);
}

function rivalsOf({ places, members, deleted }: Conjunct, { asOf, scope }: View): Side[] {
  const rivals: Side[] = members
    .filter(({ values }) => values.length <= TOGETHER)
    .map((some) => ({ by: some.column === 'node' ? 'message-id' : 'thread', members: some }));
  if (asOf !== null) return rivals;
  // Within a scope, the other indexes do not show whether a message is deleted.
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

function rangeOf(connection: Connection, { low, high }: Conjunct): Range {
  // Two statements, because SQLite finds one end of an index instantly but scans the index for both.
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
  accessPath: D,
  direction: Direction,
  { low, high }: Range,
): Density<D> {
  const { sql, params } = newestOf(conjunct, accessPath, direction, SAMPLE);
  const docids = [...connection.text<{ docid: number }>(sql, params)]
    .map(({ docid }) => docid)
    .sort((a, b) => (direction === 'newest' ? b - a : a - b))
    .slice(0, SAMPLE);
  const [first] = docids;
  const last = docids.at(-1) ?? 0;
  const reached = direction === 'newest' ? high - last : last - low;
  const span = docids.length < SAMPLE ? high - low : reached;
  return { accessPath, first, rate: docids.length / Math.max(1, span) };
}

/** Choosing costs as much as a few hundred candidates, so ranges grow. */
const GROWTH = 4;
const LONGEST = 64;

/** Stops walks when time runs out, and remembers where. */
export class TimeLimit {
  /** The docid to continue after; null unless stopped. */
  stoppedAt: number | null = null;

  constructor(private readonly mayContinue?: () => boolean) {}

  get isSet(): boolean {
    return this.mayContinue !== undefined;
  }

  /** @param docid last docid passed, whether it matches or not */
  mayPass(docid: number, direction: Direction): boolean {
    if (this.stoppedAt === null && this.mayContinue?.() !== false) return true;
    // The walk that is furthest behind decides.
    if (this.stoppedAt === null || isBehind(this.stoppedAt, docid, direction))
      this.stoppedAt = docid;
    return false;
  }

  /** Reports whether a docid lies beyond the stopping point, which some walks have not reached. */
  isBehind(docid: number, direction: Direction): boolean {
    return this.stoppedAt !== null && isBehind(docid, this.stoppedAt, direction);
  }
}

function isBehind(docid: number, other: number, direction: Direction): boolean {
  return direction === 'newest' ? docid < other : docid > other;
}

/** Yields the docids of all walks in order, without duplicates. Close the iterator unless it is drained. */
export function* walkPaths(
  connection: Connection,
  drives: readonly PlannedWalk[],
  direction: Direction,
  view: View,
  watch: TimeLimit,
): Generator<number, void, undefined> {
  const walks = drives.map((drive) => stretches(connection, drive, direction, view, watch));
  for (const docid of mergedWalks(walks, direction)) {
    if (watch.isBehind(docid, direction)) return;
    yield docid;
  }
}

function* stretches(
  connection: Connection,
  start: PlannedWalk,
  direction: Direction,
  view: View,
  watch: TimeLimit,
): Generator<number, void, undefined> {
  let drive = start;
  for (let growth = 1; ; growth = Math.min(LONGEST, growth * GROWTH)) {
    const { conjunct, accessPath, stretch } = drive;
    const isLast = stretch.low <= conjunct.low && stretch.high >= conjunct.high;
    const whole = { low: stretch.low, high: stretch.high };
    const parts =
      isLast && watch.isSet && isCuttable(drive, view)
        ? splitWalk(connection, whole, direction)
        : [whole];
    for (const part of parts) {
      yield* mergeStatements(
        connection,
        walkStatements({ ...conjunct, ...part }, accessPath, direction, view),
        direction,
      );
      const passed = direction === 'newest' ? part.low : part.high - 1;
      const isEnd = direction === 'newest' ? part.low <= conjunct.low : part.high >= conjunct.high;
      if (!isEnd && !watch.mayPass(passed, direction)) return;
    }
    const rest =
      direction === 'newest'
        ? { ...conjunct, high: stretch.low }
        : { ...conjunct, low: stretch.high };
    if (isLast || rest.low >= rest.high) return;
    drive = chooseAccessPath(connection, rest, view, direction, growth * GROWTH);
    if (drive.conjunct.low >= drive.conjunct.high) return;
  }
}

/** Messages per part of a long walk. In a search of a past time, checking each one takes about 10 µs. */
const PART = 4_096;

/** Reports whether a walk can be split: each candidate is checked, and no part would merge a prefix again. */
function isCuttable({ conjunct }: PlannedWalk, view: View): boolean {
  const { has, lacks } = conjunct;
  return candidateConditions(conjunct, view).length > 0 && ![...has, ...lacks].some(hasPrefixStar);
}

function* splitWalk(
  connection: Connection,
  { low, high }: Range,
  direction: Direction,
): Generator<Range, void, undefined> {
  for (let rest = { low, high }; ; ) {
    const { sql, params } = edgeOf(rest, direction, PART);
    const [edge] = connection.column<number>(sql, params);
    if (edge === undefined) {
      yield rest;
      return;
    }
    if (direction === 'newest') {
      yield { low: edge, high: rest.high };
      rest = { low: rest.low, high: edge };
    } else {
      yield { low: rest.low, high: edge + 1 };
      rest = { low: edge + 1, high: rest.high };
    }
    if (rest.low >= rest.high) return;
  }
}

function mergeStatements(
  connection: Connection,
  statements: readonly Sql[],
  direction: Direction,
): Generator<number, void, undefined> {
  return mergedWalks(
    statements.map(({ sql, params }) => docidsOf(connection, sql, params)),
    direction,
  );
}

function* docidsOf(
  connection: Connection,
  sql: string,
  params: Sql['params'],
): Generator<number, void, undefined> {
  let last: number | undefined;
  for (const { docid } of connection.text<{ docid: number }>(sql, params)) {
    if (docid !== last) yield docid;
    last = docid;
  }
}

function* mergedWalks(
  walks: readonly Generator<number, void, undefined>[],
  direction: Direction,
): Generator<number, void, undefined> {
  let last: number | undefined;
  for (const docid of mergeWalks(walks, (docid) => docid, direction)) {
    if (docid !== last) yield docid;
    last = docid;
  }
}

export function* mergeWalks<T>(
  walks: readonly IterableIterator<T>[],
  docidOf: (item: T) => number,
  direction: Direction,
): Generator<T, void, undefined> {
  const [only] = walks;
  try {
    if (walks.length === 1 && only !== undefined) {
      yield* only;
      return;
    }
    const heads = walks.flatMap((walk) => {
      const first = walk.next();
      return first.done === true ? [] : [{ walk, item: first.value }];
    });
    for (let next = heads[0]; next !== undefined; next = heads[0]) {
      for (const head of heads)
        if (isBehind(docidOf(next.item), docidOf(head.item), direction)) next = head;
      yield next.item;
      const after = next.walk.next();
      if (after.done === true) heads.splice(heads.indexOf(next), 1);
      else next.item = after.value;
    }
  } finally {
    for (const walk of walks) walk.return?.();
  }
}
