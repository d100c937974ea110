import { DOCIDS_PER_SECOND } from '../../mail/docid.ts';
import type { Connection } from '../connection.ts';
import { numberList } from '../number-list.ts';
import { ROLE } from '../people.ts';
import { isAmong } from '../scope.ts';
import type { ChartFilter } from './chart-filter.ts';
import { term } from './rows.ts';

/** Somebody with whom mail was exchanged. */
export interface Correspondent {
  readonly address: string;
  /** Messages from the address, and to it. */
  readonly from: number;
  readonly to: number;
  /** What finds them; null where the language cannot name the address. */
  readonly fromQuery: string | null;
  readonly toQuery: string | null;
}

/** Years, and where they begin and end for the reader. */
export interface Years {
  readonly first: number;
  readonly last: number;
  /** Docids: from `low` (included) to `high` (excluded). */
  readonly low: number;
  readonly high: number;
}

/** Addresses of each role, year and list of mailboxes among which the most frequent ones are sought. */
const MOST_CANDIDATES = 40;
/** Lists of mailboxes that are searched. */
const MOST_LISTS = 60;

interface Counted {
  from: number;
  to: number;
}

/**
 * Returns the addresses with the most messages, from the sums that indexing keeps. Numbers are exact; an address that is
 * among the first in no year may be missing.
 *
 * @param years null for all
 */
export function correspondentsOf(
  connection: Connection,
  filter: ChartFilter,
  years: Years | null,
  limit: number,
): Correspondent[] {
  const lists = listsOf(connection, filter);
  const candidates = candidatesOf(connection, lists, years ?? allYears(connection));
  const counted = countedOf(connection, lists, years, candidates);
  if (years !== null)
    for (const edge of edgesOf(years)) applyEdge(connection, filter, edge, counted);
  const names = namesOf(connection, [...counted.keys()]);
  return [...counted]
    .flatMap(([id, { from, to }]) => {
      const address = names.get(id);
      return address === undefined || from + to === 0 ? [] : [{ address, from, to }];
    })
    .sort((a, b) => b.from + b.to - a.from - a.to || (a.address < b.address ? -1 : 1))
    .slice(0, limit)
    .map((row) => ({
      ...row,
      fromQuery: term('from', `<${row.address}>`),
      toQuery: term('recip', `<${row.address}>`),
    }));
}

/** Lists of mailboxes that messages of the filter have, as JSON. */
function listsOf(connection: Connection, { scope, fits }: ChartFilter): string[] {
  const visible = scope === null ? '1' : isAmong('mailboxes', scope);
  return connection
    .column<string>(`SELECT DISTINCT mailboxes FROM place_sets WHERE ${visible}`, [])
    .filter((list) => fits?.(numberList(list, connection.file)) !== false)
    .slice(0, MOST_LISTS);
}

function allYears(connection: Connection): Pick<Years, 'first' | 'last'> {
  const yearOf = (end: 'min' | 'max'): number => {
    const docid = connection.first<number | null>(`SELECT ${end}(docid) FROM messages`, []) ?? 0;
    return new Date((docid / DOCIDS_PER_SECOND) * 1000).getUTCFullYear();
  };
  return { first: yearOf('min'), last: yearOf('max') };
}

function candidatesOf(
  connection: Connection,
  lists: readonly string[],
  { first, last }: Pick<Years, 'first' | 'last'>,
): ReadonlySet<number> {
  const candidates = new Set<number>();
  for (const list of lists)
    for (const role of Object.values(ROLE))
      for (let year = first; year <= last; year += 1)
        for (const id of connection.column<number>(
          `SELECT c.address_id FROM correspondents c INDEXED BY correspondents_by_messages
             CROSS JOIN addresses a ON a.id = c.address_id
           WHERE c.mailboxes = ? AND c.role = ${role} AND c.year = CAST(? AS INTEGER)
             AND a.address NOT LIKE '@%'
           ORDER BY c.messages DESC LIMIT ${MOST_CANDIDATES}`,
          [list, year],
        ))
          candidates.add(id);
  return candidates;
}

function countedOf(
  connection: Connection,
  lists: readonly string[],
  years: Years | null,
  candidates: ReadonlySet<number>,
): Map<number, Counted> {
  const counted = new Map<number, Counted>();
  const inYears = years === null ? '1' : `year >= ${years.first} AND year <= ${years.last}`;
  const rows = connection.text<{ id: number; role: number; messages: number }>(
    `SELECT address_id AS id, role, sum(messages) AS messages FROM correspondents
     WHERE address_id IN (SELECT value FROM json_each(?)) AND ${inYears}
       AND mailboxes IN (SELECT value FROM json_each(?)) GROUP BY 1, 2`,
    [JSON.stringify([...candidates]), JSON.stringify(lists)],
  );
  for (const { id, role, messages } of rows) add(counted, id, role, messages);
  return counted;
}

function add(counted: Map<number, Counted>, id: number, role: number, messages: number): void {
  const known = counted.get(id) ?? { from: 0, to: 0 };
  known[role === ROLE.sender ? 'from' : 'to'] += messages;
  counted.set(id, known);
}

/** Sums are of UTC years: messages between the turn of the year in UTC and the reader's, and how often they count. */
interface Edge {
  readonly low: number;
  readonly high: number;
  readonly times: 1 | -1;
}

function edgesOf({ first, last, low, high }: Years): Edge[] {
  const [start, end] = [first, last + 1].map(
    (year) => (Date.UTC(year, 0, 1) / 1000) * DOCIDS_PER_SECOND,
  );
  if (start === undefined || end === undefined) return [];
  return [
    low < start ? { low, high: start, times: 1 } : { low: start, high: low, times: -1 },
    high > end ? { low: end, high, times: 1 } : { low: high, high: end, times: -1 },
  ];
}

/** Adds or takes away the messages of an edge, of those who are counted. */
function applyEdge(
  connection: Connection,
  { fits, scope }: ChartFilter,
  { low, high, times }: Edge,
  counted: Map<number, Counted>,
): void {
  const visible = scope === null ? '1' : isAmong('mailboxes', scope);
  const { file } = connection;
  const rows = connection.values<readonly [string, string, string]>(
    `SELECT mailboxes, senders, recipients FROM message_people
     WHERE docid >= ${low} AND docid < ${high} AND ${visible}`,
  );
  for (const [mailboxes, senders, recipients] of rows) {
    if (fits?.(numberList(mailboxes, file)) === false) continue;
    for (const id of numberList(senders, file))
      if (counted.has(id)) add(counted, id, ROLE.sender, times);
    for (const id of numberList(recipients, file))
      if (counted.has(id)) add(counted, id, ROLE.recipient, times);
  }
}

function namesOf(connection: Connection, ids: readonly number[]): ReadonlyMap<number, string> {
  const rows = connection.text<{ id: number; address: string }>(
    'SELECT id, address FROM addresses WHERE id IN (SELECT value FROM json_each(?))',
    [JSON.stringify(ids)],
  );
  return new Map([...rows].map(({ id, address }) => [id, address]));
}
