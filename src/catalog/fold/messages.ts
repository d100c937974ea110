import type { Position } from '../../archive/format/records.ts';
import type { MessageId } from '../../mail/words.ts';
import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import { query, type Row } from '../query.ts';
import { RECORD_BLOB, RECORD_MESSAGE } from '../tables.ts';
import type { Envelope } from './envelope.ts';
import type { FoldedPlaceSets } from './place-sets.ts';

const FIND = query<{ kind: number; hash: Buffer }>()((db, p) =>
  db
    .selectFrom('records')
    .select(['docid', 'size'])
    .where((eb) => eb.and({ kind: p.kind, hash: p.hash })),
);
const PUT_RECORD = query<Row<'records'>>()((db, p) =>
  db
    .insertInto('records')
    .values(named(p, 'kind', 'hash', 'size', 'segment', 'ordinal', 'offset', 'docid'))
    // The later record is in force: it was written because the earlier one was damaged or purged.
    .onConflict((conflict) =>
      conflict
        .columns(['kind', 'hash'])
        .doUpdateSet(named(p, 'size', 'segment', 'ordinal', 'offset')),
    ),
);
const ADD_RECORD = query<Omit<Row<'records'>, 'kind'>>()((db, p) =>
  db
    .insertInto('records')
    .values({
      ...named(p, 'hash', 'size', 'segment', 'ordinal', 'offset', 'docid'),
      kind: RECORD_MESSAGE,
    })
    .onConflict((conflict) => conflict.columns(['kind', 'hash']).doNothing()),
);
const SET_DOCID = query<{ hash: Buffer; docid: number }>()((db, p) =>
  db
    .updateTable('records')
    .set({ docid: p.docid })
    .where((eb) => eb.and({ kind: RECORD_MESSAGE, hash: p.hash })),
);
const TAKEN_FROM = query<{ docid: number }>()((db, p) =>
  db.selectFrom('messages').select('docid').where('docid', '>=', p.docid).orderBy('docid'),
);
const ADD = query<Omit<Row<'messages'>, 'extractor'>>()((db, p) =>
  db
    .insertInto('messages')
    .values({
      ...named(p, 'docid', 'id', 'size', 'date', 'subject', 'sender_name', 'sender_address'),
      ...named(p, 'message_id', 'first_commit', 'open_places', 'place_set'),
      extractor: 0,
    })
    .onConflict((conflict) => conflict.column('docid').doNothing()),
);
const ADD_OPEN = query<{ docid: number; change: number }>()((db, p) =>
  db
    .updateTable('messages')
    .set((eb) => ({ open_places: eb('open_places', '+', p.change) }))
    .where('docid', '=', p.docid),
);
const GET = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('messages')
    .select(['date', 'subject', 'sender_name', 'sender_address', 'message_id'])
    .where('docid', '=', p.docid),
);
const DUE_AGAIN = query<{ docid: number }>()((db, p) =>
  db
    .updateTable('messages')
    .set((eb) => ({ extractor: eb.neg(eb.fn<number>('abs', ['extractor'])) }))
    .where('docid', '=', p.docid),
);

const NO_ENVELOPE: Envelope = {
  date: null,
  subject: null,
  sender_name: null,
  sender_address: null,
  message_id: null,
};

interface Arrived {
  readonly size: number;
  readonly position: Position;
}

/** Messages and records in the fold: hashes to docids and positions. */
export class FoldedMessages {
  /** Message records of this batch that no fact has used yet: most get their docid and their row at once. */
  readonly #arrived = new Map<MessageId, Arrived>();
  #rows = 0;
  #bytes = 0;

  /** @param placeSets where there are none, as in a catalog made to be compared, sets are not numbered */
  constructor(
    private readonly connection: Connection,
    private readonly placeSets: FoldedPlaceSets | undefined,
  ) {}

  blob(hash: string, size: number, position: Position): void {
    this.#put(RECORD_BLOB, hash, size, position, null);
  }

  message(id: MessageId, size: number, position: Position): void {
    this.#arrived.set(id, { size, position });
  }

