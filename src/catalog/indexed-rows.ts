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

const RULES: readonly Rule[] = [
  ...['texts', 'thread_members', 'attachments'].map((table) => ({
    table,
    difference: 'surplus' as const,
    columns: [],
    key: 'docid',
    sql: `SELECT docid, docid FROM ${table} WHERE docid NOT IN (SELECT docid FROM messages)`,
  })),
  ...['texts', 'thread_members'].map((table) => ({
    table,
    difference: 'lacking' as const,
    columns: [],
    key: 'docid',
    sql: `SELECT docid, docid FROM messages WHERE extractor > 0 AND docid NOT IN (SELECT docid FROM ${table})`,
  })),
  {
    table: 'msg_fts',
    difference: 'lacking',
    columns: [],
    key: 'docid',
    sql: 'SELECT docid, docid FROM messages WHERE extractor > 0 AND docid NOT IN (SELECT id FROM msg_fts_docsize)',
  },
  {
    table: 'msg_fts',
    difference: 'surplus',
    columns: [],
    key: 'docid',
    sql: 'SELECT id, id FROM msg_fts_docsize WHERE id NOT IN (SELECT docid FROM messages)',
  },
  {
    table: 'thread_members',
    difference: 'different',
    columns: ['thread'],
    key: 'docid',
    sql: `SELECT m.docid, m.docid FROM thread_members m LEFT JOIN thread_nodes n USING (node)
          WHERE n.thread IS NOT m.thread`,
  },
  {
    table: 'thread_members',
    difference: 'different',
    columns: ['ancestors'],
    key: 'docid',
    sql: `SELECT docid, docid FROM thread_members WHERE length(ancestors) % ${PACKED_ANCESTOR_BYTES} <> 0`,
  },
  {
    table: 'thread_nodes',
    difference: 'surplus',
    columns: [],
    key: 'node',
    sql: 'SELECT NULL, node FROM thread_nodes WHERE thread NOT IN (SELECT thread FROM thread_members)',
  },
  {
    table: 'attachment_texts',
    difference: 'lacking',
    columns: [],
    key: 'text_id',
    sql: 'SELECT docid, text_id FROM attachments WHERE text_id NOT IN (SELECT id FROM attachment_texts)',
  },
  {
    table: 'attachment_texts',
    difference: 'surplus',
    columns: [],
    key: 'id',
    sql: 'SELECT NULL, id FROM attachment_texts WHERE id NOT IN (SELECT text_id FROM attachments)',
  },
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
