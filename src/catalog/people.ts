import { DOCIDS_PER_SECOND } from '../mail/docid.ts';
import { recipientToken, senderToken, withDomains } from '../mail/identity.ts';
import type { Connection } from './database.ts';
import { deleteBy, insertInto, type Row, selectBy, updateBy, upsert } from './query.ts';
import { numberList } from './sql.ts';

export const ROLE = { sender: 0, recipient: 1 } as const;
export type Role = keyof typeof ROLE;

const KEY = 'address_id, role, year, mailboxes';
type Key = Pick<Row<'correspondents'>, 'address_id' | 'role' | 'year' | 'mailboxes'>;
const FIND = selectBy('addresses', 'id', 'address');
const ADD = insertInto('addresses', 'address');
const OF_MESSAGE = selectBy('message_people', 'mailboxes, senders, recipients', 'docid');
const PUT = upsert('message_people', 'docid', 'mailboxes, senders, recipients');
const DROP = deleteBy('message_people', 'docid');
const COUNT = insertInto(
  'correspondents',
  `${KEY}, messages, last_docid`,
  `ON CONFLICT (${KEY}) DO UPDATE
   SET messages = messages + excluded.messages, last_docid = max(last_docid, excluded.last_docid)`,
);
const COUNTED = selectBy('correspondents', 'messages, last_docid', KEY);
const SET_COUNTED = updateBy('correspondents', 'messages, last_docid', KEY);
const DROP_COUNTED = deleteBy('correspondents', KEY);
const USED = selectBy('correspondents', 'year', 'address_id', 'LIMIT 1');
const BLANK_ADDRESS = updateBy('addresses', 'address', 'id');
const ADDRESS = selectBy('addresses', 'address', 'id');
const DROP_ADDRESS = deleteBy('addresses', 'id');
/** The index has a word for each of a message's addresses, so this finds few rows, and only their lists are read. */
const WITH_TOKEN = `SELECT rowid AS docid FROM msg_fts
  WHERE msg_fts MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC`;

interface People {
  readonly docid: number;
  /** Numbers of its present and past mailboxes, ascending. */
  readonly mailboxes: readonly number[];
  readonly senders: readonly string[];
  readonly recipients: readonly string[];
  /** True if nothing is recorded for it yet, which saves a lookup. */
  readonly fresh: boolean;
}

/** Numbers of recent addresses. Most mail involves the same few. */
const KNOWN = new WeakMap<Connection, Map<string, number>>();
const KNOWN_ADDRESSES = 20_000;

/** Records messages' senders and recipients, and updates their counts. Call within a transaction. */
export function putPeople(connection: Connection, messages: readonly People[]): void {
  const counts = new Map<string, Row<'correspondents'>>();
  for (const { docid, mailboxes, senders, recipients, fresh } of messages) {
    const row = {
      docid,
      mailboxes: JSON.stringify(mailboxes),
      senders: JSON.stringify(withDomains(senders).map((one) => addressId(connection, one))),
      recipients: JSON.stringify(recipients.map((one) => addressId(connection, one))),
    };
    const previous = fresh ? undefined : connection.get(OF_MESSAGE, { docid });
    if (previous !== undefined) {
      const isSame = (['mailboxes', 'senders', 'recipients'] as const).every(
        (column) => previous[column] === row[column],
      );
      if (isSame) continue;
    }
    let gained: Iterable<Key> = keysOf(connection, docid, row);
    if (previous !== undefined) {
      const previousKeys = [...keysOf(connection, docid, previous)];
      const is = [...gained];
      uncount(connection, docid, subtract(previousKeys, is));
      gained = subtract(is, previousKeys);
    }
    connection.run(PUT, row);
    for (const key of gained) count(counts, key, docid);
  }
  for (const row of counts.values()) connection.run(COUNT, row);
  dropUnused(connection);
}

/** Removes a message's people, and addresses that no other message uses. Call within a transaction. */
export function dropPeople(connection: Connection, docid: number): void {
  const previous = connection.get(OF_MESSAGE, { docid });
  if (previous === undefined) return;
  uncount(connection, docid, [...keysOf(connection, docid, previous)]);
  connection.run(DROP, { docid });
  dropUnused(connection);
}

/** Clears the caches after a rollback. */
export function forgetPeople(connection: Connection): void {
  KNOWN.delete(connection);
  UNUSED.delete(connection);
}

