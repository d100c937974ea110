import type { MessageId } from '../core/types.ts';
import { DOCIDS_PER_SECOND } from '../mail/docid.ts';
import { type subjectLink, threadNode } from '../mail/identity.ts';
import type { Connection } from './database.ts';
import { deleteBy, insertInto, type Row, selectBy, sqlQuery, updateBy, upsert } from './query.ts';
import { type MemberSet, seen, type View } from './resolve-query.ts';
import { isVisible } from './sql.ts';

/**
 * Threads are the connected components of a graph. Its nodes are the Message-IDs of messages and of their references.
 * Its edges lead from a message to each reference (References, In-Reply-To). A reply without references has an edge to
 * the nearest earlier message with the same base subject, within SUBJECT_REACH. A thread's number is the smallest hash
 * of its nodes, so threads depend on which messages exist and not on their order. The number rarely changes as a thread
 * grows (about as often as the logarithm of its size).
 */

interface ThreadedMessage {
  readonly docid: number;
  readonly node: number;
  /** Nodes of its references, oldest first. The message's own node is ignored. */
  readonly ancestors: readonly number[];
  readonly subject: ReturnType<typeof subjectLink>;
  /** True if it has no thread yet, which saves a lookup. */
  readonly fresh: boolean;
}

type MemberRow = Row<'thread_members'>;
type Member = Omit<MemberRow, 'thread'>;

/** Maximum distance for matching a reply by its subject alone: 30 days. */
const SUBJECT_REACH = 30 * 86_400 * DOCIDS_PER_SECOND;
const NODE_BYTES = 6;

const MEMBER_COLUMNS = 'docid, thread, node, subject, joins, ancestors';
const MEMBER = selectBy('thread_members', MEMBER_COLUMNS, 'docid');
const MEMBERS = selectBy('thread_members', MEMBER_COLUMNS, 'thread');
type Reach = { subject: number; docid: number; reach: number };
type Neighbour = Pick<MemberRow, 'docid' | 'thread' | 'node' | 'joins'>;
const BEFORE = sqlQuery<Reach, Neighbour>(
  `SELECT docid, thread, node, joins FROM thread_members
   WHERE subject = :subject AND docid < :docid AND docid >= :reach ORDER BY docid DESC LIMIT 1`,
);
const BEHIND = sqlQuery<Reach, Neighbour>(
  `SELECT docid, thread, node, joins FROM thread_members
   WHERE subject = :subject AND docid > :docid AND docid <= :reach ORDER BY docid LIMIT 1`,
);
const ADD = insertInto('thread_members', MEMBER_COLUMNS);
const MOVE_MEMBER = updateBy('thread_members', 'thread', 'docid');
const DROP = deleteBy('thread_members', 'docid');
const MOVE = sqlQuery<{ from: number; to: number }, never>(
  'UPDATE thread_members SET thread = :to WHERE thread = :from',
);
const MESSAGES = sqlQuery<{ docid: number }, { id: Buffer }>(
  `SELECT m.id FROM thread_members own JOIN thread_members t ON t.thread = own.thread
     JOIN messages m ON m.docid = t.docid
   WHERE own.docid = :docid ORDER BY t.docid`,
);
const NODE = selectBy('thread_nodes', 'thread', 'node');
const ADD_NODE = insertInto('thread_nodes', 'node, thread');
const PUT_NODE = upsert('thread_nodes', 'node', 'thread');
const DROP_NODE = deleteBy('thread_nodes', 'node');

/** Adds an indexed message to its thread, or updates it. Merges the threads that it connects. */
export function joinThread(connection: Connection, message: ThreadedMessage): void {
  const member = memberOf(message);
  const previous = message.fresh ? undefined : connection.get(MEMBER, { docid: member.docid });
  if (previous !== undefined) {
    if (isSame(previous, member)) return;
    leaveThreads(connection, [member.docid]);
  }
  const nodes = new Set(nodesOf(member));
  const behind = neighbour(connection, member, BEHIND);
  // The preceding message matters only if this one or the next joins by subject.
  const before =
    member.joins === 1 || behind?.joins === 1 ? neighbour(connection, member, BEFORE) : undefined;
  if (before !== undefined && member.joins === 1) nodes.add(before.node);
  if (behind !== undefined && behind.joins === 1) nodes.add(behind.node);
  const thread = merge(connection, nodes);
  connection.run(ADD, { ...member, thread });
  // The next message was joined to the preceding one by subject, and now joins this one.
  const parted = behind?.joins === 1 && member.joins === 0 && before !== undefined;
  if (parted) settle(connection, new Set([thread, threadAt(connection, before.docid)]));
}

