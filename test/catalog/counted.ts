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

/** Distinct contents and bytes of each type of attachments. */
export function attachmentTypes(db: Database.Database): Counted {
  return {
    kept: rows(db, 'SELECT type, contents, bytes FROM attachment_types ORDER BY 1'),
    counted: rows(
      db,
      `SELECT type, count(DISTINCT hash), (SELECT sum(size) FROM
         (SELECT hash, max(size) AS size FROM attachments b WHERE b.type = a.type GROUP BY hash))
       FROM attachments a GROUP BY 1 ORDER BY 1`,
    ),
  };
}

/** Messages of each address, role, year and mailboxes, and the last of them; and the addresses that are kept. */
export function correspondents(db: Database.Database): Counted {
  const of = (role: number, list: string) =>
    `SELECT a.address, ${role}, cast(strftime('%Y', docid / 64, 'unixepoch') AS INTEGER) AS year, mailboxes, docid
     FROM message_people p, json_each(p.${list}) e JOIN addresses a ON a.id = e.value`;
  const all = `${of(0, 'senders')} UNION ALL ${of(1, 'recipients')}`;
  return {
    kept: [
      rows(
        db,
        `SELECT address, role, year, mailboxes, messages, last_docid
         FROM correspondents JOIN addresses a ON a.id = address_id ORDER BY 1, 2, 3, 4`,
      ),
      rows(db, 'SELECT address FROM addresses ORDER BY 1'),
    ],
    counted: [
      rows(
        db,
        `SELECT *, count(*), max(docid) FROM (${all}) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
      ).map((row) => (Array.isArray(row) ? row.toSpliced(4, 1) : row)),
      rows(db, `SELECT DISTINCT address FROM (${all}) ORDER BY 1`),
    ],
  };
}

/** Places that each commit opened and ended in each folder. */
export function commitChanges(db: Database.Database): Counted {
  const events = (column: string, from: string, came: 0 | 1) =>
    `SELECT ${column} AS n, folder_id, ${came} AS came FROM ${from} WHERE ${column} IS NOT NULL`;
  const all = [
    events('first_commit', 'places', 1),
    events('to_commit', 'places', 0),
    events('resumed', 'spans', 1),
    events('to_commit', '(SELECT * FROM spans WHERE resumed IS NOT NULL)', 0),
  ].join(' UNION ALL ');
  return {
    kept: rows(
      db,
      'SELECT commit_number, folder_id, came, ended FROM commit_changes ORDER BY 1, 2',
    ),
    counted: rows(
      db,
      `SELECT n, folder_id, total(came), count(*) - total(came) FROM (${all})
       GROUP BY 1, 2 ORDER BY 1, 2`,
    ),
  };
}
