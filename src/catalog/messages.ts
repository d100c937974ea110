import type { Locator, Position } from '../archive/format/records.ts';
import { listedText } from '../mail/encoded-words.ts';
import type { PlaceLine } from '../mail/lines.ts';
import type { Address, BlobHash, MessageId } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import type { KnownHashes } from './known-hashes.ts';
import { isoTime } from './moments.ts';
import { query, type Row } from './query.ts';
import { RECORD_BLOB, RECORD_MESSAGE } from './tables.ts';

export interface FoundMessage {
  readonly docid: number;
  /** Bytes of the raw source. */
  readonly size: number;
}

/** The listing's fields of a message, spelled as `list` and `search` spell them. */
export type MessageSummary = Pick<PlaceLine, 'size' | 'date' | 'subject' | 'from' | 'messageId'>;

/** What a prefix of an id stands for. Candidates are sorted, and at most ten are named. */
export type IdMatch =
  | { readonly match: 'unique'; readonly id: MessageId; readonly docid: number }
  | { readonly match: 'ambiguous'; readonly candidates: readonly MessageId[] }
  | { readonly match: 'none' };

const CANDIDATES = 10;

/** What is left of a message that was purged. */
export interface PurgedMessage {
  readonly id: MessageId;
  readonly reason: string;
  /** Milliseconds since the epoch; null where the commit is not known. */
  readonly time: number | null;
}

const RECORD = query<{ kind: number; hash: Buffer }>()((db, p) =>
  db
    .selectFrom('records')
    .select(['docid', 'size', 'segment', 'ordinal', 'offset'])
    .where((eb) => eb.and({ kind: p.kind, hash: p.hash })),
);
const SUMMARY = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('messages')
    .select(['size', 'date', 'subject', 'sender_name', 'sender_address', 'message_id'])
    .where('docid', '=', p.docid),
);
const TOMBSTONE = query<{ id: Buffer }>()((db, p) =>
  db.selectFrom('tombstones').select(['reason', 'commit_number']).where('id', '=', p.id),
);
const PURGED = query<{ low: Buffer; high: Buffer; limit: number }>()((db, p) =>
  db
    .selectFrom('tombstones as t')
    .leftJoin('commits as c', 'c.number', 't.commit_number')
    .select(['t.id', 't.reason', 'c.time'])
    .where('t.id', '>=', p.low)
    .where('t.id', '<=', p.high)
    .orderBy('t.id')
    .limit(p.limit),
);
const PREFIX_COUNT = query<{ low: Buffer; high: Buffer }>()((db, p) =>
  db
    .selectFrom('records')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('kind', '=', RECORD_MESSAGE)
    .where('hash', '>=', p.low)
    .where('hash', '<=', p.high)
    .where('docid', 'is not', null),
);
const PREFIX = query<{ low: Buffer; high: Buffer; limit: number }>()((db, p) =>
  db
    .selectFrom('records')
    .select(['hash', 'docid'])
    .where('kind', '=', RECORD_MESSAGE)
    .where('hash', '>=', p.low)
    .where('hash', '<=', p.high)
    .where('docid', 'is not', null)
    .orderBy('hash')
    .limit(p.limit),
);

export interface MessageQueries {
  /**
   * A message whose bytes the archive has. One that is known but lost its bytes (a damaged log) is not found
   * here, so that it is stored again when the origin shows it.
   */
  find(id: MessageId): FoundMessage | undefined;
  /** The docid of a message, with or without bytes. */
  docidOf(id: MessageId): number | undefined;
  summary(id: MessageId): MessageSummary | undefined;
  hasBlob(hash: BlobHash): boolean;
  /** True when the message was purged on purpose: it is not fetched again. */
  isForgotten(id: MessageId): boolean;
  /** Why a message was purged, or undefined when it was not. */
  purgedFor(id: MessageId): string | undefined;
  /** Messages that were purged and did not come back, whose id begins so: at most ten. */
  purgedByPrefix(prefix: string): PurgedMessage[];
  /** An id by a prefix of its hex digits, in either case. */
  byPrefix(prefix: string): IdMatch;
  /** How many messages have an id that begins so. */
  countByPrefix(prefix: string): number;
  /** Docids of the first ten messages whose id begins so. */
  docidsByPrefix(prefix: string): number[];
}

