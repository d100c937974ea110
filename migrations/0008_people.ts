import { type Kysely, sql } from 'kysely';

/**
 * Adds who writes to whom, and sums over attachments by type. Addresses come from extraction, so every message is due
 * again: the next pass reindexes it, and until then searches find it as before.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const STATEMENTS = [
  `CREATE TABLE addresses (id INTEGER PRIMARY KEY, address TEXT NOT NULL UNIQUE)`,
  `CREATE TABLE message_people (
    docid INTEGER PRIMARY KEY,
    mailboxes TEXT NOT NULL,
    senders TEXT NOT NULL,
    recipients TEXT NOT NULL)`,
  `CREATE TABLE correspondents (
    address_id INTEGER NOT NULL REFERENCES addresses (id),
    role INTEGER NOT NULL,
    year INTEGER NOT NULL,
    mailboxes TEXT NOT NULL,
    messages INTEGER NOT NULL,
    last_docid INTEGER NOT NULL,
    PRIMARY KEY (address_id, role, year, mailboxes)) WITHOUT ROWID`,

  `CREATE INDEX attachments_by_hash ON attachments (hash, type)`,
  `CREATE TABLE attachment_types (
    type TEXT PRIMARY KEY,
    contents INTEGER NOT NULL,
    bytes INTEGER NOT NULL) WITHOUT ROWID`,
  `INSERT INTO attachment_types SELECT type, count(*), sum(size)
    FROM (SELECT DISTINCT hash, type, size FROM attachments WHERE hash IS NOT NULL) GROUP BY type`,

  'UPDATE messages SET extractor = -abs(extractor)',
];
