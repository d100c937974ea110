import { sql } from 'kysely';
import { catalogError } from '../core/error-tables.ts';
import { type FlagSet, flagSet } from '../core/types.ts';
import { DOCIDS_PER_SECOND } from '../mail/docid.ts';
import { named } from './bound-sql.ts';
import { type Connection, RECORD_MESSAGE } from './database.ts';
import { query, type Row } from './query.ts';

/**
 * What a reader may know: the messages that are or were in some mailboxes, their places there, and nothing of any other
 * mailbox. Whoever asks with a scope gets answers as if the archive held these mailboxes only.
 */
export interface Scope {
  /** Numbers of mailboxes in the catalog. */
  readonly mailboxes: readonly number[];
}

/** Returns SQL for the numbers of the folders in a scope. */
export function foldersIn({ mailboxes }: Scope): string {
  return `(SELECT id FROM folders WHERE mailbox_id IN (${mailboxes.join(', ')}))`;
}

/** Returns SQL that holds for a row with a list of mailboxes, as JSON, one of which is in a scope. */
export function isAmong(list: string, { mailboxes }: Scope): string {
  return `EXISTS (SELECT 1 FROM json_each(${list}) WHERE value IN (${mailboxes.join(', ')}))`;
}

/** Returns SQL for the sets of places that have one in a scope. */
export function placeSetsIn(scope: Scope): string {
  return `(SELECT id FROM place_sets WHERE ${isAmong('mailboxes', scope)})`;
}

/** Returns SQL that holds for a message `m` that has a place in a scope, now or ever. */
export function isVisible(scope: Scope): string {
  return `m.place_set IN ${placeSetsIn(scope)}`;
}

/** The same as `foldersIn` for a query that takes the mailboxes as a JSON array. */
export function foldersOf(mailboxes: string) {
  return sql<number>`(SELECT id FROM folders WHERE mailbox_id IN (SELECT value FROM json_each(${mailboxes})))`;
}

/** Returns whether a message has a place in a scope. */
export function sees(connection: Connection, scope: Scope | undefined, docid: number): boolean {
  if (scope === undefined) return true;
  const sqlText = `SELECT 1 FROM messages m WHERE m.docid = ? AND ${isVisible(scope)}`;
  return connection.first<number>(sqlText, [docid]) !== undefined;
}

/** A message by its id. */
export interface Prefixed {
  readonly id: string;
  readonly docid: number;
}

/** Returns the lowest and the highest hash that begins with hex digits, in either case; undefined for anything else. */
export function idBounds(
  prefix: string,
): { readonly low: Buffer; readonly high: Buffer } | undefined {
  const digits = prefix.toLowerCase();
  if (!/^[0-9a-f]{1,64}$/.test(digits)) return undefined;
  const low = Buffer.from(digits.padEnd(64, '0'), 'hex');
  return { low, high: Buffer.from(digits.padEnd(64, 'f'), 'hex') };
}

/**
 * Returns the messages of a scope whose id begins so.
 *
 * @param prefix hex digits in either case; others begin no id
 */
export function idsWithin(
  connection: Connection,
  scope: Scope,
  prefix: string,
  limit: number,
): Prefixed[] {
  const bounds = idBounds(prefix);
  if (bounds === undefined) return [];
  const rows = connection.text<{ hash: Buffer; docid: number }>(
    `SELECT r.hash, r.docid FROM records r CROSS JOIN messages m ON m.docid = r.docid
     WHERE r.kind = ${RECORD_MESSAGE} AND r.hash >= ? AND r.hash <= ? AND ${isVisible(scope)}
     ORDER BY r.hash LIMIT ${limit}`,
    [bounds.low, bounds.high],
  );
  return [...rows].map(({ hash, docid }) => ({ id: connection.hex(hash), docid }));
}

/**
 * Returns the numbers of a column that holds a list of them as JSON, such as `[1,3]`.
 *
 * @param file of the catalog
 * @throws catalog-damaged where it holds anything else
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

/** Bits of `flag_sets.marks` and `places.marks`: the flags that queries ask for, whatever the spelling of their case. */
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

