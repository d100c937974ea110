import type { Connection } from './database.ts';
import {
  type Conjunct,
  filtersOf,
  hasStar,
  type Members,
  matchOf,
  type View,
} from './resolve-query.ts';

/**
 * SQL with its parameters: FTS5 expressions, and docids as bigints, which better-sqlite3 binds as integers (it binds
 * numbers as REALs, which FTS5 ignores). Other numbers are our own and stand in the text. Docids do not, so that a
 * search that continues further back finds its statement prepared.
 */
export interface Sql {
  readonly sql: string;
  readonly params: readonly (string | bigint)[];
}

export type Direction = 'newest' | 'oldest';

/**
 * What a walk over candidates follows, always in docid order. Whichever it is, each candidate is asked the rest
 * of the conjunct, so the choice is about speed alone.
 */
type AccessPath = { readonly by: 'match' } | { readonly by: 'both'; readonly rare: Side } | Side;

/** Candidates that an index other than the full-text one gives in docid order. */
type Side =
  | { readonly by: 'folders'; readonly folders: readonly number[] }
  | { readonly by: 'unread' | 'starred' }
  | { readonly by: 'thread' | 'message-id'; readonly members: Members }
  | { readonly by: 'flags'; readonly flagSets: readonly number[] }
  | { readonly by: 'ended' }
  | { readonly by: 'all' };

/**
 * Statements that together give every docid of a conjunct, each in docid order; one docid may come more than
 * once. They are walked side by side and stopped when the page is full.
 *
 * Where the index drives, the order is `msg_fts.rowid` and the join is CROSS: any other way of saying it makes
 * SQLite sort all hits.
 */
export function walks(
  conjunct: Conjunct,
  driver: AccessPath,
  direction: Direction,
  view: View,
): Sql[] {
  const order = direction === 'newest' ? 'DESC' : 'ASC';
  if (driver.by === 'match' || driver.by === 'both') {
    const { from, where, params } = matched(conjunct, driver, view);
    return [
      {
        sql: `SELECT msg_fts.rowid AS docid FROM ${from} WHERE ${where} ORDER BY msg_fts.rowid ${order}`,
        params,
      },
    ];
  }
  const match = needsMatch(conjunct) ? [matchOf(conjunct.has, conjunct.lacks)] : [];
  const asked = [
    ...filtersOf(conjunct, view),
    ...match.map(
      () => 'EXISTS (SELECT 1 FROM msg_fts WHERE msg_fts MATCH ? AND msg_fts.rowid = m.docid)',
    ),
  ];
  return sources(driver).map(({ from, docid, where }) => {
    const within = bounds(docid, conjunct);
    return {
      sql: `SELECT ${docid} AS docid FROM ${from} WHERE ${[...where, ...within.where, ...asked].join(' AND ') || '1'} ORDER BY ${docid} ${order}`,
      params: [...within.params, ...match],
    };
  });
}

/** Counts the messages of a conjunct that one index answers; undefined where each message would have to be asked. */
export function counted(conjunct: Conjunct, view: View): Sql | undefined {
  if (filtersOf(conjunct, view).length > 0) return undefined;
  if (needsMatch(conjunct)) {
    const { from, where, params } = matched(conjunct, { by: 'match' }, view);
    return { sql: `SELECT count(*) AS n FROM ${from} WHERE ${where}`, params };
  }
  return within('SELECT count(*) AS n FROM messages m', 'm.docid', conjunct);
}

/** Hits of the full-text index, in the order of its rows, with everything else that is asked of them. */
function matched(
  conjunct: Conjunct,
  driver: AccessPath,
  view: View,
): { readonly from: string; readonly where: string; readonly params: Sql['params'] } {
  const filters = filtersOf(conjunct, view);
  const within = bounds('msg_fts.rowid', conjunct);
  const among = driver.by === 'both' ? candidates(driver.rare, conjunct) : undefined;
  return {
    // Without the join where nothing asks for it: a third of the time of a plain word.
    from:
      filters.length === 0 ? 'msg_fts' : 'msg_fts CROSS JOIN messages m ON m.docid = msg_fts.rowid',
    where: [
      'msg_fts MATCH ?',
      ...within.where,
      // The plus hides the list from FTS5, which would restart its search for each member.
      ...(among === undefined ? [] : [`+msg_fts.rowid IN (${among.sql})`]),
      ...filters,
    ].join(' AND '),
    params: [
      matchOf(conjunct.has, conjunct.lacks),
      ...within.params,
      ...(among === undefined ? [] : among.params),
    ],
  };
}

/** All candidates of a side within the bounds of a conjunct. */
function candidates(side: Side, conjunct: Conjunct): Sql {
  return unionOf(
    sources(side, false).map(({ docid, from, where }) =>
      within(`SELECT ${docid} FROM ${from}`, docid, conjunct, where),
    ),
  );
}

