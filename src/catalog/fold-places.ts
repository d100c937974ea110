import { canonicalJson, type Fact } from '../archive/format.ts';
import type { FolderKey, Listing, MailboxKey } from '../core/types.ts';
import { fingerprint, stableIdKey } from '../mail/identity.ts';
import type { Connection } from './database.ts';
import type { FoldChanges, FoldMessages } from './fold.ts';
import { highestUid } from './folders.ts';
import { type PlaceSet, toPlaceSet, utcDayOf } from './list.ts';
import {
  deleteBy,
  insertInto,
  type ParametersOf,
  type ResultOf,
  type Row,
  selectBy,
  sqlQuery,
  updateBy,
  upsert,
} from './query.ts';
import { type Envelope, type FlagSets, type StoredFlagSet, UID, type Uid } from './sql.ts';

export function toEnvelope(listing: Listing): Envelope {
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

// A UID whose message was replaced has several rows. Facts refer to the last one.
const FIND = selectBy(
  'places',
  'id, folder_id, docid, from_commit, to_commit, flag_set, date, reason',
  UID,
  'ORDER BY id DESC LIMIT 1',
);
type PlaceRow = ResultOf<typeof FIND>;

const ARRIVED = 'docid, from_commit, flag_set, marks, fingerprint, stable_id, date, assumed';

const ADD = insertInto('places', `${UID}, ${ARRIVED}, first_commit, held`);
type NewPlace = ParametersOf<typeof ADD>;
const REPLACE = updateBy('places', `${ARRIVED}, to_commit = NULL, held = 0, reason = NULL`, 'id');
const ADD_SPAN = insertInto('spans', [
  'place_id, folder_id, docid, from_commit, to_commit',
  'flag_set, date, resumed, reason',
]);
const SET_FLAGS = updateBy(
  'places',
  'from_commit, flag_set, marks, to_commit = NULL, reason = NULL',
  'id',
);
const END = updateBy('places', 'to_commit, reason, held = 0', 'id');
const SET_HELD = updateBy('places', 'held', 'id');
const SET_VERIFIED = updateBy('places', 'docid, date, assumed = 0', 'id');
type Correction = Record<'id' | 'wrong' | 'docid', number> &
  Record<'wrongDate' | 'rightDate', number | null>;
const CORRECT_SPANS = sqlQuery<Correction, never>(
  `UPDATE spans SET docid = :docid, date = nullif(coalesce(date, :wrongDate), :rightDate)
   WHERE place_id = :id AND docid = :wrong`,
);
const IN_MAILBOX = sqlQuery<{ docid: number; mailbox: number }, { id: number }>(
  `SELECT p.id FROM places p JOIN folders f ON f.id = p.folder_id
   WHERE p.docid = :docid AND f.mailbox_id = :mailbox LIMIT 1`,
);
const UNFORGET = deleteBy('forgotten', UID);
const ADD_EVENT = insertInto('events', `${UID}, commit_number, event, detail`);

/** Folds facts about places. Methods return false for an unknown place, which only a damaged log contains. */
export class FoldPlaces {
  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldFolders,
    private readonly messages: FoldMessages,
    private readonly flagSets: FlagSets,
    private readonly changes: FoldChanges | undefined,
  ) {}

  appeared(fact: FactOf<'appeared'>, commit: number): boolean {
    const { listing } = fact;
    const { folder, first } = this.folders.ofArrival(fact, commit);
    const key = { folder_id: folder.id, generation: fact.generation, uid: fact.uid };
    const { docid, date, added } = this.messages.docidOf(
      fact.message,
      fact.size,
      fact.docid,
      () => toEnvelope(listing),
      commit,
      { folder: folder.id, mailbox: folder.mailboxId },
    );
    // The index holds a message's mailboxes, so a new one requires reindexing.
    if (!added && !this.#isInMailbox(docid, folder.mailboxId)) this.messages.dueAgain(docid);
    const flags = this.flagSets.of(listing.flags);
    const receivedAt = moment(listing.date);
    // Not a spread, because this runs for every message in a log.
    const row = {
      folder_id: folder.id,
      generation: fact.generation,
      uid: fact.uid,
      docid,
      from_commit: commit,
      first_commit: commit,
      flag_set: flags.id,
      marks: flags.marks,
      fingerprint: Buffer.from(fingerprint(listing), 'hex'),
      stable_id: stableIdKey(listing),
      date: receivedAt === date ? null : receivedAt,
      assumed: fact.assumedFrom === undefined ? 0 : 1,
      held: 0,
    };
    const isNew = this.#arrive(first ? undefined : this.#find(key), row, flags);
    // A new row already counts this place.
    if (isNew && !added) this.messages.opened(docid, 1);
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
      this.#reopen(place, place.to_commit, commit);
      this.#show(place, flags, commit);
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
    const envelope = this.messages.envelope(place.docid);
    const receivedAt = place.date ?? envelope.date;
    // A wrong match had the same fingerprint, so its envelope also applies to the right message. Its date does not: the
    // same bytes can be received at several times, and the envelope has the first one.
    const {
      docid,
      date: rightDate,
      added,
    } = this.messages.docidOf(
      fact.message,
      fact.size,
      fact.docid,
      () => ({ ...envelope, date: receivedAt }),
      commit,
      undefined,
    );
    const date = receivedAt === rightDate ? null : receivedAt;
    this.connection.run(SET_VERIFIED, { id: place.id, docid, date });
    if (docid !== place.docid) {
      const { id, docid: wrong } = place;
      this.connection.run(CORRECT_SPANS, { id, wrong, docid, wrongDate: envelope.date, rightDate });
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
    this.#show(place, flags, commit);
  }

  #show({ id }: PlaceRow, { id: flag_set, marks }: StoredFlagSet, commit: number): void {
    this.connection.run(SET_FLAGS, { id, from_commit: commit, flag_set, marks });
  }

  /** Returns false if the message was already there. */
  #arrive(before: PlaceRow | undefined, row: NewPlace, flags: StoredFlagSet): boolean {
    if (before !== undefined && before.docid === row.docid) {
      if (before.to_commit === null) {
        this.#setFlags(before, flags, row.from_commit);
        if (row.assumed === 0) this.connection.run(SET_VERIFIED, before);
        return false;
      }
      this.#keepSpan(before, before.to_commit, row.from_commit);
      this.#reopen(before, before.to_commit, row.from_commit);
      this.connection.run(REPLACE, { ...row, id: before.id });
    } else {
      // Another message now has this UID. The earlier place ends and keeps its row.
      if (before !== undefined && before.to_commit === null)
        this.#end(before, row.from_commit, 'replaced');
      this.connection.run(ADD, row);
      this.changes?.came(row.from_commit, row.folder_id);
    }
    return true;
  }

  #end(place: PlaceRow, commit: number, reason: string): void {
    this.connection.run(END, { id: place.id, to_commit: commit, reason });
    this.changes?.ended(commit, place.folder_id);
    this.messages.opened(place.docid, -1);
  }

  #reopen(place: PlaceRow, endedIn: number, commit: number): void {
    // It came back in the same commit, and so was never visibly gone.
    if (isInvisible(place, endedIn, commit)) this.changes?.ended(commit, place.folder_id, -1);
    else this.changes?.came(commit, place.folder_id);
  }

  #keepSpan(place: PlaceRow, to: number, resumed: number | null): void {
    if (isInvisible(place, to, resumed)) return;
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

