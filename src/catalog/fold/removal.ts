import type { RemovedPart } from '../../archive/format/facts.ts';
import type { MailboxKey } from '../../mail/words.ts';
import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import { query } from '../query.ts';
import type { FoldedChanges } from './changes.ts';
import { type FoldedFolders, storedName } from './folders.ts';
import type { FoldedMessages } from './messages.ts';
import type { FoldedPlaceSets } from './place-sets.ts';

const FOLDERS = query<MailboxKey>()((db, p) =>
  db
    .selectFrom('mailboxes as m')
    .innerJoin('folders as f', 'f.mailbox_id', 'm.id')
    .select(['f.id', 'f.path'])
    .where((eb) => eb.and({ 'm.host': p.host, 'm.mailbox': p.mailbox }))
    .orderBy('f.id'),
);
const PLACES = query<{ folder: number; first: number; last: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select(['id', 'docid', 'first_commit', 'to_commit'])
    .where('folder_id', '=', p.folder)
    .where('first_commit', '>=', p.first)
    .where('first_commit', '<=', p.last)
    .orderBy('id'),
);
const DROP_SPANS = query<{ id: number }>()((db, p) =>
  db.deleteFrom('spans').where('place_id', '=', p.id),
);
const DROP_PLACE = query<{ id: number }>()((db, p) =>
  db.deleteFrom('places').where('id', '=', p.id),
);
/** A message is as old as the first of the places that are left. */
const SET_FIRST = query<{ docid: number }>()((db, p) =>
  db
    .updateTable('messages')
    .set((eb) => ({
      first_commit: eb.fn.coalesce(
        eb
          .selectFrom('places')
          .select(({ fn }) => fn.min('first_commit').as('first'))
          .where('docid', '=', p.docid),
        'first_commit',
      ),
    }))
    .where('docid', '=', p.docid),
);
const OF_FOLDER = (
  [
    ...(['events', 'quarantine', 'forgotten', 'certificates', 'commit_changes'] as const),
    ...(['folder_spans', 'generations'] as const),
  ] as const
).map((table) =>
  query<{ folder: number }>()((db, p) => db.deleteFrom(table).where('folder_id', '=', p.folder)),
);
const DROP_FOLDER = query<{ id: number }>()((db, p) =>
  db.deleteFrom('folders').where('id', '=', p.id),
);
const DROP_MAILBOX = query<MailboxKey>()((db, p) =>
  db.deleteFrom('mailboxes').where((eb) => eb.and(named(p, 'host', 'mailbox'))),
);

/**
 * Removes parts of mailboxes in the fold. Messages that have no other place are purged by facts of their own, which
 * follow in the same batch. A rebuild from a log that still has some of the facts gives the same rows.
 */
export class FoldedRemovals {
  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldedFolders,
    private readonly messages: FoldedMessages,
    private readonly placeSets: FoldedPlaceSets | undefined,
    private readonly changes: FoldedChanges | undefined,
  ) {}

  remove({ host, mailbox, commits, folders = [] }: RemovedPart): void {
    const { connection } = this;
    // Rows that the batch has still to write would come back otherwise.
    this.folders.finish();
    const going = new Set(folders.map(storedName));
    for (const { id: folder, path } of connection.all(FOLDERS, { host, mailbox })) {
      const isWhole = commits === undefined || going.has(path);
      const [first, last] = isWhole ? [0, Number.MAX_SAFE_INTEGER] : commits;
      for (const place of connection.all(PLACES, { folder, first, last })) {
        connection.run(DROP_SPANS, place);
        connection.run(DROP_PLACE, place);
        if (!isWhole) this.changes?.removed(place.first_commit, folder);
        if (place.to_commit === null) this.messages.opened(place.docid, -1);
        else this.messages.moved(place.docid);
        connection.run(SET_FIRST, place);
        this.messages.dueAgain(place.docid);
      }
      if (!isWhole) continue;
      for (const drop of OF_FOLDER) connection.run(drop, { folder });
      connection.run(DROP_FOLDER, { id: folder });
    }
    if (commits === undefined) connection.run(DROP_MAILBOX, { host, mailbox });
    this.folders.forget();
    this.placeSets?.foldersRemoved();
  }
}