/** The marks of a flag set; flags without a bit count for nothing here. */
export function flagMarks(flags: FlagSet): number {
  return flags.reduce((marks, flag) => marks | (BITS[flag.toLowerCase()] ?? 0), 0);
}

export interface FlagSetRow {
  readonly id: number;
  readonly flags: FlagSet;
  /** Bits of `MARK`. */
  readonly marks: number;
}

const ALL = query()((db) =>
  db.selectFrom('flag_sets').select(['id', 'flags', 'marks']).orderBy('id'),
);

/** Every flag set ever seen: some dozens, since flags repeat. */
export function flagSetRows(connection: Connection): FlagSetRow[] {
  return connection
    .all(ALL, {})
    .map(({ id, flags, marks }) => ({ id, flags: parse(flags), marks }));
}

function parse(text: string): FlagSet {
  const parsed: unknown = JSON.parse(text);
  return Array.isArray(parsed) ? flagSet(parsed.filter((flag) => typeof flag === 'string')) : [];
}

const FIND = query<{ flags: string }>()((db, p) =>
  db.selectFrom('flag_sets').select(['id', 'marks']).where('flags', '=', p.flags),
);
const ADD = query<Omit<Row<'flag_sets'>, 'id'>>()((db, p) =>
  db.insertInto('flag_sets').values(named(p, 'flags', 'marks')),
);

export type StoredFlagSet = Pick<FlagSetRow, 'id' | 'marks'>;

/** Flag sets get numbers in the order in which the log first shows them, so that a rebuild gives the same. */
export class FlagSets {
  readonly #known = new Map<string, StoredFlagSet>();

  constructor(private readonly connection: Connection) {}

  of(flags: FlagSet): StoredFlagSet {
    const text = JSON.stringify(flags);
    let stored = this.#known.get(text);
    if (stored === undefined) {
      stored = this.connection.get(FIND, { flags: text });
      if (stored === undefined) {
        const marks = flagMarks(flags);
        stored = { id: this.connection.run(ADD, { flags: text, marks }).lastInsertRowid, marks };
      }
      this.#known.set(text, stored);
    }
    return stored;
  }

  /** After a transaction that was undone: its numbers do not exist. */
  forget(): void {
    this.#known.clear();
  }
}

const IN_FORCE = query<{ time: number }>()((db, p) =>
  db
    .selectFrom('commits')
    .select('number')
    .where('time', '<=', p.time)
    .orderBy('time', 'desc')
    .orderBy('number', 'desc')
    .limit((eb) => eb.lit(1)),
);
const BY_NUMBER = query<{ number: number }>()((db, p) =>
  db.selectFrom('commits').select('time').where('number', '=', p.number),
);
const LAST_NUMBER = query()((db) => db.selectFrom('meta').select('commit_number'));

/** The commit in force at a time (milliseconds since the epoch): the last one that is not later; 0 before the first. */
export function commitAt(connection: Connection, time: number): number {
  return connection.get(IN_FORCE, { time })?.number ?? 0;
}

/** The time of a commit, milliseconds since the epoch; undefined for one that was never folded. */
export function timeOf(connection: Connection, number: number): number | undefined {
  return connection.get(BY_NUMBER, { number })?.time;
}

/** The number of the reached commit; 0 before the first. */
export function reachedCommit(connection: Connection): number {
  return connection.get(LAST_NUMBER, {})?.commit_number ?? 0;
}

/** Returns when a message was received, by its docid: ISO 8601 in UTC. */
export function isoOfDocid(docid: number): string | null {
  return isoTime(Math.floor(docid / DOCIDS_PER_SECOND) * 1000);
}

/** ISO 8601 in UTC, as every time in JSON. Null stays null, and so does what no calendar has. */
export function isoTime(time: number | null): string | null {
  if (time === null) return null;
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}
