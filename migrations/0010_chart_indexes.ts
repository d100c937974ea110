import { type Kysely, sql } from 'kysely';

/** Indexes for charts: what came and ended between two commits, and who has most messages of a year. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  'CREATE INDEX messages_by_commit ON messages (first_commit, place_set)',
  'CREATE INDEX places_by_end ON places (to_commit, docid, folder_id) WHERE to_commit IS NOT NULL',
  'CREATE INDEX correspondents_by_messages ON correspondents (mailboxes, role, year, messages)',
];
