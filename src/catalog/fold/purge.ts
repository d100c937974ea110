import type { Fact } from '../../archive/facts.ts';
import type { Connection } from '../connection.ts';
import { query } from '../query.ts';
import { RECORD_MESSAGE } from '../tables.ts';
import { eraseText } from '../text-blocks.ts';
import type { FoldedFolders } from './folders.ts';
import type { FoldedMessages } from './messages.ts';

type FactOf<N extends Fact['fact']> = Extract<Fact, { fact: N }>;

const TOMBSTONE = query<{ id: Buffer; reason: string; commit: number }>()((db, p) =>
  db
    .insertInto('tombstones')
    .values({ id: p.id, reason: p.reason, commit_number: p.commit })
    .onConflict((conflict) => conflict.column('id').doNothing()),
);
const FIND = query<{ id: Buffer }>()((db, p) =>
  db
    .selectFrom('records')
    .select('docid')
    .where('kind', '=', RECORD_MESSAGE)
    .where('hash', '=', p.id),
);
const PLACES = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select(['id', 'folder_id', 'generation', 'uid', 'to_commit'])
    .where('docid', '=', p.docid),
);
const FORGET_PLACE = query<{ folder: number; generation: number; uid: number; id: Buffer }>()(
  (db, p) =>
    db
      .insertInto('forgotten')
      .values({ folder_id: p.folder, generation: p.generation, uid: p.uid, id: p.id })
      .onConflict((conflict) =>
        conflict.columns(['folder_id', 'generation', 'uid']).doUpdateSet({ id: p.id }),
      ),
);
const DROP_EVENTS = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .deleteFrom('events')
    .where('folder_id', '=', p.folder)
    .where('generation', '=', p.generation)
    .where('uid', '=', p.uid),
);
const DROP_SPANS_OF_PLACE = query<{ place: number }>()((db, p) =>
  db.deleteFrom('spans').where('place_id', '=', p.place),
);
const DROP_SPANS = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('spans').where('docid', '=', p.docid),
);
const DROP_PLACES = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('places').where('docid', '=', p.docid),
);
const DROP_MESSAGE = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('messages').where('docid', '=', p.docid).returning('size'),
);
const DROP_TERMS = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('msg_fts').where('rowid', '=', p.docid),
);
const DROP_RECORD = query<{ id: Buffer }>()((db, p) =>
  db.deleteFrom('records').where('kind', '=', RECORD_MESSAGE).where('hash', '=', p.id),
);

/**
 * A purge in the fold. The rows end up as a rebuild from the purged log makes them: the message's facts are
 * gone there, so every row that came of them goes here, and what stays is the tombstone and the places at
 * which the origin still shows the message. Terms and freed pages stay in the file until a rebuild into a new one.
 */
export class FoldedPurges {
  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldedFolders,
    private readonly messages: FoldedMessages,
  ) {}

  purged(fact: FactOf<'purged'>, commit: number): void {
    const id = Buffer.from(fact.message, 'hex');
    this.connection.statement(TOMBSTONE).run({ id, reason: fact.reason, commit });
    const docid = this.connection.statement(FIND).get({ id })?.docid ?? null;
    if (docid !== null) this.#drop(docid, id);
    this.connection.statement(DROP_RECORD).run({ id });
    for (const place of fact.places ?? []) {
      const folder = this.folders.ofPlace(place, commit).id;
      const { generation, uid } = place;
      this.connection.statement(FORGET_PLACE).run({ folder, generation, uid, id });
    }
  }

  #drop(docid: number, id: Buffer): void {
    for (const place of this.connection.statement(PLACES).all({ docid })) {
      const key = { folder: place.folder_id, generation: place.generation, uid: place.uid };
      if (place.to_commit === null) this.connection.statement(FORGET_PLACE).run({ ...key, id });
      this.connection.statement(DROP_EVENTS).run(key);
      this.connection.statement(DROP_SPANS_OF_PLACE).run({ place: place.id });
    }
    this.connection.statement(DROP_SPANS).run({ docid });
    this.connection.statement(DROP_PLACES).run({ docid });
    eraseText(this.connection, docid);
    this.connection.statement(DROP_TERMS).run({ docid });
    const row = this.connection.statement(DROP_MESSAGE).get({ docid });
    if (row !== undefined) this.messages.dropped(row.size);
  }
}
