import { type Kysely, sql } from 'kysely';

/**
 * Lists every attachment as a row with its hash, also those without text. Version 5 knows their names, types and sizes;
 * messages that have one whose hash is unknown are due again.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  `ALTER TABLE attachments RENAME TO attachments_with_text`,
  'DROP INDEX attachments_by_text',
  `CREATE TABLE attachments (
    docid INTEGER NOT NULL,
    number INTEGER NOT NULL,
    filename TEXT,
    type TEXT NOT NULL,
    size INTEGER NOT NULL,
    hash BLOB,
    inline INTEGER NOT NULL,
    text_id INTEGER REFERENCES attachment_texts (id),
    PRIMARY KEY (docid, number)) WITHOUT ROWID`,
  `INSERT INTO attachments
    SELECT t.docid, e.value ->> 0, e.value ->> 1, lower(e.value ->> 2), e.value ->> 3, x.hash, e.value ->> 4, x.id
    FROM texts t
      JOIN json_each(iif(json_valid(CAST(t.attachments AS TEXT)), CAST(t.attachments AS TEXT), '[]')) e
      LEFT JOIN attachments_with_text a ON a.docid = t.docid AND a.number = e.value ->> 0
      LEFT JOIN attachment_texts x ON x.id = a.text_id
    WHERE t.attachments IS NOT NULL`,
  // Of messages that wait to be listed only those with text are known.
  `INSERT OR IGNORE INTO attachments
    SELECT a.docid, a.number, a.filename, '', 0, NULL, 0, a.text_id FROM attachments_with_text a`,
  'DROP TABLE attachments_with_text',
  `CREATE INDEX attachments_by_text ON attachments (text_id, docid) WHERE text_id IS NOT NULL`,
  `UPDATE messages SET extractor = -extractor WHERE extractor > 0
    AND docid IN (SELECT docid FROM attachments WHERE hash IS NULL)`,
];
