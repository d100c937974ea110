import { type Kysely, sql } from 'kysely';

/** Webhooks that holders registered at the service, and what a received secret is looked up by. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  // A keyed hash of secrets that deliveries carry, so that any node finds the account of one. Null for all others.
  'ALTER TABLE secret ADD COLUMN lookup bytea',
  'CREATE INDEX secret_by_lookup ON secret (lookup) WHERE lookup IS NOT NULL',
  // Their secrets are in `secret`. A new holder finds here what exists already.
  `CREATE TABLE webhook (
    archive bigint NOT NULL,
    id text NOT NULL,
    host text NOT NULL,
    mailbox_id text NOT NULL,
    mailbox text NOT NULL,
    url text NOT NULL,
    PRIMARY KEY (archive, id)
  )`,
];