/** Reports whether a span started and ended within one commit and was therefore never visible. */
function isInvisible(
  { from_commit: from }: Pick<PlaceRow, 'from_commit'>,
  to: number,
  resumed: number | null,
): boolean {
  return from === to && (resumed === null || resumed === to);
}

export type FactOf<N extends Fact['fact']> = Extract<Fact, { fact: N }>;

const FIND_MAILBOX = selectBy('mailboxes', 'id', 'host, mailbox');
const ADD_MAILBOX = insertInto('mailboxes', 'host, mailbox, address, from_commit');
const SET_ADDRESS = updateBy('mailboxes', 'address', 'id');
const SET_ACCOUNT = updateBy('mailboxes', 'account', 'id');
// Prefers a live folder, then the one removed most recently.
const FIND_FOLDER = selectBy(
  'folders',
  'id, mailbox_id, delimiter, special_use, generation, gone_commit',
  'mailbox_id, path',
  'ORDER BY gone_commit IS NULL DESC, gone_commit DESC, id DESC LIMIT 1',
);
const ADD_FOLDER = insertInto(
  'folders',
  'mailbox_id, path, name, delimiter, special_use, generation',
);
const SET_FOLDER = updateBy(
  'folders',
  'path, name, delimiter, special_use, gone_commit = NULL',
  'id',
);
const SET_GONE = updateBy('folders', 'gone_commit', 'id');
const SET_GENERATION = updateBy('folders', 'generation', 'id');
const CLOSE_SPAN = updateBy('folder_spans', 'to_commit', 'folder_id', 'AND to_commit IS NULL');
// If a folder changes twice in one commit, only the last change is ever visible.
const OPEN_SPAN = upsert(
  'folder_spans',
  'folder_id, from_commit',
  'path, special_use, to_commit = NULL',
);
const ADD_GENERATION = insertInto(
  'generations',
  'folder_id, generation, from_commit, reason, highest_uid, uid_validity',
  `ON CONFLICT (folder_id, generation) DO UPDATE
   SET uid_validity = coalesce(excluded.uid_validity, uid_validity)`,
);
const RAISE_HIGHEST = sqlQuery<{ folder: number; generation: number; uid: number }, never>(
  `UPDATE generations SET highest_uid = :uid
   WHERE folder_id = :folder AND generation = :generation AND highest_uid < :uid`,
);

