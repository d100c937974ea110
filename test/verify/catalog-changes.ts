import Database from 'better-sqlite3';

/** A change of one value, or the removal of one row. */
interface Change {
  readonly table: string;
  readonly column: string;
  readonly change: (db: Database.Database) => unknown;
}

/** Tables that are compared with what the log implies. */
export const TABLES = [
  ...['meta', 'commits', 'mailboxes', 'folders', 'folder_spans', 'generations', 'flag_sets'],
  ...['messages', 'places', 'spans', 'records', 'quarantine', 'certificates', 'events'],
];

/** Every column of the first and the last row and of some in between, and each of these rows gone. */
export function changes(sound: string): Change[] {
  const db = new Database(sound, { readonly: true });
  const all: Change[] = [];
  for (const table of TABLES) {
    const columns = db.pragma(`table_info(${table})`) as {
      name: string;
      type: string;
      pk: number;
    }[];
    const keys = columns.filter(({ pk }) => pk > 0).map(({ name }) => name);
    const rows = db.prepare(`SELECT * FROM ${table}`).all() as Record<string, unknown>[];
    const step = Math.max(1, Math.floor(rows.length / 4));
    for (const row of rows.filter((_, i) => i % step === 0 || i === rows.length - 1)) {
      const where = keys.map((key) => `${key} = ?`).join(' AND ');
      const key = keys.map((name) => row[name]);
      for (const { name, type } of columns) {
        const sql = `UPDATE ${table} SET "${name}" = ? WHERE ${where}`;
        const value = another(row[name], type);
        all.push({ table, column: name, change: (to) => to.prepare(sql).run(value, ...key) });
      }
      const sql = `DELETE FROM ${table} WHERE ${where}`;
      all.push({ table, column: '-', change: (to) => to.prepare(sql).run(...key) });
    }
  }
  db.close();
  return all;
}

function another(value: unknown, type: string): unknown {
  if (typeof value === 'number') return value + 1;
  if (typeof value === 'string') return `${value}x`;
  if (Buffer.isBuffer(value))
    return Buffer.from(value.map((byte, i) => (i === 0 ? byte ^ 1 : byte)));
  return type === 'INTEGER' ? 7 : type === 'BLOB' ? Buffer.from([7]) : 'x';
}
