import { foldersIn, isVisible, type Scope } from '../scope.ts';
import { type Conjunct, type Members, matchOf, type PlaceCondition } from './formula.ts';

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

/** What a search sees of the archive. */
export interface View {
  /** The state at a commit, or null for now. */
  readonly asOf: number | null;
  /** Some mailboxes, or null for all. */
  readonly scope: Scope | null;
}

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

/** What is asked of each candidate `m`. */
function filtersOf(conjunct: Conjunct, view: View): string[] {
  const { sizeLow, sizeHigh, deleted, noPlaces, members, noMembers } = conjunct;
  return [
    ...seen(view),
    ...(sizeLow > 0 ? [`m.size >= ${sizeLow}`] : []),
    ...(sizeHigh < Number.MAX_SAFE_INTEGER ? [`m.size <= ${sizeHigh}`] : []),
    ...(deleted === null ? [] : [deleted ? `NOT ${isCurrent(view)}` : isCurrent(view)]),
    ...together(conjunct.places).map((place) => atPlace(place, view)),
    ...members.map((some) => isMember(some)),
    ...noMembers.map((some) => `NOT ${isMember(some)}`),
    ...apart(noPlaces).map((place) => `NOT ${atPlace(place, view)}`),
  ];
}

/**
 * Conditions on places that stand together mean one place: `in:INBOX is:unread` is unread in INBOX. Two
 * folders ask for a place in each, with the states that were asked for.
 */
export function together(places: readonly PlaceCondition[]): readonly PlaceCondition[] {
  const states = places.filter(({ folders }) => folders === null);
  const inFolders = places.filter(({ folders }) => folders !== null);
  const flagSets = states
    .map((place) => place.flagSets ?? [])
    .reduce<readonly number[] | null>(
      (common, sets) => (common === null ? sets : common.filter((id) => sets.includes(id))),
      null,
    );
  if (inFolders.length === 0)
    return flagSets === null ? [] : [{ folders: null, flagSets, indexed: null }];
  return inFolders.map(({ folders }) => ({ folders, flagSets, indexed: null }));
}

/** In none of some folders is in none of all of them: each message is asked about its places once, not once a folder. */
function apart(noPlaces: readonly PlaceCondition[]): readonly PlaceCondition[] {
  const folders = noPlaces.flatMap((place) =>
    place.flagSets === null ? (place.folders ?? []) : [],
  );
  const flagSets = noPlaces.flatMap((place) =>
    place.folders === null ? (place.flagSets ?? []) : [],
  );
  return [
    ...(folders.length === 0 ? [] : [{ folders: unique(folders), flagSets: null, indexed: null }]),
    ...(flagSets.length === 0
      ? []
      : [{ folders: null, flagSets: unique(flagSets), indexed: null }]),
    ...noPlaces.filter((place) => place.folders !== null && place.flagSets !== null),
  ];
}

function unique(ids: readonly number[]): number[] {
  return [...new Set(ids)];
}

function isMember({ column, values }: Members): string {
  return `EXISTS (SELECT 1 FROM thread_members t WHERE t.docid = m.docid AND t.${column} IN (${values.join(', ')}))`;
}

/** What holds for every message `m` that a view shows. */
export function seen({ asOf, scope }: View): string[] {
  if (scope === null) return asOf === null ? [] : [`m.first_commit <= ${asOf}`];
  if (asOf === null) return [isVisible(scope)];
  const then = `q.docid = m.docid AND q.first_commit <= ${asOf}${inScope(scope)}`;
  return [isVisible(scope), `EXISTS (SELECT 1 FROM places q WHERE ${then})`];
}

export function isCurrent({ asOf, scope }: View): string {
  if (asOf !== null) return openAt(asOf, inScope(scope));
  return scope === null ? '(m.open_places > 0)' : isOpen(inScope(scope));
}

/** The condition holds at a current place; or, for a message that has none, at its last. */
export function atPlace(place: PlaceCondition, { asOf, scope }: View): string {
  const ours = inScope(scope);
  const condition = `${ofPlace(place)}${ours}`;
  if (asOf !== null)
    return `(${openAt(asOf, condition)} OR (NOT ${openAt(asOf, ours)} AND ${lastWas(asOf, condition, ours)}))`;
  const none = scope === null ? 'm.open_places = 0' : `NOT ${isOpen(ours)}`;
  return `(${isOpen(condition)} OR (${none} AND ${lastPlaceIs(place, scope)}))`;
}

/** Of a message without a current place: it holds at the last. */
export function lastPlaceIs(place: PlaceCondition, scope: Scope | null): string {
  const ours = inScope(scope);
  const last = `SELECT max(q.to_commit) FROM places q WHERE q.docid = m.docid${ours}`;
  return `EXISTS (SELECT 1 FROM places q WHERE q.docid = m.docid AND q.to_commit = (${last})${ofPlace(place)}${ours})`;
}

/** That a place `q` is in a scope, to be added to other conditions. */
function inScope(scope: Scope | null): string {
  return scope === null ? '' : ` AND q.folder_id IN ${foldersIn(scope)}`;
}

function ofPlace({ folders, flagSets }: PlaceCondition): string {
  return [
    ...(folders === null ? [] : [` AND q.folder_id IN (${folders.join(', ')})`]),
    ...(flagSets === null ? [] : [` AND q.flag_set IN (${flagSets.join(', ')})`]),
  ].join('');
}

function isOpen(condition: string): string {
  return `EXISTS (SELECT 1 FROM places q WHERE q.docid = m.docid AND q.to_commit IS NULL${condition})`;
}

function openAt(commit: number, condition: string): string {
  const within = `q.docid = m.docid AND q.from_commit <= ${commit}`;
  return `(EXISTS (SELECT 1 FROM places q WHERE ${within} AND (q.to_commit IS NULL OR q.to_commit > ${commit})${condition}) OR EXISTS (SELECT 1 FROM spans q WHERE ${within} AND q.to_commit > ${commit}${condition}))`;
}

/**
 * The condition held at one of the places that ended last by a commit; `resumed` is when a place came back.
 *
 * @param ours which places count, see `inScope`
 */
function lastWas(commit: number, condition: string, ours: string): string {
  const closed = (table: string) =>
    `SELECT folder_id, flag_set, to_commit FROM ${table} q WHERE docid = m.docid AND to_commit <= ${commit}${ours}`;
  const ended = `${closed('places')} UNION ALL ${closed('spans')} AND resumed > ${commit}`;
  return `EXISTS (SELECT 1 FROM (${ended}) q WHERE q.to_commit = (SELECT max(to_commit) FROM (${ended}))${condition})`;
}
