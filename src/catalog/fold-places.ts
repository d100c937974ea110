import { canonicalJson, type Fact } from '../archive/format.ts';
import type { FolderKey, Listing, MailboxKey } from '../core/types.ts';
import { fingerprint } from '../mail/identity.ts';
import { named } from './bound-sql.ts';
import type { Connection } from './database.ts';
import type { FoldedChanges, FoldedMessages } from './fold.ts';
import { highestUid } from './folders.ts';
import { dayOf, type PlaceSet, placeSetOf } from './list.ts';
import { query, type Row } from './query.ts';
import type { FlagSets, StoredFlagSet } from './sql.ts';

/** The columns of a messages row that come from a listing. */
export type Envelope = Pick<
  Row<'messages'>,
  'date' | 'subject' | 'sender_name' | 'sender_address' | 'message_id'
>;

export function envelopeOf(listing: Listing): Envelope {
  return {
    date: moment(listing.date),
    subject: listing.subject,
    sender_name: listing.from?.name ?? null,
    sender_address: listing.from?.address ?? null,
    message_id: listing.messageId,
  };
}

/** Returns milliseconds since the epoch, or null for an invalid date. */
function moment(date: string): number | null {
  const parsed = Date.parse(date);
  return Number.isNaN(parsed) ? null : parsed;
}

/** Columns read of a place's row. */
const FOUND = [
  'id',
  'folder_id',
  'docid',
  'from_commit',
  'to_commit',
  'flag_set',
  'date',
  'reason',
] as const;
type PlaceRow = Pick<Row<'places'>, (typeof FOUND)[number]>;

const FIND = query<Uid>()((db, p) =>
  db
    .selectFrom('places')
    .select(FOUND)
    .where((eb) => eb.and(named(p, 'folder_id', 'generation', 'uid')))
    // A UID whose message was replaced has several rows; facts refer to the last.
    .orderBy('id', 'desc')
    .limit((eb) => eb.lit(1)),
);

type NewPlace = Uid &
  Pick<
    Row<'places'>,
    'docid' | 'from_commit' | 'flag_set' | 'marks' | 'fingerprint' | 'date' | 'assumed'
  >;

const ADD = query<NewPlace>()((db, p) =>
  db.insertInto('places').values({
    ...named(p, 'folder_id', 'generation', 'uid', 'docid', 'from_commit', 'flag_set'),
    ...named(p, 'marks', 'fingerprint', 'date', 'assumed'),
    ...{ first_commit: p.from_commit, to_commit: null, held: 0, reason: null },
  }),
);
const REPLACE = query<{ id: number } & NewPlace>()((db, p) =>
  db
    .updateTable('places')
    .set({
      ...named(p, 'docid', 'from_commit', 'flag_set', 'marks', 'fingerprint', 'date', 'assumed'),
      ...{ to_commit: null, held: 0, reason: null },
    })
    .where('id', '=', p.id),
);
const ADD_SPAN = query<Omit<Row<'spans'>, 'id'>>()((db, p) =>
  db.insertInto('spans').values({
    ...named(p, 'place_id', 'folder_id', 'docid', 'from_commit', 'to_commit'),
    ...named(p, 'flag_set', 'date', 'resumed', 'reason'),
  }),
);
const SET_FLAGS = query<{ id: number; commit: number; flagSet: number; marks: number }>()((db, p) =>
  db
    .updateTable('places')
    .set({
      from_commit: p.commit,
      to_commit: null,
      flag_set: p.flagSet,
      marks: p.marks,
      reason: null,
    })
    .where('id', '=', p.id),
);
const END = query<{ id: number; commit: number; reason: string }>()((db, p) =>
  db
    .updateTable('places')
    .set({ to_commit: p.commit, held: 0, reason: p.reason })
    .where('id', '=', p.id),
);
const SET_HELD = query<{ id: number; held: number }>()((db, p) =>
  db.updateTable('places').set({ held: p.held }).where('id', '=', p.id),
);
const SET_VERIFIED = query<{ id: number; docid: number }>()((db, p) =>
  db.updateTable('places').set({ docid: p.docid, assumed: 0 }).where('id', '=', p.id),
);
const CORRECT_SPANS = query<{ id: number; wrong: number; docid: number }>()((db, p) =>
  db
    .updateTable('spans')
    .set({ docid: p.docid })
    .where((eb) => eb.and({ place_id: p.id, docid: p.wrong })),
);
const IN_MAILBOX = query<{ docid: number; mailbox: number }>()((db, p) =>
  db
    .selectFrom('places')
    .innerJoin('folders', 'folders.id', 'places.folder_id')
    .select('places.id')
    .where((eb) => eb.and({ 'places.docid': p.docid, 'folders.mailbox_id': p.mailbox }))
    .limit((eb) => eb.lit(1)),
);
const UNFORGET = query<Uid>()((db, p) =>
  db.deleteFrom('forgotten').where((eb) => eb.and(named(p, 'folder_id', 'generation', 'uid'))),
);
const ADD_EVENT = query<Omit<Row<'events'>, 'id'>>()((db, p) =>
  db
    .insertInto('events')
    .values(named(p, 'commit_number', 'folder_id', 'generation', 'uid', 'event', 'detail')),
);

