import type { BlobHash, MessageId } from '../core/types.ts';
import {
  ATTACHMENT_VERSION,
  type AttachmentFailure,
  type AttachmentOutcome,
  CHARS_PER_ATTACHMENT,
  CHARS_PER_MESSAGE,
} from '../mail/attachment-text.ts';
import { packUtf8, unpackUtf8 } from '../mail/normalise.ts';
import type { Connection } from './database.ts';
import { countBy, type Row, selectBy, sqlQuery, updateBy } from './query.ts';

/** A distinct attachment whose text has not been read, and one message that contains it. */
export interface PendingAttachment {
  readonly textId: number;
  /** SHA-256 of its bytes, or a unique value if the attachment is truncated. */
  readonly hash: BlobHash;
  readonly form: string;
  readonly message: MessageId;
  readonly number: number;
  /** Decoded size in bytes. */
  readonly size: number;
  /** Timeouts so far across all of that message's attachments. */
  readonly strikes: number;
}

export interface AttachmentTextState {
  readonly number: number;
  readonly filename: string | null;
  readonly status: 'pending' | 'done' | 'failed';
  readonly reason: string | null;
  readonly truncated: boolean;
  /** Failed attempts so far. A `pending` attachment is retried. */
  readonly attempts: number;
}

type TextRow = Pick<Row<'attachment_texts'>, 'version' | 'failure' | 'truncated' | 'text'>;
type PendingRow = Pick<Row<'attachment_texts'>, 'id' | 'hash' | 'form'>;
type HolderRow = Pick<Row<'attachments'>, 'docid' | 'number' | 'size'> & { id: Buffer };

const OF_MESSAGE = sqlQuery<
  { docid: number },
  TextRow & Pick<Row<'attachments'>, 'number' | 'filename'>
>(
  `SELECT a.number, a.filename, t.version, t.failure, t.truncated, t.text
   FROM attachments a JOIN attachment_texts t ON t.id = a.text_id
   WHERE a.docid = :docid ORDER BY a.number`,
);
const TEXT = selectBy('attachment_texts', 'version, failure, truncated, text', 'id');
const PENDING = sqlQuery<{ after: number; limit: number }, PendingRow>(
  `SELECT id, hash, form FROM attachment_texts
   WHERE version <= 0 AND failure IS NULL AND id > :after ORDER BY id LIMIT :limit`,
);
const PENDING_AGAIN = sqlQuery<{ limit: number }, PendingRow>(
  'SELECT id, hash, form FROM attachment_texts WHERE version <= 0 ORDER BY id LIMIT :limit',
);
/** Counts the failed attempts for a message's attachments. */
const STRIKES = sqlQuery<{ docid: number }, { strikes: number }>(
  `SELECT coalesce(sum(-t.version), 0) AS strikes
   FROM attachments a JOIN attachment_texts t ON t.id = a.text_id
   WHERE a.docid = :docid AND t.failure IS NOT NULL AND t.version < 0`,
);
const OWN_PENDING = sqlQuery<{ docid: number }, { id: number }>(
  `SELECT DISTINCT t.id FROM attachments a JOIN attachment_texts t ON t.id = a.text_id
   WHERE a.docid = :docid AND t.version <= 0 AND NOT EXISTS (
     SELECT 1 FROM attachments other WHERE other.text_id = t.id AND other.docid <> :docid)`,
);
const HOLDER = sqlQuery<{ text: number }, HolderRow>(
  `SELECT m.id, a.docid, a.number, a.size FROM attachments a JOIN messages m ON m.docid = a.docid
   WHERE a.text_id = :text ORDER BY a.docid DESC LIMIT 1`,
);
const HOLDERS = selectBy('attachments', 'docid', 'text_id', 'GROUP BY docid');
const SETTLE = updateBy('attachment_texts', 'version, failure, truncated, text', 'id');
const DUE = updateBy('messages', 'extractor = -extractor', 'docid', 'AND extractor > 0');
const ALL = countBy('attachment_texts', '');
const ALL_PENDING = countBy('attachment_texts', '', 'AND version <= 0');
const ALL_FAILED = countBy('attachment_texts', '', 'AND failure IS NOT NULL AND version > 0');
const VERSION = selectBy('meta', 'attachment_version', '');
const SET_VERSION = updateBy('meta', 'attachment_version', '');
const READ_AGAIN = updateBy(
  'attachment_texts',
  'version = -abs(version), failure = NULL',
  '',
  'AND (version > 0 OR failure IS NOT NULL)',
);

