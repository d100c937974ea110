import { mimeTokens } from '../../search/fts-text.ts';
import type { Connection } from '../connection.ts';
import { isoOfDocid } from '../moments.ts';
import { ROLE } from '../people.ts';
import { isAmong, type Scope } from '../scope.ts';
import type { Found } from './found.ts';
import { type StatsRow, term } from './rows.ts';

/** Senders, recipients, or the senders' domains. */
export type PeopleDimension = 'from' | 'to' | 'domain';

interface Contents {
  readonly type: string;
  contents: number;
  bytes: number;
}

/**
 * Returns the types of all attachments with their distinct contents, from the sums that are kept.
 *
 * @param count how many messages have attachments of a type
 */
export function keptTypes(connection: Connection, count: (type: string) => number): StatsRow[] {
  const rows = connection.text<Contents>('SELECT type, contents, bytes FROM attachment_types', []);
  const types = new Map<string, Contents>();
  for (const row of rows) {
    const known = types.get(keyOf(row.type));
    if (known === undefined) types.set(keyOf(row.type), { ...row });
    else {
      known.contents += row.contents;
      known.bytes += row.bytes;
    }
  }
  return [...types.values()].map((row) => typeRow(row, count(row.type)));
}

/** Types that are looked at: senders choose what their attachments are called. */
const MOST_TYPES = 2_000;

/** Returns types of attachments that begin so, from the sums that are kept. */
export function typesCalled(
  connection: Connection,
  prefix: string,
  limit: number,
): { readonly type: string; readonly contents: number }[] {
  const typed = prefix.toLowerCase();
  const rows = connection.text<Omit<Contents, 'bytes'>>(
    `SELECT type, contents FROM attachment_types
     WHERE type >= ? AND type < ? AND type <> '' LIMIT ${MOST_TYPES}`,
    [typed, `${typed}\u{10ffff}`],
  );
  return [...rows].sort((a, b) => b.contents - a.contents).slice(0, limit);
}

/** The same of the messages that a query finds. */
export function foundTypes(found: Found): StatsRow[] {
  const types = new Map<
    string,
    { readonly type: string; readonly docids: Set<number>; readonly sizes: Map<string, number> }
  >();
  for (const { docid, type, hash, size } of found.rows<{
    docid: number;
    type: string;
    hash: string;
    size: number;
  }>(
    "SELECT docid, type, hex(hash) AS hash, size FROM attachments WHERE type <> '' AND docid IN",
  )) {
    const known = types.get(keyOf(type)) ?? { type, docids: new Set(), sizes: new Map() };
    types.set(keyOf(type), known);
    known.docids.add(docid);
    known.sizes.set(`${hash} ${type}`, size);
  }
  return [...types.values()].map(({ type, docids, sizes }) => {
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    return typeRow({ type, contents: sizes.size, bytes }, docids.size);
  });
}

/** Types that a search cannot tell from each other count as one. */
function keyOf(type: string): string {
  return mimeTokens(type).at(-1) ?? '';
}

function typeRow({ type, contents, bytes }: Contents, messages: number): StatsRow {
  return { key: type, messages, bytes, deleted: null, contents, query: term('mime', type) };
}

/** Addresses that one statement asks about. */
const CHUNK = 1_000;

interface Counted {
  readonly address: string;
  readonly messages: number;
  readonly last: number;
}

/**
 * Returns who sent or got most messages, or the senders' domains, from the sums that are kept.
 *
 * @param limit rows, at most: an archive may have a million addresses
 */
export function keptPeople(
  connection: Connection,
  by: PeopleDimension,
  scope: Scope | null,
  limit: number,
): StatsRow[] {
  const rows = connection.text<Counted>(
    `SELECT a.address, sum(c.messages) AS messages, max(c.last_docid) AS last
     FROM correspondents c JOIN addresses a ON a.id = c.address_id
     WHERE c.role = ${roleOf(by)} AND a.address ${likeOf(by)}
       ${scope === null ? '' : `AND ${isAmong('c.mailboxes', scope)}`}
     GROUP BY a.id ORDER BY 2 DESC, a.address LIMIT ?`,
    [BigInt(limit)],
  );
  return [...rows].map((row) => personRow(by, row));
}

/** The same of the messages that a query finds, and perhaps some with as many messages as the last of them. */
export function foundPeople(by: PeopleDimension, found: Found, limit: number): StatsRow[] {
  const counted = new Map<number, { messages: number; last: number }>();
  const column = by === 'to' ? 'recipients' : 'senders';
  const rows = found.rows<{ id: number; docid: number }>(
    `SELECT e.value AS id, p.docid FROM message_people p, json_each(p.${column}) e WHERE p.docid IN`,
  );
  for (const { id, docid } of rows) {
    const known = counted.get(id) ?? { messages: 0, last: 0 };
    counted.set(id, known);
    known.messages += 1;
    known.last = Math.max(known.last, docid);
  }
  const most = [...counted].sort(([, a], [, b]) => b.messages - a.messages);
  const people: StatsRow[] = [];
  for (let at = 0; at < most.length; at += CHUNK) {
    // Of those with as many messages, the order of the addresses decides.
    const next = most[at]?.[1].messages ?? 0;
    if (people.length >= limit && (people[limit - 1]?.messages ?? 0) > next) break;
    const chunk = most.slice(at, at + CHUNK);
    const addresses = new Map(
      found
        .rowsOf<{ id: number; address: string }>(
          chunk.map(([id]) => id),
          `SELECT id, address FROM addresses WHERE address ${likeOf(by)} AND id IN`,
        )
        .map(({ id, address }) => [id, address]),
    );
    for (const [id, { messages, last }] of chunk) {
      const address = addresses.get(id);
      if (address !== undefined) people.push(personRow(by, { address, messages, last }));
    }
  }
  return people;
}

function roleOf(by: PeopleDimension): number {
  return by === 'to' ? ROLE.recipient : ROLE.sender;
}

/** A domain stands among addresses with its @. */
function likeOf(by: PeopleDimension): string {
  return by === 'domain' ? "LIKE '@%'" : "NOT LIKE '@%'";
}

function personRow(by: PeopleDimension, { address, messages, last }: Counted): StatsRow {
  return {
    key: by === 'domain' ? address.slice(1) : address,
    messages,
    bytes: null,
    deleted: null,
    last: isoOfDocid(last),
    query: term(by === 'to' ? 'recip' : 'from', `<${address}>`),
  };
}
