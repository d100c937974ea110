import { createHash } from 'node:crypto';
import type { Position } from '../archive/format.ts';
import type { MessageId } from '../core/types.ts';
import { EXTRACTOR_VERSION, type HashedAttachment, type IndexEntry } from '../mail/extraction.ts';
import {
  exactAddress,
  hash47,
  normalizeMessageId,
  senderToken,
  subjectLink,
  threadNode,
  withDomains,
} from '../mail/identity.ts';
import { decodeListedText } from '../mail/listed-text.ts';
import { indexText, mailboxToken, TOKEN_ALL } from '../mail/normalise.ts';
import { attachmentText } from './attachment-texts.ts';
import { type Connection, RECORD_MESSAGE } from './database.ts';
import { forgetPeople, putPeople } from './people.ts';
import {
  countBy,
  deleteBy,
  insertInto,
  type Row,
  selectBy,
  sqlQuery,
  updateBy,
  upsert,
} from './query.ts';
import { joinThread } from './threads.ts';

const KNOWN = selectBy('attachments', 'text_id, hash, type, size', 'docid');
const FIND_TEXT = selectBy('attachment_texts', 'id', 'hash, form');
const ADD_TEXT = insertInto('attachment_texts', 'hash, form, version, truncated');
const ADD = insertInto('attachments', 'docid, number, filename, type, size, hash, inline, text_id');
const BLANK = updateBy(
  'attachments',
  'filename = cast(zeroblob(length(cast(filename AS blob))) AS text)',
  'docid',
  'AND filename IS NOT NULL',
);
const DROP = deleteBy('attachments', 'docid');
const CONTENT = selectBy('attachments', 'docid', 'hash, type', 'LIMIT 1');
const COUNT_CONTENT = upsert('attachment_types', 'type', '+contents, +bytes');
const DROP_TYPE = deleteBy('attachment_types', 'type', 'AND contents = 0');
const USED = selectBy('attachments', 'docid', 'text_id', 'LIMIT 1');
const BLANK_TEXT = updateBy(
  'attachment_texts',
  'text = zeroblob(length(text))',
  'id',
  'AND text IS NOT NULL',
);
const DROP_TEXT = deleteBy('attachment_texts', 'id');

/** Replaces a message's recorded attachments. Call within a transaction. */
function putAttachments(
  connection: Connection,
  docid: number,
  attachments: readonly HashedAttachment[],
): void {
  const previous = connection.all(KNOWN, { docid });
  if (previous.length > 0) {
    connection.run(DROP, { docid });
    uncount(connection, previous);
  }
  for (const { number, filename, contentType, size, inline, form, hash } of attachments) {
    const digest = hash === null ? ownHash(docid, number) : Buffer.from(hash, 'hex');
    const type = contentType.toLowerCase();
    if (connection.get(CONTENT, { hash: digest, type }) === undefined)
      connection.run(COUNT_CONTENT, { type, contents: 1, bytes: size });
    connection.run(ADD, {
      docid,
      number,
      filename,
      type,
      size,
      hash: digest,
      inline: inline ? 1 : 0,
      text_id: form === null ? null : textOf(connection, digest, form),
    });
  }
  dropUnused(connection, previous);
}

/** Removes a message's attachments, and text that no other message uses. Call within a transaction. */
export function dropAttachments(connection: Connection, docid: number): void {
  const previous = connection.all(KNOWN, { docid });
  if (previous.length === 0) return;
  // Purged data must not be readable from a freed page.
  connection.run(BLANK, { docid });
  connection.run(DROP, { docid });
  uncount(connection, previous);
  dropUnused(connection, previous);
}

function textOf(connection: Connection, hash: Buffer, form: string): number {
  const key = { hash, form };
  return (
    connection.get(FIND_TEXT, key)?.id ??
    connection.run(ADD_TEXT, { ...key, version: 0, truncated: 0 }).lastInsertRowid
  );
}

type Known = Pick<Row<'attachments'>, 'text_id' | 'hash' | 'type' | 'size'>;

