import {
  type CommittedBatch,
  type Fact,
  type Position,
  type RemovedRange,
  removedMessage,
} from '../archive/format.ts';
import { catalogError } from '../core/error-tables.ts';
import type { MailboxKey, MessageId } from '../core/types.ts';
import { docidBase } from '../mail/docid.ts';
import { fingerprint } from '../mail/identity.ts';
import type { ComparedRecord, MatchingRun } from './comparison.ts';
import { type Connection, RECORD_BLOB, RECORD_MESSAGE } from './database.ts';
import {
  type FactOf,
  FoldFolders,
  FoldPlaceSets,
  FoldPlaces,
  storableName,
  toEnvelope,
} from './fold-places.ts';
import { dropAttachments } from './indexing.ts';
import { messageQueries } from './messages.ts';
import { dropPeople, forgetPeople } from './people.ts';
import { deleteBy, insertInto, type Row, selectBy, sqlQuery, updateBy, upsert } from './query.ts';
import { ENVELOPE, type Envelope, FlagSets, UID, type Uid } from './sql.ts';
import { leaveThreads } from './threads.ts';

const COUNT = upsert('commit_changes', 'commit_number, folder_id', '+came, +ended');
const DROP_EMPTY = deleteBy(
  'commit_changes',
  'commit_number, folder_id',
  'AND came = 0 AND ended = 0',
);
const PLACES = selectBy('places', 'folder_id, first_commit, to_commit', 'docid');
const SPANS = selectBy(
  'spans',
  'folder_id, resumed, to_commit',
  'docid',
  'AND resumed IS NOT NULL',
);

export class FoldChanges {
  readonly #counts = new Map<string, Row<'commit_changes'>>();

  constructor(private readonly connection: Connection) {}

  /** @param times -1 undoes a count */
  came(commit: number, folder: number, times: 1 | -1 = 1): void {
    this.#count(commit, folder, times, 0);
  }

  ended(commit: number, folder: number, times: 1 | -1 = 1): void {
    this.#count(commit, folder, 0, times);
  }

  /** Undoes all counts of a message that is about to be dropped. @param folders those it is dropped from; all by default */
  dropped(docid: number, folders?: ReadonlySet<number>): void {
    const places = this.connection.all(PLACES, { docid });
    const spans = this.connection.all(SPANS, { docid });
    const returns = spans.map(({ resumed, ...span }) => ({ ...span, first_commit: resumed }));
    for (const { folder_id: folder, ...place } of [...places, ...returns]) {
      if (folders?.has(folder) === false) continue;
      if (place.first_commit !== null) this.came(place.first_commit, folder, -1);
      if (place.to_commit !== null) this.ended(place.to_commit, folder, -1);
    }
  }

  finish(): void {
    for (const entry of this.#counts.values()) {
      if (entry.came === 0 && entry.ended === 0) continue;
      this.connection.run(COUNT, entry);
      if (entry.came < 0 || entry.ended < 0) this.connection.run(DROP_EMPTY, entry);
    }
    this.#counts.clear();
  }

  forget(): void {
    this.#counts.clear();
  }

  #count(commit: number, folder: number, came: number, ended: number): void {
    const key = `${commit} ${folder}`;
    const entry = this.#counts.get(key);
    if (entry === undefined)
      this.#counts.set(key, { commit_number: commit, folder_id: folder, came, ended });
    else {
      entry.came += came;
      entry.ended += ended;
    }
  }
}

const FIND = selectBy('records', 'docid, size', 'kind, hash');
const RECORD = 'kind, hash, size, segment, ordinal, offset, docid';
// A later record replaces an earlier one, which was damaged or purged.
const PUT_RECORD = insertInto(
  'records',
  RECORD,
  `ON CONFLICT (kind, hash) DO UPDATE
   SET (size, segment, ordinal, "offset") =
     (excluded.size, excluded.segment, excluded.ordinal, excluded."offset")`,
);
const ADD_RECORD = insertInto('records', RECORD, 'ON CONFLICT (kind, hash) DO NOTHING');
const SET_DOCID = updateBy('records', 'docid', 'kind, hash');
const TAKEN_FROM = sqlQuery<{ docid: number }, { docid: number }>(
  'SELECT docid FROM messages WHERE docid >= :docid ORDER BY docid',
);
const ADD = insertInto(
  'messages',
  `docid, id, size, ${ENVELOPE}, first_commit, open_places, place_set, extractor`,
  'ON CONFLICT (docid) DO NOTHING',
);
const ADD_OPEN = updateBy('messages', '+open_places', 'docid');
const GET = selectBy('messages', ENVELOPE, 'docid');
const DUE_AGAIN = updateBy('messages', 'extractor = -abs(extractor)', 'docid');

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

