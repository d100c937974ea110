import { type Kysely, sql } from 'kysely';

/** What people who run a fleet ask for: since when a forget waits, and which nodes were struck off by hand. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  // Of purges that were decided before, the time of this step.
  'ALTER TABLE purge ADD COLUMN decided_at timestamptz NOT NULL DEFAULT clock_timestamp()',
  // Somebody vouched that the disk is destroyed; purges no longer wait for its copies of `archives` archives.
  `CREATE TABLE struck_node (
    node text NOT NULL,
    struck_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    archives int NOT NULL,
    PRIMARY KEY (node, struck_at)
  )`,
];
