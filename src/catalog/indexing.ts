import type { MessageId } from '../mail/words.ts';
import { EXTRACTOR_VERSION, type Extraction } from '../mime/extraction.ts';
import {
  listTokens,
  mailboxToken,
  mimeTokens,
  TOKEN_ALL,
  TOKEN_ATTACHMENT,
  TOKEN_INLINE,
} from '../search/fts-text.ts';
import { indexText } from '../search/normalise.ts';
import { packList } from './attachment-lists.ts';
import { attachmentText, putAttachments } from './attachment-texts.ts';
import type { Connection } from './connection.ts';
import { packText } from './packed-text.ts';
import { named, query, type Row } from './query.ts';
import { joinThread } from './threads.ts';

/** A message whose text the index lacks, or has from an older extractor. */
export interface PendingMessage {
  readonly docid: number;
  readonly id: MessageId;
  /** Bytes of the raw source. */
  readonly size: number;
}

export interface IndexedDocument {
  readonly docid: number;
  readonly extraction: Extraction;
}

type MessageRow = Pick<
  Row<'messages'>,
  'id' | 'extractor' | 'subject' | 'sender_name' | 'sender_address' | 'message_id'
>;

const PENDING = query<{ before: number; limit: number }>()((db, p) =>
  db
    .selectFrom('messages')
    .select(['docid', 'id', 'size'])
    .where('extractor', '<=', (eb) => eb.lit(0))
    .where('docid', '<', p.before)
    .orderBy('docid', 'desc')
    .limit(p.limit),
);
const PENDING_COUNT = query()((db) =>
  db
    .selectFrom('messages')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('extractor', '<=', (eb) => eb.lit(0)),
);
const ROW = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('messages')
    .select(['id', 'extractor', 'subject', 'sender_name', 'sender_address', 'message_id'])
    .where('docid', '=', p.docid),
);
const MAILBOXES = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('places')
    .innerJoin('folders', 'folders.id', 'places.folder_id')
    .select('folders.mailbox_id')
    .distinct()
    .where('places.docid', '=', p.docid)
    .orderBy('folders.mailbox_id'),
);
const DROP_TERMS = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('msg_fts').where('rowid', '=', p.docid),
);
const ADD_TERMS = query<Row<'msg_fts'>>()((db, p) =>
  db.insertInto('msg_fts').values({
    ...named(p, 'rowid', 'subject', 'from_', 'rcpt', 'cc', 'bcc', 'delivered', 'body'),
    ...named(p, 'att_name', 'att_text', 'meta'),
  }),
);
const SET_TEXT = query<Row<'texts'>>()((db, p) =>
  db.replaceInto('texts').values(named(p, 'docid', 'unparsed', 'text', 'attachments')),
);
const SET_EXTRACTED = query<{ docid: number; extractor: number }>()((db, p) =>
  db.updateTable('messages').set({ extractor: p.extractor }).where('docid', '=', p.docid),
);
const EXTRACTOR = query()((db) => db.selectFrom('meta').select('extractor'));
const SET_EXTRACTOR = query<{ version: number }>()((db, p) =>
  db.updateTable('meta').set({ extractor: p.version }),
);
const ALL_DUE = query()((db) =>
  db
    .updateTable('messages')
    .set((eb) => ({ extractor: eb.neg('extractor') }))
    .where('extractor', '>', 0),
);

export interface IndexQueries {
  /** Messages to extract and index, newest first, below docid `before` (no bound). */
  pending(options: { readonly limit: number; readonly before?: number }): PendingMessage[];
  pendingCount(): number;
}

export interface IndexWriter extends IndexQueries {
  /**
   * Indexes up to some 500 documents in one transaction: terms and cached text. A docid that was purged
   * meanwhile is passed over. The same extraction always gives the same rows.
   */
  index(documents: readonly IndexedDocument[]): void;
  /**
   * How the index merges its segments: `bulk` puts merging off while a great many documents come, `steady` is
   * for daily mail. Kept in the database, so go back to `steady` when done.
   */
  mode(mode: 'bulk' | 'steady'): void;
}

export function indexQueries(connection: Connection): IndexQueries {
  return {
    pending: ({ limit, before = Number.MAX_SAFE_INTEGER }) =>
      connection
        .all(PENDING, { limit, before })
        .map(({ docid, id, size }) => ({ docid, id: id.toString('hex'), size })),
    pendingCount: () => connection.get(PENDING_COUNT, {})?.n ?? 0,
  };
}