export class FoldMessages {
  /** Message records in this batch that no fact has used yet. Most get their docid and row right away. */
  readonly #arrived = new Map<MessageId, Arrived>();
  #rows = 0;
  #bytes = 0;

  /** @param placeSets undefined for a catalog that is only compared */
  constructor(
    private readonly connection: Connection,
    private readonly placeSets: FoldPlaceSets | undefined,
  ) {}

  blob(hash: string, size: number, position: Position): void {
    this.#put(RECORD_BLOB, hash, size, position, null);
  }

  message(id: MessageId, size: number, position: Position): void {
    this.#arrived.set(id, { size, position });
  }

  /**
   * Returns the docid of a message. The first fact about a message adds its row. If another message already has the
   * fact's docid, which can happen only in a log with two writers, the next free one is used.
   *
   * @param place the open place of a new row, if any
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
    // A fact nearly always brings a new message with its bytes, so one statement checks for the record and adds it.
    if (arrived !== undefined && this.#added(hash, size, docid, arrived)) this.#arrived.delete(id);
    else {
      const record = this.connection.get(FIND, { kind: RECORD_MESSAGE, hash });
      if (record !== undefined && record.docid !== null)
        return { docid: record.docid, date: this.#dateOf(record.docid), added: false };
      if (record !== undefined)
        this.connection.run(SET_DOCID, { kind: RECORD_MESSAGE, hash, docid });
      else this.#added(hash, size, docid, arrived);
    }
    const row = envelope();
    const set =
      (place === undefined
        ? this.placeSets?.nowhere()
        : this.placeSets?.single(place.folder, place.mailbox)) ?? 0;
    // Field by field, because a spread between other fields takes as long as the statement.
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
      extractor: 0,
    };
    let given = docid;
    if (this.connection.run(ADD, values).changes === 0) {
      given = this.#firstFree(docid);
      this.connection.run(SET_DOCID, { kind: RECORD_MESSAGE, hash, docid: given });
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

  opened(docid: number, change: 1 | -1): void {
    this.connection.run(ADD_OPEN, { docid, open_places: change });
    this.placeSets?.touched(docid);
  }

  moved(docid: number): void {
    this.placeSets?.touched(docid);
  }

  dueAgain(docid: number): void {
    this.connection.run(DUE_AGAIN, { docid });
  }

  /** Writes the records that no fact used. A record for a known message repairs that message. */
  finish(): void {
    for (const [id, { size, position }] of this.#arrived) {
      const hash = Buffer.from(id, 'hex');
      const record = this.connection.get(FIND, { kind: RECORD_MESSAGE, hash });
      this.#put(RECORD_MESSAGE, id, size, position, null);
      if (record !== undefined && record.docid !== null) this.dueAgain(record.docid);
    }
    this.#arrived.clear();
  }

  dropped(docid: number, { size, place_set }: Pick<Row<'messages'>, 'size' | 'place_set'>): void {
    this.placeSets?.dropped(docid, size, place_set);
    this.#rows -= 1;
    this.#bytes -= size;
  }

  /** Removes a record's position, so that lookups fail and the next sync stores the bytes again. */
  missing(kind: 'message' | 'blob', hash: string, size: number): void {
    const record = kind === 'message' ? RECORD_MESSAGE : RECORD_BLOB;
    const row = this.connection.get(FIND, { kind: record, hash: Buffer.from(hash, 'hex') });
    this.#put(record, hash, row?.size ?? size, undefined, row?.docid ?? null);
  }

