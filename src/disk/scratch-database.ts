import Database from 'better-sqlite3';

/** Opens a temporary database that SQLite keeps private and removes with the process. */
export function scratchDatabase(schema: string): Database.Database {
  const db = new Database('');
  db.pragma('journal_mode = OFF');
  db.pragma('synchronous = OFF');
  db.exec(schema);
  return db;
}