/** Removes messages from their threads, which may split. Recomputes each thread once. */
export function leaveThreads(connection: Connection, docids: Iterable<number>): void {
  const threads = new Set<number>();
  for (const docid of docids) {
    const member = connection.get(MEMBER, { docid });
    if (member === undefined) continue;
    threads.add(member.thread);
    // Messages that were joined to this one by subject may now join an earlier one.
    const before = neighbour(connection, member, BEFORE);
    if (before !== undefined) threads.add(before.thread);
    connection.run(DROP, { docid });
    for (const node of nodesOf(member)) connection.run(DROP_NODE, { node });
  }
  if (threads.size > 0) settle(connection, threads);
}

/** Returns the IDs of the messages in a message's thread, oldest first; none until it is indexed. */
export function threadMessages(connection: Connection, docid: number): MessageId[] {
  if (connection.scope === null)
    return connection.all(MESSAGES, { docid }).map(({ id }) => id.toString('hex'));
  const found = connection.text<{ id: Buffer }>(
    `SELECT m.id FROM json_each(?) j CROSS JOIN thread_members t ON t.docid = j.value
     CROSS JOIN messages m ON m.docid = t.docid ORDER BY t.docid`,
    [JSON.stringify(threadWithin(connection, docid))],
  );
  return Array.from(found, ({ id }) => id.toString('hex'));
}

/** Returns the thread of a message, if there is one. */
export function threadOf(connection: Connection, docid: number): MemberSet | undefined {
  if (connection.scope !== null) return setOf('docid', threadWithin(connection, docid));
  const thread = connection.get(MEMBER, { docid })?.thread;
  return setOf('thread', thread === undefined ? [] : [thread]);
}

/** Returns the thread of a Message-ID, even if its message is missing. */
export function threadNaming(connection: Connection, messageId: string): MemberSet | undefined {
  const node = threadNode(messageId);
  const thread = connection.get(NODE, { node })?.thread;
  if (thread === undefined) return undefined;
  if (connection.scope === null) return setOf('thread', [thread]);
  const part = threadsWithin(connection, thread).find(({ nodes }) => nodes.has(node));
  return setOf('docid', part?.docids ?? []);
}

function setOf(column: MemberSet['column'], values: readonly number[]): MemberSet | undefined {
  return values.length === 0 ? undefined : { column, values };
}

/** A connected part of a thread: ascending docids, and all their Message-IDs and references. */
interface ThreadPart {
  readonly docids: readonly number[];
  readonly nodes: ReadonlySet<number>;
}

/** Returns the parts of a thread that are connected by messages in the connection's scope. */
function threadsWithin(connection: Connection, thread: number): ThreadPart[] {
  return partsOf(membersWithin(connection, [thread], Number.MAX_SAFE_INTEGER) ?? []);
}

/**
 * Returns the messages of threads that are in the connection's scope, by docid, and those of the threads that join them
 * there: a reply whose nearest earlier message with its subject is outside the scope follows the nearest one inside.
 * Returns undefined if this needs more than a limit of rows.
 */
function membersWithin(
  connection: Connection,
  threads: readonly number[],
  limit: number,
): MemberRow[] | undefined {
  const loaded = new Set<number>();
  const members: MemberRow[] = [];
  let left = limit;
  const read = (from: string, condition: string, list: readonly unknown[]): MemberRow[] => {
    const rows = connection.text<MemberRow>(
      `SELECT DISTINCT t.docid, t.thread, t.node, t.subject, t.joins, t.ancestors
       FROM json_each(?) j CROSS JOIN thread_members t ON ${from}
       CROSS JOIN messages m ON m.docid = t.docid
       WHERE ${condition} AND ${isVisible(connection.scope)} ORDER BY t.docid LIMIT ${left + 1}`,
      [JSON.stringify(list)],
    );
    const found = [...rows];
    left -= found.length;
    return found;
  };
  for (let wanted = threads; wanted.length > 0; ) {
    for (const thread of wanted) loaded.add(thread);
    const found = read('t.thread = j.value', '1', wanted);
    members.push(...found);
    const spans = new Map<number, { subject: number; low: number; high: number }>();
    for (const { subject, docid } of found) {
      if (subject === null) continue;
      const span = spans.get(subject) ?? { subject, low: docid - SUBJECT_REACH, high: 0 };
      spans.set(subject, { ...span, high: docid + SUBJECT_REACH });
    }
    const sameSubject = read(
      "t.subject = j.value ->> 'subject'",
      "t.docid BETWEEN j.value ->> 'low' AND j.value ->> 'high'",
      [...spans.values()],
    );
    if (left < 0) return undefined;
    const next = new Set<number>();
    for (const [row, before] of subjectJoins(sameSubject)) {
      if (loaded.has(row.thread) === loaded.has(before.thread)) continue;
      next.add(loaded.has(row.thread) ? before.thread : row.thread);
    }
    wanted = [...next];
  }
  return members.sort((one, other) => one.docid - other.docid);
}

