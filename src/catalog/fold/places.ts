import { canonicalJson } from '../../archive/format/facts.ts';
import { fingerprint } from '../../mail/fingerprint.ts';
import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import type { FlagSets, StoredFlagSet } from '../flag-sets.ts';
import { query, type Row } from '../query.ts';
import type { FoldedChanges } from './changes.ts';
import { envelopeOf, moment } from './envelope.ts';
import type { FactOf, FoldedFolders, Uid } from './folders.ts';
import type { FoldedMessages } from './messages.ts';

/** What a place's row is read for. */
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
    // A uid whose message was replaced has several rows; the last is the one that facts speak of.
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

/**
 * Places in the fold. Each method returns false for a fact that names an unknown place, which only a damaged log
 * has; the caller counts it.
 */
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
    // The index names the mailboxes of a message: one more makes its row due again.
    if (!added && !this.#isInMailbox(docid, folder.mailboxId)) this.messages.dueAgain(docid);
    const flags = this.flagSets.of(listing.flags);
    const received = moment(listing.date);
    // Not spread: every message of a log comes by here.
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
    // A row that was made here counts this place already.
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
    // A wrong guess had the same fingerprint, so what was listed holds for the right message as well.
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

  /** False when the message stood there already. */
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
      // Another message at a uid that is taken: the one that stood there has ended, and keeps its row.
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

/** Began and closed within one commit: no moment ever saw it, unless as ended, until it came back later. */
function wasNeverSeen(
  { from_commit: from }: Pick<PlaceRow, 'from_commit'>,
  to: number,
  resumed: number | null,
): boolean {
  return from === to && (resumed === null || resumed === to);
}
