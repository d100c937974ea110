import { type Conjunct, matchOf, type PlaceCondition } from './search-formula.ts';

/** SQL with its parameters. Numbers are our own and stand in the text; the only parameters are FTS5 expressions. */
export interface Sql {
  readonly sql: string;
  readonly params: readonly string[];
}

export type Direction = 'newest' | 'oldest';

/**
 * What a walk over candidates follows, always in docid order. Whichever it is, each candidate is asked the rest
 * of the conjunct, so the choice is about speed alone.
 */
export type Driver =
  | { readonly by: 'match' }
  | { readonly by: 'folders'; readonly folders: readonly number[] }
  | { readonly by: 'unread' | 'starred' }
  | { readonly by: 'ended' }
  | { readonly by: 'all' };

/** The state of the archive that a search sees: a commit, or null for now. */
export type AsOf = number | null;

/**
 * Statements that together give every docid of a conjunct, each in docid order; one docid may come more than
 * once. They are walked side by side and stopped when the page is full.
 *
 * Where the index drives, the order is `msg_fts.rowid` and the join is CROSS: any other way of saying it makes
 * SQLite sort all hits.
 */
export function walks(conjunct: Conjunct, driver: Driver, direction: Direction, asOf: AsOf): Sql[] {
  const order = direction === 'newest' ? 'DESC' : 'ASC';
  const filters = filtersOf(conjunct, asOf);
  if (driver.by === 'match') {
    const where = ['msg_fts MATCH ?', ...bounds('msg_fts.rowid', conjunct), ...filters].join(
      ' AND ',
    );
    // Without the join where nothing asks for it: a third of the time of a plain word.
    const from =
      filters.length === 0 ? 'msg_fts' : 'msg_fts CROSS JOIN messages m ON m.docid = msg_fts.rowid';
    return [
      {
        sql: `SELECT msg_fts.rowid AS docid FROM ${from} WHERE ${where} ORDER BY msg_fts.rowid ${order}`,
        params: [matchOf(conjunct.has, conjunct.lacks)],
      },
    ];
  }
  const match = needsMatch(conjunct) ? [matchOf(conjunct.has, conjunct.lacks)] : [];
  const asked = [
    ...filters,
    ...match.map(
      () => 'EXISTS (SELECT 1 FROM msg_fts WHERE msg_fts MATCH ? AND msg_fts.rowid = m.docid)',
    ),
  ];
  return sources(driver).map(({ from, docid, where }) => ({
    sql: `SELECT ${docid} AS docid FROM ${from} WHERE ${[...where, ...bounds(docid, conjunct), ...asked].join(' AND ') || '1'} ORDER BY ${docid} ${order}`,
    params: match,
  }));
}

/** A statement that counts a driver's candidates, giving up at `limit`. */
export function counting(conjunct: Conjunct, driver: Driver, limit: number): Sql[] {
  if (driver.by === 'match') {
    const where = ['msg_fts MATCH ?', ...bounds('rowid', conjunct)].join(' AND ');
    return [
      {
        sql: `SELECT count(*) AS n FROM (SELECT 1 FROM msg_fts WHERE ${where} LIMIT ${limit})`,
        params: [matchOf(conjunct.has, conjunct.lacks)],
      },
    ];
  }
  return sources(driver, false).map(({ from, docid, where }) => ({
    sql: `SELECT count(*) AS n FROM (SELECT 1 FROM ${from} WHERE ${[...where, ...bounds(docid, conjunct)].join(' AND ') || '1'} LIMIT ${limit})`,
    params: [],
  }));
}

