import { catalogError } from '../core/error-tables.ts';
import { type FlagSet, flagSet } from '../core/types.ts';
import { DOCIDS_PER_SECOND } from '../mail/docid.ts';
import { type Connection, RECORD_MESSAGE, type Scope } from './database.ts';
import { insertInto, type Row, selectBy, sqlQuery } from './query.ts';

/*
 * Conditions that limit rows to a scope. Without one, they are always true.
 */

/** Returns an SQL condition that a folder is in the scope. */
export function isOwnFolder(folder: string, scope: Scope | null): string {
  if (scope === null) return '1';
  return `${folder} IN (SELECT id FROM folders WHERE mailbox_id IN (${scope.mailboxes.join(', ')}))`;
}

/** Returns an SQL condition that a JSON list of mailboxes includes one in the scope. */
export function includesScope(list: string, scope: Scope | null): string {
  if (scope === null) return '1';
  return `EXISTS (SELECT 1 FROM json_each(${list}) WHERE value IN (${scope.mailboxes.join(', ')}))`;
}

/** Returns an SQL condition that a message `m` is or was in a mailbox in the scope. */
export function isVisible(scope: Scope | null): string {
  if (scope === null) return '1';
  return `m.place_set IN (SELECT id FROM place_sets WHERE ${includesScope('mailboxes', scope)})`;
}

/** Reports whether a message is or was in a mailbox in the connection's scope. */
export function isInScope(connection: Connection, docid: number): boolean {
  const { scope } = connection;
  if (scope === null) return true;
  const sqlText = `SELECT 1 FROM messages m WHERE m.docid = ? AND ${isVisible(scope)}`;
  return connection.first<number>(sqlText, [docid]) !== undefined;
}

interface Prefixed {
  readonly id: string;
  readonly docid: number;
}

/** Returns the lowest and highest hash with a prefix of hex digits in either case; undefined for other text. */
export function prefixBounds(
  prefix: string,
): { readonly low: Buffer; readonly high: Buffer } | undefined {
  const digits = prefix.toLowerCase();
  if (!/^[0-9a-f]{1,64}$/.test(digits)) return undefined;
  const low = Buffer.from(digits.padEnd(64, '0'), 'hex');
  return { low, high: Buffer.from(digits.padEnd(64, 'f'), 'hex') };
}

/**
 * Returns the messages whose ID starts with a prefix.
 *
 * @param prefix hex digits in either case; other text matches nothing
 */
export function idsByPrefix(connection: Connection, prefix: string, limit: number): Prefixed[] {
  const bounds = prefixBounds(prefix);
  if (bounds === undefined) return [];
  const rows = connection.text<{ hash: Buffer; docid: number }>(
    `SELECT r.hash, r.docid FROM records r CROSS JOIN messages m ON m.docid = r.docid
     WHERE r.kind = ${RECORD_MESSAGE} AND r.hash >= ? AND r.hash <= ? AND ${isVisible(connection.scope)}
     ORDER BY r.hash LIMIT ${limit}`,
    [bounds.low, bounds.high],
  );
  return [...rows].map(({ hash, docid }) => ({ id: connection.hex(hash), docid }));
}

/**
 * Parses a JSON list of numbers from a column.
 *
 * @param file the catalog's
 * @throws catalog-damaged for other values
 */
export function numberList(text: string, file: string): number[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw catalogError('catalog-damaged', { file, reason: NOT_A_LIST }, error);
  }
  if (Array.isArray(parsed) && parsed.every((one) => typeof one === 'number')) return parsed;
  throw catalogError('catalog-damaged', { file, reason: NOT_A_LIST });
}

const NOT_A_LIST = 'a list of numbers that is none';

/** Bits of `marks`: the flags that queries use. */
export const MARK = {
  seen: 1,
  flagged: 2,
  answered: 4,
  draft: 8,
  deleted: 16,
  forwarded: 32,
} as const;

const BITS: Readonly<Record<string, number>> = {
  '\\seen': MARK.seen,
  '\\flagged': MARK.flagged,
  '\\answered': MARK.answered,
  '\\draft': MARK.draft,
  '\\deleted': MARK.deleted,
  '\\forwarded': MARK.forwarded,
  $forwarded: MARK.forwarded,
};