/** Places in the fold. Methods return false for an unknown place, which only a damaged log has. */
export class FoldedPlaces {
  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldedFolders,
    private readonly messages: FoldedMessages,
    private readonly flagSets: FlagSets,
    private readonly changes: FoldedChanges | undefined,
  ) {}

  appeared(fact: FactOf<'appeared'>, commit: number): boolean {
    const { listing } = fact;
    const { folder, first } = this.folders.ofArrival(fact, commit);
    const key = { folder_id: folder.id, generation: fact.generation, uid: fact.uid };
    const { docid, date, added } = this.messages.docidOf(
      fact.message,
      fact.size,
      fact.docid,
      () => envelopeOf(listing),
      commit,
      { folder: folder.id, mailbox: folder.mailboxId },
    );
    // The index holds a message's mailboxes: a new one requires reindexing.
    if (!added && !this.#isInMailbox(docid, folder.mailboxId)) this.messages.dueAgain(docid);
    const flags = this.flagSets.of(listing.flags);
    const received = moment(listing.date);
    // Not a spread: this runs for every message of a log.
    const row = {
      folder_id: folder.id,
      generation: fact.generation,
      uid: fact.uid,
      docid,
      from_commit: commit,
      flag_set: flags.id,
      marks: flags.marks,
      fingerprint: Buffer.from(fingerprint(listing), 'hex'),
      date: received === date ? null : received,
      assumed: fact.assumedFrom === undefined ? 0 : 1,
    };
    const opened = this.#arrive(first ? undefined : this.#find(key), row, flags);
    // A new row already counts this place.
    if (opened && !added) this.messages.opened(docid, 1);
    if (fact.accepted !== undefined || fact.assumedFrom !== undefined)
      this.#event(key, commit, 'appeared', {
        accepted: fact.accepted,
        assumedFrom: fact.assumedFrom,
      });
    return true;
  }

  flags(fact: FactOf<'flags'>, commit: number): boolean {
    const place = this.#find(this.folders.uidOf(fact, commit));
    if (place === undefined || place.to_commit !== null) return false;
    this.#setFlags(place, this.flagSets.of(fact.flags), commit);
    return true;
  }

  ended(fact: FactOf<'ended'>, commit: number): boolean {
    const key = this.folders.uidOf(fact, commit);
    const place = this.#find(key);
    if (place === undefined || place.to_commit !== null)
      return this.connection.run(UNFORGET, key).changes > 0;
    this.#end(place, commit, fact.reason);
    return true;
  }

  reopened(fact: FactOf<'reopened'>, commit: number): boolean {
    const key = this.folders.uidOf(fact, commit);
    const place = this.#find(key);
    if (place === undefined) return false;
    const flags = this.flagSets.of(fact.flags);
    this.#event(key, commit, 'reopened', { reason: fact.reason });
    if (place.to_commit === null) this.#setFlags(place, flags, commit);
    else {
      this.#keepSpan(place, place.to_commit, commit);
      this.#returned(place, place.to_commit, commit);
      this.connection.run(SET_FLAGS, {
        id: place.id,
        commit,
        flagSet: flags.id,
        marks: flags.marks,
      });
      this.messages.opened(place.docid, 1);
    }
    return true;
  }

  held(fact: FactOf<'held'>, commit: number): boolean {
    const key = this.folders.uidOf(fact, commit);
    const place = this.#find(key);
    if (place === undefined || place.to_commit !== null) return false;
    this.connection.run(SET_HELD, { id: place.id, held: fact.held ? 1 : 0 });
    this.#event(key, commit, 'held', { held: fact.held });
    return true;
  }

  verified(fact: FactOf<'verified'>, commit: number): boolean {
    const key = this.folders.uidOf(fact, commit);
    const place = this.#find(key);
    if (place === undefined) return false;
    // A wrong match had the same fingerprint, so its listing is also valid for the right message.
    const { docid, added } = this.messages.docidOf(
      fact.message,
      fact.size,
      fact.docid,
      () => this.messages.envelope(place.docid),
      commit,
      undefined,
    );
    this.connection.run(SET_VERIFIED, { id: place.id, docid });
    if (docid !== place.docid) {
      this.connection.run(CORRECT_SPANS, { id: place.id, wrong: place.docid, docid });
      if (place.to_commit === null) {
        this.messages.opened(place.docid, -1);
        this.messages.opened(docid, 1);
      } else {
        this.messages.moved(place.docid);
        this.messages.moved(docid);
      }
      if (!added) this.messages.dueAgain(docid);
    }
    this.#event(key, commit, 'verified', { corrected: fact.corrected });
    return true;
  }

  #find(key: Uid) {
    return this.connection.get(FIND, key);
  }

  #isInMailbox(docid: number, mailbox: number): boolean {
    return this.connection.get(IN_MAILBOX, { docid, mailbox }) !== undefined;
  }

  #setFlags(place: PlaceRow, flags: StoredFlagSet, commit: number): void {
    if (flags.id === place.flag_set) return;
    this.#keepSpan(place, commit, null);
    this.connection.run(SET_FLAGS, { id: place.id, commit, flagSet: flags.id, marks: flags.marks });
  }

  /** Returns false if the message was already there. */
  #arrive(before: PlaceRow | undefined, row: NewPlace, flags: StoredFlagSet): boolean {
    if (before !== undefined && before.docid === row.docid) {
      if (before.to_commit === null) {
        this.#setFlags(before, flags, row.from_commit);
        if (row.assumed === 0)
          this.connection.run(SET_VERIFIED, { id: before.id, docid: row.docid });
        return false;
      }
      this.#keepSpan(before, before.to_commit, row.from_commit);
      this.#returned(before, before.to_commit, row.from_commit);
      this.connection.run(REPLACE, { id: before.id, ...row });
    } else {
      // Another message at the same UID: the earlier place ends and keeps its row.
      if (before !== undefined && before.to_commit === null)
        this.#end(before, row.from_commit, 'replaced');
      this.connection.run(ADD, row);
      this.changes?.came(row.from_commit, row.folder_id);
    }
    return true;
  }

  #end(place: PlaceRow, commit: number, reason: string): void {
    this.connection.run(END, { id: place.id, commit, reason });
    this.changes?.ended(commit, place.folder_id);
    this.messages.opened(place.docid, -1);
  }

  #returned(place: PlaceRow, endedIn: number, commit: number): void {
    if (wasNeverSeen(place, endedIn, commit)) this.changes?.stayed(commit, place.folder_id);
    else this.changes?.came(commit, place.folder_id);
  }

  #keepSpan(place: PlaceRow, to: number, resumed: number | null): void {
    if (wasNeverSeen(place, to, resumed)) return;
    this.connection.run(ADD_SPAN, {
      place_id: place.id,
      folder_id: place.folder_id,
      docid: place.docid,
      from_commit: place.from_commit,
      to_commit: to,
      flag_set: place.flag_set,
      date: place.date,
      resumed,
      reason: place.reason,
    });
  }

  #event(key: Uid, commit: number, event: string, detail: unknown): void {
    this.connection.run(ADD_EVENT, {
      ...key,
      commit_number: commit,
      event,
      detail: canonicalJson(detail),
    });
  }
}

