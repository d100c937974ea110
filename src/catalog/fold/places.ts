import { canonicalJson, type Fact } from '../../archive/format/facts.ts';
import { fingerprint } from '../../mail/fingerprint.ts';
import type { Place } from '../../mail/words.ts';
import type { Connection } from '../connection.ts';
import type { FlagSets, StoredFlagSet } from '../flag-sets.ts';
import { query } from '../query.ts';
import type { FoldedFolders } from './folders.ts';
import { envelopeOf, type FoldedMessages, moment } from './messages.ts';

type FactOf<N extends Fact['fact']> = Extract<Fact, { fact: N }>;

interface Uid {
  readonly folder: number;
  readonly generation: number;
  readonly uid: number;
}

const FIND = query<Uid>()((db, p) =>
  db
    .selectFrom('places')
    .select([
      'id',
      'folder_id',
      'docid',
      'from_commit',
      'to_commit',
      'flag_set',
      'date',
      'assumed',
      'held',
      'reason',
    ])
    .where('folder_id', '=', p.folder)
    .where('generation', '=', p.generation)
    .where('uid', '=', p.uid)
    // A uid whose message was replaced has several rows; the last is the one that facts speak of.
    .orderBy('id', 'desc')
    .limit((eb) => eb.lit(1)),
);

interface NewPlace {
  readonly docid: number;
  readonly commit: number;
  readonly flagSet: number;
  readonly marks: number;
  readonly fingerprint: Buffer;
  readonly date: number | null;
  readonly assumed: number;
}