  /** Returns the change in message count and bytes since the last call. */
  grown() {
    const grown = { messages: this.#rows, message_bytes: this.#bytes };
    this.#rows = 0;
    this.#bytes = 0;
    return grown;
  }

  /** Counts messages whose rows are in the other catalog. */
  counted(messages: number, bytes: number): void {
    this.#rows += messages;
    this.#bytes += bytes;
  }

  forget(): void {
    this.#arrived.clear();
    this.grown();
  }

  #dateOf(docid: number): number | null {
    return this.connection.get(GET, { docid })?.date ?? null;
  }

  #added(hash: Buffer, size: number, docid: number, arrived: Arrived | undefined): boolean {
    const { position } = arrived ?? {};
    const row = recordOf(RECORD_MESSAGE, hash, arrived?.size ?? size, position, docid);
    return this.connection.run(ADD_RECORD, row).changes > 0;
  }

  #firstFree(docid: number): number {
    let candidate = docid;
    for (const row of this.connection.statement(TAKEN_FROM).iterate({ docid })) {
      if (row.docid !== candidate) break;
      candidate += 1;
    }
    return candidate;
  }

  #put(
    kind: number,
    hash: string,
    size: number,
    position: Position | undefined,
    docid: number | null,
  ): void {
    const row = recordOf(kind, Buffer.from(hash, 'hex'), size, position, docid);
    this.connection.run(PUT_RECORD, row);
  }
}

function recordOf(
  kind: number,
  hash: Buffer,
  size: number,
  position: Position | undefined,
  docid: number | null,
): Row<'records'> {
  const { segment = null, ordinal = null, offset = null } = position ?? {};
  return { kind, hash, size, segment, ordinal, offset, docid };
}

// A message can be purged, come back, and be purged again.
const TOMBSTONE = upsert('tombstones', 'id', 'reason, commit_number');
const KNOWN_TOMBSTONE = insertInto(
  'tombstones',
  'id, reason, commit_number',
  'ON CONFLICT (id) DO NOTHING',
);
const PURGED_PLACES = selectBy('places', `id, ${UID}`, 'docid');
const FORGET_PLACE = upsert('forgotten', UID, 'id');
const DROP_EVENTS = deleteBy('events', UID);
const DROP_QUARANTINE = deleteBy('quarantine', UID);
const DROP_SPANS_OF_PLACE = deleteBy('spans', 'place_id');
const DROP_SPANS = deleteBy('spans', 'docid');
const DROP_PLACES = deleteBy('places', 'docid');
const DROP_MESSAGE = sqlQuery<{ docid: number }, Pick<Row<'messages'>, 'size' | 'place_set'>>(
  'DELETE FROM messages WHERE docid = :docid RETURNING size, place_set',
);
const BLANK_TEXT = updateBy('texts', 'text = zeroblob(length(text))', 'docid');
const DROP_TEXT = deleteBy('texts', 'docid');
const DROP_TERMS = deleteBy('msg_fts', 'rowid');
const DROP_RECORD = deleteBy('records', 'kind, hash');

/**
 * Folds purges. The log contains no facts about a purged message, so this removes their rows. Only the tombstone and
 * the places of the purge itself remain. The result is the same as a rebuild from the purged log, even if some facts
 * have not been removed from the log yet. Until the file is rebuilt, it still contains the terms and freed pages.
 */
