import type { RemovedPart } from '../archive/format/facts.ts';
import type { MailboxKey, MessageId } from '../mail/words.ts';
import type { Connection } from './connection.ts';

/** Places that appeared in some commits in a mailbox, or all of them. */
export interface Chosen extends MailboxKey {
  readonly commits?: RemovedPart['commits'] | undefined;
}

interface GoingMessage {
  readonly docid: number;
  readonly id: MessageId;
  readonly size: number;
}

/** What goes if places are removed. */
export interface Removable {
  readonly parts: readonly RemovedPart[];
  readonly places: number;
  /** Messages without any other place, open or ended. */
  readonly going: readonly GoingMessage[];
  /** Messages that stay because they have other places. */
  readonly staying: number;
  /** Messages that could not be fetched completely. */
  readonly incomplete: number;
}

/** Returns what goes if these places of mailboxes are removed. Mailboxes that the catalog does not have are left out. */
export function removable(connection: Connection, chosen: readonly Chosen[]): Removable {
  const known = chosen.flatMap(({ host, mailbox, commits }) => {
    const sql = 'SELECT id FROM mailboxes WHERE host = ? AND mailbox = ?';
    const id = connection.first<number>(sql, [host, mailbox]);
    return id === undefined ? [] : [{ id, host, mailbox, commits }];
  });
  const isChosen = (place: string, folder: string) =>
    known
      .map(({ id, commits }) => {
        const own = `${folder}.mailbox_id = ${id}`;
        if (commits === undefined) return own;
        return `(${own} AND ${place}.first_commit BETWEEN ${commits[0]} AND ${commits[1]})`;
      })
      .join(' OR ') || '0';
  const places = 'places AS p JOIN folders AS f ON f.id = p.folder_id';
  const others = `SELECT 1 FROM places AS q JOIN folders AS g ON g.id = q.folder_id
    WHERE q.docid = m.docid AND NOT (${isChosen('q', 'g')})`;
  const concerned = `m.docid IN (SELECT p.docid FROM ${places} WHERE ${isChosen('p', 'f')})`;
  const counted = (sql: string) => connection.first<number>(`SELECT count(*) FROM ${sql}`, []) ?? 0;
  const found = connection.text<{ docid: number; id: Buffer; size: number }>(
    `SELECT m.docid, m.id, m.size FROM messages AS m WHERE ${concerned} AND NOT EXISTS (${others})
     ORDER BY m.docid`,
    [],
  );
  const whole = known.filter(({ commits }) => commits === undefined).map(({ id }) => id);
  return {
    parts: known.map((one) => partOf(connection, one)),
    places: counted(`${places} WHERE ${isChosen('p', 'f')}`),
    going: [...found].map(({ docid, id, size }) => ({ docid, id: id.toString('hex'), size })),
    staying: counted(`messages AS m WHERE ${concerned} AND EXISTS (${others})`),
    incomplete: counted(
      `quarantine AS p JOIN folders AS f ON f.id = p.folder_id
       WHERE p.to_commit IS NULL AND f.mailbox_id IN (${whole.join(', ')})`,
    ),
  };
}

/** A mailbox in which nothing else is left goes as a whole; otherwise the folders in which nothing is left. */
function partOf(
  connection: Connection,
  { id, host, mailbox, commits }: Chosen & { readonly id: number },
): RemovedPart {
  if (commits === undefined) return { host, mailbox };
  const [first, last] = commits;
  const folders = [
    ...connection.text<{ path: string; isEmptied: number }>(
      `SELECT f.path, NOT EXISTS (
         SELECT 1 FROM places AS p
         WHERE p.folder_id = f.id AND p.first_commit NOT BETWEEN ? AND ?) AS isEmptied
       FROM folders AS f WHERE f.mailbox_id = ? ORDER BY f.path`,
      [first, last, id],
    ),
  ];
  if (folders.every(({ isEmptied }) => isEmptied === 1)) return { host, mailbox };
  const emptied = folders.filter(({ isEmptied }) => isEmptied === 1).map(({ path }) => path);
  return { host, mailbox, commits, ...(emptied.length === 0 ? {} : { folders: emptied }) };
}