export function* attachmentTexts(
  connection: Connection,
  docid: number,
): Iterable<{ readonly number: number; readonly filename: string | null; readonly text: string }> {
  for (const { number, filename, text } of connection.all(OF_MESSAGE, { docid })) {
    if (text !== null) yield { number, filename, text: unpack(connection, text) };
  }
}

export interface KnownText
  extends Pick<AttachmentTextState, 'status' | 'reason' | 'truncated' | 'attempts'> {
  readonly text: string;
}

/** @throws `catalog-damaged` */
export function knownText(connection: Connection, textId: number): KnownText | undefined {
  const row = connection.get(TEXT, { id: textId });
  if (row === undefined) return undefined;
  const text = row.text === null ? '' : unpack(connection, row.text);
  return { ...stateOf(row), text };
}

function stateOf({
  version,
  failure,
  truncated,
}: Pick<Row<'attachment_texts'>, 'version' | 'failure' | 'truncated'>) {
  const status = version <= 0 ? 'pending' : failure === null ? 'done' : 'failed';
  const attempts = failure !== null && version < 0 ? -version : 0;
  return { status, reason: failure, truncated: truncated === 1, attempts } as const;
}

export function attachmentQueries(connection: Connection) {
  const count = (statement: typeof ALL): number => connection.get(statement, {})?.n ?? 0;
  return {
    /** Lists distinct unread attachments in order of arrival, starting after the given text number. */
    pending: ({ limit, after = 0 }: { readonly limit: number; readonly after?: number }) =>
      connection.all(PENDING, { limit, after }).flatMap((row) => withHolder(connection, row)),
    /** Lists distinct attachments to read, including timed-out ones. Messages with the fewest timeouts come first. */
    pendingAgain: (limit: number) =>
      connection
        .all(PENDING_AGAIN, { limit })
        .flatMap((row) => withHolder(connection, row))
        .sort((a, b) => a.strikes - b.strikes || a.textId - b.textId),
    counts: () =>
      connection.snapshot(() => {
        const pending = count(ALL_PENDING);
        const failed = count(ALL_FAILED);
        return { pending, failed, done: count(ALL) - pending - failed };
      }),
    ofMessage: (docid: number) =>
      connection
        .all(OF_MESSAGE, { docid })
        .map(({ number, filename, ...row }) => ({ number, filename, ...stateOf(row) })),
  };
}

function withHolder(connection: Connection, { id, hash, form }: PendingRow): PendingAttachment[] {
  const holder = connection.get(HOLDER, { text: id });
  if (holder === undefined) return [];
  const { docid, number, size } = holder;
  const strikes = connection.get(STRIKES, { docid })?.strikes ?? 0;
  const message = holder.id.toString('hex');
  return [{ textId: id, hash: hash.toString('hex'), form, message, number, size, strikes }];
}

/** Timeouts before giving up on an attachment, and on all of a message's attachments. */
const MAX_ATTEMPTS = 3;
const MAX_STRIKES = 6;

