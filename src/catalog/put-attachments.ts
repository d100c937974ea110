import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { HashedAttachment } from '../mime/extraction.ts';
import { named } from './bound-sql.ts';
import type { Connection } from './connection.ts';
import { query, type Row } from './query.ts';

const KNOWN = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select(['text_id', 'hash', 'type', 'size'])
    .where('docid', '=', p.docid),
);
const FIND_TEXT = query<{ hash: Buffer; form: string }>()((db, p) =>
  db
    .selectFrom('attachment_texts')
    .select('id')
    .where('hash', '=', p.hash)
    .where('form', '=', p.form),
);
const ADD_TEXT = query<{ hash: Buffer; form: string }>()((db, p) =>
  db
    .insertInto('attachment_texts')
    .values({ hash: p.hash, form: p.form, version: 0, failure: null, truncated: 0, text: null }),
);
const ADD = query<Row<'attachments'>>()((db, p) =>
  db
    .insertInto('attachments')
    .values(named(p, 'docid', 'number', 'filename', 'type', 'size', 'hash', 'inline', 'text_id')),
);
const BLANK = query<{ docid: number }>()((db, p) =>
  db
    .updateTable('attachments')
    .set({
      filename: sql<string>`cast(zeroblob(length(cast(filename as blob))) as text)`,
    })
    .where('docid', '=', p.docid)
    .where('filename', 'is not', null),
);
const DROP = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('attachments').where('docid', '=', p.docid),
);
const CONTENT = query<{ hash: Buffer; type: string }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select('docid')
    .where('hash', '=', p.hash)
    .where('type', '=', p.type)
    .limit((eb) => eb.lit(1)),
);
const COUNT_CONTENT = query<Row<'attachment_types'>>()((db, p) =>
  db
    .insertInto('attachment_types')
    .values(named(p, 'type', 'contents', 'bytes'))
    .onConflict((conflict) =>
      conflict.column('type').doUpdateSet((eb) => ({
        contents: eb('attachment_types.contents', '+', p.contents),
        bytes: eb('attachment_types.bytes', '+', p.bytes),
      })),
    ),
);
const DROP_TYPE = query<{ type: string }>()((db, p) =>
  db
    .deleteFrom('attachment_types')
    .where('type', '=', p.type)
    .where('contents', '=', (eb) => eb.lit(0)),
);
const USED = query<{ text: number }>()((db, p) =>
  db
    .selectFrom('attachments')
    .select('docid')
    .where('text_id', '=', p.text)
    .limit((eb) => eb.lit(1)),
);
const BLANK_TEXT = query<{ text: number }>()((db, p) =>
  db
    .updateTable('attachment_texts')
    .set((eb) => ({ text: eb.fn<Buffer>('zeroblob', [eb.fn('length', ['text'])]) }))
    .where('id', '=', p.text)
    .where('text', 'is not', null),
);
const DROP_TEXT = query<{ text: number }>()((db, p) =>
  db.deleteFrom('attachment_texts').where('id', '=', p.text),
);

/** Records the attachments of a message, instead of those recorded before. Within a transaction. */
export function putAttachments(
  connection: Connection,
  docid: number,
  attachments: readonly HashedAttachment[],
): void {
  const before = connection.all(KNOWN, { docid });
  if (before.length > 0) {
    connection.run(DROP, { docid });
    uncount(connection, before);
  }
  for (const { number, filename, contentType, size, inline, form, hash } of attachments) {
    const own = hash === null ? ownHash(docid, number) : Buffer.from(hash, 'hex');
    const type = contentType.toLowerCase();
    if (connection.get(CONTENT, { hash: own, type }) === undefined)
      connection.run(COUNT_CONTENT, { type, contents: 1, bytes: size });
    connection.run(ADD, {
      docid,
      number,
      filename,
      type,
      size,
      hash: own,
      inline: inline ? 1 : 0,
      text_id: form === null ? null : textOf(connection, own, form),
    });
  }
  dropUnused(connection, before);
}

/** Forgets the attachments of a message, and texts that no other message has. Within a transaction. */
export function dropAttachments(connection: Connection, docid: number): void {
  const before = connection.all(KNOWN, { docid });
  if (before.length === 0) return;
  // What was forgotten must not be read again from a page that was freed.
  connection.run(BLANK, { docid });
  connection.run(DROP, { docid });
  uncount(connection, before);
  dropUnused(connection, before);
}

function textOf(connection: Connection, hash: Buffer, form: string): number {
  const key = { hash, form };
  return connection.get(FIND_TEXT, key)?.id ?? connection.run(ADD_TEXT, key).lastInsertRowid;
}

type Known = Pick<Row<'attachments'>, 'text_id' | 'hash' | 'type' | 'size'>;

/** Takes out of the sums what no message attaches any more. */
function uncount(connection: Connection, before: readonly Known[]): void {
  const distinct = new Map(
    before.map((known) => [`${known.hash?.toString('hex')} ${known.type}`, known]),
  );
  for (const { hash, type, size } of distinct.values()) {
    if (hash === null || connection.get(CONTENT, { hash, type }) !== undefined) continue;
    connection.run(COUNT_CONTENT, { type, contents: -1, bytes: -size });
    connection.run(DROP_TYPE, { type });
  }
}

function dropUnused(connection: Connection, before: readonly Known[]): void {
  for (const text of new Set(before.map(({ text_id }) => text_id))) {
    if (text === null || connection.get(USED, { text }) !== undefined) continue;
    // As above.
    connection.run(BLANK_TEXT, { text });
    connection.run(DROP_TEXT, { text });
  }
}

/** Returns whether a message ends before its attachment does. */
export function isCutOff({
  docid,
  number,
  hash,
}: Pick<Row<'attachments'>, 'docid' | 'number'> & { readonly hash: Buffer }): boolean {
  return hash.equals(ownHash(docid, number));
}

/** What stands for the hash of an attachment whose bytes were not all seen: it is like no other. */
function ownHash(docid: number, number: number): Buffer {
  return createHash('sha256').update(`mailkeep attachment ${docid} ${number}`).digest();
}