/** Returns one statement for the rows of several. */
export function unionOf(parts: readonly Sql[]): Sql {
  return {
    sql: parts.map(({ sql }) => sql).join(' UNION ALL '),
    params: parts.flatMap(({ params }) => params),
  };
}

/** The first `limit` candidates of each source of a driver, unsorted as a whole: what it is like where its walk begins. */
function newestOf(
  conjunct: Conjunct,
  driver: { readonly by: 'match' } | Side,
  direction: Direction,
  limit: number,
): Sql {
  const order = direction === 'newest' ? 'DESC' : 'ASC';
  const firstOf = (docid: string, from: string, where: readonly string[]): Sql => {
    const { sql, params } = within(`SELECT ${docid} AS docid FROM ${from}`, docid, conjunct, where);
    return { sql: `SELECT docid FROM (${sql} ORDER BY ${docid} ${order} LIMIT ${limit})`, params };
  };
  if (driver.by === 'match') {
    const { sql, params } = firstOf('rowid', 'msg_fts', ['msg_fts MATCH ?']);
    return { sql, params: [matchOf(conjunct.has, conjunct.lacks), ...params] };
  }
  return unionOf(
    sources(driver, false).map(({ docid, from, where }) => firstOf(docid, from, where)),
  );
}

/**
 * The best `limit` of the newest `among` hits of a conjunct with their bm25 rank (lower is better). Ranks are taken in
 * the order of the index and the best picked outside of it: FTS5's own order by rank sorts all hits, with the places
 * of their words, in twice the time.
 */
export function ranked(
  conjunct: Conjunct,
  driver: AccessPath,
  limit: number,
  among: number,
  view: View,
): Sql {
  const listed: AccessPath =
    driver.by === 'match' || driver.by === 'both' || driver.by === 'all'
      ? driver
      : { by: 'both', rare: driver };
  const { from, where, params } = matched(conjunct, listed, view);
  return {
    sql: `SELECT docid, best AS rank FROM (SELECT msg_fts.rowid AS docid, rank AS best FROM ${from} WHERE ${where} ORDER BY msg_fts.rowid DESC LIMIT ${among}) ORDER BY best LIMIT ${limit}`,
    params,
  };
}

/** The best `limit` of some docids, newest first, by an expression; those that do not match it are left out. */
export function rankedAmong(expression: string, docids: readonly number[], limit: number): Sql {
  return {
    // The plus: see `matched`. Without the inner limit FTS5 would be asked for its own order, and rank all that it has.
    sql: `SELECT docid, best AS rank FROM (SELECT rowid AS docid, rank AS best FROM msg_fts WHERE msg_fts MATCH ? AND rowid >= ? AND +rowid IN (SELECT value FROM json_each(?)) ORDER BY rowid DESC LIMIT ${docids.length}) ORDER BY best LIMIT ${limit}`,
    params: [expression, BigInt(docids.at(-1) ?? 0), JSON.stringify(docids)],
  };
}

/** True when the full-text index has to be asked at all. */
function needsMatch({ has, lacks }: Conjunct): boolean {
  return has.length > 0 || lacks.length > 0;
}

interface Source {
  readonly from: string;
  readonly docid: string;
  readonly where: readonly string[];
}