export function indexWriter(connection: Connection): IndexWriter {
  // Numbers stand in the text: better-sqlite3 binds them as REAL, which FTS5 refuses as a setting.
  const command = (sql: string) => connection.guard(() => connection.db.prepare(sql));
  return {
    ...indexQueries(connection),
    index: (documents) => connection.transaction(() => indexAll(connection, documents)),
    mode(mode) {
      const settings =
        mode === 'bulk'
          ? { automerge: 0, crisismerge: 64, hashsize: 16 * 1024 * 1024 }
          : { automerge: 4, crisismerge: 16, hashsize: 1024 * 1024 };
      for (const [name, value] of Object.entries(settings))
        command(`INSERT INTO msg_fts (msg_fts, rank) VALUES ('${name}', ${value})`).run();
    },
  };
}

/** Marks every indexed message as due when the extractor has changed since it was indexed. */
export function noticeExtractor(connection: Connection): void {
  if (connection.get(EXTRACTOR, {})?.extractor === EXTRACTOR_VERSION) return;
  connection.transaction(() => {
    connection.run(ALL_DUE, {});
    connection.run(SET_EXTRACTOR, { version: EXTRACTOR_VERSION });
  });
}

/**
 * Terms come last: FTS5 writes out what it has gathered whenever a statement opens a savepoint, as a REPLACE into a
 * table with further indexes does. Between two messages that would be a segment of the index for each.
 */
function indexAll(connection: Connection, documents: readonly IndexedDocument[]): void {
  const indexed = documents.flatMap((document) => {
    const { docid, extraction } = document;
    const row = connection.get(ROW, { docid });
    if (row === undefined) return [];
    connection.run(SET_EXTRACTED, { docid, extractor: EXTRACTOR_VERSION });
    const unparsed = extraction.status === 'unparsed' ? (extraction.reason ?? 'unknown') : null;
    const attachments = packList(extraction.attachments);
    const text = packText(extraction.body);
    connection.run(SET_TEXT, { docid, unparsed, text, attachments });
    putAttachments(connection, docid, extraction.documents);
    joinThread(connection, {
      docid,
      id: row.id.toString('hex'),
      messageId: extraction.messageId ?? row.message_id,
      references: extraction.references,
      subject: extraction.subject || (row.subject ?? ''),
    });
    return [{ document, row }];
  });
  for (const { document, row } of indexed) {
    const { docid } = document;
    // A contentless table adds what it is given: the old terms must go first.
    if (row.extractor !== 0) connection.run(DROP_TERMS, { docid });
    addTerms(connection, document, row);
  }
}

function addTerms(
  connection: Connection,
  { docid, extraction }: IndexedDocument,
  row: MessageRow,
): void {
  const listedFrom = `${row.sender_name ?? ''} ${row.sender_address ?? ''}`;
  const texts = extraction.documents.length === 0 ? '' : attachmentText(connection, docid);
  connection.run(ADD_TERMS, {
    rowid: docid,
    // What will not parse is still found by what the origin listed.
    subject: indexText(extraction.subject || (row.subject ?? '')),
    from_: indexText(extraction.from || listedFrom),
    rcpt: indexText(extraction.to),
    cc: indexText(extraction.cc),
    bcc: indexText(extraction.bcc),
    delivered: indexText(extraction.deliveredTo),
    body: indexText(extraction.body),
    att_name: indexText(extraction.attachments.map(({ filename }) => filename ?? '').join('\n')),
    att_text: indexText(texts),
    meta: metaTokens(connection, docid, extraction).join(' '),
  });
}

function metaTokens(connection: Connection, docid: number, extraction: Extraction): string[] {
  const attached = extraction.attachments.filter((attachment) => !attachment.inline);
  const tokens = [
    TOKEN_ALL,
    ...connection.all(MAILBOXES, { docid }).map((row) => mailboxToken(row.mailbox_id)),
    ...(attached.length > 0 ? [TOKEN_ATTACHMENT] : []),
    ...(attached.length < extraction.attachments.length ? [TOKEN_INLINE] : []),
    ...extraction.attachments.flatMap((attachment) => mimeTokens(attachment.contentType)),
  ];
  // The words of the List-Id stay in order and together: they are sought as a phrase.
  return [...new Set(tokens), ...(extraction.listId === null ? [] : listTokens(extraction.listId))];
}
