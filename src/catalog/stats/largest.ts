import type { Connection } from '../connection.ts';
import { readable, senderOf } from '../messages.ts';
import { isoTime } from '../moments.ts';
import { isVisible } from '../scope.ts';
import type { Asked } from './asked.ts';
import type { LargeMessage } from './rows.ts';

interface Row {
  readonly id: Buffer;
  readonly size: number;
  readonly date: number | null;
  readonly subject: string | null;
  readonly sender_name: string | null;
  readonly sender_address: string | null;
}

const COLUMNS = 'm.docid, m.id, m.size, m.date, m.subject, m.sender_name, m.sender_address';

/** Returns the largest messages that are asked for, the largest first and of equal ones the newest. */
export function largest(
  connection: Connection,
  { found, scope }: Pick<Asked, 'found' | 'scope'>,
  limit: number,
): LargeMessage[] {
  return (found === undefined ? ofAll() : ofFound(found)).map((row) => ({
    id: connection.hex(row.id),
    size: row.size,
    date: isoTime(row.date),
    subject: readable(row.subject),
    from: senderOf(row),
  }));

  function ofAll(): Row[] {
    const where = scope === null ? '1' : isVisible(scope);
    const sql = `SELECT ${COLUMNS} FROM messages m WHERE ${where} ORDER BY m.size DESC, m.docid DESC LIMIT ${limit}`;
    return [...connection.text<Row>(sql, [])];
  }

  function ofFound(messages: NonNullable<Asked['found']>): Row[] {
    const docids = messages
      .messages()
      .toSorted((a, b) => b.size - a.size || b.docid - a.docid)
      .slice(0, limit)
      .map(({ docid }) => docid);
    const rows = messages.rowsOf<Row & { docid: number }>(
      docids,
      `SELECT ${COLUMNS} FROM messages m WHERE m.docid IN`,
    );
    return rows.toSorted((a, b) => docids.indexOf(a.docid) - docids.indexOf(b.docid));
  }
}
