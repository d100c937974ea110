import { DOCIDS_PER_SECOND, hasDate, receivedAt } from '../mail/docid.ts';
import { threadNode } from '../mail/identity.ts';
import { decodeListedText } from '../mail/listed-text.ts';
import { foldWord, mimeTokens } from '../mail/normalise.ts';
import type { Connection } from './database.ts';
import { archiveNames, type FolderName } from './folders.ts';
import { displaySender, readableText } from './messages.ts';
import { ROLE, type Role } from './people.ts';
import type { Row } from './query.ts';
import { wallTime } from './query-dates.ts';
import { createView, type View } from './resolve-query.ts';
import { type CountRequest, type SearchQueries, shownPlaces } from './search.ts';
import { docidToIso, includesScope, isoTime, isVisible, numberList } from './sql.ts';
import type { StatsQuery } from './stats.ts';
import {
  AMONG,
  type ChartFilter,
  type Dimension,
  type DuplicateRow,
  type LargeMessage,
  MatchingMessages,
  quotedTerm,
  type StatsRow,
} from './sums.ts';

type Message = Row<'messages'>;
type PeopleDimension = 'from' | 'to' | 'domain';

interface Contents {
  readonly type: string;
  contents: number;
  bytes: number;
}

/**
 * Returns all attachment types from the stored totals.
 *
 * @param count returns the number of messages with attachments of a type
 */
export function storedTypes(connection: Connection, count: (type: string) => number): StatsRow[] {
  const rows = connection.text<Contents>('SELECT type, contents, bytes FROM attachment_types', []);
  const types = new Map<string, Contents>();
  for (const row of rows) {
    const entry = types.get(keyOf(row.type));
    if (entry === undefined) types.set(keyOf(row.type), { ...row });
    else {
      entry.contents += row.contents;
      entry.bytes += row.bytes;
    }
  }
  return [...types.values()].map((row) => typeRow(row, count(row.type)));
}

/** Maximum number of types to read. Senders choose attachment types freely, so there can be any number of them. */
const MAX_TYPES = 2_000;

/** Returns the attachment types with a prefix, most common first, from the stored totals. */
export function typesByPrefix(
  connection: Connection,
  prefix: string,
  limit: number,
): { readonly type: string; readonly contents: number }[] {
  const typed = prefix.toLowerCase();
  const rows = connection.text<Omit<Contents, 'bytes'>>(
    `SELECT type, contents FROM attachment_types
     WHERE type >= ? AND type < ? LIMIT ${MAX_TYPES}`,
    [typed, `${typed}\u{10ffff}`],
  );
  return [...rows].sort((a, b) => b.contents - a.contents).slice(0, limit);
}

export function matchingTypes(connection: Connection, found: MatchingMessages): StatsRow[] {
  const types = new Map<
    string,
    { readonly type: string; readonly docids: Set<number>; readonly sizes: Map<string, number> }
  >();
  const rows = connection.text<{ docid: number; type: string; hash: string; size: number }>(
    `SELECT docid, type, hex(hash) AS hash, size FROM attachments WHERE docid ${AMONG}`,
    [found.json()],
  );
  for (const { docid, type, hash, size } of rows) {
    const entry = types.get(keyOf(type)) ?? { type, docids: new Set(), sizes: new Map() };
    types.set(keyOf(type), entry);
    entry.docids.add(docid);
    entry.sizes.set(`${hash} ${type}`, size);
  }
  return [...types.values()].map(({ type, docids, sizes }) => {
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    return typeRow({ type, contents: sizes.size, bytes }, docids.size);
  });
}

/** Returns the same key for types that a search cannot distinguish. */
function keyOf(type: string): string {
  return mimeTokens(type).at(-1) ?? '';
}

function typeRow({ type, contents, bytes }: Contents, messages: number): StatsRow {
  return { key: type, messages, bytes, deleted: null, contents, query: quotedTerm('mime', type) };
}

/**
 * Returns the people or sender domains with the most messages.
 *
 * @param found undefined for all messages, which are counted from the stored totals
 * @param limit required, because an archive can contain a million addresses
 */
