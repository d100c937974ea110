import { sql } from 'kysely';
import type { Connection } from './connection.ts';
import { RECORD_MESSAGE } from './tables.ts';

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

/** Message ids of a scope that begin with the same digits, with their docids. */
interface Prefixed {
  readonly id: string;
  readonly docid: number;
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
  const digits = prefix.toLowerCase();
  if (!/^[0-9a-f]{1,64}$/.test(digits)) return [];
  const low = Buffer.from(digits.padEnd(64, '0'), 'hex');
  const high = Buffer.from(digits.padEnd(64, 'f'), 'hex');
  const rows = connection.text<{ hash: Buffer; docid: number }>(
    `SELECT r.hash, r.docid FROM records r CROSS JOIN messages m ON m.docid = r.docid
     WHERE r.kind = ${RECORD_MESSAGE} AND r.hash >= ? AND r.hash <= ? AND ${isVisible(scope)}
     ORDER BY r.hash LIMIT ${limit}`,
    [low, high],
  );
  return [...rows].map(({ hash, docid }) => ({ id: connection.hex(hash), docid }));
}