class FoldedPurges {
  /** Purged messages whose threads have not been recomputed yet. */
  readonly #leaving: number[] = [];

  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldFolders,
    private readonly messages: FoldMessages,
    private readonly changes: FoldChanges | undefined,
  ) {}

  purged(fact: FactOf<'purged'>, commit: number): void {
    const id = Buffer.from(fact.message, 'hex');
    const tombstone = { id, reason: fact.reason, commit_number: commit };
    if (fact.again === true) this.connection.run(KNOWN_TOMBSTONE, tombstone);
    else {
      this.connection.run(TOMBSTONE, tombstone);
      this.#removed(Buffer.from(removedMessage(fact), 'hex'), fact.blobs ?? []);
    }
    for (const place of fact.ended ?? []) this.#clear(this.folders.uidOf(place, commit));
    for (const place of fact.places ?? []) {
      const key = this.folders.uidOf(place, commit);
      this.#clear(key);
      this.connection.run(FORGET_PLACE, { ...key, id });
    }
  }

  /** Recomputes the threads of purged messages, once per batch. */
  finish(): void {
    leaveThreads(this.connection, this.#leaving.splice(0));
  }

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

  /** Removes rows that belong to a place rather than to its message. */
  #clear(key: Uid): void {
    this.connection.run(DROP_EVENTS, key);
    this.connection.run(DROP_QUARANTINE, key);
  }

  #drop(docid: number): void {
    this.changes?.dropped(docid);
    for (const place of this.connection.all(PURGED_PLACES, { docid })) {
      this.#clear(place);
      this.connection.run(DROP_SPANS_OF_PLACE, { place_id: place.id });
    }
    this.connection.run(DROP_SPANS, { docid });
    this.connection.run(DROP_PLACES, { docid });
    // Purged text must not be recoverable from a freed page.
    this.connection.run(BLANK_TEXT, { docid });
    this.connection.run(DROP_TEXT, { docid });
    this.#leaving.push(docid);
    dropAttachments(this.connection, docid);
    dropPeople(this.connection, docid);
    this.connection.run(DROP_TERMS, { rowid: docid });
    const row = this.connection.get(DROP_MESSAGE, { docid });
    if (row !== undefined) this.messages.dropped(docid, row);
  }
}

const FIND_INCOMPLETE = selectBy(
  'quarantine',
  'id, from_commit, first_commit, acknowledged',
  UID,
  'AND to_commit IS NULL',
);
const ADD_INCOMPLETE = insertInto('quarantine', [
  `${UID}, position, from_commit, first_commit, flag_set, ${ENVELOPE}`,
  'size, fingerprint, reason, detail, kept, acknowledged',
]);
const CLOSE = updateBy('quarantine', 'to_commit', 'id');
const DROP = deleteBy('quarantine', 'id');
const ACKNOWLEDGE = updateBy('quarantine', 'acknowledged = 1', 'id');

/** Folds incomplete messages. As with places, false means an unknown place. */
class FoldedQuarantine {
  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldFolders,
    private readonly flagSets: FlagSets,
  ) {}

  quarantined(fact: FactOf<'quarantined'>, commit: number, time: number): boolean {
    const { listing } = fact;
    const key = this.folders.uidOf(fact, commit);
    const previous = this.connection.get(FIND_INCOMPLETE, key);
    if (previous !== undefined) {
      // A new attempt with a different outcome starts a new interval, unless it is in the same commit.
      if (previous.from_commit === commit) this.connection.run(DROP, { id: previous.id });
      else this.connection.run(CLOSE, { id: previous.id, to_commit: commit });
    }
    this.connection.run(ADD_INCOMPLETE, {
      ...key,
      ...toEnvelope(listing),
      position: docidBase(listing.date, time),
      from_commit: commit,
      first_commit: previous?.first_commit ?? commit,
      flag_set: this.flagSets.of(listing.flags).id,
      size: listing.size,
      fingerprint: Buffer.from(fingerprint(listing), 'hex'),
      reason: fact.reason,
      detail: fact.detail,
      kept: fact.kept === undefined ? null : Buffer.from(fact.kept, 'hex'),
      acknowledged: previous?.acknowledged ?? 0,
    });
    return true;
  }

  released(fact: FactOf<'released'>, commit: number): boolean {
    const found = this.connection.get(FIND_INCOMPLETE, this.folders.uidOf(fact, commit));
    if (found === undefined) return false;
    // A purge also removes the listing.
    if (fact.reason === 'forgotten') this.connection.run(DROP, { id: found.id });
    else this.connection.run(CLOSE, { id: found.id, to_commit: commit });
    return true;
  }

  acknowledged(fact: FactOf<'acknowledged'>, commit: number): boolean {
    const found = this.connection.get(FIND_INCOMPLETE, this.folders.uidOf(fact, commit));
    if (found === undefined) return false;
    this.connection.run(ACKNOWLEDGE, { id: found.id });
    return true;
  }
}