export function topPeople(
  connection: Connection,
  by: PeopleDimension,
  found: MatchingMessages | undefined,
  limit: number,
): StatsRow[] {
  const [role, list] = by === 'to' ? [ROLE.recipient, 'recipients'] : [ROLE.sender, 'senders'];
  const counted =
    found === undefined
      ? `SELECT address_id AS id, sum(messages) AS messages, max(last_docid) AS last
         FROM correspondents
         WHERE role = ${role} AND ${includesScope('mailboxes', connection.scope)} GROUP BY 1`
      : `SELECT e.value AS id, count(*) AS messages, max(p.docid) AS last
         FROM message_people p CROSS JOIN json_each(p.${list}) e
         WHERE p.docid ${AMONG} GROUP BY 1`;
  const rows = connection.text<{ address: string; messages: number; last: number }>(
    `SELECT a.address, c.messages, c.last
     FROM (${counted}) c CROSS JOIN addresses a ON a.id = c.id
     WHERE a.address ${likeClause(by)} ORDER BY 2 DESC, 1 LIMIT ?`,
    [...(found === undefined ? [] : [found.json()]), BigInt(limit)],
  );
  return [...rows].map(({ address, messages, last }) => ({
    key: by === 'domain' ? address.slice(1) : address,
    messages,
    bytes: null,
    deleted: null,
    last: docidToIso(last),
    query: quotedTerm(by === 'to' ? 'recip' : 'from', `<${address}>`),
  }));
}

/** Domains are stored as addresses that start with an @. */
function likeClause(by: PeopleDimension): string {
  return by === 'domain' ? "LIKE '@%'" : "NOT LIKE '@%'";
}

export interface Years {
  readonly first: number;
  readonly last: number;
  /** Half-open range of docids. */
  readonly low: number;
  readonly high: number;
}

/** Maximum number of candidates per role, year and mailbox list. */
const MAX_CANDIDATES = 40;
const MAX_LISTS = 60;

interface CountedCorrespondent {
  from: number;
  to: number;
}

/**
 * Returns the addresses with the most messages sent and received, from the stored totals. A row's query is null if the
 * query language cannot express the address. Counts are exact, but an address that never ranks highly in any one year
 * can be missing.
 *
 * @param years null for all
 */
export function topCorrespondents(
  connection: Connection,
  filter: ChartFilter,
  years: Years | null,
  limit: number,
) {
  const lists = listsOf(connection, filter);
  const candidates = candidatesOf(connection, lists, years ?? allYears(connection));
  const counts = countedOf(connection, lists, years, candidates);
  if (years !== null)
    for (const edge of edgesOf(years)) applyEdge(connection, filter, edge, counts);
  const names = namesOf(connection, [...counts.keys()]);
  return [...counts]
    .flatMap(([id, { from, to }]) => {
      const address = names.get(id);
      return address === undefined || from + to === 0 ? [] : [{ address, from, to }];
    })
    .sort((a, b) => b.from + b.to - a.from - a.to || (a.address < b.address ? -1 : 1))
    .slice(0, limit)
    .map((row) => ({
      ...row,
      fromQuery: quotedTerm('from', `<${row.address}>`),
      toQuery: quotedTerm('recip', `<${row.address}>`),
    }));
}

