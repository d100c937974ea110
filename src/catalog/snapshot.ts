import { closeSync, openSync, rmSync } from 'node:fs';
import { translate } from '../disk/sqlite-errors.ts';
import { catalogError } from '../errors/catalog.ts';
import { errnoOf } from '../errors/mailkeep-error.ts';
import type { Connection } from './connection.ts';

/** See `WritableCatalog.snapshotInto`. */
export function snapshotInto(connection: Connection, file: string): void {
  try {
    // SQLite would make it by the process's umask.
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    throw catalogError('catalog-io', { file, reason: errnoOf(error) ?? 'unknown' }, error);
  }
  try {
    connection.db.prepare('VACUUM INTO ?').run(file);
  } catch (error) {
    rmSync(file, { force: true });
    throw translate(error, file) ?? error;
  }
}