const FOLDERS = sqlQuery<MailboxKey, Pick<Row<'folders'>, 'id' | 'path'>>(
  `SELECT f.id, f.path FROM mailboxes m JOIN folders f ON f.mailbox_id = m.id
   WHERE m.host = :host AND m.mailbox = :mailbox ORDER BY f.id`,
);
type Loss = NonNullable<FactOf<'purged'>['from']>;
type RemovedPlace = Pick<Row<'places'>, 'id' | 'docid' | 'first_commit' | 'to_commit'>;
const REMOVED_PLACES = sqlQuery<{ folder: number; first: number; last: number }, RemovedPlace>(
  `SELECT id, docid, first_commit, to_commit FROM places
   WHERE folder_id = :folder AND first_commit >= :first AND first_commit <= :last ORDER BY id`,
);
const PLACES_OF = selectBy(
  'places',
  `id, docid, first_commit, to_commit, ${UID}`,
  'docid',
  'ORDER BY id',
);
const DROP_PLACE = deleteBy('places', 'id');
const SET_FIRST = updateBy(
  'messages',
  `first_commit = (SELECT min(first_commit) FROM places WHERE places.docid = messages.docid)`,
  'docid',
  'AND EXISTS (SELECT 1 FROM places WHERE places.docid = messages.docid)',
);
const OF_FOLDER = (
  [
    ...(['events', 'quarantine', 'forgotten', 'certificates', 'commit_changes'] as const),
    ...(['folder_spans', 'generations'] as const),
  ] as const
).map((table) => deleteBy(table, 'folder_id'));
const DROP_FOLDER = deleteBy('folders', 'id');
const DROP_MAILBOX = deleteBy('mailboxes', 'host, mailbox');

/**
 * Removes parts of mailboxes. Separate facts in the same batch purge messages that have no other place. A rebuild from
 * a log that still contains some of the facts yields the same rows.
 */
class FoldedRemovals {
  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldFolders,
    private readonly messages: FoldMessages,
    private readonly placeSets: FoldPlaceSets | undefined,
    private readonly changes: FoldChanges | undefined,
  ) {}

  remove({ host, mailbox, commits, folders = [] }: RemovedRange): void {
    const { connection } = this;
    // Pending rows must be written first, or they would come back.
    this.folders.finish();
    const removals = new Set(folders.map(storableName));
    for (const { id: folder, path } of connection.all(FOLDERS, { host, mailbox })) {
      const isWhole = commits === undefined || removals.has(path);
      const [first, last] = isWhole ? [0, Number.MAX_SAFE_INTEGER] : commits;
      for (const place of connection.all(REMOVED_PLACES, { folder, first, last })) {
        if (!isWhole) this.changes?.came(place.first_commit, folder, -1);
        this.#drop(place);
      }
      if (!isWhole) continue;
      for (const drop of OF_FOLDER) connection.run(drop, { folder_id: folder });
      connection.run(DROP_FOLDER, { id: folder });
    }
    if (commits === undefined) connection.run(DROP_MAILBOX, { host, mailbox });
    this.folders.forget();
    this.placeSets?.foldersRemoved();
  }

  /** Removes a message's places in one mailbox. Until the catalog is rebuilt, its envelope may be that of such a place. */
  lose({ message, host, mailbox }: Loss): void {
    const { connection } = this;
    const docid = messageQueries(connection).docidOf(message);
    if (docid === undefined) return;
    const folders = new Set(connection.all(FOLDERS, { host, mailbox }).map(({ id }) => id));
    this.changes?.dropped(docid, folders);
    for (const place of connection.all(PLACES_OF, { docid })) {
      if (!folders.has(place.folder_id)) continue;
      connection.run(DROP_EVENTS, place);
      connection.run(DROP_QUARANTINE, place);
      this.#drop(place);
    }
  }

  #drop(place: RemovedPlace): void {
    const { connection, messages } = this;
    connection.run(DROP_SPANS_OF_PLACE, { place_id: place.id });
    connection.run(DROP_PLACE, place);
    if (place.to_commit === null) messages.opened(place.docid, -1);
    else messages.moved(place.docid);
    connection.run(SET_FIRST, place);
    messages.dueAgain(place.docid);
  }
}