function listsOf(connection: Connection, { fits }: ChartFilter): string[] {
  const visible = includesScope('mailboxes', connection.scope);
  return connection
    .column<string>(`SELECT DISTINCT mailboxes FROM place_sets WHERE ${visible}`, [])
    .filter((list) => fits?.(numberList(list, connection.file)) !== false)
    .slice(0, MAX_LISTS);
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
           ORDER BY c.messages DESC LIMIT ${MAX_CANDIDATES}`,
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
): Map<number, CountedCorrespondent> {
  const counts = new Map<number, CountedCorrespondent>();
  const inYears = years === null ? '1' : `year >= ${years.first} AND year <= ${years.last}`;
  const rows = connection.text<{ id: number; role: number; messages: number }>(
    `SELECT address_id AS id, role, sum(messages) AS messages FROM correspondents
     WHERE address_id IN (SELECT value FROM json_each(?)) AND ${inYears}
       AND mailboxes IN (SELECT value FROM json_each(?)) GROUP BY 1, 2`,
    [JSON.stringify([...candidates]), JSON.stringify(lists)],
  );
  for (const { id, role, messages } of rows) add(counts, id, role, messages);
  return counts;
}

function add(
  counts: Map<number, CountedCorrespondent>,
  id: number,
  role: number,
  messages: number,
): void {
  const entry = counts.get(id) ?? { from: 0, to: 0 };
  entry[role === ROLE.sender ? 'from' : 'to'] += messages;
  counts.set(id, entry);
}

/**
 * Messages received between the turn of the year in UTC and that in the reader's time zone. `times` is 1 if the UTC
 * totals lack them, or -1 if they must be subtracted.
 */
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

function applyEdge(
  connection: Connection,
  { fits }: ChartFilter,
  { low, high, times }: Edge,
  counts: Map<number, CountedCorrespondent>,
): void {
  const { file } = connection;
  const rows = connection.values<readonly [string, string, string]>(
    `SELECT mailboxes, senders, recipients FROM message_people
     WHERE docid >= ${low} AND docid < ${high} AND ${includesScope('mailboxes', connection.scope)}`,
  );
  for (const [mailboxes, senders, recipients] of rows) {
    if (fits?.(numberList(mailboxes, file)) === false) continue;
    for (const id of numberList(senders, file))
      if (counts.has(id)) add(counts, id, ROLE.sender, times);
    for (const id of numberList(recipients, file))
      if (counts.has(id)) add(counts, id, ROLE.recipient, times);
  }
}

function namesOf(connection: Connection, ids: readonly number[]): ReadonlyMap<number, string> {
  const rows = connection.text<{ id: number; address: string }>(
    'SELECT id, address FROM addresses WHERE id IN (SELECT value FROM json_each(?))',
    [JSON.stringify(ids)],
  );
  return new Map([...rows].map(({ id, address }) => [id, address]));
}

export interface Person {
  readonly address: string;
  /** Name in the newest known message, for a mailing list that of the list; null if no message contains one. */
  readonly name: string | null;
  /** Messages sent to the address, and messages sent from it. */
  readonly received: number;
  readonly sent: number;
}

const ASKED_AFTER = 256;
/** Maximum number of people to look up by name per request. */
const MAX_NAMED = 64;

/**
 * Returns people whose address, or a word of whose name or address in recent messages, starts with `typed`. Those whose
 * whole name or address does come first, then those with most messages, then those with the latest.
 *
 * @param mayContinue once it returns false, addresses later in the alphabet are omitted
 * @param role counts and returns only people who sent messages, or to whom some were sent
 */
export function peopleByPrefix(
  connection: Connection,
  typed: string,
  limit: number,
  mayContinue: () => boolean,
  role: Role | null,
): Person[] {
  const prefix = typed.toLowerCase();
  const counts = new Map<string, PersonCounts>();
  const note = ({ address, role: counted, messages, last_docid: last }: CountedPerson): void => {
    const sums = counts.get(address) ?? { received: 0, sent: 0, last: 0 };
    counts.set(address, sums);
    sums[counted === ROLE.recipient ? 'received' : 'sent'] += messages;
    if (role === null || counted === ROLE[role]) sums.last = Math.max(sums.last, last);
  };
  let rows = 0;
  const byAddress = countedWhere(connection, 'a.address >= ? AND a.address < ?');
  for (const person of connection.text<CountedPerson>(`${byAddress} ORDER BY a.address`, [
    prefix,
    `${prefix}\u{10ffff}`,
  ])) {
    note(person);
    rows += 1;
    if (rows % ASKED_AFTER === 0 && !mayContinue()) break;
  }
  const recent = recentSenders(connection);
  const ofAddress = countedWhere(connection, 'a.address = ?');
  for (const address of recent.called(typed).slice(0, MAX_NAMED)) {
    // An address without counts has only purged or unindexed messages.
    if (!counts.has(address))
      [...connection.text<CountedPerson>(ofAddress, [address])].forEach(note);
  }
  const starts = foldWord(prefix);
  return [...counts]
    .map(([address, { received, sent, last }]) => {
      const name = recent.nameOf(address);
      const isWhole = address.startsWith(prefix) || foldWord(name ?? '').startsWith(starts);
      const messages = role === null ? received + sent : role === 'sender' ? sent : received;
      return { person: { address, name, received, sent }, isWhole, messages, last };
    })
    .filter(({ messages }) => messages > 0)
    .sort(
      (a, b) =>
        Number(b.isWhole) - Number(a.isWhole) ||
        b.messages - a.messages ||
        b.last - a.last ||
        (a.person.address < b.person.address ? -1 : 1),
    )
    .slice(0, limit)
    .map(({ person }) => person);
}

interface PersonCounts {
  received: number;
  sent: number;
  /** Docid of the latest message that counts. */
  last: number;
}

interface CountedPerson {
  readonly address: string;
  readonly role: number;
  readonly messages: number;
  readonly last_docid: number;
}

function countedWhere({ scope }: Connection, condition: string): string {
  return `SELECT a.address, c.role, c.messages, c.last_docid
    FROM addresses a CROSS JOIN correspondents c ON c.address_id = a.id
    WHERE ${condition} AND a.address NOT LIKE '@%' AND ${includesScope('c.mailboxes', scope)}`;
}

const READ = 2_000;
const MAX_PEOPLE = 10_000;
/** Senders can choose names of any length. */
const MAX_CHARACTERS = 200;
const MAX_WORDS = 12;
const VIA = /\svia\s+(\S.*)$/is;

type Sender = Pick<Message, 'docid' | 'sender_name' | 'sender_address'>;

interface RecentSender {
  readonly name: string | null;
  readonly words: readonly string[];
  messages: number;
}

/** Caches sender names from recent messages, because names are not indexed. Each request reads further back. */
class RecentSenders {
  readonly #senders = new Map<string, RecentSender>();
  #newest = -1;
  #oldest = Number.MAX_SAFE_INTEGER;
  #tombstones = 0;

  constructor(private readonly connection: Connection) {}

  readFurther(): void {
    const tombstones = this.connection.first<number>('SELECT count(*) FROM tombstones', []) ?? 0;
    if (tombstones !== this.#tombstones) this.#clear();
    this.#tombstones = tombstones;
    const select = `SELECT docid, sender_name, sender_address FROM messages m
      WHERE ${isVisible(this.connection.scope)} AND`;
    const newer = this.connection.text<Sender>(
      `${select} docid > ? ORDER BY docid DESC LIMIT ${READ}`,
      [BigInt(this.#newest)],
    );
    const [first, ...rest] = newer;
    if (first !== undefined) {
      // More messages arrived than were read, so continuing would leave a gap.
      if (this.#newest >= 0 && rest.length === READ - 1) this.#clear();
      for (const sender of [first, ...rest].reverse()) this.#note(sender, true);
    }
    if (this.#senders.size >= MAX_PEOPLE || (first !== undefined && rest.length === READ - 1))
      return;
    const older = this.connection.text<Sender>(
      `${select} docid < ? ORDER BY docid DESC LIMIT ${READ}`,
      [BigInt(this.#oldest)],
    );
    for (const sender of older) this.#note(sender, false);
  }

  /** Returns the addresses where every typed word starts a word in the name or address. */
  called(typed: string): string[] {
    const prefixes = wordsOf(typed);
    if (prefixes.length === 0 && typed !== '') return [];
    return [...this.#senders]
      .filter(([, { words }]) =>
        prefixes.every((start) => words.some((word) => word.startsWith(start))),
      )
      .sort(([, a], [, b]) => b.messages - a.messages)
      .map(([address]) => address);
  }

  nameOf(address: string): string | null {
    return this.#senders.get(address)?.name ?? null;
  }

  #note({ docid, sender_name, sender_address }: Sender, isNewer: boolean): void {
    this.#newest = Math.max(this.#newest, docid);
    this.#oldest = Math.min(this.#oldest, docid);
    const address = sender_address?.toLowerCase() ?? '';
    if (address === '') return;
    const known = this.#senders.get(address);
    if (known !== undefined) known.messages += 1;
    if (known !== undefined && !isNewer) return;
    const decoded = sender_name === null ? '' : decodeListedText(sender_name);
    // Lists and services write for others: `Ada via Gardeners`.
    const name = (VIA.exec(decoded)?.[1] ?? decoded) || null;
    const words = [...wordsOf(name ?? ''), ...wordsOf(address)];
    this.#senders.set(address, { name, words, messages: known?.messages ?? 1 });
  }

  #clear(): void {
    this.#senders.clear();
    this.#newest = -1;
    this.#oldest = Number.MAX_SAFE_INTEGER;
  }
}

function wordsOf(text: string): string[] {
  return (foldWord(text.slice(0, MAX_CHARACTERS)).match(/[\p{L}\p{N}\p{M}]+/gu) ?? []).slice(
    0,
    MAX_WORDS,
  );
}

const RECENT = new WeakMap<Connection, RecentSenders>();

function recentSenders(connection: Connection): RecentSenders {
  const recent = RECENT.get(connection) ?? new RecentSenders(connection);
  RECENT.set(connection, recent);
  recent.readFurther();
  return recent;
}

type Member = Pick<Row<'thread_members'>, 'node' | 'docid'>;
type DuplicateMessage = Pick<Message, 'docid' | 'size' | 'subject' | 'message_id'>;

export function findDuplicates(
  connection: Connection,
  { found }: Pick<StatsQuery, 'found'>,
  limit: number,
): DuplicateRow[] {
  const groups = new Map<number, number[]>();
  const among =
    found === undefined
      ? `t.node IN (SELECT node FROM thread_members GROUP BY node HAVING count(*) > 1)
         AND ${isVisible(connection.scope)}`
      : `t.docid ${AMONG}`;
  const members = connection.text<Member>(
    `SELECT t.node, t.docid FROM thread_members t CROSS JOIN messages m ON m.docid = t.docid
     WHERE ${among} ORDER BY t.docid`,
    found === undefined ? [] : [found.json()],
  );
  for (const { node, docid } of members) {
    const group = groups.get(node);
    if (group === undefined) groups.set(node, [docid]);
    else group.push(docid);
  }
  return [...groups]
    .filter(([, docids]) => docids.length > 1)
    .map(([node, docids]) => rowOf(node, docids))
    .toSorted((a, b) => b.bytes - a.bytes || (a.messageId ?? '').localeCompare(b.messageId ?? ''))
    .slice(0, limit);

  function rowOf(node: number, docids: readonly number[]): DuplicateRow {
    const rows = [
      ...connection.text<DuplicateMessage>(
        `SELECT docid, size, subject, message_id FROM messages
         WHERE docid ${AMONG} ORDER BY docid`,
        [JSON.stringify(docids)],
      ),
    ];
    // The service's listing can differ from the header that was indexed.
    const listed = rows.find(
      ({ message_id: id }) => id !== null && threadNode(id) === node,
    )?.message_id;
    const messageId = listed?.trim().replace(/^<|>$/g, '') ?? null;
    return {
      messageId,
      subject: readableText(rows[0]?.subject ?? null),
      messages: docids.length,
      bytes: rows.reduce((sum, { size }) => sum + size, 0),
      query: messageId === null ? null : quotedTerm('id', messageId),
    };
  }
}

type LargestRow = Pick<
  Message,
  'id' | 'size' | 'date' | 'subject' | 'sender_name' | 'sender_address'
>;

/** Returns the largest messages. Ties are broken by date, newest first. */
export function largestMessages(
  connection: Connection,
  { found }: Pick<StatsQuery, 'found'>,
  limit: number,
): LargeMessage[] {
  const among = found === undefined ? isVisible(connection.scope) : `m.docid ${AMONG}`;
  const rows = connection.text<LargestRow>(
    `SELECT m.id, m.size, m.date, m.subject, m.sender_name, m.sender_address
     FROM messages m WHERE ${among} ORDER BY m.size DESC, m.docid DESC LIMIT ${limit}`,
    found === undefined ? [] : [found.json()],
  );
  return [...rows].map((row) => ({
    id: connection.hex(row.id),
    size: row.size,
    date: isoTime(row.date),
    subject: readableText(row.subject),
    from: displaySender(row),
  }));
}

/** Maximum number of messages to count, newest first. Each takes about 30 µs. */
const MOST = 5_000;

type Facet = Exclude<Dimension, 'to' | 'domain'>;

/**
 * A value, and the number of messages that a search with its term would find. A folder counts every result that it
 * contains. If the query contains a state, the search finds fewer: `is:unread in:Work` requires the message to be
 * unread in Work.
 */
interface FacetValue {
  readonly key: string;
  readonly messages: number;
}

/** Years and months are sorted newest first, all other values by count. */
export interface Facets extends Readonly<Record<Facet, readonly FacetValue[]>> {
  /** Number of messages counted, starting with the newest match. */
  readonly counted: number;
  readonly complete: boolean;
}

/**
 * Counts a query's matches by every facet in one pass. A message in two folders is counted in both.
 *
 * @param limit maximum number of values per facet
 * @param mayContinue the pass stops once it returns false
 */
export function countFacets(
  connection: Connection,
  search: SearchQueries,
  request: CountRequest,
  limit: number,
  mayContinue: () => boolean,
): Facets {
  const { docids, complete } = collectDocids(search, request, mayContinue);
  const found = new MatchingMessages(connection, search, request, docids);
  const view = createView(connection, request);
  const names = archiveNames(connection, view.asOf).folders;
  const valuesOf = (keys: Iterable<string>): FacetValue[] =>
    [...countedFacet(keys)].map(([key, messages]) => ({ key, messages }));
  const dated = docids.filter(hasDate);
  const paths = foldersOf(connection, docids, found, view).flatMap((folders) =>
    pathsOf(folders, names),
  );
  return {
    counted: docids.length,
    complete,
    mailbox: largestFacets(valuesOf(mailboxesOf(connection, found, names)), limit),
    folder: largestFacets(valuesOf(paths), limit),
    year: valuesOf(dated.map((docid) => periodOf(docid).slice(0, 4))).slice(0, limit),
    month: valuesOf(dated.map(periodOf)).slice(0, limit),
    from: largestFacets(topPeople(connection, 'from', found, limit), limit),
    type: largestFacets(matchingTypes(connection, found), limit),
  };
}

function collectDocids(
  search: SearchQueries,
  request: CountRequest,
  mayContinue: () => boolean,
): { readonly docids: readonly number[]; readonly complete: boolean } {
  let complete = true;
  const hasTime = (): boolean => {
    complete &&= mayContinue();
    return complete;
  };
  const docids: number[] = [];
  for (const docid of search.prepare(request).docids({}, hasTime)) {
    if (docids.length === MOST) return { docids, complete: false };
    docids.push(docid);
  }
  return { docids, complete };
}

function foldersOf(
  connection: Connection,
  docids: readonly number[],
  found: MatchingMessages,
  view: View,
): (readonly number[])[] {
  // Place sets exist only for the present and the whole archive.
  if (view.asOf !== null || view.scope !== null)
    return docids.map((docid) => lastFolders(shownPlaces(connection, docid, view)));
  const rows = connection.text<{ current: string; last: string }>(
    `SELECT s.current, s.last FROM messages m JOIN place_sets s ON s.id = m.place_set
     WHERE m.docid ${AMONG}`,
    [found.json()],
  );
  return [...rows].map(({ current, last }) => [
    ...numberList(current, connection.file),
    ...numberList(last, connection.file),
  ]);
}

function lastFolders(places: ReturnType<typeof shownPlaces>): number[] {
  const open = places.filter(({ ended_at: ended }) => ended === null);
  const last = Math.max(...places.map(({ to_commit: to }) => to ?? 0));
  const shown = open.length > 0 ? open : places.filter(({ to_commit: to }) => to === last);
  return shown.map(({ folder_id: folder }) => folder);
}

/** Folders in different mailboxes can have the same path. */
function pathsOf(folders: readonly number[], names: ReadonlyMap<number, FolderName>): string[] {
  const paths = folders.flatMap((id) => names.get(id)?.path ?? []);
  // A query cannot name a folder called "anywhere".
  return [...new Set(paths)].filter((path) => path.toLowerCase() !== 'anywhere');
}

function mailboxesOf(
  connection: Connection,
  found: MatchingMessages,
  names: ReadonlyMap<number, FolderName>,
): string[] {
  const addresses = new Map<number, string>();
  for (const { mailboxId, address } of names.values()) addresses.set(mailboxId, address);
  const rows = connection.text<{ mailboxes: string }>(
    `SELECT s.mailboxes FROM messages m JOIN place_sets s ON s.id = m.place_set
     WHERE m.docid ${AMONG}`,
    [found.json()],
  );
  return [...rows].flatMap(({ mailboxes }) => [
    ...new Set(numberList(mailboxes, connection.file).flatMap((id) => addresses.get(id) ?? [])),
  ]);
}

function periodOf(docid: number): string {
  const { year, month } = wallTime(receivedAt(docid));
  return `${String(year).padStart(4, '0')}-${String(month).padStart(2, '0')}`;
}

function countedFacet(keys: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

function largestFacets(values: readonly FacetValue[], limit: number): FacetValue[] {
  return values
    .toSorted((a, b) => b.messages - a.messages || (a.key < b.key ? -1 : 1))
    .slice(0, limit)
    .map(({ key, messages }) => ({ key, messages }));
}
