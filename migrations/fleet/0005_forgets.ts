import { type Kysely, sql } from 'kysely';

/** Requests to forget messages, which whoever holds the archive carries out. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  // `wanted` has ids of messages, and nothing that mail says. `purges` is null until nothing of it is left in the log; the request has ended once no purge up to that number is unfinished.
  `CREATE TABLE forget (
    id uuid PRIMARY KEY,
    archive bigint NOT NULL,
    node text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    wanted jsonb NOT NULL CHECK (jsonb_array_length(wanted) > 0),
    purges int
  )`,
  'CREATE INDEX forget_of_archive ON forget (archive, asked_at)',
  'CREATE INDEX forget_waiting ON forget (archive) WHERE purges IS NULL',
];
