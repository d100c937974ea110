import type { Connection } from '../connection.ts';
import { reachedCommit } from '../moments.ts';
import { numberList } from '../number-list.ts';
import type { View } from './conditions.ts';
import type { Conjunct } from './formula.ts';
import { mailboxesMeant } from './sums-filter.ts';

/** Unread messages that are alike. */
interface Group {
  /** Folders in which they are unread: at current places, or at the last ones of messages that have none. */
  readonly folders: readonly number[];
  readonly mailboxes: readonly number[];
  messages: number;
}

/** The sums of one commit, as far as they are made. */
interface Kept {
  readonly commit: number;
  readonly groups: Map<string, Group>;
  /** Where the walk over messages with current places, and the one over those without, has come to. */
  readonly reached: [current: number, ended: number];
  isComplete: boolean;
}

interface Row {
  readonly docid: number;
  readonly folder: number;
  readonly place_set: number;
}

/** Flags change with commits only. */
const KEPT = new WeakMap<Connection, Kept>();

/** Each walk in the order of docids, over an index that holds nothing else: what is read costs nothing. */
const WALKS = [
  `SELECT p.docid AS docid, p.folder_id AS folder, m.place_set AS place_set
   FROM places p INDEXED BY places_unread CROSS JOIN messages m ON m.docid = p.docid
   WHERE p.to_commit IS NULL AND p.marks & 1 = 0 AND p.docid > ? ORDER BY p.docid`,
  `SELECT m.docid AS docid, q.folder_id AS folder, m.place_set AS place_set
   FROM messages m INDEXED BY messages_ended CROSS JOIN places q ON q.docid = m.docid
   WHERE m.open_places = 0 AND m.docid > ? AND q.marks & 1 = 0
     AND q.to_commit = (SELECT max(l.to_commit) FROM places l WHERE l.docid = m.docid)
   ORDER BY m.docid`,
] as const;

/** Messages between two questions whether there is time left. */
const STRETCH = 256;

/**
 * Sums the unread messages of the reached commit, by folders and mailboxes. Where time runs out, the next call
 * continues.
 *
 * @returns whether the sums are complete
 */
export function sumUnread(connection: Connection, mayContinue: () => boolean): boolean {
  const commit = reachedCommit(connection);
  let kept = KEPT.get(connection);
  if (kept?.commit !== commit) {
    kept = { commit, groups: new Map(), reached: [0, 0], isComplete: false };
    KEPT.set(connection, kept);
  }
  for (const walk of [0, 1] as const)
    if (!kept.isComplete && !summed(connection, kept, walk, mayContinue)) return false;
  kept.isComplete = true;
  return true;
}

function summed(
  connection: Connection,
  kept: Kept,
  walk: 0 | 1,
  mayContinue: () => boolean,
): boolean {
  let folders: number[] = [];
  let last: Row | undefined;
  let walked = 0;
  const settle = (): void => {
    if (last === undefined) return;
    add(connection, kept.groups, folders, last.place_set);
    kept.reached[walk] = last.docid;
    folders = [];
  };
  for (const row of connection.text<Row>(WALKS[walk], [BigInt(kept.reached[walk])])) {
    if (last !== undefined && row.docid !== last.docid) {
      settle();
      walked += 1;
      if (walked % STRETCH === 0 && !mayContinue()) return false;
    }
    if (!folders.includes(row.folder)) folders.push(row.folder);
    last = row;
  }
  settle();
  return true;
}

function add(
  connection: Connection,
  groups: Map<string, Group>,
  folders: readonly number[],
  set: number,
): void {
  const key = `${set} ${folders.toSorted((a, b) => a - b).join()}`;
  const known = groups.get(key);
  if (known !== undefined) known.messages += 1;
  else groups.set(key, { folders, mailboxes: mailboxesOf(connection, set), messages: 1 });
}

function mailboxesOf(connection: Connection, set: number): number[] {
  const sql = 'SELECT mailboxes FROM place_sets WHERE id = ?';
  return numberList(connection.first<string>(sql, [BigInt(set)]) ?? '[]', connection.file);
}

/**
 * Counts what a query finds by the sums that `sumUnread` has made: unread messages, in folders and mailboxes.
 *
 * @param isIndexed whether every message is in the full-text index, by which mailboxes are found
 * @returns undefined for any other query, and while the sums are not complete
 */
export function unreadCount(
  connection: Connection,
  conjuncts: readonly Conjunct[],
  { asOf, scope }: View,
  isIndexed: () => boolean,
): number | undefined {
  const [only] = conjuncts;
  if (only === undefined || conjuncts.length > 1 || asOf !== null || scope !== null)
    return undefined;
  const { has, lacks, low, high, sizeLow, sizeHigh, places, noPlaces, deleted } = only;
  const unread = places.filter(({ indexed }) => indexed === 'unread');
  const others = places.filter(({ indexed }) => indexed !== 'unread');
  const isPlain =
    unread.length === 1 &&
    others.length <= 1 &&
    others.every(({ folders, flagSets }) => folders !== null && flagSets === null) &&
    lacks.length + noPlaces.length + only.members.length + only.noMembers.length === 0 &&
    deleted === null &&
    only.observed.length + only.noObserved.length === 0 &&
    low + sizeLow === 0 &&
    Math.min(high, sizeHigh) === Number.MAX_SAFE_INTEGER;
  if (!isPlain || (has.length > 0 && !isIndexed())) return undefined;
  const mailboxes = has.map(mailboxesMeant);
  if (mailboxes.some((ids) => ids === undefined)) return undefined;
  const kept = KEPT.get(connection);
  if (kept?.isComplete !== true || kept.commit !== reachedCommit(connection)) return undefined;
  const folders = others[0]?.folders ?? null;
  let count = 0;
  for (const group of kept.groups.values()) {
    const isThere = folders === null || group.folders.some((id) => folders.includes(id));
    const isTheirs = mailboxes.every((ids) => group.mailboxes.some((id) => ids?.has(id)));
    if (isThere && isTheirs) count += group.messages;
  }
  return count;
}