/** Returns whether a span started and closed within one commit, and so was never visible except as ended. */
function wasNeverSeen(
  { from_commit: from }: Pick<PlaceRow, 'from_commit'>,
  to: number,
  resumed: number | null,
): boolean {
  return from === to && (resumed === null || resumed === to);
}

export type FactOf<N extends Fact['fact']> = Extract<Fact, { fact: N }>;

/** The key of a place's rows. */
export type Uid = Pick<Row<'places'>, 'folder_id' | 'generation' | 'uid'>;

const FIND_MAILBOX = query<{ host: string; mailbox: string }>()((db, p) =>
  db
    .selectFrom('mailboxes')
    .select('id')
    .where((eb) => eb.and({ host: p.host, mailbox: p.mailbox })),
);
const ADD_MAILBOX = query<Omit<Row<'mailboxes'>, 'id'>>()((db, p) =>
  db.insertInto('mailboxes').values(named(p, 'host', 'mailbox', 'address', 'from_commit')),
);
const SET_ADDRESS = query<{ id: number; address: string }>()((db, p) =>
  db.updateTable('mailboxes').set({ address: p.address }).where('id', '=', p.id),
);
const FIND_FOLDER = query<{ mailbox: number; path: string }>()((db, p) =>
  db
    .selectFrom('folders')
    .select(['id', 'mailbox_id', 'delimiter', 'special_use', 'generation', 'gone_commit'])
    .where((eb) => eb.and({ mailbox_id: p.mailbox, path: p.path }))
    // A live folder first, otherwise the last one removed.
    .orderBy((eb) => eb('gone_commit', 'is', null), 'desc')
    .orderBy('gone_commit', 'desc')
    .orderBy('id', 'desc')
    .limit((eb) => eb.lit(1)),
);
const ADD_FOLDER = query<Omit<Row<'folders'>, 'id' | 'gone_commit'>>()((db, p) =>
  db.insertInto('folders').values({
    ...named(p, 'mailbox_id', 'path', 'name', 'delimiter', 'special_use', 'generation'),
    gone_commit: null,
  }),
);
const SET_FOLDER = query<
  Pick<Row<'folders'>, 'id' | 'path' | 'name' | 'delimiter' | 'special_use'>
