import { threadNode } from '../../search/thread-links.ts';
import type { Connection } from '../connection.ts';
import { readable } from '../messages.ts';
import { isVisible } from '../scope.ts';
import type { Asked } from './asked.ts';
import { type DuplicateRow, term } from './rows.ts';

interface Member {
  readonly node: number;
  readonly docid: number;
}
interface Row {
  readonly docid: number;
  readonly size: number;
  readonly subject: string | null;
  readonly message_id: string | null;
}

/** Returns groups of messages with one Message-ID, those with the most bytes first. */
export function duplicates(
  connection: Connection,
  { found, scope }: Pick<Asked, 'found' | 'scope'>,
  limit: number,
): DuplicateRow[] {
  const groups = new Map<number, number[]>();
  for (const { node, docid } of found === undefined ? ofAll() : ofFound(found)) {
    const known = groups.get(node);
    if (known === undefined) groups.set(node, [docid]);
    else known.push(docid);
  }
  return [...groups]
    .filter(([, docids]) => docids.length > 1)
    .map(([node, docids]) => rowOf(node, docids))
    .toSorted((a, b) => b.bytes - a.bytes || (a.messageId ?? '').localeCompare(b.messageId ?? ''))
    .slice(0, limit);

  function ofAll(): Member[] {
    const shared = scope === null ? '1' : isVisible(scope);
    return [
      ...connection.text<Member>(
        `SELECT t.node, t.docid FROM thread_members t CROSS JOIN messages m ON m.docid = t.docid
         WHERE t.node IN (SELECT node FROM thread_members GROUP BY node HAVING count(*) > 1)
           AND ${shared} ORDER BY t.docid`,
        [],
      ),
    ];
  }

  function ofFound(messages: NonNullable<Asked['found']>): Member[] {
    return messages
      .rows<Member>('SELECT node, docid FROM thread_members WHERE docid IN')
      .toSorted((a, b) => a.docid - b.docid);
  }

  function rowOf(node: number, docids: readonly number[]): DuplicateRow {
    const rows = [
      ...connection.text<Row>(
        `SELECT docid, size, subject, message_id FROM messages
         WHERE docid IN (SELECT value FROM json_each(?)) ORDER BY docid`,
        [JSON.stringify(docids)],
      ),
    ];
    // What the origin listed may differ from the header, which the index goes by.
    const listed = rows.find(
      ({ message_id: id }) => id !== null && threadNode(id) === node,
    )?.message_id;
    const messageId = listed?.trim().replace(/^<|>$/g, '') ?? null;
    return {
      messageId,
      subject: readable(rows[0]?.subject ?? null),
      messages: docids.length,
      bytes: rows.reduce((sum, { size }) => sum + size, 0),
      query: messageId === null ? null : term('id', messageId),
    };
  }
}