/** Candidates of a driver. A message without a current place counts by its last one, so ended places are walked too. */
function sources(driver: Side, joined = true): readonly Source[] {
  const walk = (where: string): Source => ({
    from: joined ? 'places p CROSS JOIN messages m ON m.docid = p.docid' : 'places p',
    docid: 'p.docid',
    where: [where],
  });
  const ended: Source = { from: 'messages m', docid: 'm.docid', where: ['m.open_places = 0'] };
  switch (driver.by) {
    case 'folders':
      return driver.folders.flatMap((folder) => [
        walk(`p.folder_id = ${folder} AND p.to_commit IS NULL`),
        walk(`p.folder_id = ${folder} AND p.to_commit IS NOT NULL`),
      ]);
    case 'thread':
    case 'message-id':
      return driver.members.values.map((value) => ({
        from: joined
          ? 'thread_members p CROSS JOIN messages m ON m.docid = p.docid'
          : 'thread_members p',
        docid: 'p.docid',
        where: [`p.${driver.members.column} = ${value}`],
      }));
    case 'flags':
      return [
        ...driver.flagSets.map((set) => walk(`p.flag_set = ${set} AND p.to_commit IS NULL`)),
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

/** Docids from `low` (included) to `high` (excluded). */
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

/** The message that so many others of a range lie before, in the order of a walk. */
function edgeOf(range: Range, direction: Direction, count: number): Sql {
  const { sql, params } = within('SELECT m.docid FROM messages m', 'm.docid', range);
  const order = direction === 'newest' ? 'DESC' : 'ASC';
  return { sql: `${sql} ORDER BY m.docid ${order} LIMIT 1 OFFSET ${count}`, params };
}

/**
 * Narrows a SELECT to the docids of a range.
 *
 * @param docid the expression that gives the docid
 * @param conditions that must hold as well; `params` are theirs
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

/** A conjunct with what its walk follows, and its bounds narrowed to where hits can be. */
export interface Drive {
  readonly conjunct: Conjunct;
  readonly driver: AccessPath;
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
export function chooseAccessPath(
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
  let driver: AccessPath = best.driver;
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
  const driver: AccessPath = listed ? { by: 'both', rare: rare.driver } : { by: 'match' };
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

/** By how much a stretch is longer than the one before: choosing costs as much as some hundred candidates. */
const GROWTH = 4;
const LONGEST = 64;

/** Ends walks when their time is over, and knows where they were then. */
export class Watch {
  /** What the walks have passed when they ended: the docid to continue after. Null where none was ended. */
  stoppedAt: number | null = null;

  constructor(private readonly mayContinue?: () => boolean) {}

  get isSet(): boolean {
    return this.mayContinue !== undefined;
  }

  /** @param docid the last one that a walk has passed, whether or not it was found */
  mayPass(docid: number, direction: Direction): boolean {
    if (this.stoppedAt === null && this.mayContinue?.() !== false) return true;
    // Of several walks, the one that came least far decides.
    if (this.stoppedAt === null || isBehind(this.stoppedAt, docid, direction))
      this.stoppedAt = docid;
    return false;
  }

  /** Whether a docid is behind where the walks ended: not all of them came there. */
  isBehind(docid: number, direction: Direction): boolean {
    return this.stoppedAt !== null && isBehind(docid, this.stoppedAt, direction);
  }
}

function isBehind(docid: number, other: number, direction: Direction): boolean {
  return direction === 'newest' ? docid < other : docid > other;
}

/** Walks what drives give as one, in order, every docid once. Close it when it is not drained. */
export function* walkDrives(
  connection: Connection,
  drives: readonly Drive[],
  direction: Direction,
  view: View,
  watch: Watch,
): Generator<number, void, undefined> {
  const walks = drives.map((drive) => stretches(connection, drive, direction, view, watch));
  for (const docid of mergedWalks(walks, direction)) {
    if (watch.isBehind(docid, direction)) return;
    yield docid;
  }
}

/** One stretch after the other, each by the side that is best there. */
function* stretches(
  connection: Connection,
  begun: Drive,
  direction: Direction,
  view: View,
  watch: Watch,
): Generator<number, void, undefined> {
  let drive = begun;
  for (let grown = 1; ; grown = Math.min(LONGEST, grown * GROWTH)) {
    const { conjunct, driver, stretch } = drive;
    const isLast = stretch.low <= conjunct.low && stretch.high >= conjunct.high;
    const whole = { low: stretch.low, high: stretch.high };
    const parts =
      isLast && watch.isSet && isCuttable(drive, view)
        ? cut(connection, whole, direction)
        : [whole];
    for (const part of parts) {
      yield* merged(
        connection,
        walks({ ...conjunct, ...part }, driver, direction, view),
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
    drive = chooseAccessPath(connection, rest, view, direction, grown * GROWTH);
    if (drive.conjunct.low >= drive.conjunct.high) return;
  }
}

/** Messages of a part of a long walk: asking each as of a time takes some 10 µs. */
const PART = 4_096;

/** Whether a walk may be cut: where each candidate is asked, and no lists of words with a star are merged for each part. */
function isCuttable({ conjunct }: Drive, view: View): boolean {
  const { has, lacks } = conjunct;
  return filtersOf(conjunct, view).length > 0 && ![...has, ...lacks].some(hasStar);
}

/** Cuts a range into parts of so many messages, in the order of a walk. */
function* cut(
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

/** Walks statements that each give docids in order as one. */
function merged(
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

/** Each walk gives a docid once; several may give the same. */
function* mergedWalks(
  walks: readonly Generator<number, void, undefined>[],
  direction: Direction,
): Generator<number, void, undefined> {
  const [only] = walks;
  if (walks.length === 1 && only !== undefined) {
    yield* only;
    return;
  }
  const sign = direction === 'newest' ? 1 : -1;
  try {
    const heads = walks.flatMap((walk) => {
      const first = walk.next();
      return first.done === true ? [] : [{ walk, docid: first.value }];
    });
    let last: number | undefined;
    while (heads.length > 0) {
      let chosen = heads[0];
      for (const head of heads)
        if (chosen === undefined || sign * head.docid > sign * chosen.docid) chosen = head;
      if (chosen === undefined) return;
      if (chosen.docid !== last) {
        last = chosen.docid;
        yield last;
      }
      const next = chosen.walk.next();
      if (next.done === true) heads.splice(heads.indexOf(chosen), 1);
      else chosen.docid = next.value;
    }
  } finally {
    for (const walk of walks) walk.return();
  }
}