type PlaceKey = FolderKey & { readonly generation: number; readonly uid: number };

interface KnownFolder {
  readonly id: number;
  readonly mailboxId: number;
  /** Highest UID with a row in each generation, or 0. */
  readonly generations: Map<number, number>;
}

export class FoldFolders {
  readonly #mailboxes = new Map<string, number>();
  readonly #live = new Map<string, KnownFolder>();
  readonly #dirty = new Set<KnownFolder>();
  /** By folder number. A folder that reappears under its old path has seen its UIDs before. */
  readonly #generations = new Map<number, KnownFolder['generations']>();

  constructor(private readonly connection: Connection) {}

  mailbox(fact: FactOf<'mailbox'>, commit: number): void {
    const id = this.#mailboxOf(fact, commit, fact.address);
    const { address, account } = fact;
    this.connection.run(SET_ADDRESS, { id, address });
    if (account !== undefined) this.connection.run(SET_ACCOUNT, { id, account });
  }

  folder(fact: FactOf<'folder'>, commit: number): void {
    const mailbox = this.#mailboxOf(fact, commit);
    const found = this.#folder(mailbox, fact.folder);
    const shown = {
      path: storableName(fact.folder),
      name: storableName(fact.name),
      delimiter: fact.delimiter,
      special_use: fact.specialUse,
    };
    let id: number;
    if (found === undefined) {
      const row = { mailbox_id: mailbox, ...shown, generation: fact.generation };
      id = this.connection.run(ADD_FOLDER, row).lastInsertRowid;
    } else {
      id = found.id;
      this.connection.run(SET_FOLDER, { id, ...shown });
      this.connection.run(SET_GENERATION, { id, generation: fact.generation });
    }
    if (found === undefined || found.gone_commit !== null || found.special_use !== fact.specialUse)
      this.#openSpan(id, commit, storableName(fact.folder), fact.specialUse);
    this.#generation(this.#remember(fact, id, mailbox), fact.generation, commit, fact);
  }

  renamed(fact: FactOf<'folder-renamed'>, commit: number): void {
    const target = { host: fact.host, mailbox: fact.mailbox, folder: fact.to };
    const mailbox = this.#mailboxOf(fact, commit);
    const found = this.#folder(mailbox, fact.folder);
    if (found === undefined || found.gone_commit !== null) {
      this.of(target, commit);
      return;
    }
    // The renamed folder replaces a live one at the new path.
    const occupant = this.#folder(mailbox, fact.to);
    if (occupant !== undefined && occupant.gone_commit === null) this.#drop(occupant.id, commit);
    const { id, delimiter, special_use: specialUse } = found;
    const path = storableName(fact.to);
    const name = path.slice(delimiter === '' ? 0 : path.lastIndexOf(delimiter) + delimiter.length);
    this.connection.run(SET_FOLDER, { id, path, name, delimiter, special_use: specialUse });
    this.#openSpan(id, commit, path, specialUse);
    const folder = this.#live.get(folderText(fact));
    this.#live.delete(folderText(fact));
    if (folder === undefined) this.#live.delete(folderText(target));
    else this.#live.set(folderText(target), folder);
  }