function utcYear(docid: number): number {
  return new Date(Math.floor(docid / DOCIDS_PER_SECOND) * 1000).getUTCFullYear();
}

function firstOfYear(year: number): number {
  return (Date.UTC(year, 0, 1) / 1000) * DOCIDS_PER_SECOND;
}

function addressId(connection: Connection, address: string): number {
  let cache = KNOWN.get(connection);
  if (cache === undefined || cache.size >= KNOWN_ADDRESSES) {
    cache = new Map();
    KNOWN.set(connection, cache);
  }
  let id = cache.get(address);
  if (id === undefined) {
    id = connection.get(FIND, { address })?.id ?? connection.run(ADD, { address }).lastInsertRowid;
    cache.set(address, id);
  }
  return id;
}

type Listed = Omit<Row<'message_people'>, 'docid'>;

function* keysOf(
  { file }: Connection,
  docid: number,
  { mailboxes, senders, recipients }: Listed,
): Generator<Key> {
  const year = utcYear(docid);
  for (const [role, list] of [
    [ROLE.sender, senders],
    [ROLE.recipient, recipients],
  ] as const)
    for (const id of numberList(list, file)) yield { address_id: id, role, year, mailboxes };
}

function subtract(keys: readonly Key[], others: readonly Key[]): Key[] {
  const texts = new Set(others.map(textOf));
  return keys.filter((key) => !texts.has(textOf(key)));
}

function textOf({ address_id: address, role, year, mailboxes }: Key): string {
  return `${address} ${role} ${year} ${mailboxes}`;
}

function count(counts: Map<string, Row<'correspondents'>>, key: Key, docid: number): void {
  const text = textOf(key);
  const entry = counts.get(text);
  if (entry === undefined) counts.set(text, { ...key, messages: 1, last_docid: docid });
  else {
    entry.messages += 1;
    entry.last_docid = Math.max(entry.last_docid, docid);
  }
}

/** Addresses removed from a message that may now be unused. */
const UNUSED = new WeakMap<Connection, Set<number>>();

function uncount(connection: Connection, docid: number, keys: readonly Key[]): void {
  const unused = UNUSED.get(connection) ?? new Set();
  UNUSED.set(connection, unused);
  for (const key of keys) {
    const row = connection.get(COUNTED, key);
    if (row === undefined) continue;
    if (row.messages <= 1) {
      connection.run(DROP_COUNTED, key);
      unused.add(key.address_id);
      continue;
    }
    const last = row.last_docid === docid ? lastBefore(connection, key, docid) : row.last_docid;
    connection.run(SET_COUNTED, {
      ...key,
      messages: row.messages - 1,
      last_docid: last ?? row.last_docid,
    });
  }
}

/** Returns the newest earlier message with the same key. */
function lastBefore(connection: Connection, key: Key, docid: number): number | undefined {
  const address = connection.get(ADDRESS, { id: key.address_id })?.address ?? '';
  const isSender = key.role === ROLE.sender;
  const token = isSender ? senderToken(address) : recipientToken(address);
  const bounds = [BigInt(firstOfYear(key.year)), BigInt(docid)];
  for (const row of connection.text<{ docid: number }>(WITH_TOKEN, [
    `meta : ${token}`,
    ...bounds,
  ])) {
    const people = connection.get(OF_MESSAGE, row);
    if (people === undefined || people.mailboxes !== key.mailboxes) continue;
    // Two addresses can share one word.
    const list = isSender ? people.senders : people.recipients;
    if (numberList(list, connection.file).includes(key.address_id)) return row.docid;
  }
  return undefined;
}

function dropUnused(connection: Connection): void {
  for (const id of UNUSED.get(connection) ?? []) {
    if (connection.get(USED, { address_id: id }) !== undefined) continue;
    const address = connection.get(ADDRESS, { id })?.address;
    if (address === undefined) continue;
    // Purged data must not be readable from a freed page.
    const bytes = Buffer.byteLength(address);
    const blank = String(id).padStart(bytes, '\0').slice(-bytes);
    connection.run(BLANK_ADDRESS, { id, address: blank });
    connection.run(DROP_ADDRESS, { id });
    KNOWN.get(connection)?.delete(address);
  }
  UNUSED.delete(connection);
}
