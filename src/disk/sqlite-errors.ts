import Database from 'better-sqlite3';
import { catalogError } from '../errors/catalog.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';

/**
 * What SQLite says under its general code when the schema or the index's own settings were damaged: the catalog has
 * the right version, so everything that our statements name should be there. And when bytes are where text was written,
 * which one flipped bit can make of it.
 */
const DAMAGE =
  /^(?:invalid fts5 file format|vtable constructor failed|no such (?:table|column|index)|unsupported file format|table \S+ has no column|JSON cannot hold BLOB values|malformed JSON)/;

function isOfDamage({ code, message }: InstanceType<typeof Database.SqliteError>): boolean {
  return code === 'SQLITE_ERROR' && DAMAGE.test(message);
}

/**
 * Returns the error of ours for an error of SQLite (`catalog-busy`, `catalog-disk-full`, `catalog-damaged`,
 * `catalog-io`), or undefined for one that only a bug can cause.
 */
export function translate(error: unknown, file: string): MailkeepError | undefined {
  if (!(error instanceof Database.SqliteError)) return undefined;
  const { code } = error;
  if (code.startsWith('SQLITE_BUSY')) return catalogError('catalog-busy', { file }, error);
  // Its shared memory is a file as well, whose size it takes beforehand.
  if (code === 'SQLITE_FULL' || code === 'SQLITE_IOERR_SHMSIZE')
    return catalogError('catalog-disk-full', { file }, error);
  if (
    code.startsWith('SQLITE_CORRUPT') ||
    code === 'SQLITE_NOTADB' ||
    // The disk does not give back what was written to it.
    code === 'SQLITE_IOERR_CORRUPTFS' ||
    isOfDamage(error)
  )
    return catalogError('catalog-damaged', { file, reason: code }, error);
  if (
    code.startsWith('SQLITE_IOERR') ||
    code.startsWith('SQLITE_CANTOPEN') ||
    code.startsWith('SQLITE_READONLY')
  )
    return catalogError('catalog-io', { file, reason: code }, error);
  return undefined;
}