/** The best `limit` hits of a conjunct with their bm25 rank (lower is better); what has no text to rank is newest first. */
export function ranked(conjunct: Conjunct, limit: number, asOf: AsOf): Sql {
  const filters = filtersOf(conjunct, asOf);
  const where = ['msg_fts MATCH ?', ...bounds('msg_fts.rowid', conjunct), ...filters].join(' AND ');
  const from =
    filters.length === 0 ? 'msg_fts' : 'msg_fts CROSS JOIN messages m ON m.docid = msg_fts.rowid';
  return {
    sql: `SELECT msg_fts.rowid AS docid, rank FROM ${from} WHERE ${where} ORDER BY rank LIMIT ${limit}`,
    params: [matchOf(conjunct.has, conjunct.lacks)],
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

/** Candidates of a driver. A message without a current place counts by its last one, so the ended are walked beside. */
function sources(
  driver: Exclude<Driver, { readonly by: 'match' }>,
  joined = true,
): readonly Source[] {
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

function bounds(docid: string, { low, high }: Conjunct): string[] {
  return [
    ...(low > 0 ? [`${docid} >= ${low}`] : []),
    ...(high < Number.MAX_SAFE_INTEGER ? [`${docid} < ${high}`] : []),
  ];
}

/** What is asked of each candidate `m`. */
function filtersOf(conjunct: Conjunct, asOf: AsOf): string[] {
  const { sizeLow, sizeHigh, deleted, noPlaces } = conjunct;
  return [
    ...(asOf === null ? [] : [`m.first_commit <= ${asOf}`]),
    ...(sizeLow > 0 ? [`m.size >= ${sizeLow}`] : []),
    ...(sizeHigh < Number.MAX_SAFE_INTEGER ? [`m.size <= ${sizeHigh}`] : []),
    ...(deleted === null ? [] : [deleted ? `NOT ${isCurrent(asOf)}` : isCurrent(asOf)]),
    ...together(conjunct.places).map((place) => atPlace(place, asOf)),
    ...noPlaces.map((place) => `NOT ${atPlace(place, asOf)}`),
  ];
}

/**
 * Conditions on places that stand together mean one place: `in:INBOX is:unread` is unread in INBOX. Two
 * folders ask for a place in each, with the states that were asked for.
 */
function together(places: readonly PlaceCondition[]): readonly PlaceCondition[] {
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

function isCurrent(asOf: AsOf): string {
  return asOf === null ? '(m.open_places > 0)' : openAt(asOf, '');
}

/** The condition holds at a current place; or, for a message that has none, at its last. */
function atPlace({ folders, flagSets }: PlaceCondition, asOf: AsOf): string {
  const condition = [
    ...(folders === null ? [] : [` AND q.folder_id IN (${folders.join(', ')})`]),
    ...(flagSets === null ? [] : [` AND q.flag_set IN (${flagSets.join(', ')})`]),
  ].join('');
  if (asOf !== null)
    return `(${openAt(asOf, condition)} OR (NOT ${openAt(asOf, '')} AND EXISTS (SELECT 1 FROM (${lastAt(asOf)}) q WHERE 1${condition})))`;
  return `(EXISTS (SELECT 1 FROM places q WHERE q.docid = m.docid AND q.to_commit IS NULL${condition}) OR (m.open_places = 0 AND EXISTS (SELECT 1 FROM places q WHERE q.docid = m.docid AND q.to_commit = (SELECT max(z.to_commit) FROM places z WHERE z.docid = m.docid)${condition})))`;
}

function openAt(commit: number, condition: string): string {
  const within = `q.docid = m.docid AND q.from_commit <= ${commit}`;
  return `(EXISTS (SELECT 1 FROM places q WHERE ${within} AND (q.to_commit IS NULL OR q.to_commit > ${commit})${condition}) OR EXISTS (SELECT 1 FROM spans q WHERE ${within} AND q.to_commit > ${commit}${condition}))`;
}

/** Places whose interval was the last to close before a commit. */
function lastAt(commit: number): string {
  const closed = (table: string) =>
    `SELECT folder_id, flag_set, to_commit FROM ${table} WHERE docid = m.docid AND to_commit <= ${commit}`;
  return `${closed('places')} UNION ALL ${closed('spans')} ORDER BY to_commit DESC LIMIT 1`;
}
