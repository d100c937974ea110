import { type Kysely, sql } from 'kysely';

/** Room for the text of attachments, read once for each distinct attachment. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  `ALTER TABLE meta ADD COLUMN attachment_version INTEGER NOT NULL DEFAULT 0`,
  `CREATE TABLE attachment_texts (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    form TEXT NOT NULL,
    version INTEGER NOT NULL,
    failure TEXT,
    truncated INTEGER NOT NULL,
    text BLOB,
    UNIQUE (hash, form))`,
  `CREATE INDEX attachment_texts_pending ON attachment_texts (id) WHERE version <= 0`,
  `CREATE INDEX attachment_texts_failed ON attachment_texts (id) WHERE failure IS NOT NULL`,
  `CREATE TABLE attachments (
    docid INTEGER NOT NULL,
    number INTEGER NOT NULL,
    filename TEXT,
    text_id INTEGER NOT NULL REFERENCES attachment_texts (id),
    PRIMARY KEY (docid, number)) WITHOUT ROWID`,
  `CREATE INDEX attachments_by_text ON attachments (text_id, docid)`,
];
