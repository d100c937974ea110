import { type Kysely, sql } from 'kysely';

/** Adds how many places each commit opened and ended in each folder. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  `CREATE TABLE commit_changes (
    commit_number INTEGER NOT NULL,
    folder_id INTEGER NOT NULL,
    came INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    PRIMARY KEY (commit_number, folder_id)) WITHOUT ROWID`,
  `INSERT INTO commit_changes
    SELECT commit_number, folder_id, sum(came), sum(ended) FROM (
      SELECT first_commit AS commit_number, folder_id, 1 AS came, 0 AS ended FROM places
      UNION ALL SELECT to_commit, folder_id, 0, 1 FROM places WHERE to_commit IS NOT NULL
      UNION ALL SELECT resumed, folder_id, 1, 0 FROM spans WHERE resumed IS NOT NULL
      UNION ALL SELECT to_commit, folder_id, 0, 1 FROM spans WHERE resumed IS NOT NULL)
    GROUP BY 1, 2`,
];
