import { catalogFile, openForReading } from './open.ts';

/** The most complaints that are reported; a damaged file has more than anybody reads. */
const MOST_REPORTED = 20;

/**
 * What SQLite itself finds wrong in an archive's catalog; empty when it is sound. Takes as long as reading the file, on
 * a connection of its own, so that it may run on another thread.
 *
 * @throws see `openForReading`
 */
export function wrongStructure(dataDir: string): readonly string[] {
  const connection = openForReading(catalogFile(dataDir));
  try {
    return connection.guard(() => {
      const sql = `PRAGMA quick_check(${MOST_REPORTED})`;
      const rows = connection.db.prepare<unknown[], string>(sql).pluck().all();
      return rows.filter((row) => row !== 'ok');
    });
  } finally {
    connection.close();
  }
}