>()((db, p) =>
  db
    .updateTable('folders')
    .set({ ...named(p, 'path', 'name', 'delimiter', 'special_use'), gone_commit: null })
    .where('id', '=', p.id),
);
const SET_GONE = query<{ id: number; commit: number }>()((db, p) =>
  db.updateTable('folders').set({ gone_commit: p.commit }).where('id', '=', p.id),
);
const SET_GENERATION = query<{ id: number; generation: number }>()((db, p) =>
  db.updateTable('folders').set({ generation: p.generation }).where('id', '=', p.id),
);
const CLOSE_SPAN = query<{ folder: number; commit: number }>()((db, p) =>
  db
    .updateTable('folder_spans')
    .set({ to_commit: p.commit })
    .where('folder_id', '=', p.folder)
    .where('to_commit', 'is', null),
);
const OPEN_SPAN = query<Omit<Row<'folder_spans'>, 'to_commit'>>()((db, p) =>
  db
    .insertInto('folder_spans')
    .values({ ...named(p, 'folder_id', 'from_commit', 'path', 'special_use'), to_commit: null })
    // A second change within one commit: only the last is ever visible.
    .onConflict((conflict) =>
      conflict
        .columns(['folder_id', 'from_commit'])
        .doUpdateSet({ ...named(p, 'path', 'special_use'), to_commit: null }),
    ),
);
const ADD_GENERATION = query<Omit<Row<'generations'>, 'highest_uid'>>()((db, p) =>
  db
    .insertInto('generations')
    .values({ ...named(p, 'folder_id', 'generation', 'from_commit', 'reason'), highest_uid: 0 })
    .onConflict((conflict) => conflict.columns(['folder_id', 'generation']).doNothing()),
);
const RAISE_HIGHEST = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .updateTable('generations')
    .set({ highest_uid: p.uid })
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('highest_uid', '<', p.uid),
);

type PlaceKey = FolderKey & { readonly generation: number; readonly uid: number };

interface KnownFolder {
  readonly id: number;
  readonly mailboxId: number;
  /** Generations with a row, and their highest UID (0: none). */
  readonly generations: Map<number, number>;
}

/** Mailboxes, folders and generations in the fold: numbers by key, and facts about them. */
export class FoldedFolders {
  readonly #mailboxes = new Map<string, number>();
  readonly #live = new Map<string, KnownFolder>();
  readonly #touched = new Set<KnownFolder>();
  /** By folder number: a folder that returns under its path has seen its UIDs before. */
  readonly #generations = new Map<number, KnownFolder['generations']>();

  constructor(private readonly connection: Connection) {}

  mailbox(fact: FactOf<'mailbox'>, commit: number): void {
    const id = this.#mailboxOf(fact, commit, fact.address);
    this.connection.run(SET_ADDRESS, { id, address: fact.address });
  }

