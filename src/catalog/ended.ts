import type { MessageId, Place } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { query } from './query.ts';
import { type Chosen, type Removable, removable } from './removable.ts';

/** A place of a message under the path its folder has now; times are milliseconds since the epoch. */
export interface StoodPlace extends Place {
  readonly folderId: number;
  readonly address: string;
  readonly specialUse: string | null;
  /** The folder went at the origin. */
  readonly folderGone: boolean;
  /** False where another folder of the mailbox has, or had, this path: a fact could not say which is meant. */
  readonly isNameable: boolean;
  /** Null while it is open. */
  readonly endedAt: number | null;
}

/** A message none of whose places is open. */
export interface EndedMessage {
  readonly docid: number;
  readonly id: MessageId;
  readonly size: number;
  readonly subject: string | null;
  readonly places: readonly StoodPlace[];
}

export interface EndedQueries {
  /** Messages without an open place, newest first. The caller may not write between them. */
  messages(): Generator<EndedMessage, void, undefined>;
  /** What goes if places of mailboxes are removed. */
  removable(chosen: readonly Chosen[]): Removable;
  /** Every place at which a message stands or ever stood. */
  placesOf(docid: number): StoodPlace[];
  /** By folder: since when every uid of it was answered for, as the latest complete certificate has it. */
  confirmed(): ReadonlyMap<number, number>;
  /** Host and mailbox of a folder, as one text with NUL between. */
  mailboxOf(folder: number): string;
}

const ENDED = query()((db) =>
  db
    .selectFrom('messages')
    .select(['docid', 'id', 'size', 'subject'])
    .where('open_places', '=', (eb) => eb.lit(0))
    .orderBy('docid', 'desc'),
);
const PLACES = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('places')
    .leftJoin('commits', 'commits.number', 'places.to_commit')
    .select(['folder_id', 'generation', 'uid', 'to_commit', 'commits.time as ended_at'])
    .where('docid', '=', p.docid)
    .orderBy('places.id'),
);
const FOLDERS = query()((db) =>
  db
    .selectFrom('folders as f')
    .innerJoin('mailboxes as m', 'm.id', 'f.mailbox_id')
    .select(['f.id', 'f.path', 'f.special_use', 'f.gone_commit', 'm.host', 'm.mailbox'])
    .select(['m.address', 'f.mailbox_id']),
);
const CONFIRMED = query()((db) =>
  db
    .selectFrom('certificates')
    .select((eb) => ['folder_id', eb.fn.max<string>('since').as('since')])
    .where('complete', '=', 1)
    .groupBy('folder_id'),
);

export function endedQueries(connection: Connection): EndedQueries {
  const placesOf = (docid: number, folders: FolderRows): StoodPlace[] =>
    connection.all(PLACES, { docid }).map((row) => {
      const folder = folders.byId.get(row.folder_id);
      if (folder === undefined) throw new Error(`folder ${row.folder_id} has no row`);
      const { host, mailbox, path, address, special_use: specialUse } = folder;
      return {
        ...{ host, mailbox, folder: path, generation: row.generation, uid: row.uid },
        folderId: row.folder_id,
        address,
        specialUse,
        folderGone: folder.gone_commit !== null,
        isNameable: folders.perPath.get(pathText(folder)) === 1,
        endedAt: row.to_commit === null ? null : row.ended_at,
      };
    });
  return {
    *messages() {
      const folders = folderRows(connection);
      for (const { docid, id, size, subject } of connection.rows(ENDED, {})) {
        const places = placesOf(docid, folders);
        // A message that was only ever assumed, wrongly, has none.
        if (places.length > 0) yield { docid, id: id.toString('hex'), size, subject, places };
      }
    },
    removable: (chosen) => removable(connection, chosen),
    placesOf: (docid) => placesOf(docid, folderRows(connection)),
    confirmed() {
      const rows = connection.all(CONFIRMED, {});
      return new Map(rows.map(({ folder_id, since }) => [folder_id, Date.parse(since)]));
    },
    mailboxOf(folder) {
      const row = foldersOf(connection).find(({ id }) => id === folder);
      return `${row?.host ?? ''}\0${row?.mailbox ?? ''}`;
    },
  };
}

type FolderRow = ReturnType<typeof foldersOf>[number];

interface FolderRows {
  readonly byId: ReadonlyMap<number, FolderRow>;
  /** How many folders have a path. */
  readonly perPath: ReadonlyMap<string, number>;
}

function foldersOf(connection: Connection) {
  return connection.all(FOLDERS, {});
}

function folderRows(connection: Connection): FolderRows {
  const rows = foldersOf(connection);
  const perPath = new Map<string, number>();
  for (const row of rows) perPath.set(pathText(row), (perPath.get(pathText(row)) ?? 0) + 1);
  return { byId: new Map(rows.map((row) => [row.id, row])), perPath };
}

function pathText({ mailbox_id: mailbox, path }: { mailbox_id: number; path: string }): string {
  return `${mailbox}\0${path}`;
}