const ADD = query<Uid & NewPlace>()((db, p) =>
  db.insertInto('places').values({
    folder_id: p.folder,
    generation: p.generation,
    uid: p.uid,
    docid: p.docid,
    from_commit: p.commit,
    to_commit: null,
    first_commit: p.commit,
    flag_set: p.flagSet,
    marks: p.marks,
    fingerprint: p.fingerprint,
    date: p.date,
    assumed: p.assumed,
    held: 0,
    reason: null,
  }),
);
const REPLACE = query<{ id: number } & NewPlace>()((db, p) =>
  db
    .updateTable('places')
    .set({
      docid: p.docid,
      from_commit: p.commit,
      to_commit: null,
      flag_set: p.flagSet,
      marks: p.marks,
      fingerprint: p.fingerprint,
      date: p.date,
      assumed: p.assumed,
      held: 0,
      reason: null,
    })
    .where('id', '=', p.id),
);
const ADD_SPAN = query<{
  place: number;
  folder: number;
  docid: number;
  from: number;
  to: number;
  flagSet: number;
  date: number | null;
  resumed: number | null;
  reason: string | null;
}>()((db, p) =>
  db.insertInto('spans').values({
    place_id: p.place,
    folder_id: p.folder,
    docid: p.docid,
    from_commit: p.from,
    to_commit: p.to,
    flag_set: p.flagSet,
    date: p.date,
    resumed: p.resumed,
    reason: p.reason,
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
    .where('place_id', '=', p.id)
    .where('docid', '=', p.wrong),
);
const IN_MAILBOX = query<{ docid: number; mailbox: number }>()((db, p) =>
  db
    .selectFrom('places')
    .innerJoin('folders', 'folders.id', 'places.folder_id')
    .select('places.id')
    .where('places.docid', '=', p.docid)
    .where('folders.mailbox_id', '=', p.mailbox)
    .limit((eb) => eb.lit(1)),
);
const UNFORGET = query<Uid>()((db, p) =>
  db
    .deleteFrom('forgotten')
    .where('folder_id', '=', p.folder)
    .where('generation', '=', p.generation)
    .where('uid', '=', p.uid),
);
const ADD_EVENT = query<Uid & { commit: number; event: string; detail: string }>()((db, p) =>
  db.insertInto('events').values({
    commit_number: p.commit,
    folder_id: p.folder,
    generation: p.generation,
    uid: p.uid,
    event: p.event,
    detail: p.detail,
  }),
);

interface PlaceRow {
  readonly id: number;
  readonly folder_id: number;
  readonly docid: number;
  readonly from_commit: number;
  readonly to_commit: number | null;
  readonly flag_set: number;
  readonly date: number | null;
  readonly reason: string | null;
}

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
  ) {}

  appeared(fact: FactOf<'appeared'>, commit: number): boolean {
    const { listing } = fact;
    const { folder, first } = this.folders.ofArrival(fact, commit);
    const key = { folder: folder.id, generation: fact.generation, uid: fact.uid };
    const { docid, date, added } = this.messages.docidOf(
      fact.message,
      fact.size,
      fact.docid,
      () => envelopeOf(listing),
      commit,
      1,
    );
    // The index names the mailboxes of a message: one more makes its row due again.
    if (!added && !this.#isInMailbox(docid, folder.mailboxId)) this.messages.dueAgain(docid);
    const flags = this.flagSets.of(listing.flags);
    const received = moment(listing.date);
    const row = {
      docid,
      commit,
      flagSet: flags.id,
      marks: flags.marks,
      fingerprint: Buffer.from(fingerprint(listing), 'hex'),
      date: received === date ? null : received,
      assumed: fact.assumedFrom === undefined ? 0 : 1,
    };
    const opened = this.#arrive(key, first ? undefined : this.#find(key), row, flags);
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
    const place = this.#find(this.#key(fact, commit));
    if (place === undefined || place.to_commit !== null) return false;
    this.#setFlags(place, this.flagSets.of(fact.flags), commit);
    return true;
  }

  ended(fact: FactOf<'ended'>, commit: number): boolean {
    const key = this.#key(fact, commit);
    const place = this.#find(key);
    if (place === undefined || place.to_commit !== null)
      return this.connection.statement(UNFORGET).run(key).changes > 0;
    this.#end(place, commit, fact.reason);
    return true;
  }

  reopened(fact: FactOf<'reopened'>, commit: number): boolean {
    const key = this.#key(fact, commit);
    const place = this.#find(key);
    if (place === undefined) return false;
    const flags = this.flagSets.of(fact.flags);
    this.#event(key, commit, 'reopened', { reason: fact.reason });
    if (place.to_commit === null) this.#setFlags(place, flags, commit);
    else {
      this.#keepSpan(place, place.to_commit, commit);
      this.connection
        .statement(SET_FLAGS)
        .run({ id: place.id, commit, flagSet: flags.id, marks: flags.marks });
      this.messages.opened(place.docid, 1);
    }
    return true;
  }

  held(fact: FactOf<'held'>, commit: number): boolean {
    const key = this.#key(fact, commit);
    const place = this.#find(key);
    if (place === undefined || place.to_commit !== null) return false;
    this.connection.statement(SET_HELD).run({ id: place.id, held: fact.held ? 1 : 0 });
    this.#event(key, commit, 'held', { held: fact.held });
    return true;
  }

  verified(fact: FactOf<'verified'>, commit: number): boolean {
    const key = this.#key(fact, commit);
    const place = this.#find(key);
    if (place === undefined) return false;
    // A wrong guess had the same fingerprint, so what was listed holds for the right message as well.
    const { docid, added } = this.messages.docidOf(
      fact.message,
      fact.size,
      fact.docid,
      () => this.messages.envelope(place.docid),
      commit,
      0,
    );
    this.connection.statement(SET_VERIFIED).run({ id: place.id, docid });
    if (docid !== place.docid) {
      this.connection.statement(CORRECT_SPANS).run({ id: place.id, wrong: place.docid, docid });
      if (place.to_commit === null) {
        this.messages.opened(place.docid, -1);
        this.messages.opened(docid, 1);
      }
      if (!added) this.messages.dueAgain(docid);
    }
    this.#event(key, commit, 'verified', { corrected: fact.corrected });
    return true;
  }

  #find(key: Uid) {
    return this.connection.statement(FIND).get(key);
  }

  #key(place: Place, commit: number): Uid {
    const folder = this.folders.ofPlace(place, commit);
    return { folder: folder.id, generation: place.generation, uid: place.uid };
  }

  #isInMailbox(docid: number, mailbox: number): boolean {
    return this.connection.statement(IN_MAILBOX).get({ docid, mailbox }) !== undefined;
  }

  #setFlags(place: PlaceRow, flags: StoredFlagSet, commit: number): void {
    if (flags.id === place.flag_set) return;
    this.#keepSpan(place, commit, null);
    this.connection
      .statement(SET_FLAGS)
      .run({ id: place.id, commit, flagSet: flags.id, marks: flags.marks });
  }

  /** False when the message stood there already. */
  #arrive(key: Uid, before: PlaceRow | undefined, row: NewPlace, flags: StoredFlagSet): boolean {
    if (before !== undefined && before.docid === row.docid) {
      if (before.to_commit === null) {
        this.#setFlags(before, flags, row.commit);
        if (row.assumed === 0)
          this.connection.statement(SET_VERIFIED).run({ id: before.id, docid: row.docid });
        return false;
      }
      this.#keepSpan(before, before.to_commit, row.commit);
      this.connection.statement(REPLACE).run({ id: before.id, ...row });
    } else {
      // Another message at a uid that is taken: the one that stood there has ended, and keeps its row.
      if (before !== undefined && before.to_commit === null)
        this.#end(before, row.commit, 'replaced');
      // Not spread: every message of a log comes by here.
      this.connection.statement(ADD).run({
        folder: key.folder,
        generation: key.generation,
        uid: key.uid,
        docid: row.docid,
        commit: row.commit,
        flagSet: row.flagSet,
        marks: row.marks,
        fingerprint: row.fingerprint,
        date: row.date,
        assumed: row.assumed,
      });
    }
    return true;
  }

  #end(place: PlaceRow, commit: number, reason: string): void {
    this.connection.statement(END).run({ id: place.id, commit, reason });
    this.messages.opened(place.docid, -1);
  }

  #keepSpan(place: PlaceRow, to: number, resumed: number | null): void {
    // Began and closed within one commit: no moment ever saw it, unless as ended, until it came back later.
    if (place.from_commit === to && (resumed === null || resumed === to)) return;
    this.connection.statement(ADD_SPAN).run({
      place: place.id,
      folder: place.folder_id,
      docid: place.docid,
      from: place.from_commit,
      to,
      flagSet: place.flag_set,
      date: place.date,
      resumed,
      reason: place.reason,
    });
  }

  #event(key: Uid, commit: number, event: string, detail: unknown): void {
    this.connection
      .statement(ADD_EVENT)
      .run({ ...key, commit, event, detail: canonicalJson(detail) });
  }
}