function uncount(connection: Connection, previous: readonly Known[]): void {
  const distinct = new Map(previous.map((row) => [`${row.hash.toString('hex')} ${row.type}`, row]));
  for (const { hash, type, size } of distinct.values()) {
    if (connection.get(CONTENT, { hash, type }) !== undefined) continue;
    connection.run(COUNT_CONTENT, { type, contents: -1, bytes: -size });
    connection.run(DROP_TYPE, { type });
  }
}

function dropUnused(connection: Connection, previous: readonly Known[]): void {
  for (const text of new Set(previous.map(({ text_id }) => text_id))) {
    if (text === null || connection.get(USED, { text_id: text }) !== undefined) continue;
    connection.run(BLANK_TEXT, { id: text });
    connection.run(DROP_TEXT, { id: text });
  }
}

/** Reports whether the message is truncated before the end of the attachment. */
export function endsBeforeAttachment({
  docid,
  number,
  hash,
}: Pick<Row<'attachments'>, 'docid' | 'number'> & { readonly hash: Buffer }): boolean {
  return hash.equals(ownHash(docid, number));
}

/** Returns a unique value in place of the hash of an incomplete attachment. */
function ownHash(docid: number, number: number): Buffer {
  return createHash('sha256').update(`mailkeep attachment ${docid} ${number}`).digest();
}

/** A message that is not indexed, or was indexed by an older extractor. */
export interface PendingMessage {
  readonly docid: number;
  readonly id: MessageId;
  readonly size: number;
}

export type LogPosition = Pick<Position, 'segment' | 'ordinal'>;

export interface FreshMessage extends PendingMessage {
  readonly position: LogPosition;
}

export interface IndexedDocument {
  readonly docid: number;
  readonly entry: IndexEntry;
}

type Terms = Row<'msg_fts'>;

/** The service's listing, for fields that the message lacks. */
interface Listed {
  readonly subject: string;
  readonly from: string;
  readonly senders: readonly string[];
  /** Derived from its Message-ID, or from its own ID. */
  readonly node: number;
}

interface KnownDocument extends IndexedDocument {
  /** True if it was never indexed and so has a row only in `messages`. */
  readonly fresh: boolean;
  readonly listed: Listed;
}

type PendingRow = Pick<Row<'messages'>, 'docid' | 'id' | 'size'>;
const PENDING = sqlQuery<{ before: number; limit: number }, PendingRow>(
  `SELECT docid, id, size FROM messages WHERE extractor <= 0 AND docid < :before
   ORDER BY docid DESC LIMIT :limit`,
);
const FRESH = sqlQuery<LogPosition, PendingRow & Pick<Row<'records'>, 'segment' | 'ordinal'>>(
  // CROSS joins from messages to records, which are far more numerous.
  `SELECT m.docid, m.id, m.size, r.segment, r.ordinal FROM messages m CROSS JOIN records r
   WHERE m.extractor <= 0 AND m.extractor = 0 AND r.kind = ${RECORD_MESSAGE} AND r.hash = m.id
     AND (r.segment, r.ordinal) > (:segment, :ordinal)
   ORDER BY r.segment, r.ordinal`,
);
const PENDING_COUNT = countBy('messages', '', 'AND extractor <= 0');
const ROWS = sqlQuery<{ docids: string }, Pick<Row<'messages'>, 'docid' | 'extractor'>>(
  `SELECT docid, extractor FROM messages
   WHERE docid IN (SELECT value FROM json_each(:docids)) ORDER BY docid`,
);
const LISTED = selectBy(
  'messages',
  'id, subject, sender_name, sender_address, message_id',
  'docid',
);
const MAILBOXES = sqlQuery<{ docids: string }, { docid: number; mailbox_id: number }>(
  `SELECT DISTINCT p.docid, f.mailbox_id FROM places p JOIN folders f ON f.id = p.folder_id
   WHERE p.docid IN (SELECT value FROM json_each(:docids)) ORDER BY p.docid, f.mailbox_id`,
);
const DROP_TERMS = deleteBy('msg_fts', 'rowid');
const ADD_TERMS = sqlQuery<Terms, never>(
  `INSERT INTO msg_fts (rowid, subject, from_, rcpt, cc, bcc, delivered, body, att_name, att_text,
     meta)
   VALUES (:rowid, :subject, :from_, :rcpt, :cc, :bcc, :delivered, CAST(:body AS text), :att_name,
     :att_text, :meta)`,
);
const SET_TEXT = upsert('texts', 'docid', 'unparsed, text');
const SET_EXTRACTED = sqlQuery<{ docids: string; extractor: number }, never>(
  `UPDATE messages SET extractor = :extractor
   WHERE docid IN (SELECT value FROM json_each(:docids))`,
);
const EXTRACTOR = selectBy('meta', 'extractor', '');
const SET_EXTRACTOR = updateBy('meta', 'extractor', '');
const ALL_DUE = updateBy('messages', 'extractor = -extractor', '', 'AND extractor > 0');