  folder(fact: FactOf<'folder'>, commit: number): void {
    const mailbox = this.#mailboxOf(fact, commit);
    const found = this.connection.get(FIND_FOLDER, { mailbox, path: storedName(fact.folder) });
    const shown = {
      path: storedName(fact.folder),
      name: storedName(fact.name),
      delimiter: fact.delimiter,
      special_use: fact.specialUse,
    };
    let id: number;
    if (found === undefined) {
      id = this.connection.run(ADD_FOLDER, {
        mailbox_id: mailbox,
        ...shown,
        generation: fact.generation,
      }).lastInsertRowid;
    } else {
      id = found.id;
      this.connection.run(SET_FOLDER, { id, ...shown });
      this.connection.run(SET_GENERATION, { id, generation: fact.generation });
    }
    if (found === undefined || found.gone_commit !== null || found.special_use !== fact.specialUse)
      this.#openSpan(id, commit, storedName(fact.folder), fact.specialUse);
    this.#generation(this.#remember(fact, id, mailbox), fact.generation, commit, null);
  }

  renamed(fact: FactOf<'folder-renamed'>, commit: number): void {
    const target = { host: fact.host, mailbox: fact.mailbox, folder: fact.to };
    const mailbox = this.#mailboxOf(fact, commit);
    const found = this.connection.get(FIND_FOLDER, { mailbox, path: storedName(fact.folder) });
    if (found === undefined || found.gone_commit !== null) {
      this.of(target, commit);
      return;
    }
    // A live folder at the new path was replaced by this one.
    const replaced = this.connection.get(FIND_FOLDER, { mailbox, path: storedName(fact.to) });
    if (replaced !== undefined && replaced.gone_commit === null) this.#gone(replaced.id, commit);
    const { id, delimiter, special_use: specialUse } = found;
    const path = storedName(fact.to);
    const name = path.slice(delimiter === '' ? 0 : path.lastIndexOf(delimiter) + delimiter.length);
    this.connection.run(SET_FOLDER, { id, path, name, delimiter, special_use: specialUse });
    this.#openSpan(id, commit, path, specialUse);
    const known = this.#live.get(folderText(fact));
    this.#live.delete(folderText(fact));
    if (known === undefined) this.#live.delete(folderText(target));
    else this.#live.set(folderText(target), known);
  }

  gone(fact: FactOf<'folder-gone'>, commit: number): void {
    this.#gone(this.of(fact, commit), commit);
    this.#live.delete(folderText(fact));
  }

  generation(fact: FactOf<'generation'>, commit: number): void {
    const folder = this.#known(fact, commit, fact.generation);
    this.#generation(folder, fact.generation, commit, fact.reason);
    this.connection.run(SET_GENERATION, { id: folder.id, generation: fact.generation });
  }

  /** Returns the number of a live folder. Creates one that no fact has introduced (a damaged log). */
  of(key: FolderKey, commit: number): number {
    return this.#known(key, commit).id;
  }

  /** Returns the key of a place's rows, and records its UID as seen. */
  uidOf(place: PlaceKey, commit: number): Uid {
    const { folder } = this.ofArrival(place, commit);
    return { folder_id: folder.id, generation: place.generation, uid: place.uid };
  }

  /** Records a UID as seen, and returns its folder. `first`: the UID is above all seen ones, so it has no row yet. */
  ofArrival(
    key: PlaceKey,
    commit: number,
  ): { readonly folder: KnownFolder; readonly first: boolean } {
    const folder = this.#known(key, commit, key.generation);
    if (!folder.generations.has(key.generation))
      this.#generation(folder, key.generation, commit, null);
    const first = key.uid > (folder.generations.get(key.generation) ?? 0);
    if (first) {
      folder.generations.set(key.generation, key.uid);
      this.#touched.add(folder);
    }
    return { folder, first };
  }

  finish(): void {
    for (const folder of this.#touched)
      for (const [generation, uid] of folder.generations)
        this.connection.run(RAISE_HIGHEST, { folder: folder.id, generation, uid });
    this.#touched.clear();
  }

  /** Clears the caches after a rollback. */
  forget(): void {
    this.#mailboxes.clear();
    this.#live.clear();
    this.#touched.clear();
    this.#generations.clear();
  }

  #mailboxOf(key: MailboxKey, commit: number, address = key.mailbox): number {
    const text = `${key.host}\0${key.mailbox}`;
    let id = this.#mailboxes.get(text);
    if (id === undefined) {
      const { host, mailbox } = key;
      id =
        this.connection.get(FIND_MAILBOX, { host, mailbox })?.id ??
        this.connection.run(ADD_MAILBOX, { host, mailbox, address, from_commit: commit })
          .lastInsertRowid;
      this.#mailboxes.set(text, id);
    }
    return id;
  }