  gone(fact: FactOf<'folder-gone'>, commit: number): void {
    this.#drop(this.of(fact, commit), commit);
    this.#live.delete(folderText(fact));
  }

  generation(fact: FactOf<'generation'>, commit: number): void {
    const folder = this.#folderFor(fact, commit, fact.generation);
    this.#generation(folder, fact.generation, commit, fact);
    this.connection.run(SET_GENERATION, { id: folder.id, generation: fact.generation });
  }

  /** Returns the number of a live folder, creating it if the log lacks the fact that introduced it. */
  of(key: FolderKey, commit: number): number {
    return this.#folderFor(key, commit).id;
  }

  /** Returns the key of a place's rows, and records that the UID was seen. */
  uidOf(place: PlaceKey, commit: number): Uid {
    const { folder } = this.ofArrival(place, commit);
    return { folder_id: folder.id, generation: place.generation, uid: place.uid };
  }

  /** Records that a UID was seen. `first` is true if it exceeds all previous UIDs and so has no row yet. */
  ofArrival(
    key: PlaceKey,
    commit: number,
  ): { readonly folder: KnownFolder; readonly first: boolean } {
    const folder = this.#folderFor(key, commit, key.generation);
    if (!folder.generations.has(key.generation)) this.#generation(folder, key.generation, commit);
    const first = key.uid > (folder.generations.get(key.generation) ?? 0);
    if (first) {
      folder.generations.set(key.generation, key.uid);
      this.#dirty.add(folder);
    }
    return { folder, first };
  }

  finish(): void {
    for (const folder of this.#dirty)
      for (const [generation, uid] of folder.generations)
        this.connection.run(RAISE_HIGHEST, { folder: folder.id, generation, uid });
    this.#dirty.clear();
  }

  forget(): void {
    this.#mailboxes.clear();
    this.#live.clear();
    this.#dirty.clear();
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

  #folder(mailbox: number, path: string) {
    return this.connection.get(FIND_FOLDER, { mailbox_id: mailbox, path: storableName(path) });
  }

  #folderFor(key: FolderKey, commit: number, generation = 1): KnownFolder {
    const current = this.#live.get(folderText(key));
    if (current !== undefined) return current;
    const mailbox = this.#mailboxOf(key, commit);
    const found = this.#folder(mailbox, key.folder);
    if (found !== undefined) return this.#remember(key, found.id, mailbox);
    const path = storableName(key.folder);
    const row = {
      mailbox_id: mailbox,
      path,
      name: path,
      delimiter: '.',
      special_use: null,
      generation,
    };
    const id = this.connection.run(ADD_FOLDER, row).lastInsertRowid;
    this.#openSpan(id, commit, path, null);
    const folder = this.#remember(key, id, mailbox);
    this.#generation(folder, generation, commit);
    return folder;
  }

  #remember(key: FolderKey, id: number, mailboxId: number): KnownFolder {
    const text = folderText(key);
    let folder = this.#live.get(text);
    if (folder?.id !== id) {
      const generations = this.#generations.get(id) ?? new Map<number, number>();
      this.#generations.set(id, generations);
      folder = { id, mailboxId, generations };
      this.#live.set(text, folder);
    }
    return folder;
  }

  #generation(
    folder: KnownFolder,
    generation: number,
    commit: number,
    fact?: { readonly reason?: string; readonly uidValidity?: string },
  ) {
    this.connection.run(ADD_GENERATION, {
      folder_id: folder.id,
      generation,
      from_commit: commit,
      reason: fact?.reason ?? null,
      highest_uid: 0,
      uid_validity: fact?.uidValidity ?? null,
    });
    if (folder.generations.has(generation)) return;
    folder.generations.set(generation, highestUid(this.connection, folder.id, generation));
  }

  #drop(id: number, commit: number): void {
    this.connection.run(SET_GONE, { id, gone_commit: commit });
    this.connection.run(CLOSE_SPAN, { folder_id: id, to_commit: commit });
  }

  #openSpan(folder: number, commit: number, path: string, specialUse: string | null): void {
    const folder_id = folder;
    this.connection.run(CLOSE_SPAN, { folder_id, to_commit: commit });
    this.connection.run(OPEN_SPAN, {
      folder_id,
      from_commit: commit,
      path,
      special_use: specialUse,
    });
  }
}

