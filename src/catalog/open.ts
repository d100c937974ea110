import { accessSync, constants, readFileSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { makePrivateFile } from '../disk/private-file.ts';
import { translate } from '../disk/sqlite-errors.ts';
import { catalogError } from '../errors/catalog.ts';
import { errnoOf, hasCode } from '../errors/mailkeep-error.ts';
import { Connection } from './connection.ts';

/**
 * The catalog's version: how many migrations make it. A test holds it to the list in `migrations/`; readers
 * must not load that list to compare a number.
 */
export const CATALOG_VERSION = 10;

/** Catalogs of an older version are not migrated: their remedy is a rebuild. */
export const OLDEST_MIGRATED = 1;

/** Returns the path of the catalog in a data directory; SQLite puts `-wal` and `-shm` next to it while it is open. */
export function catalogFile(dataDir: string): string {
  return join(dataDir, 'catalog.sqlite');
}

/** How long a statement waits for another process's short write (a checkpoint), milliseconds. */
const BUSY_TIMEOUT = 5_000;

/** How a catalog is opened. */
export interface CatalogOptions {
  /** Memory for pages, KiB. 16 MiB if not said, which is also what SQLite takes for a reader. */
  readonly cacheKib?: number;
}

const CACHE_KIB = 16_384;

/**
 * Opens the database for the one writer, brought to this program's version. A file that does not exist is made.
 *
 * @throws `catalog-version` when it is too old to migrate or made by a newer program, `catalog-damaged` when it
 *   is no readable database: a rebuild helps in each case
 */
export async function openForWriting(
  file: string,
  { cacheKib = CACHE_KIB }: CatalogOptions = {},
): Promise<Connection> {
  makePrivateFile(file);
  const connection = connect(file, false);
  try {
    const { db } = connection;
    connection.guard(() => {
      // better-sqlite3 is compiled with another default for connections to a database that is WAL already.
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = NORMAL');
      db.pragma('wal_autocheckpoint = 16384');
      db.pragma('journal_size_limit = 67108864');
      db.pragma(`cache_size = -${cacheKib}`);
      // The fold keeps references whole by construction; checking each costs a lookup a row.
      db.pragma('foreign_keys = OFF');
    });
    const found = versionOf(connection);
    if (found !== CATALOG_VERSION) {
      if (found > CATALOG_VERSION || (found !== 0 && found < OLDEST_MIGRATED))
        throw versionError(file, found);
      // Kysely takes tens of milliseconds to load: only a writer that migrates pays for it.
      const { migrate } = await import('./migrate.ts');
      await migrate(connection, found);
    }
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * Opens the database for reading, with or without a writer, and changes nothing. In a directory that cannot be
 * written SQLite cannot create its `-shm` file; unless a writer left one behind, the database is read from memory
 * instead, which shows only what was checkpointed.
 *
 * @throws `catalog-missing`, `catalog-version` (naming the remedy), `catalog-damaged`, `catalog-io`
 */
export function openForReading(file: string, { cacheKib }: CatalogOptions = {}): Connection {
  const stats = statOf(file);
  if (stats === undefined) throw catalogError('catalog-missing', { file });
  // SQLite would wait for a pipe's other end for ever.
  if (!stats.isFile()) throw catalogError('catalog-damaged', { file, reason: 'not a file' });
  let connection = connect(file, true);
  try {
    let found: number;
    try {
      found = versionOf(connection);
    } catch (error) {
      if (!hasCode(error, 'catalog-io') || stats.size > MEMORY_LIMIT) throw error;
      connection.close();
      connection = inMemory(file);
      found = versionOf(connection);
    }
    if (found !== CATALOG_VERSION) throw versionError(file, found);
    const { db } = connection;
    connection.guard(() => db.pragma('query_only = ON'));
    if (cacheKib !== undefined) connection.guard(() => db.pragma(`cache_size = -${cacheKib}`));
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

function statOf(file: string): Stats | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false });
  } catch (error) {
    throw catalogError('catalog-io', { file, reason: errnoOf(error) ?? 'unknown' }, error);
  }
}

/** A larger database is not read into memory. Bytes. */
const MEMORY_LIMIT = 1024 * 1024 * 1024;

function inMemory(file: string): Connection {
  try {
    const bytes = readFileSync(file);
    // The header says that the database is in WAL mode, which memory does not have; 1 is the rollback journal
    // (file format, offsets 18 and 19).
    if (bytes.length > 19) bytes.fill(1, 18, 20);
    return new Connection(new Database(bytes, { readonly: true }), file);
  } catch (error) {
    throw translate(error, file) ?? error;
  }
}

function connect(file: string, readonly: boolean): Connection {
  try {
    const db = new Database(file, { readonly, fileMustExist: readonly, timeout: BUSY_TIMEOUT });
    return new Connection(db, file);
  } catch (error) {
    const known = translate(error, file) ?? error;
    const reason = hasCode(known, 'catalog-io') ? whyNot(file) : undefined;
    throw reason === undefined ? known : catalogError('catalog-io', { file, reason }, error);
  }
}

/**
 * Returns the system's reason why a file cannot be read: SQLite reports only that it cannot be opened. It does not open
 * the file: closing it again would release the locks of this process's connections.
 */
function whyNot(file: string): string | undefined {
  try {
    accessSync(file, constants.R_OK);
    return undefined;
  } catch (error) {
    return errnoOf(error);
  }
}

function versionOf(connection: Connection): number {
  const version = connection.guard(() => connection.db.pragma('user_version', { simple: true }));
  return typeof version === 'number' ? version : 0;
}

function versionError(file: string, found: number) {
  const remedy =
    found > CATALOG_VERSION ? 'upgrade' : found < OLDEST_MIGRATED ? 'rebuild' : 'write';
  return catalogError('catalog-version', { file, found, expected: CATALOG_VERSION, remedy });
}
