import { type Kysely, sql } from 'kysely';

/** Adds where each message is, as one number, and how many messages of each such set were received on each day. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

const listOf = (column: string, from: string) =>
  `(SELECT json_group_array(${column}) FROM (SELECT DISTINCT ${column} FROM ${from} ORDER BY 1))`;

const STATEMENTS = [
  `CREATE TABLE place_sets (
    id INTEGER PRIMARY KEY,
    current TEXT NOT NULL,
    last TEXT NOT NULL,
    mailboxes TEXT NOT NULL,
    UNIQUE (current, last, mailboxes))`,
  `CREATE TABLE received_days (
    place_set INTEGER NOT NULL REFERENCES place_sets (id),
    day INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (place_set, day)) WITHOUT ROWID`,
  'ALTER TABLE messages ADD COLUMN place_set INTEGER NOT NULL DEFAULT 0',

  `CREATE TABLE located (
    docid INTEGER PRIMARY KEY,
    current TEXT NOT NULL,
    last TEXT NOT NULL,
    mailboxes TEXT NOT NULL)`,
  `INSERT INTO located SELECT m.docid,
    ${listOf('folder_id', 'places WHERE docid = m.docid AND to_commit IS NULL')},
    iif(m.open_places > 0, '[]', ${listOf(
      'folder_id',
      `places WHERE docid = m.docid
        AND to_commit = (SELECT max(to_commit) FROM places WHERE docid = m.docid)`,
    )}),
    ${listOf('mailbox_id', 'places JOIN folders ON folders.id = folder_id WHERE docid = m.docid')}
    FROM messages m`,
  `INSERT INTO place_sets (current, last, mailboxes)
    SELECT DISTINCT current, last, mailboxes FROM located`,
  `UPDATE messages SET place_set = (
    SELECT s.id FROM located l JOIN place_sets s USING (current, last, mailboxes)
    WHERE l.docid = messages.docid)`,
  'DROP TABLE located',
  `INSERT INTO received_days
    SELECT place_set, docid / (64 * 86400), count(*), sum(size) FROM messages GROUP BY 1, 2`,
];