const REACHED = selectBy('meta', 'commit_number, commit_hash, commit_time, orphans', '');
const REACH = updateBy(
  'meta',
  'commit_number, commit_hash, commit_time, +orphans, +messages, +message_bytes',
  '',
);
const ADD_COMMIT = insertInto('commits', 'number, time');
const ADD_CERTIFICATE = upsert(
  'certificates',
  'folder_id, commit_number',
  'generation, origin_total, stored, assumed, quarantined, held, forgotten, complete, since',
);

/** The last commit in the catalog; number 0 and an empty hash if there is none. */
export interface CatalogHead {
  readonly number: number;
  readonly hash: string;
  readonly time: number;
  readonly orphans: number;
}

export function catalogHead(connection: Connection): CatalogHead {
  const row = connection.get(REACHED, {});
  if (row === undefined)
    throw catalogError('catalog-damaged', { file: connection.file, reason: 'no meta row' });
  return {
    number: row.commit_number,
    hash: connection.hex(row.commit_hash),
    time: row.commit_time,
    orphans: row.orphans,
  };
}

/** A batch in which some messages already match the compared catalog. */
export interface ComparedBatch extends Omit<CommittedBatch, 'records'> {
  readonly records: readonly ComparedRecord[];
}

/**
 * Folds batches of the log into rows, after each commit and in a rebuild. Identical batches yield identical rows
 * (invariant 3), so the fold reads no clock and does not depend on earlier indexing.
 */
export class Fold {
  /** Number of runs of settled messages whose folder has a different number here. */
  misplaced = 0;
  readonly #flagSets: FlagSets;
  readonly #folders: FoldFolders;
  readonly #messages: FoldMessages;
  readonly #places: FoldPlaces;
  readonly #quarantine: FoldedQuarantine;
  readonly #purges: FoldedPurges;
  readonly #removals: FoldedRemovals;
  readonly #placeSets: FoldPlaceSets | undefined;
  readonly #changes: FoldChanges | undefined;