export function indexQueries(connection: Connection) {
  return {
    /** Lists messages to index, newest first, below the docid `before`. */
    pending: ({
      limit,
      before = Number.MAX_SAFE_INTEGER,
    }: {
      readonly limit: number;
      readonly before?: number;
    }) =>
      connection
        .all(PENDING, { limit, before })
        .map(({ docid, id, size }) => ({ docid, id: id.toString('hex'), size })),
    /** Lists messages that were never indexed, in log order, after a position. */
    fresh: (behind: LogPosition) =>
      connection.all(FRESH, behind).map(({ docid, id, size, segment, ordinal }) => ({
        docid,
        id: id.toString('hex'),
        size,
        position: { segment: segment ?? 0, ordinal: ordinal ?? 0 },
      })),
    pendingCount: () => connection.get(PENDING_COUNT, {})?.n ?? 0,
  };
}

export function indexWriter(connection: Connection) {
  // Numbers are part of the text. better-sqlite3 would bind them as REAL, which FTS5 refuses as a setting.
  const command = (sql: string) => connection.guard(() => connection.db.prepare(sql));
  return {
    ...indexQueries(connection),
    /**
     * Indexes up to about 500 documents in one transaction, deterministically. Skips messages that have since been
     * purged.
     */
    index: (documents: readonly IndexedDocument[]): void => {
      try {
        connection.transaction(() => indexAll(connection, documents));
      } catch (error) {
        forgetPeople(connection);
        throw error;
      }
    },
    /**
     * Sets how the index merges its segments. `bulk` defers merging, for large numbers of documents. The setting
     * persists, so set `steady` afterwards.
     */
    mode(mode: 'bulk' | 'steady'): void {
      const settings =
        mode === 'bulk'
          ? { automerge: 0, crisismerge: 64, hashsize: 8 * 1024 * 1024 }
          : { automerge: 4, crisismerge: 16, hashsize: 1024 * 1024 };
      for (const [name, value] of Object.entries(settings))
        command(`INSERT INTO msg_fts (msg_fts, rank) VALUES ('${name}', ${value})`).run();
    },
  };
}

export type IndexWriter = ReturnType<typeof indexWriter>;

/** Marks all messages for indexing if the extractor has changed. */
export function markOutdatedMessages(connection: Connection): void {
  if (connection.get(EXTRACTOR, {})?.extractor === EXTRACTOR_VERSION) return;
  connection.transaction(() => {
    connection.run(ALL_DUE, {});
    connection.run(SET_EXTRACTOR, { extractor: EXTRACTOR_VERSION });
  });
}

/**
 * Terms come last, because FTS5 flushes its buffer whenever a statement opens a savepoint, such as a REPLACE into a
 * table with several indexes. Between messages, each flush would create an index segment.
 */
function indexAll(connection: Connection, documents: readonly IndexedDocument[]): void {
  const known = knownOf(connection, documents);
  const docids = JSON.stringify(known.map(({ docid }) => docid));
  connection.run(SET_EXTRACTED, { docids, extractor: EXTRACTOR_VERSION });
  for (const document of known) addRows(connection, document);
  const mailboxes = mailboxesOf(connection, docids);
  putPeople(
    connection,
    known.map(({ docid, entry, listed, fresh }) => ({
      docid,
      fresh,
      mailboxes: mailboxes.get(docid) ?? [],
      senders: sendersOf(entry, listed),
      recipients: entry.recipients,
    })),
  );
  for (const document of known) {
    const { docid, fresh } = document;
    // The table is contentless, so it cannot replace terms by itself.
    if (!fresh) connection.run(DROP_TERMS, { rowid: docid });
    addTerms(connection, document, mailboxes.get(docid) ?? []);
  }
}

