import type { Address } from '../../mail/words.ts';
import type { Connection } from '../connection.ts';
import { senderOf } from '../messages.ts';
import { query } from '../query.ts';
import { seen, type View } from '../search/conditions.ts';
import type { HitCount } from '../search/search.ts';
import { shownPlaces } from '../search/shown-places.ts';

/** A message as far as a list of attachments shows it. */
export interface HolderMessage {
  readonly id: string;
  readonly subject: string | null;
  readonly from: Address | null;
  /** When it was received, milliseconds since the epoch, as are the others. */
  readonly date: number | null;
  /** When the service deleted it; null for a message that it still had. */
  readonly endedAt: number | null;
}

/** A message that has a content, and as which attachment. */
export interface Holder extends HolderMessage {
  readonly number: number;
  readonly filename: string | null;
}

/** The messages that have a content. */
export interface Holders {
  /** The newest ones, the newest first. */
  readonly newest: readonly Holder[];
  readonly messages: HitCount;
  /** When the first of them was received. */
  readonly first: number | null;
}

/** Messages with one content that are counted. */
const MOST_COUNTED = 1_000;

const MESSAGE = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('messages')
    .select(['id', 'date', 'subject', 'sender_name', 'sender_address'])
    .where('docid', '=', p.docid),
);

/** Returns what a view shows of a message; undefined for one that went meanwhile. */
export function holderMessage(
  connection: Connection,
  docid: number,
  view: View,
): HolderMessage | undefined {
  const row = connection.get(MESSAGE, { docid });
  const [place] = shownPlaces(connection, docid, view);
  if (row === undefined || place === undefined) return undefined;
  return {
    id: connection.hex(row.id),
    subject: row.subject,
    from: senderOf(row),
    date: place.date ?? row.date,
    endedAt: place.ended_at,
  };
}

/** Counts the messages of a view that have a content. */
export function countHolders(connection: Connection, hash: Buffer, view: View): HitCount {
  const [counts] = connection.text<{ messages: number; rows: number }>(
    `SELECT count(DISTINCT docid) AS messages, count(*) AS rows
     FROM (SELECT a.docid ${holding(view)} LIMIT ${MOST_COUNTED + 1})`,
    [hash],
  );
  const { messages = 0, rows = 0 } = counts ?? {};
  return rows > MOST_COUNTED
    ? { count: Math.min(messages, MOST_COUNTED), complete: false }
    : { count: messages, complete: true };
}

/** Returns the messages of a view that have a content. */
export function holdersOf(
  connection: Connection,
  hash: Buffer,
  limit: number,
  view: View,
): Holders {
  const rows = connection.text<{ docid: number; number: number; filename: string | null }>(
    // SQLite takes the other columns from the row that has the min().
    `SELECT a.docid, min(a.number) AS number, a.filename ${holding(view)}
     GROUP BY a.docid ORDER BY a.docid DESC LIMIT ${limit}`,
    [hash],
  );
  const newest = [...rows].flatMap(({ docid, number, filename }) => {
    const message = holderMessage(connection, docid, view);
    return message === undefined ? [] : [{ ...message, number, filename }];
  });
  const [oldest] = connection.column<number | null>(`SELECT min(a.docid) ${holding(view)}`, [hash]);
  return {
    newest,
    messages: countHolders(connection, hash, view),
    first: oldest == null ? null : (holderMessage(connection, oldest, view)?.date ?? null),
  };
}

/** SQL for the attachments with a content that a view shows. */
function holding(view: View): string {
  const where = ['a.hash = ?', "a.type <> ''", ...seen(view)].join(' AND ');
  return `FROM attachments a CROSS JOIN messages m ON m.docid = a.docid WHERE ${where}`;
}