/** Returns the bits for a set of flags, ignoring flags without a bit. */
export function flagMarks(flags: FlagSet): number {
  return flags.reduce((marks, flag) => marks | (BITS[flag.toLowerCase()] ?? 0), 0);
}

export interface FlagSetRow {
  readonly id: number;
  readonly flags: FlagSet;
  readonly marks: number;
}

const ALL = selectBy('flag_sets', 'id, flags, marks', '', 'ORDER BY id');

/** Returns every flag set ever seen. There are a few dozen, since flags repeat. */
export function flagSetRows(connection: Connection): FlagSetRow[] {
  return connection
    .all(ALL, {})
    .map(({ id, flags, marks }) => ({ id, flags: parse(flags), marks }));
}

function parse(text: string): FlagSet {
  const parsed: unknown = JSON.parse(text);
  return Array.isArray(parsed) ? flagSet(parsed.filter((flag) => typeof flag === 'string')) : [];
}

const FIND = selectBy('flag_sets', 'id, marks', 'flags');
const ADD = insertInto('flag_sets', 'flags, marks');

export type StoredFlagSet = Pick<FlagSetRow, 'id' | 'marks'>;

/** Numbers flag sets in log order, so that a rebuild yields the same numbers. */
export class FlagSets {
  readonly #sets = new Map<string, StoredFlagSet>();

  constructor(private readonly connection: Connection) {}

  of(flags: FlagSet): StoredFlagSet {
    const text = JSON.stringify(flags);
    let stored = this.#sets.get(text);
    if (stored === undefined) {
      stored = this.connection.get(FIND, { flags: text });
      if (stored === undefined) {
        const marks = flagMarks(flags);
        stored = { id: this.connection.run(ADD, { flags: text, marks }).lastInsertRowid, marks };
      }
      this.#sets.set(text, stored);
    }
    return stored;
  }

  /** Clears the cache after a rollback, which invalidates its numbers. */
  forget(): void {
    this.#sets.clear();
  }
}

export const ENVELOPE = 'date, subject, sender_name, sender_address, message_id';
export type Envelope = Pick<
  Row<'messages'>,
  'date' | 'subject' | 'sender_name' | 'sender_address' | 'message_id'
>;

export const UID = 'folder_id, generation, uid';
export type Uid = Pick<Row<'places'>, 'folder_id' | 'generation' | 'uid'>;

const IN_FORCE = sqlQuery<{ time: number }, { number: number }>(
  'SELECT number FROM commits WHERE time <= :time ORDER BY time DESC, number DESC LIMIT 1',
);
const BY_NUMBER = selectBy('commits', 'time', 'number');
const LAST_NUMBER = selectBy('meta', 'commit_number', '');

/** Returns the number of the last commit at or before a time in milliseconds since the epoch; 0 if there is none. */
export function commitAt(connection: Connection, time: number): number {
  return connection.get(IN_FORCE, { time })?.number ?? 0;
}

/** Returns a commit's time in milliseconds since the epoch; undefined if it was never folded. */
export function commitTime(connection: Connection, number: number): number | undefined {
  return connection.get(BY_NUMBER, { number })?.time;
}

/** Returns the number of the last commit, or 0 if there are none. */
export function reachedCommit(connection: Connection): number {
  return connection.get(LAST_NUMBER, {})?.commit_number ?? 0;
}

/** Returns a function that keeps the result of `read` for each connection until the next commit. */
export function untilCommit<T>(read: (connection: Connection) => T): (connection: Connection) => T {
  const kept = new WeakMap<Connection, { readonly commit: number; readonly value: T }>();
  return (connection) => {
    const commit = reachedCommit(connection);
    const known = kept.get(connection);
    if (known?.commit === commit) return known.value;
    const value = read(connection);
    kept.set(connection, { commit, value });
    return value;
  };
}

/** Returns when a message was received, as ISO 8601 in UTC. */
export function docidToIso(docid: number): string | null {
  return isoTime(Math.floor(docid / DOCIDS_PER_SECOND) * 1000);
}

/** Formats a time as ISO 8601 in UTC, the format of all JSON. Returns null for an invalid time. */
export function isoTime(time: number | null): string | null {
  if (time === null) return null;
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}
