import { type Kysely, sql } from 'kysely';

/**
 * The list of a message's attachments, for search results. Messages that have any are due again: the next pass that
 * writes lists them, and until then they are found as before.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  'ALTER TABLE texts ADD COLUMN attachments BLOB',
  `UPDATE messages SET extractor = -extractor WHERE extractor > 0
    AND docid IN (SELECT rowid FROM msg_fts WHERE msg_fts MATCH 'meta : (zatt OR zinline)')`,
];