  /**
   * The docid of a message, whose row is made when this is the first fact about it. The docid of the fact holds
   * unless another message has it, which only a log of two writers can bring about: then the next free one.
   *
   * @param place the open place that a row that is made begins with, if any
   */
  docidOf(
    id: MessageId,
    size: number,
    docid: number,
    envelope: () => Envelope,
    commit: number,
    place: { readonly folder: number; readonly mailbox: number } | undefined,
  ) {
    const hash = Buffer.from(id, 'hex');
    const arrived = this.#arrived.get(id);
    // Nearly always the fact brings a new message, with its bytes: then one statement looks for the record and adds it.
    if (arrived !== undefined && this.#added(hash, size, docid, arrived)) this.#arrived.delete(id);
    else {
      const known = this.connection.get(FIND, { kind: RECORD_MESSAGE, hash });
      if (known !== undefined && known.docid !== null)
        return { docid: known.docid, date: this.#dateOf(known.docid), added: false };
      if (known !== undefined) this.connection.run(SET_DOCID, { hash, docid });
      else this.#added(hash, size, docid, arrived);
    }
    const row = envelope();
    const set =
      (place === undefined
        ? this.placeSets?.nowhere()
        : this.placeSets?.single(place.folder, place.mailbox)) ?? 0;
    // Field by field, as below for places: a spread between other fields takes as long as the statement.
    const values = {
      docid,
      id: hash,
      size,
      date: row.date,
      subject: row.subject,
      sender_name: row.sender_name,
      sender_address: row.sender_address,
      message_id: row.message_id,
      first_commit: commit,
      open_places: place === undefined ? 0 : 1,
      place_set: set,
    };
    let given = docid;
    if (this.connection.run(ADD, values).changes === 0) {
      given = this.#firstFree(docid);
      this.connection.run(SET_DOCID, { hash, docid: given });
      this.connection.run(ADD, { ...values, docid: given });
    }
    this.#rows += 1;
    this.#bytes += size;
    this.placeSets?.added(given, size, set);
    return { docid: given, date: row.date, added: true };
  }

  envelope(docid: number): Envelope {
    return this.connection.get(GET, { docid }) ?? NO_ENVELOPE;
  }

  /** Counts places of a message that opened (1) or ended (-1). */
  opened(docid: number, change: 1 | -1): void {
    this.connection.run(ADD_OPEN, { docid, change });
    this.placeSets?.touched(docid);
  }

  /** An ended place of the message became another one's, or the other way round. */
  moved(docid: number): void {
    this.placeSets?.touched(docid);
  }

  /** What the index says about the message is not complete any more. */
  dueAgain(docid: number): void {
    this.connection.run(DUE_AGAIN, { docid });
  }

  /** Writes the records that no fact of the batch used; one of a known message repairs it. */
  finish(): void {
    for (const [id, { size, position }] of this.#arrived) {
      const hash = Buffer.from(id, 'hex');
      const known = this.connection.get(FIND, { kind: RECORD_MESSAGE, hash });
      this.#put(RECORD_MESSAGE, id, size, position, null);
      if (known !== undefined && known.docid !== null) this.dueAgain(known.docid);
    }
    this.#arrived.clear();
  }

  /** A message's row has gone. */
  dropped(docid: number, { size, place_set }: Pick<Row<'messages'>, 'size' | 'place_set'>): void {
    this.placeSets?.dropped(docid, size, place_set);
    this.#rows -= 1;
    this.#bytes -= size;
  }

  /** No record has these bytes any more: whoever looks for them does not find them, and sync stores them again. */
  missing(kind: 'message' | 'blob', hash: string, size: number): void {
    const record = kind === 'message' ? RECORD_MESSAGE : RECORD_BLOB;
    const known = this.connection.get(FIND, { kind: record, hash: Buffer.from(hash, 'hex') });
    this.#put(record, hash, known?.size ?? size, undefined, known?.docid ?? null);
  }

  /** By how many rows and raw bytes the messages have grown since last asked. */
  grown(): { readonly messages: number; readonly bytes: number } {
    const grown = { messages: this.#rows, bytes: this.#bytes };
    this.#rows = 0;
    this.#bytes = 0;
    return grown;
  }

  /** Counts messages whose rows are elsewhere. */
  counted(messages: number, bytes: number): void {
    this.#rows += messages;
    this.#bytes += bytes;
  }

  /** After a transaction that was undone. */
  forget(): void {
    this.#arrived.clear();
    this.grown();
  }

  #dateOf(docid: number): number | null {
    return this.connection.get(GET, { docid })?.date ?? null;
  }

  /** False when a record has these bytes already. */
  #added(hash: Buffer, size: number, docid: number, arrived: Arrived | undefined): boolean {
    const { changes } = this.connection.run(ADD_RECORD, {
      hash,
      size: arrived?.size ?? size,
      segment: arrived?.position.segment ?? null,
      ordinal: arrived?.position.ordinal ?? null,
      offset: arrived?.position.offset ?? null,
      docid,
    });
    return changes > 0;
  }

  #firstFree(docid: number): number {
    let free = docid;
    for (const row of this.connection.statement(TAKEN_FROM).iterate({ docid })) {
      if (row.docid !== free) break;
      free += 1;
    }
    return free;
  }

  #put(
    kind: number,
    hash: string,
    size: number,
    position: Position | undefined,
    docid: number | null,
  ): void {
    this.connection.run(PUT_RECORD, {
      kind,
      hash: Buffer.from(hash, 'hex'),
      size,
      segment: position?.segment ?? null,
      ordinal: position?.ordinal ?? null,
      offset: position?.offset ?? null,
      docid,
    });
  }
}