/**
 * Returns a name that SQLite can store. SQLite would store any unpaired surrogate as U+FFFD, so two folders could
 * become one row. This adds the surrogate's code to the name.
 */
export function storableName(name: string): string {
  if (name.isWellFormed()) return name;
  return name.replace(/\p{Surrogate}/gu, (half) => `\ufffd${half.charCodeAt(0).toString(16)}`);
}

function folderText(key: FolderKey): string {
  return `${key.host}\0${key.mailbox}\0${key.folder}`;
}

const FIND_SET = selectBy('place_sets', 'id', 'current, last, mailboxes');
const ADD_SET = insertInto('place_sets', 'current, last, mailboxes');
const MAILBOX = selectBy('folders', 'mailbox_id', 'id');
const MESSAGE = selectBy('messages', 'size, place_set', 'docid');
const PLACES = selectBy('places', 'folder_id, to_commit', 'docid');
const SET = updateBy('messages', 'place_set', 'docid');
const COUNT = upsert('received_days', 'place_set, day', '+messages, +bytes');
const DROP_EMPTY = deleteBy('received_days', 'place_set, day', 'AND messages = 0');

type Counted = Row<'received_days'>;

/**
 * Folds place sets and daily counts. Sets are numbered in log order, so a rebuild yields the same numbers. Counts are
 * collected and written once per transaction.
 */
export class FoldPlaceSets {
  readonly #sets = new Map<string, number>();
  readonly #mailboxes = new Map<number, number>();
  /** Sets with one current place, by folder. Nearly all new messages use one. */
  readonly #singles = new Map<number, number>();
  readonly #dirty = new Set<number>();
  readonly #counts = new Map<string, Counted>();

  constructor(private readonly connection: Connection) {}

  single(folder: number, mailbox: number): number {
    let id = this.#singles.get(folder);
    if (id === undefined) {
      id = this.#idOf({ current: [folder], last: [], mailboxes: [mailbox] });
      this.#singles.set(folder, id);
    }
    return id;
  }

  nowhere(): number {
    return this.#idOf({ current: [], last: [], mailboxes: [] });
  }

  added(docid: number, size: number, set: number): void {
    this.#count(set, utcDayOf(docid), 1, size);
  }

  touched(docid: number): void {
    this.#dirty.add(docid);
  }

  dropped(docid: number, size: number, set: number): void {
    this.#dirty.delete(docid);
    this.#count(set, utcDayOf(docid), -1, size);
  }

  foldersRemoved(): void {
    this.#mailboxes.clear();
    this.#singles.clear();
  }

  finish(): void {
    for (const docid of this.#dirty) {
      const message = this.connection.get(MESSAGE, { docid });
      if (message === undefined) continue;
      const places = this.connection.all(PLACES, { docid });
      const set = this.#idOf(toPlaceSet(places, (folder) => this.#mailboxOf(folder)));
      if (set === message.place_set) continue;
      this.connection.run(SET, { docid, place_set: set });
      this.#count(message.place_set, utcDayOf(docid), -1, message.size);
      this.#count(set, utcDayOf(docid), 1, message.size);
    }
    this.#dirty.clear();
  }

  write(): void {
    for (const entry of this.#counts.values()) {
      if (entry.messages === 0 && entry.bytes === 0) continue;
      this.connection.run(COUNT, entry);
      if (entry.messages < 0) this.connection.run(DROP_EMPTY, entry);
    }
    this.#counts.clear();
  }

  forget(): void {
    this.#sets.clear();
    this.#mailboxes.clear();
    this.#singles.clear();
    this.#dirty.clear();
    this.#counts.clear();
  }

  #count(set: number, day: number, messages: 1 | -1, size: number): void {
    const key = `${set} ${day}`;
    const entry = this.#counts.get(key);
    const bytes = messages * size;
    if (entry === undefined) this.#counts.set(key, { place_set: set, day, messages, bytes });
    else {
      entry.messages += messages;
      entry.bytes += bytes;
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
      mailbox = this.connection.get(MAILBOX, { id: folder })?.mailbox_id ?? 0;
      this.#mailboxes.set(folder, mailbox);
    }
    return mailbox;
  }
}
