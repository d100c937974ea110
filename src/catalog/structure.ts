import { miscounted, miscountedSums } from './counted-rows.ts';
import { contradictions } from './indexed-rows.ts';
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

/**
 * Returns the first table of an archive's catalog that contradicts another one, as a list of one; empty when none does.
 * Reads on a connection of its own, so that it may run on another thread.
 *
 * @throws see `openForReading`
 */
export function contradictingTables(dataDir: string): readonly string[] {
  const connection = openForReading(catalogFile(dataDir));
  try {
    // One state for all: rows that another process writes meanwhile contradict nothing.
    return connection.snapshot(() => {
      for (const { table } of contradictions(connection)) return [table];
      for (const { table } of miscountedSums(connection)) return [table];
      for (const found of miscounted(connection)) if (found !== 'turn') return [found.table];
      return [];
    });
  } finally {
    connection.close();
  }
}