  readonly #handlers: {
    readonly [N in Fact['fact']]: (fact: FactOf<N>, commit: number, time: number) => unknown;
  } = {
    mailbox: (fact, commit) => this.#folders.mailbox(fact, commit),
    folder: (fact, commit) => this.#folders.folder(fact, commit),
    'folder-renamed': (fact, commit) => this.#folders.renamed(fact, commit),
    'folder-gone': (fact, commit) => this.#folders.gone(fact, commit),
    generation: (fact, commit) => this.#folders.generation(fact, commit),
    appeared: (fact, commit) => this.#places.appeared(fact, commit),
    flags: (fact, commit) => this.#places.flags(fact, commit),
    ended: (fact, commit) => this.#places.ended(fact, commit),
    reopened: (fact, commit) => this.#places.reopened(fact, commit),
    held: (fact, commit) => this.#places.held(fact, commit),
    verified: (fact, commit) => this.#places.verified(fact, commit),
    quarantined: (fact, commit, time) => this.#quarantine.quarantined(fact, commit, time),
    released: (fact, commit) => this.#quarantine.released(fact, commit),
    acknowledged: (fact, commit) => this.#quarantine.acknowledged(fact, commit),
    certificate: (fact, commit) => this.#certificate(fact, commit),
    missing: ({ kind, hash, size }) => this.#messages.missing(kind, hash, size),
    purged: (fact, commit) => {
      for (const part of fact.removed ?? []) this.#removals.remove(part);
      if (fact.from !== undefined) this.#removals.lose(fact.from);
      this.#purges.purged(fact, commit);
    },
  };

  /** @param sums `rows` omits the totals of the rows, which comparisons do not need */
  constructor(
    private readonly connection: Connection,
    sums: 'sums' | 'rows' = 'sums',
  ) {
    this.#placeSets = sums === 'sums' ? new FoldPlaceSets(connection) : undefined;
    this.#changes = sums === 'sums' ? new FoldChanges(connection) : undefined;
    this.#flagSets = new FlagSets(connection);
    this.#folders = new FoldFolders(connection);
    this.#messages = new FoldMessages(connection, this.#placeSets);
    this.#places = new FoldPlaces(
      connection,
      this.#folders,
      this.#messages,
      this.#flagSets,
      this.#changes,
    );
    this.#quarantine = new FoldedQuarantine(connection, this.#folders, this.#flagSets);
    this.#purges = new FoldedPurges(connection, this.#folders, this.#messages, this.#changes);
    this.#removals = new FoldedRemovals(
      connection,
      this.#folders,
      this.#messages,
      this.#placeSets,
      this.#changes,
    );
  }

  /**
   * Folds batches and their last commit in one transaction (invariant 2). A rebuild passes a few dozen at a time,
   * because separate transactions would rewrite the same pages.
   *
   * @param acrossGap accepts a batch that does not follow the last commit; only for a rebuild from a damaged log
   * @throws `catalog-out-of-step` if a batch does not follow the previous commit; nothing is changed
   */
  batches(batches: readonly CommittedBatch[], acrossGap = false): void {
    try {
      this.connection.transaction(() => {
        this.within(batches, acrossGap);
        this.#placeSets?.write();
      });
    } catch (error) {
      const parts = [this.#flagSets, this.#folders, this.#messages, this.#purges];
      for (const part of parts) part.forget();
      this.#placeSets?.forget();
      this.#changes?.forget();
      throw error;
    }
  }

  /** Folds batches in the caller's transaction. The caller must discard the catalog if this throws. */
  within(batches: readonly ComparedBatch[], acrossGap: boolean): void {
    for (const batch of batches) this.#apply(batch, acrossGap);
  }

  #apply({ commit, previousHash, records }: ComparedBatch, acrossGap: boolean): void {
    const head = catalogHead(this.connection);
    const isNext =
      commit.number === head.number + 1 && (head.number === 0 || previousHash === head.hash);
    if (!isNext && !(acrossGap && commit.number > head.number))
      throw catalogError('catalog-out-of-step', {
        reached: head.number,
        reachedHash: head.hash,
        batch: commit.number,
        previousHash,
      });
    this.connection.run(ADD_COMMIT, { number: commit.number, time: commit.time });
    let orphans = 0;
    for (const record of records) {
      if (record.kind === 'blob') this.#messages.blob(record.hash, record.size, record.position);
      else if (record.kind === 'message')
        this.#messages.message(record.id, record.size, record.position);
      else if (record.kind === 'settled') this.#foldRun(record, commit.number);
      else if (!this.#fact(record.fact, commit.number, commit.time)) orphans += 1;
    }
    this.#purges.finish();
    this.#placeSets?.finish();
    this.#changes?.finish();
    this.#messages.finish();
    this.#folders.finish();
    this.connection.run(REACH, {
      commit_number: commit.number,
      commit_hash: Buffer.from(commit.hash, 'hex'),
      commit_time: commit.time,
      orphans,
      ...this.#messages.grown(),
    });
  }

  #foldRun({ place, folderId, messages, bytes }: MatchingRun, commit: number): void {
    const { folder } = this.#folders.ofArrival(place, commit);
    if (folder.id !== folderId) this.misplaced += 1;
    this.#messages.counted(messages, bytes);
  }

  /** Returns false for a fact about an unknown place, or one known only to newer versions. */
  #fact(fact: Fact, commit: number, time: number): boolean {
    // Each handler takes the facts it is named after.
    if (!Object.hasOwn(this.#handlers, fact.fact)) return false;
    const handle: unknown = this.#handlers[fact.fact];
    return typeof handle === 'function' && handle(fact, commit, time) !== false;
  }

  #certificate(fact: FactOf<'certificate'>, commit: number): void {
    const { generation, stored, assumed, quarantined, held, forgotten, since } = fact;
    this.connection.run(ADD_CERTIFICATE, {
      folder_id: this.#folders.of(fact, commit),
      commit_number: commit,
      origin_total: fact.originTotal,
      complete: fact.complete ? 1 : 0,
      ...{ generation, stored, assumed, quarantined, held, forgotten, since },
    });
  }
}
