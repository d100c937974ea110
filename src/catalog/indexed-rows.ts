import type { RowDifference } from './comparison.ts';
import type { Connection } from './connection.ts';

/** What has to be true between the tables that indexing writes: rows that it finds are wrong. */
interface Rule {
  readonly table: string;
  readonly difference: RowDifference['difference'];
  /** Columns that are wrong; none where the whole row is lacking or surplus. */
  readonly columns: readonly string[];
  /** Gives the docid, or null, and then the row's key. */
  readonly sql: string;
  readonly key: string;
}

const PACKED_ANCESTOR_BYTES = 6;

/** A rule about rows that `docid` names and that are wrong as a whole, unless `more` says otherwise. */
function rule(
  table: string,
  difference: Rule['difference'],
  sql: string,
  more: Partial<Pick<Rule, 'columns' | 'key'>> = {},
): Rule {
  return { table, difference, sql, columns: [], key: 'docid', ...more };
}

const RULES: readonly Rule[] = [
  ...['texts', 'thread_members', 'attachments', 'message_people'].map((table) =>
    rule(
      table,
      'surplus',
      `SELECT docid, docid FROM ${table} WHERE docid NOT IN (SELECT docid FROM messages)`,
    ),
  ),
  ...['texts', 'thread_members', 'message_people'].map((table) =>
    rule(
      table,
      'lacking',
      `SELECT docid, docid FROM messages WHERE extractor > 0 AND docid NOT IN (SELECT docid FROM ${table})`,
    ),
  ),
  rule(
    'msg_fts',
    'lacking',
    'SELECT docid, docid FROM messages WHERE extractor > 0 AND docid NOT IN (SELECT id FROM msg_fts_docsize)',
  ),
  rule(
    'msg_fts',
    'surplus',
    'SELECT id, id FROM msg_fts_docsize WHERE id NOT IN (SELECT docid FROM messages)',
  ),
  rule(
    'thread_members',
    'different',
    `SELECT m.docid, m.docid FROM thread_members m LEFT JOIN thread_nodes n USING (node)
     WHERE n.thread IS NOT m.thread`,
    { columns: ['thread'] },
  ),
  rule(
    'thread_members',
    'different',
    `SELECT docid, docid FROM thread_members WHERE length(ancestors) % ${PACKED_ANCESTOR_BYTES} <> 0`,
    { columns: ['ancestors'] },
  ),
  rule(
    'thread_nodes',
    'surplus',
    'SELECT NULL, node FROM thread_nodes WHERE thread NOT IN (SELECT thread FROM thread_members)',
    { key: 'node' },
  ),
  // Numbers have no gaps, and the index knows which messages have attachments.
  rule(
    'attachments',
    'lacking',
    `SELECT docid, docid FROM attachments WHERE docid IN (SELECT docid FROM messages WHERE extractor > 0)
     GROUP BY docid HAVING max(number) <> count(*)`,
  ),
  rule(
    'attachments',
    'lacking',
    // Without the plus, FTS5 searches the words once for each message.
    `SELECT rowid, rowid FROM msg_fts WHERE msg_fts MATCH 'meta : (zatt OR zinline)'
      AND +rowid IN (SELECT docid FROM messages WHERE extractor > 0)
      AND +rowid NOT IN (SELECT docid FROM attachments)`,
  ),
  rule(
    'addresses',
    'surplus',
    'SELECT NULL, id FROM addresses WHERE id NOT IN (SELECT address_id FROM correspondents)',
    { key: 'id' },
  ),
  rule(
    'addresses',
    'lacking',
    'SELECT NULL, address_id FROM correspondents WHERE address_id NOT IN (SELECT id FROM addresses)',
    { key: 'address_id' },
  ),
  rule(
    'attachment_texts',
    'lacking',
    'SELECT docid, text_id FROM attachments WHERE text_id IS NOT NULL AND text_id NOT IN (SELECT id FROM attachment_texts)',
    { key: 'text_id' },
  ),
  rule(
    'attachment_texts',
    'surplus',
    'SELECT NULL, id FROM attachment_texts WHERE id NOT IN (SELECT text_id FROM attachments WHERE text_id IS NOT NULL)',
    { key: 'id' },
  ),
];

/**
 * Searches a catalog's index for rows that contradict each other: threads without their messages, texts without a
 * message, messages that are marked as indexed and are not.
 *
 * What indexing writes follows from the log as well, but only by parsing every message with the version of the
 * extractor that did it, which is a rebuild; so these rows are not compared with the log, but with each other.
 */
export function* contradictions(grown: Connection): Generator<RowDifference, void, undefined> {
  for (const { table, difference, columns, key, sql } of RULES) {
    for (const [docid, name] of grown.values<[number | null, number]>(sql)) {
      yield { table, difference, columns, key: { [key]: name }, docid, position: null };
    }
  }
}
