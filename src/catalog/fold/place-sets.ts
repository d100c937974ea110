import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import { dayOf, type PlaceSet, placeSetOf } from '../place-sets.ts';
import { query, type Row } from '../query.ts';

const FIND = query<Omit<Row<'place_sets'>, 'id'>>()((db, p) =>
  db
    .selectFrom('place_sets')
    .select('id')
    .where((eb) => eb.and(named(p, 'current', 'last', 'mailboxes'))),
);
const ADD = query<Omit<Row<'place_sets'>, 'id'>>()((db, p) =>
  db.insertInto('place_sets').values(named(p, 'current', 'last', 'mailboxes')),
);
const MAILBOX = query<{ folder: number }>()((db, p) =>
  db.selectFrom('folders').select('mailbox_id').where('id', '=', p.folder),
);
const MESSAGE = query<{ docid: number }>()((db, p) =>
  db.selectFrom('messages').select(['size', 'place_set']).where('docid', '=', p.docid),
);
const PLACES = query<{ docid: number }>()((db, p) =>
  db.selectFrom('places').select(['folder_id', 'to_commit']).where('docid', '=', p.docid),
);
const SET = query<{ docid: number; place_set: number }>()((db, p) =>
  db.updateTable('messages').set({ place_set: p.place_set }).where('docid', '=', p.docid),
);
const COUNT = query<Row<'received_days'>>()((db, p) =>
  db
    .insertInto('received_days')
    .values(named(p, 'place_set', 'day', 'messages', 'bytes'))
    .onConflict((conflict) =>
      conflict.columns(['place_set', 'day']).doUpdateSet((eb) => ({
        messages: eb('received_days.messages', '+', p.messages),
        bytes: eb('received_days.bytes', '+', p.bytes),
      })),
    ),
);
const DROP_EMPTY = query<Pick<Row<'received_days'>, 'place_set' | 'day'>>()((db, p) =>
  db
    .deleteFrom('received_days')
    .where((eb) => eb.and(named(p, 'place_set', 'day')))
    .where('messages', '=', (eb) => eb.lit(0)),
);

type Counted = Row<'received_days'>;

/**
 * Where messages are, in the fold, and how many of each day are there. Sets of places get numbers in the order in which
 * the log first shows them, so that a rebuild gives the same. Counts are gathered in memory and written once for a
 * transaction.
 */
export class FoldedPlaceSets {
  readonly #sets = new Map<string, number>();
  readonly #mailboxes = new Map<number, number>();
  /** Numbers of the sets of one current place, by its folder: nearly all messages arrive there. */
  readonly #single = new Map<number, number>();
  /** Messages of this batch whose places changed. */
  readonly #touched = new Set<number>();
  readonly #counts = new Map<string, Counted>();

  constructor(private readonly connection: Connection) {}

  /** Returns the set of a new message that is in this folder only. */
  single(folder: number, mailbox: number): number {
    let id = this.#single.get(folder);
    if (id === undefined) {
      id = this.#idOf({ current: [folder], last: [], mailboxes: [mailbox] });
      this.#single.set(folder, id);
    }
    return id;
  }

  /** Returns the set of a message without any place. */
  nowhere(): number {
    return this.#idOf({ current: [], last: [], mailboxes: [] });
  }

  /** A message's row was added with this set. */
  added(docid: number, size: number, set: number): void {
    this.#count(set, dayOf(docid), 1, size);
  }

  /** Places of the message opened, ended, or became those of another message. */
  touched(docid: number): void {
    this.#touched.add(docid);
  }

  /** A message's row has gone. */
  dropped(docid: number, size: number, set: number): void {
    this.#touched.delete(docid);
    this.#count(set, dayOf(docid), -1, size);
  }

  /** Forgets folders by their numbers, which may be given again. */
  foldersRemoved(): void {
    this.#mailboxes.clear();
    this.#single.clear();
  }

  /** Writes the sets of messages whose places changed in the batch. */
  finish(): void {
    for (const docid of this.#touched) {
      const message = this.connection.get(MESSAGE, { docid });
      if (message === undefined) continue;
      const places = this.connection.all(PLACES, { docid });
      const set = this.#idOf(placeSetOf(places, (folder) => this.#mailboxOf(folder)));
      if (set === message.place_set) continue;
      this.connection.run(SET, { docid, place_set: set });
      this.#count(message.place_set, dayOf(docid), -1, message.size);
      this.#count(set, dayOf(docid), 1, message.size);
    }
    this.#touched.clear();
  }

  /** Writes the counts of the transaction. */
  write(): void {
    for (const counted of this.#counts.values()) {
      if (counted.messages === 0 && counted.bytes === 0) continue;
      this.connection.run(COUNT, counted);
      if (counted.messages < 0) this.connection.run(DROP_EMPTY, counted);
    }
    this.#counts.clear();
  }

  /** After a transaction that was undone. */
  forget(): void {
    this.#sets.clear();
    this.#mailboxes.clear();
    this.#single.clear();
    this.#touched.clear();
    this.#counts.clear();
  }

  #count(set: number, day: number, messages: 1 | -1, size: number): void {
    const key = `${set} ${day}`;
    const known = this.#counts.get(key);
    const bytes = messages * size;
    if (known === undefined) this.#counts.set(key, { place_set: set, day, messages, bytes });
    else {
      known.messages += messages;
      known.bytes += bytes;
    }
  }

  #idOf({ current, last, mailboxes }: PlaceSet): number {
    const row = {
      current: JSON.stringify(current),
      last: JSON.stringify(last),
      mailboxes: JSON.stringify(mailboxes),
    };
    const key = `${row.current} ${row.last} ${row.mailboxes}`;
    let id = this.#sets.get(key);
    if (id === undefined) {
      id = this.connection.get(FIND, row)?.id ?? this.connection.run(ADD, row).lastInsertRowid;
      this.#sets.set(key, id);
    }
    return id;
  }

  #mailboxOf(folder: number): number {
    let mailbox = this.#mailboxes.get(folder);
    if (mailbox === undefined) {
      mailbox = this.connection.get(MAILBOX, { folder })?.mailbox_id ?? 0;
      this.#mailboxes.set(folder, mailbox);
    }
    return mailbox;
  }
}