/** Omits messages that have since been purged. */
function knownOf(connection: Connection, documents: readonly IndexedDocument[]): KnownDocument[] {
  const docids = JSON.stringify(documents.map(({ docid }) => docid));
  const extractors = new Map(
    connection.all(ROWS, { docids }).map(({ docid, extractor }) => [docid, extractor]),
  );
  // A message that was stored again can appear twice, but its terms must be added once.
  const distinct = new Map(documents.map((document) => [document.docid, document]));
  return [...distinct.values()].flatMap((document) => {
    const extractor = extractors.get(document.docid);
    if (extractor === undefined) return [];
    return [{ ...document, fresh: extractor === 0, listed: listedOf(connection, document) }];
  });
}

/** Returns the listing of a message whose header lacks some fields. Most messages need no listing. */
function listedOf(connection: Connection, { docid, entry }: IndexedDocument): Listed {
  const { subject, from, links } = entry;
  const complete = subject !== null && from !== null && links.node !== null;
  const row = complete ? undefined : connection.get(LISTED, { docid });
  if (row === undefined) return { subject: '', from: '', senders: [], node: 0 };
  const sender = row.sender_address?.toLowerCase() ?? '';
  const id = normalizeMessageId(row.message_id ?? '');
  return {
    subject: decodeListedText(row.subject ?? ''),
    from: `${decodeListedText(row.sender_name ?? '')} ${row.sender_address ?? ''}`,
    senders: exactAddress(`<${sender}>`) === undefined ? [] : [sender],
    // No message can reference one that has no usable Message-ID, so its own ID is used.
    node: id === null ? hash47(row.id.toString('hex')) : threadNode(id),
  };
}

/** Falls back to the listing if the header has no sender. */
function sendersOf(entry: IndexEntry, listed: Listed): readonly string[] {
  return entry.from === null ? listed.senders : entry.senders;
}

function addRows(connection: Connection, { docid, entry, fresh, listed }: KnownDocument): void {
  const { unparsed, packedText: text, attachments, links } = entry;
  connection.run(SET_TEXT, { docid, unparsed, text });
  if (!fresh || attachments.length > 0) putAttachments(connection, docid, attachments);
  joinThread(connection, {
    docid,
    node: links.node ?? listed.node,
    ancestors: links.ancestors,
    subject: entry.subject === null ? subjectLink(listed.subject) : links.subject,
    fresh,
  });
}

function addTerms(
  connection: Connection,
  { docid, entry, listed }: KnownDocument,
  mailboxes: readonly number[],
): void {
  const hasDocuments = entry.attachments.some(({ form }) => form !== null);
  const texts = hasDocuments ? attachmentText(connection, docid) : '';
  connection.run(ADD_TERMS, {
    rowid: docid,
    // An unparsable message can still be found by its listing.
    subject: entry.subject ?? indexText(listed.subject),
    from_: entry.from ?? indexText(listed.from),
    rcpt: entry.to,
    cc: entry.cc,
    bcc: entry.bcc,
    delivered: entry.deliveredTo,
    body: entry.body,
    att_name: entry.attachmentNames,
    att_text: indexText(texts),
    meta: [
      TOKEN_ALL,
      ...mailboxes.map(mailboxToken),
      ...entry.tokens,
      ...(entry.from === null ? withDomains(listed.senders).map(senderToken) : []),
    ].join(' '),
  });
}

/** Returns the present and past mailboxes of each message, by docid. */
function mailboxesOf(connection: Connection, docids: string): Map<number, number[]> {
  const found = new Map<number, number[]>();
  for (const { docid, mailbox_id } of connection.all(MAILBOXES, { docids })) {
    const others = found.get(docid);
    if (others === undefined) found.set(docid, [mailbox_id]);
    else others.push(mailbox_id);
  }
  return found;
}
