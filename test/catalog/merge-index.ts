import Database from 'better-sqlite3';

/** Merges the segments of a catalog's index: a slice of about `pages` pages after the other, or all at once. */
export function mergeIndex(file: string, pages?: number): void {
  const db = new Database(file);
  try {
    const changes = () => db.prepare<[], number>('SELECT total_changes()').pluck().get() ?? 0;
    if (pages === undefined) {
      db.exec("INSERT INTO msg_fts (msg_fts) VALUES ('optimize')");
      return;
    }
    for (;;) {
      const before = changes();
      db.exec(`INSERT INTO msg_fts (msg_fts, rank) VALUES ('merge', ${pages})`);
      // The statement itself counts as one change; any more is merging (SQLite's own rule).
      if (changes() - before < 2) return;
    }
  } finally {
    db.close();
  }
}