  #known(key: FolderKey, commit: number, generation = 1): KnownFolder {
    const known = this.#live.get(folderText(key));
    if (known !== undefined) return known;
    const mailbox = this.#mailboxOf(key, commit);
    const found = this.connection.get(FIND_FOLDER, { mailbox, path: storedName(key.folder) });
    if (found !== undefined) return this.#remember(key, found.id, mailbox);
    const path = storedName(key.folder);
    const id = this.connection.run(ADD_FOLDER, {
      mailbox_id: mailbox,
      path,
      name: path,
      delimiter: '.',
      special_use: null,
      generation,
    }).lastInsertRowid;
    this.#openSpan(id, commit, path, null);
    const folder = this.#remember(key, id, mailbox);
    this.#generation(folder, generation, commit, null);
    return folder;
  }

  #remember(key: FolderKey, id: number, mailboxId: number): KnownFolder {
    const text = folderText(key);
    let known = this.#live.get(text);
    if (known?.id !== id) {
      const generations = this.#generations.get(id) ?? new Map<number, number>();
      this.#generations.set(id, generations);
      known = { id, mailboxId, generations };
      this.#live.set(text, known);
    }
    return known;
  }

  #generation(folder: KnownFolder, generation: number, commit: number, reason: string | null) {
    this.connection.run(ADD_GENERATION, {
      folder_id: folder.id,
      generation,
      from_commit: commit,
      reason,
    });
    if (folder.generations.has(generation)) return;
    folder.generations.set(generation, highestUid(this.connection, folder.id, generation));
  }

  #gone(id: number, commit: number): void {
    this.connection.run(SET_GONE, { id, commit });
    this.connection.run(CLOSE_SPAN, { folder: id, commit });
  }

  #openSpan(folder: number, commit: number, path: string, specialUse: string | null): void {
    this.connection.run(CLOSE_SPAN, { folder, commit });
    this.connection.run(OPEN_SPAN, {
      folder_id: folder,
      from_commit: commit,
      path,
      special_use: specialUse,
    });
  }
}

/**
 * Returns a name that SQLite can store. It stores any unpaired surrogate as U+FFFD, so two folders of the log would
 * become one row. This keeps the surrogate's code in the name.
 */
export function storedName(name: string): string {
  if (name.isWellFormed()) return name;
  return name.replace(/\p{Surrogate}/gu, (half) => `\ufffd${half.charCodeAt(0).toString(16)}`);
}

function folderText(key: FolderKey): string {
  return `${key.host}\0${key.mailbox}\0${key.folder}`;
}

const FIND_SET = query<Omit<Row<'place_sets'>, 'id'>>()((db, p) =>
  db
    .selectFrom('place_sets')
    .select('id')
    .where((eb) => eb.and(named(p, 'current', 'last', 'mailboxes'))),
);
const ADD_SET = query<Omit<Row<'place_sets'>, 'id'>>()((db, p) =>
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
 * Place sets of messages and daily counts in the fold. Sets are numbered in the log's order, so that a rebuild gives
 * equal numbers. Counts are collected in memory and written once per transaction.
 */
export class FoldedPlaceSets {
  readonly #sets = new Map<string, number>();
  readonly #mailboxes = new Map<number, number>();
  /** Sets with one current place, by folder: nearly all messages arrive there. */
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

  /** Returns the set of a message without places. */
  nowhere(): number {
    return this.#idOf({ current: [], last: [], mailboxes: [] });
  }

  /** Counts a new message row. */
  added(docid: number, size: number, set: number): void {
    this.#count(set, dayOf(docid), 1, size);
  }

  /** Marks a message whose places changed. */
  touched(docid: number): void {
    this.#touched.add(docid);
  }

  /** Counts a removed message row. */
  dropped(docid: number, size: number, set: number): void {
    this.#touched.delete(docid);
    this.#count(set, dayOf(docid), -1, size);
  }

  /** Forgets folder numbers, which may be reused. */
  foldersRemoved(): void {
    this.#mailboxes.clear();
    this.#single.clear();
  }

  /** Writes the place sets changed in the batch. */
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

  write(): void {
    for (const counted of this.#counts.values()) {
      if (counted.messages === 0 && counted.bytes === 0) continue;
      this.connection.run(COUNT, counted);
      if (counted.messages < 0) this.connection.run(DROP_EMPTY, counted);
    }
    this.#counts.clear();
  }

  /** Clears the caches after a rollback. */
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
      id =
        this.connection.get(FIND_SET, row)?.id ?? this.connection.run(ADD_SET, row).lastInsertRowid;
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
