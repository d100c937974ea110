import type { Connection } from '../connection.ts';

/** An attachment that has a content. */
export interface Carrier {
  readonly docid: number;
  readonly number: number;
}

interface Row extends Carrier {
  readonly isMeant: 0 | 1;
}

/** Rows between questions for the time. */
const ASKED_AFTER = 256;
/** Types of one content that are walked side by side; strangers give a content as many as they like. */
const MOST_TYPES = 8;

/**
 * Walks over the attachments with a content, those of the newest (or the oldest) message first: a logo may be in most of
 * an archive, so the walk is asked again and again whether there is time for more. Returns whether it came to the end.
 *
 * @param meant SQL about an attachment `a` of a message `m`: the others are passed over, which takes time as well
 */
export function* carriersOf(
  connection: Connection,
  hash: Buffer,
  { meant, order }: { readonly meant: string; readonly order: 'newest' | 'oldest' },
  mayContinue: () => boolean,
): Generator<Carrier, boolean, undefined> {
  const types = typesOf(connection, hash);
  const direction = order === 'newest' ? 'DESC' : 'ASC';
  const from = `SELECT a.docid, a.number, (${meant}) AS isMeant
    FROM attachments a CROSS JOIN messages m ON m.docid = a.docid`;
  const inOrder = `ORDER BY a.docid ${direction}, a.number ${direction}`;
  // The index has the attachments of one type in this order.
  const walks =
    types.length > MOST_TYPES
      ? [connection.text<Row>(`${from} WHERE a.hash = ? AND a.type <> '' ${inOrder}`, [hash])]
      : types.map((type) =>
          connection.text<Row>(`${from} WHERE a.hash = ? AND a.type = ? ${inOrder}`, [hash, type]),
        );
  try {
    const heads = walks.map((walk) => walk.next());
    for (let passed = 1; ; passed += 1) {
      const first = firstOf(heads, order);
      if (first === undefined) return true;
      const row: Row = heads[first]?.value;
      heads[first] = walks[first]?.next() ?? { done: true, value: undefined };
      if (row.isMeant === 1) yield { docid: row.docid, number: row.number };
      if (passed % ASKED_AFTER === 0 && !mayContinue()) return false;
    }
  } finally {
    for (const walk of walks) walk.return?.();
  }
}

/** Returns which of several walks has the row that comes first. */
function firstOf(
  heads: readonly IteratorResult<Row>[],
  order: 'newest' | 'oldest',
): number | undefined {
  let first: number | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const [at, head] of heads.entries()) {
    if (head.done === true) continue;
    const rank = order === 'newest' ? -head.value.docid : head.value.docid;
    if (rank >= least) continue;
    [first, least] = [at, rank];
  }
  return first;
}

/** Returns the types that a content is attached as, one more than are walked apart at the most. */
function typesOf(connection: Connection, hash: Buffer): string[] {
  const sql = 'SELECT min(type) FROM attachments WHERE hash = ? AND type > ?';
  const types: string[] = [];
  // An older version listed attachments without a type, and those are not shown.
  for (let last = ''; types.length <= MOST_TYPES; ) {
    const next = connection.first<string | null>(sql, [hash, last]) ?? undefined;
    if (next === undefined) break;
    types.push(next);
    last = next;
  }
  return types;
}