export function attachmentWriter(connection: Connection) {
  return {
    ...attachmentQueries(connection),
    /**
     * Records the result of reading an attachment, in one transaction. Marks a message for reindexing once all its
     * attachments have been tried and one has text.
     *
     * An attachment that timed out remains pending until it or its message reaches the timeout limit. The remaining
     * attachments of that message then fail too, unless other messages contain them.
     *
     * @returns the number of attachments that were read or failed permanently
     */
    settle: (textId: number, outcome: AttachmentOutcome): number =>
      connection.transaction(() => {
        const isFinal = outcome.status === 'done' || outcome.reason !== 'timeout';
        return isFinal
          ? settleFinally(connection, textId, outcome)
          : settleTimeout(connection, textId);
      }),
  };
}

export type AttachmentWriter = ReturnType<typeof attachmentWriter>;

function settleFinally(connection: Connection, textId: number, outcome: AttachmentOutcome): number {
  const done = outcome.status === 'done';
  const failure: AttachmentFailure | null = done ? null : outcome.reason;
  connection.run(SETTLE, {
    id: textId,
    version: ATTACHMENT_VERSION,
    failure,
    truncated: done && outcome.truncated ? 1 : 0,
    text: done ? pack(outcome.text) : null,
  });
  for (const { docid } of connection.all(HOLDERS, { text_id: textId }))
    indexAgain(connection, docid);
  return 1;
}

/** Marks a message for reindexing once all its attachments have been tried. */
function indexAgain(connection: Connection, docid: number): void {
  const rows = connection.all(OF_MESSAGE, { docid });
  const isTried = rows.every(({ version, failure }) => version > 0 || failure !== null);
  if (isTried && rows.some(({ text }) => text !== null)) connection.run(DUE, { docid });
}

function settleTimeout(connection: Connection, textId: number): number {
  const row = connection.get(TEXT, { id: textId });
  if (row === undefined) return 0;
  const attempts = stateOf(row).attempts + 1;
  const timeout = { status: 'failed', reason: 'timeout' } as const;
  if (attempts >= MAX_ATTEMPTS) return settleFinally(connection, textId, timeout);
  // Keep the text from an older version until this version has produced its own.
  const { truncated, text } = row;
  connection.run(SETTLE, { id: textId, version: -attempts, failure: 'timeout', truncated, text });
  let settled = 0;
  for (const { docid } of connection.all(HOLDERS, { text_id: textId })) {
    const strikes = connection.get(STRIKES, { docid })?.strikes ?? 0;
    indexAgain(connection, docid);
    if (strikes < MAX_STRIKES) continue;
    for (const { id } of connection.all(OWN_PENDING, { docid }))
      settled += settleFinally(connection, id, timeout);
  }
  return settled;
}

export function resetOutdatedAttachments(connection: Connection): void {
  if (connection.get(VERSION, {})?.attachment_version === ATTACHMENT_VERSION) return;
  connection.transaction(() => {
    connection.run(READ_AGAIN, {});
    connection.run(SET_VERSION, { attachment_version: ATTACHMENT_VERSION });
  });
}

/** Returns the text known for a message's attachments, for indexing. */
export function attachmentText(connection: Connection, docid: number): string {
  const texts: string[] = [];
  let budget = CHARS_PER_MESSAGE;
  for (const { text } of attachmentTexts(connection, docid)) {
    if (budget <= 0) break;
    texts.push(text.slice(0, budget));
    budget -= text.length;
  }
  // The blank line prevents phrases from matching across attachments.
  return texts.join('\n\n');
}

/** zstd level. Reading an attachment takes far longer than packing its text. */
const LEVEL = 6;
/** A UTF-16 code unit takes at most three bytes in UTF-8. */
const MAX_BYTES = 3 * CHARS_PER_ATTACHMENT;

function pack(text: string): Buffer | null {
  return text === '' ? null : packUtf8(Buffer.from(text, 'utf8'), LEVEL);
}

/** @throws `catalog-damaged` if the text cannot be unpacked or is too long; a rebuild replaces it */
function unpack({ file }: Connection, packed: Buffer): string {
  return unpackUtf8(packed, { maxBytes: MAX_BYTES, file, reason: 'attachment' });
}
