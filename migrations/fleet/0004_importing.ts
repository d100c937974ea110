import { type Kysely, sql } from 'kysely';

/** A state for archives that come from outside the fleet and are not complete yet: nobody claims them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  'ALTER TABLE archive DROP CONSTRAINT archive_state_check',
  `ALTER TABLE archive ADD CONSTRAINT archive_state_check
    CHECK (state IN ('active', 'paused', 'leaving', 'importing'))`,
  // Two imports of one log would become two archives whose commits differ under the same names.
  "CREATE UNIQUE INDEX archive_importing ON archive (log_id) WHERE state = 'importing'",
];
