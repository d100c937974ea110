import { filtersOf, type View } from './conditions.ts';
import { type Conjunct, type Members, matchOf } from './formula.ts';

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
export type Driver = { readonly by: 'match' } | { readonly by: 'both'; readonly rare: Side } | Side;

/** Candidates that an index other than the full-text one gives in docid order. */
export type Side =
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
export function walks(conjunct: Conjunct, driver: Driver, direction: Direction, view: View): Sql[] {
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
  driver: Driver,
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
export function newestOf(
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
  driver: Driver,
  limit: number,
  among: number,
  view: View,
): Sql {
  const listed: Driver =
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
export function needsMatch({ has, lacks }: Conjunct): boolean {
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
export function edgeOf(range: Range, direction: Direction, count: number): Sql {
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
