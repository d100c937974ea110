import type { Connection } from './connection.ts';
import { isVisible } from './scope.ts';
import { seen, type View } from './search/conditions.ts';
import { type LinkedMember, partsOf } from './threads.ts';

/** Messages of one conversation that are counted: a list must not wait for one that never ends. */
const MOST_OF_CONVERSATION = 1_000;
/** Messages that are read for a reader of some mailboxes, whose conversations are other ones. */
const MOST_READ = 20_000;

/**
 * Returns how many messages the conversations of some messages have in a view: as many as `thread:` finds, with all of
 * them in a statement or two. A conversation of one message, or of more than are counted, has no number; nor has a
 * message that is not indexed.
 */
export function conversationSizes(
  connection: Connection,
  docids: readonly number[],
  view: View,
): ReadonlyMap<number, number> {
  return view.scope === null
    ? sizesOfAll(connection, docids, view)
    : sizesWithin(connection, docids, view);
}

function sizesOfAll(
  connection: Connection,
  docids: readonly number[],
  view: View,
): Map<number, number> {
  const conditions = seen(view);
  // Only the past asks about the messages themselves.
  const among =
    conditions.length === 0
      ? 'thread_members t WHERE t.thread = own.thread'
      : `thread_members t CROSS JOIN messages m ON m.docid = t.docid
         WHERE t.thread = own.thread AND ${conditions.join(' AND ')}`;
  const rows = connection.text<{ docids: string; size: number }>(
    `SELECT own.docids, (SELECT count(*) FROM (SELECT 1 FROM ${among}
       LIMIT ${MOST_OF_CONVERSATION + 1})) AS size
     FROM (SELECT thread, json_group_array(docid) AS docids FROM thread_members
       WHERE docid IN (SELECT value FROM json_each(?)) GROUP BY thread) own`,
    [JSON.stringify(docids)],
  );
  const sizes = new Map<number, number>();
  for (const { docids: list, size } of rows) note(sizes, numbers(list), size);
  return sizes;
}

interface SeenMember extends LinkedMember {
  readonly thread: number;
  readonly seen: number;
}

/** What a reader may not know of connects nothing, so that a thread may fall into several conversations. */
function sizesWithin(
  connection: Connection,
  docids: readonly number[],
  view: View,
): Map<number, number> {
  const { scope } = view;
  const sizes = new Map<number, number>();
  if (scope === null) return sizes;
  const rows = connection.text<SeenMember>(
    `SELECT t.thread, t.docid, t.node, t.subject, t.joins, t.ancestors,
       (${seen(view).join(' AND ')}) AS seen
     FROM (SELECT DISTINCT thread FROM thread_members
       WHERE docid IN (SELECT value FROM json_each(?))) own
     CROSS JOIN thread_members t ON t.thread = own.thread
     CROSS JOIN messages m ON m.docid = t.docid
     WHERE ${isVisible(scope)} ORDER BY t.thread, t.docid LIMIT ${MOST_READ}`,
    [JSON.stringify(docids)],
  );
  const threads = Map.groupBy(rows, ({ thread }) => thread);
  const read = [...threads.values()].reduce((sum, members) => sum + members.length, 0);
  // The last one may not have been read to its end.
  const last = read < MOST_READ ? undefined : [...threads.keys()].at(-1);
  for (const [thread, members] of threads) {
    if (thread === last) continue;
    const isSeen = new Set(members.flatMap((member) => (member.seen === 1 ? member.docid : [])));
    for (const part of partsOf(members))
      note(sizes, part.docids, part.docids.filter((docid) => isSeen.has(docid)).length);
  }
  return sizes;
}

function note(sizes: Map<number, number>, docids: readonly number[], size: number): void {
  if (size < 2 || size > MOST_OF_CONVERSATION) return;
  for (const docid of docids) sizes.set(docid, size);
}

function numbers(list: string): number[] {
  const parsed: unknown = JSON.parse(list);
  return Array.isArray(parsed) ? parsed.map(Number) : [];
}