/** Yields each reply by subject with the message that it follows; the messages must be sorted by docid. */
function* subjectJoins<M extends Member>(members: readonly M[]): Generator<readonly [M, M]> {
  const bySubject = new Map<number, M>();
  for (const member of members) {
    if (member.subject === null) continue;
    const before = bySubject.get(member.subject);
    if (before !== undefined && member.joins === 1 && member.docid - before.docid <= SUBJECT_REACH)
      yield [member, before];
    bySubject.set(member.subject, member);
  }
}

/** Returns the connected parts of a thread's messages, which must be sorted by docid. */
function partsOf(members: readonly Member[]): ThreadPart[] {
  const parts = new Parts();
  for (const member of members) for (const node of nodesOf(member)) parts.join(member.node, node);
  for (const [member, before] of subjectJoins(members)) parts.join(member.node, before.node);
  const found = new Map<number, { docids: number[]; nodes: Set<number> }>();
  for (const member of members) {
    const part = parts.least(member.node);
    const entry = found.get(part) ?? { docids: [], nodes: new Set() };
    entry.docids.push(member.docid);
    for (const node of nodesOf(member)) entry.nodes.add(node);
    found.set(part, entry);
  }
  return [...found.values()];
}

/** Returns the docids in a message's thread within the scope, ascending; only its own until it is indexed. */
function threadWithin(connection: Connection, docid: number): readonly number[] {
  const thread = connection.get(MEMBER, { docid })?.thread;
  if (thread === undefined) return [docid];
  const parts = threadsWithin(connection, thread);
  return parts.find(({ docids }) => docids.includes(docid))?.docids ?? [];
}

function memberOf({ docid, node, ancestors, subject }: ThreadedMessage): Member {
  const named = ancestors.filter((ancestor) => ancestor !== node);
  const packed = Buffer.alloc(named.length * NODE_BYTES);
  for (const [i, ancestor] of named.entries())
    packed.writeUIntBE(ancestor, i * NODE_BYTES, NODE_BYTES);
  return {
    docid,
    node,
    subject: subject.base,
    joins: subject.reply && ancestors.length === 0 ? 1 : 0,
    ancestors: named.length === 0 ? null : packed,
  };
}

function isSame(a: Member, b: Member): boolean {
  return (
    a.node === b.node &&
    a.subject === b.subject &&
    a.joins === b.joins &&
    (a.ancestors ?? NONE).equals(b.ancestors ?? NONE)
  );
}

/** Returns the node of a message and the nodes of its references. */
function nodesOf({ node, ancestors }: Pick<Member, 'node' | 'ancestors'>): number[] {
  const nodes = [node];
  for (let at = 0; at < (ancestors?.length ?? 0); at += NODE_BYTES)
    nodes.push(ancestors?.readUIntBE(at, NODE_BYTES) ?? 0);
  return nodes;
}

/** Returns the previous or next message with the same subject, within reach. */
function neighbour(
  connection: Connection,
  { subject, docid }: Pick<Member, 'subject' | 'docid'>,
  side: typeof BEFORE,
) {
  if (subject === null) return undefined;
  const reach = side === BEFORE ? docid - SUBJECT_REACH : docid + SUBJECT_REACH;
  return connection.get(side, { subject, docid, reach });
}

/** Merges the threads of these nodes. Returns the number of the resulting thread. */
function merge(connection: Connection, nodes: ReadonlySet<number>): number {
  const threads = new Set<number>();
  const fresh: number[] = [];
  for (const node of nodes) {
    const thread = connection.get(NODE, { node })?.thread;
    if (thread === undefined) fresh.push(node);
    else threads.add(thread);
  }
  const least = Math.min(...threads, ...fresh);
  for (const node of fresh) connection.run(ADD_NODE, { node, thread: least });
  for (const thread of threads) {
    if (thread === least) continue;
    for (const member of connection.all(MEMBERS, { thread }))
      for (const node of nodesOf(member)) connection.run(PUT_NODE, { node, thread: least });
    connection.run(MOVE, { from: thread, to: least });
  }
  return least;
}

function threadAt(connection: Connection, docid: number): number {
  return connection.get(MEMBER, { docid })?.thread ?? 0;
}