/** @param known spares the writer the queries for what is not there */
export function messageQueries(connection: Connection, known?: KnownHashes): MessageQueries {
  /** Looks for a hash, unless it is known to be new. */
  const unlessNew = <R>(hex: string, find: (hash: Buffer) => R | undefined): R | undefined => {
    const hash = Buffer.from(hex, 'hex');
    if (known?.lacks(hash) === true) return undefined;
    const found = find(hash);
    if (found === undefined) known?.missed();
    return found;
  };
  const record = (kind: number, hex: string) =>
    unlessNew(hex, (hash) => connection.get(RECORD, { kind, hash }));
  const tombstone = (hex: MessageId) => unlessNew(hex, (id) => connection.get(TOMBSTONE, { id }));
  const between = (prefix: string) => {
    const digits = prefix.toLowerCase();
    if (!/^[0-9a-f]{1,64}$/.test(digits)) return undefined;
    const low = Buffer.from(digits.padEnd(64, '0'), 'hex');
    const high = Buffer.from(digits.padEnd(64, 'f'), 'hex');
    return { low, high, limit: CANDIDATES };
  };
  const beginning = (prefix: string) => {
    const bounds = between(prefix);
    return bounds === undefined ? [] : connection.all(PREFIX, bounds);
  };
  return {
    find(id) {
      const found = record(RECORD_MESSAGE, id);
      return found === undefined || found.docid === null || found.segment === null
        ? undefined
        : { docid: found.docid, size: found.size };
    },
    docidOf: (id) => record(RECORD_MESSAGE, id)?.docid ?? undefined,
    summary(id) {
      const docid = record(RECORD_MESSAGE, id)?.docid ?? null;
      const row = docid === null ? undefined : connection.get(SUMMARY, { docid });
      if (row === undefined) return undefined;
      const { size, date, subject, message_id: messageId } = row;
      return {
        size,
        date: isoTime(date),
        subject: readable(subject),
        from: senderOf(row),
        messageId,
      };
    },
    hasBlob: (hash) => {
      const found = record(RECORD_BLOB, hash);
      return found !== undefined && found.segment !== null;
    },
    isForgotten: (id) => tombstone(id) !== undefined,
    purgedFor: (id) => tombstone(id)?.reason,
    purgedByPrefix(prefix) {
      const bounds = between(prefix);
      if (bounds === undefined) return [];
      return connection
        .all(PURGED, bounds)
        .map(({ id, reason, time }) => ({ id: id.toString('hex'), reason, time }))
        .filter(({ id }) => record(RECORD_MESSAGE, id) === undefined);
    },
    docidsByPrefix: (prefix) => beginning(prefix).flatMap(({ docid }) => docid ?? []),
    countByPrefix(prefix) {
      const bounds = between(prefix);
      return bounds === undefined ? 0 : (connection.statement(PREFIX_COUNT).get(bounds)?.n ?? 0);
    },
    byPrefix(prefix) {
      const rows = beginning(prefix);
      const [first] = rows;
      if (first === undefined || first.docid === null) return { match: 'none' };
      if (rows.length === 1)
        return { match: 'unique', id: first.hash.toString('hex'), docid: first.docid };
      return { match: 'ambiguous', candidates: rows.map((row) => row.hash.toString('hex')) };
    },
  };
}

/** A text that the listing gave, for people. */
export function readable<T extends string | null>(text: T): T | string {
  return text === null ? text : listedText(text);
}

/** The sender that the listing named, as lines show it; null where it named none. */
export function senderOf({
  sender_name: name,
  sender_address: address,
}: Pick<Row<'messages'>, 'sender_name' | 'sender_address'>): Address | null {
  return name === null && address === null
    ? null
    : { name: listedText(name ?? ''), address: address ?? '' };
}

/** Where the archive finds bytes by their hash. */
export function locator(connection: Connection): Locator {
  const locate = (kind: number, hex: string): Position | undefined => {
    const found = connection.get(RECORD, { kind, hash: Buffer.from(hex, 'hex') });
    if (found === undefined || found.segment === null) return undefined;
    return { segment: found.segment, ordinal: found.ordinal ?? 0, offset: found.offset ?? 0 };
  };
  return {
    blob: (hash) => locate(RECORD_BLOB, hash),
    message: (id) => locate(RECORD_MESSAGE, id),
  };
}
