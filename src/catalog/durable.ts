import type { Connection } from './connection.ts';
import { CATALOG_VERSION } from './version.ts';

/**
 * See `WritableCatalog.makeDurable`. A checkpoint may find readers in its way; a commit that is synced takes the whole
 * write-ahead log with it.
 */
export function makeDurable(connection: Connection): void {
  const set = (pragma: string) => connection.guard(() => connection.db.pragma(pragma));
  set('synchronous = FULL');
  try {
    // Changes nothing and is written all the same: a row that stays as it was would not be.
    set(`user_version = ${CATALOG_VERSION}`);
  } finally {
    set('synchronous = NORMAL');
  }
}

/** See `WritableCatalog.checkpoint`. */
export function checkpoint(connection: Connection): boolean {
  const rows = connection.guard(() => connection.db.pragma('wal_checkpoint(TRUNCATE)'));
  const row: unknown = Array.isArray(rows) ? rows[0] : undefined;
  return typeof row === 'object' && row !== null && 'busy' in row && row.busy === 0;
}