/** Recomputes the given threads, which must include all neighbours of their members. */
function settle(connection: Connection, threads: ReadonlySet<number>): void {
  const members = [...threads].flatMap((thread) => connection.all(MEMBERS, { thread }));
  for (const member of members)
    for (const node of nodesOf(member)) connection.run(DROP_NODE, { node });
  const parts = new Parts();
  for (const member of members) {
    for (const node of nodesOf(member)) parts.join(member.node, node);
    const before = member.joins === 1 ? neighbour(connection, member, BEFORE) : undefined;
    if (before !== undefined) parts.join(member.node, before.node);
  }
  for (const node of parts.nodes()) connection.run(PUT_NODE, { node, thread: parts.least(node) });
  for (const member of members) {
    const thread = parts.least(member.node);
    if (thread !== member.thread) connection.run(MOVE_MEMBER, { docid: member.docid, thread });
  }
}

/** Connected components of a graph, each identified by its smallest node (union-find with path halving). */
class Parts {
  readonly #parents = new Map<number, number>();

  join(a: number, b: number): void {
    const [rootA, rootB] = [this.least(a), this.least(b)];
    this.#parents.set(Math.max(rootA, rootB), Math.min(rootA, rootB));
  }

  least(node: number): number {
    let at = node;
    for (;;) {
      const parent = this.#parents.get(at);
      if (parent === undefined) this.#parents.set(at, at);
      if (parent === undefined || parent === at) return at;
      const grandparent = this.#parents.get(parent) ?? parent;
      this.#parents.set(at, grandparent);
      at = grandparent;
    }
  }

  nodes(): Iterable<number> {
    return [...this.#parents.keys()];
  }
}

const NONE = Buffer.alloc(0);

/** Maximum number of messages counted per conversation, so that an endless one does not delay a list. */
const MAX_OF_CONVERSATION = 1_000;
/** Maximum number of rows read for the conversations of a page in a scope; beyond it, no sizes are known. */
const MAX_READ = 20_000;

/**
 * Returns the sizes of messages' conversations in a view, using few statements. Sizes are the number of matches for
 * `thread:`. Omits conversations with only one message or beyond the limit, and unindexed messages.
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
  // Only a past time needs the messages themselves.
  const among =
    conditions.length === 0
      ? 'thread_members t WHERE t.thread = own.thread'
      : `thread_members t CROSS JOIN messages m ON m.docid = t.docid
         WHERE t.thread = own.thread AND ${conditions.join(' AND ')}`;
  const rows = connection.text<{ docids: string; size: number }>(
    `SELECT own.docids, (SELECT count(*) FROM (SELECT 1 FROM ${among}
       LIMIT ${MAX_OF_CONVERSATION + 1})) AS size
     FROM (SELECT thread, json_group_array(docid) AS docids FROM thread_members
       WHERE docid IN (SELECT value FROM json_each(?)) GROUP BY thread) own`,
    [JSON.stringify(docids)],
  );
  const sizes = new Map<number, number>();
  for (const { docids: list, size } of rows) note(sizes, numbers(list), size);
  return sizes;
}

/** Messages outside the scope connect nothing: a thread can split into several conversations, or join another one. */
function sizesWithin(
  connection: Connection,
  docids: readonly number[],
  view: View,
): Map<number, number> {
  const sizes = new Map<number, number>();
  const threads = connection.text<{ thread: number }>(
    `SELECT DISTINCT thread FROM thread_members
     WHERE docid IN (SELECT value FROM json_each(?))`,
    [JSON.stringify(docids)],
  );
  const own = Array.from(threads, ({ thread }) => thread);
  const members = membersWithin(connection, own, MAX_READ) ?? [];
  const rows = connection.text<{ docid: number }>(
    `SELECT m.docid FROM json_each(?) j CROSS JOIN messages m ON m.docid = j.value
     WHERE ${seen(view).join(' AND ')}`,
    [JSON.stringify(members.map(({ docid }) => docid))],
  );
  const isSeen = new Set(Array.from(rows, ({ docid }) => docid));
  for (const part of partsOf(members))
    note(sizes, part.docids, part.docids.filter((docid) => isSeen.has(docid)).length);
  return sizes;
}

function note(sizes: Map<number, number>, docids: readonly number[], size: number): void {
  if (size < 2 || size > MAX_OF_CONVERSATION) return;
  for (const docid of docids) sizes.set(docid, size);
}

function numbers(list: string): number[] {
  const parsed: unknown = JSON.parse(list);
  return Array.isArray(parsed) ? parsed.map(Number) : [];
}
