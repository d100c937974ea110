import { type Kysely, sql } from 'kysely';

/**
 * This migration adds threads, stores the texts for snippets per message instead of in blocks of many, and adds an
 * index for flags that few messages have. Threads and texts come from extraction, so every message is due again: the
 * next pass reindexes it, and until then searches find it as before.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  'DROP TABLE text_blocks',
  'DROP TABLE texts',
  `CREATE TABLE texts (
    docid INTEGER PRIMARY KEY,
    unparsed TEXT,
    text BLOB)`,
  `CREATE INDEX texts_unparsed ON texts (docid) WHERE unparsed IS NOT NULL`,

  `CREATE TABLE thread_members (
    docid INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    node INTEGER NOT NULL,
    subject INTEGER,
    joins INTEGER NOT NULL,
    ancestors BLOB)`,
  `CREATE INDEX thread_members_by_thread ON thread_members (thread, docid)`,
  `CREATE INDEX thread_members_by_node ON thread_members (node)`,
  `CREATE INDEX thread_members_by_subject ON thread_members (subject, docid) WHERE subject IS NOT NULL`,
  `CREATE TABLE thread_nodes (node INTEGER PRIMARY KEY, thread INTEGER NOT NULL)`,

  `CREATE INDEX places_by_flags ON places (flag_set, docid, to_commit) WHERE to_commit IS NULL`,

  'UPDATE messages SET extractor = -abs(extractor)',
];
