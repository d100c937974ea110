import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import { messageQueries } from '../messages.ts';
import { dropPeople, forgetPeople } from '../people.ts';
import { dropAttachments } from '../put-attachments.ts';
import { query, type Row } from '../query.ts';
import { RECORD_BLOB, RECORD_MESSAGE } from '../tables.ts';
import { leaveThreads } from '../threads.ts';
import type { FoldedChanges } from './changes.ts';
import type { FactOf, FoldedFolders, Uid } from './folders.ts';
import type { FoldedMessages } from './messages.ts';

const TOMBSTONE = query<Row<'tombstones'>>()((db, p) =>
  db
    .insertInto('tombstones')
    .values(named(p, 'id', 'reason', 'commit_number'))
    .onConflict((conflict) =>
      // It was purged, came back, and was purged again.
      conflict.column('id').doUpdateSet(named(p, 'reason', 'commit_number')),
    ),
);
const KNOWN_TOMBSTONE = query<Row<'tombstones'>>()((db, p) =>
  db
    .insertInto('tombstones')
    .values(named(p, 'id', 'reason', 'commit_number'))
    .onConflict((conflict) => conflict.column('id').doNothing()),
);
const PLACES = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select(['id', 'folder_id', 'generation', 'uid'])
    .where('docid', '=', p.docid),
);
const FORGET_PLACE = query<Uid & { id: Buffer }>()((db, p) =>
  db
    .insertInto('forgotten')
    .values(named(p, 'folder_id', 'generation', 'uid', 'id'))
    .onConflict((conflict) =>
      conflict.columns(['folder_id', 'generation', 'uid']).doUpdateSet({ id: p.id }),
    ),
);
const DROP_EVENTS = query<Uid>()((db, p) =>
  db.deleteFrom('events').where((eb) => eb.and(named(p, 'folder_id', 'generation', 'uid'))),
);
const DROP_QUARANTINE = query<Uid>()((db, p) =>
  db.deleteFrom('quarantine').where((eb) => eb.and(named(p, 'folder_id', 'generation', 'uid'))),
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
  db.deleteFrom('messages').where('docid', '=', p.docid).returning(['size', 'place_set']),
);
const BLANK_TEXT = query<{ docid: number }>()((db, p) =>
  db
    .updateTable('texts')
    // No length, and so no bytes, where there is nothing to overwrite.
    .set((eb) => ({
      text: eb.fn<Buffer>('zeroblob', [eb.fn('length', ['text'])]),
      attachments: eb.fn<Buffer>('zeroblob', [eb.fn('length', ['attachments'])]),
    }))
    .where('docid', '=', p.docid),
);
const DROP_TEXT = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('texts').where('docid', '=', p.docid),
);
const DROP_TERMS = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('msg_fts').where('rowid', '=', p.docid),
);
const DROP_RECORD = query<{ kind: number; hash: Buffer }>()((db, p) =>
  db.deleteFrom('records').where('kind', '=', p.kind).where('hash', '=', p.hash),
);

/**
 * A purge in the fold. The rows end up as a rebuild from the purged log makes them: the message's facts are
 * gone there, so every row that came of them goes here, and what stays is the tombstone and the places that the
 * fact names. Half-way through, when only some of the facts are gone from the log, a rebuild gives the same rows. Terms and freed pages stay in the file until a rebuild into a new one.
 */
export class FoldedPurges {
  /** Messages that are gone and still in their threads. */
  readonly #leaving: number[] = [];

  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldedFolders,
    private readonly messages: FoldedMessages,
    private readonly changes: FoldedChanges | undefined,
  ) {}

  purged(fact: FactOf<'purged'>, commit: number): void {
    const id = Buffer.from(fact.message, 'hex');
    const tombstone = { id, reason: fact.reason, commit_number: commit };
    if (fact.again === true) this.connection.run(KNOWN_TOMBSTONE, tombstone);
    else {
      this.connection.run(TOMBSTONE, tombstone);
      this.#removed(id, fact.blobs ?? []);
    }
    for (const place of fact.ended ?? []) this.#clear(this.folders.uidOf(place, commit));
    for (const place of fact.places ?? []) {
      const key = this.folders.uidOf(place, commit);
      this.#clear(key);
      this.connection.run(FORGET_PLACE, { ...key, id });
    }
  }

  /** Recomputes the threads of what was purged, once for the batch. */
  finish(): void {
    leaveThreads(this.connection, this.#leaving.splice(0));
  }

  /** Nothing of the batch came to be. */
  forget(): void {
    this.#leaving.length = 0;
    forgetPeople(this.connection);
  }

  #removed(id: Buffer, blobs: readonly string[]): void {
    const docid = messageQueries(this.connection).docidOf(id.toString('hex'));
    if (docid !== undefined) this.#drop(docid);
    this.connection.run(DROP_RECORD, { kind: RECORD_MESSAGE, hash: id });
    for (const blob of blobs) {
      const hash = Buffer.from(blob, 'hex');
      this.connection.run(DROP_RECORD, { kind: RECORD_BLOB, hash });
    }
  }

  /** Rows that came of facts about a place and not of the message. */
  #clear(key: Uid): void {
    this.connection.run(DROP_EVENTS, key);
    this.connection.run(DROP_QUARANTINE, key);
  }

  #drop(docid: number): void {
    this.changes?.dropped(docid);
    for (const place of this.connection.all(PLACES, { docid })) {
      this.#clear(place);
      this.connection.run(DROP_SPANS_OF_PLACE, { place: place.id });
    }
    this.connection.run(DROP_SPANS, { docid });
    this.connection.run(DROP_PLACES, { docid });
    // What was forgotten must not be unpacked again from a page that was freed.
    this.connection.run(BLANK_TEXT, { docid });
    this.connection.run(DROP_TEXT, { docid });
    this.#leaving.push(docid);
    dropAttachments(this.connection, docid);
    dropPeople(this.connection, docid);
    this.connection.run(DROP_TERMS, { docid });
    const row = this.connection.get(DROP_MESSAGE, { docid });
    if (row !== undefined) this.messages.dropped(docid, row);
  }
}
