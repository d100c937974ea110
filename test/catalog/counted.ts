import type Database from 'better-sqlite3';

/** What the sums of a catalog are, and what counting its rows by other SQL gives. */
export interface Counted {
  readonly kept: unknown;
  readonly counted: unknown;
}

const list = (column: string, from: string) =>
  `(SELECT json_group_array(x) FROM (SELECT DISTINCT ${column} AS x FROM ${from} ORDER BY 1))`;

/** Where each message is, by its places. */
const LOCATED = `SELECT m.docid, m.size, json_array(
    json(${list('folder_id', 'places p WHERE p.docid = m.docid AND to_commit IS NULL')}),
    json(${list(
      'folder_id',
      `places p WHERE p.docid = m.docid AND to_commit =
        (SELECT max(coalesce(to_commit, 1e12)) FROM places q WHERE q.docid = m.docid)`,
    )}),
    json(${list('mailbox_id', 'places p JOIN folders f ON f.id = folder_id WHERE p.docid = m.docid')})) AS located
  FROM messages m`;

const rows = (db: Database.Database, sql: string): unknown[] => db.prepare(sql).raw().all();

/** Which set of places each message has. */
export function placeSets(db: Database.Database): Counted {
  return {
    kept: rows(
      db,
      `SELECT docid, json_array(json(current), json(last), json(mailboxes))
       FROM messages LEFT JOIN place_sets s ON s.id = place_set ORDER BY docid`,
    ),
    counted: rows(db, `SELECT docid, located FROM (${LOCATED}) ORDER BY docid`),
  };
}

/** Messages and bytes of each day, by where they are. */
export function receivedDays(db: Database.Database): Counted {
  return {
    kept: rows(
      db,
      `SELECT json_array(json(current), json(last), json(mailboxes)), day * 86400, messages, bytes
       FROM received_days JOIN place_sets s ON s.id = place_set ORDER BY 1, 2`,
    ),
    counted: rows(
      db,
      `SELECT located, unixepoch(docid / 64, 'unixepoch', 'start of day'), count(*), sum(size)
       FROM (${LOCATED}) GROUP BY 1, 2 ORDER BY 1, 2`,
    ),
  };
}

/** Takes out of a catalog what versions after 6 keep. */
export const WITHOUT_SUMS = `ALTER TABLE messages DROP COLUMN place_set; DROP TABLE received_days;
  DROP TABLE place_sets`;
