import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { makePrivateFile } from '../disk/private-file.ts';
import { translate } from '../disk/sqlite-errors.ts';
import { catalogError } from '../errors/catalog.ts';
import { hasCode } from '../errors/mailkeep-error.ts';
import type { MailboxKey } from '../mail/words.ts';
import { makeRunTable, type RunJournal, runJournal } from './runs.ts';
import { mailboxKey, parseValue, type ScopeName, type ScopeValue, scopesOf } from './scopes.ts';
import { travellingCopy } from './travelling.ts';

/**
 * What is convenient to remember and no part of the archive: proofs, coverage, learned rules, the limiter,
 * backoffs. One table of JSON texts in `state.sqlite`, and one of runs; when the file is gone, all of the first is
 * learned again.
 */
export interface StateFile {
  /** Returns what was set, as its scope parses it: another version of the program may have written something else. */
  get<S extends ScopeName>(scope: S, key: string): ScopeValue<S> | undefined;
  /** Returns every key of a scope with its value, as the scope parses it, in the order of keys. */
  entries<S extends ScopeName>(scope: S): { readonly key: string; readonly value: ScopeValue<S> }[];
  /** Null and undefined forget. */
  set(scope: ScopeName, key: string, value: unknown): void;
  /** Reads and writes in one transaction: what other processes write comes before all of it or after. */
  together<T>(act: () => T): T;
  /** What was done and when. */
  readonly runs: RunJournal;
  /** Returns the bytes of a state file with what another machine may have of this one; see `travellingCopy`. */
  travelling(): Buffer;
  close(): void;
}

const VERSION = 1;
const BUSY_TIMEOUT = 5_000;

/** The state's file in a data directory. */
export function stateFile(dataDir: string): string {
  return path.join(dataDir, 'state.sqlite');
}

/**
 * Opens the state for the writer of the archive. A file that SQLite cannot read is moved aside and a new one
 * begun: nothing in it is needed, but the user may want to inspect it.
 *
 * @param movedAside called with the path that the damaged file was moved to
 * @throws `catalog-io`, `catalog-disk-full`, `catalog-busy` when the disk is the trouble, not the content
 */
export function openState(dataDir: string, movedAside?: (file: string) => void): StateFile {
  const file = stateFile(dataDir);
  try {
    return over(openForWriting(file), file);
  } catch (error) {
    if (!isUnreadable(error)) throw translate(error, file) ?? error;
    const aside = freeName(`${file}.damaged`);
    renameSync(file, aside);
    // They belong to the damaged file, and would be replayed into the new one.
    for (const name of [`${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
    movedAside?.(aside);
    return over(openForWriting(file), file);
  }
}

/** Opens the state for reading, with or without a writer; undefined where there is none that can be read. */
export function readState(dataDir: string): StateFile | undefined {
  return openIfUsable(dataDir, { readonly: true });
}

/** Returns whether there is a state file, whatever is in it: one that `readState` does not open cannot be read. */
export function hasState(dataDir: string): boolean {
  return isFile(stateFile(dataDir));
}

/** Returns what is wrong with the content of the state file; undefined where nothing is, or it cannot be looked at. */
export function stateDamage(dataDir: string): string | undefined {
  const file = stateFile(dataDir);
  if (!existsSync(file)) return undefined;
  if (!isFile(file)) return 'it is not a regular file';
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { readonly: true, fileMustExist: true, timeout: BUSY_TIMEOUT });
    const found = database.pragma('quick_check(1)', { simple: true });
    if (found !== 'ok') return String(found);
    if (database.pragma('user_version', { simple: true }) === VERSION) over(database, file);
    return undefined;
  } catch (error) {
    const known = translate(error, file);
    if (known?.code === 'catalog-damaged') return error instanceof Error ? error.message : '';
    if (known !== undefined) return undefined;
    throw error;
  } finally {
    database?.close();
  }
}

/**
 * Opens the state while another process may be its writer, to store something of one's own: only a file that exists
 * and can be written. Undefined otherwise; creating, mending and putting aside are left to the writer.
 */
export function openExistingState(dataDir: string): StateFile | undefined {
  return openIfUsable(dataDir, { readonly: false });
}

function openIfUsable(
  dataDir: string,
  { readonly }: { readonly readonly: boolean },
): StateFile | undefined {
  const file = stateFile(dataDir);
  if (!isFile(file)) return undefined;
  let database: Database.Database | undefined;
  try {
    database = new Database(file, { readonly, fileMustExist: true, timeout: BUSY_TIMEOUT });
    // A read-only file system fails only at the first write.
    if (!readonly) database.exec('BEGIN IMMEDIATE; ROLLBACK');
    refuseNewer(database, file);
    if (database.pragma('user_version', { simple: true }) === VERSION) return over(database, file);
  } catch (error) {
    database?.close();
    if (error instanceof Database.SqliteError) return undefined;
    throw error;
  }
  database.close();
  return undefined;
}

/**
 * Rewrites the state without what was deleted from it: SQLite leaves that in free pages. The caller holds the
 * archive's lock. Files that were put aside as unreadable are removed.
 *
 * Scopes whose keys are places are forgotten, since these may be places of what was forgotten; they are learned again.
 *
 * @param mailboxes the mailboxes in the archive; entries about other mailboxes are deleted
 */
export function scrubState(dataDir: string, mailboxes: readonly MailboxKey[]): void {
  const file = stateFile(dataDir);
  for (const name of readdirSync(dataDir)) {
    if (name.startsWith('state.sqlite.damaged'))
      rmSync(path.join(dataDir, name), { recursive: true });
  }
  if (!existsSync(file)) return;
  try {
    const database = openForWriting(file);
    try {
      const drop = database.prepare('DELETE FROM remembered WHERE scope = ?');
      for (const scope of scopesOf('place')) drop.run(scope);
      dropUnknownMailboxes(database, mailboxes);
      // What unfinished restores have appended, by hash: a restore recognises it by content as well.
      if (hasTable(database, 'restored')) database.exec('DELETE FROM restored');
      database.exec('VACUUM');
      database.pragma('wal_checkpoint(TRUNCATE)');
    } finally {
      database.close();
    }
  } catch (error) {
    throw translate(error, file) ?? error;
  }
}

/** Deletes entries about mailboxes that are not in the archive. A sync would otherwise treat them as complete. */
function dropUnknownMailboxes(database: Database.Database, known: readonly MailboxKey[]): void {
  const beginning = (text: string) => /^\["(?:[^"\\]|\\.)*","(?:[^"\\]|\\.)*"/.exec(text)?.[0];
  const begins = new Set(known.map((one) => beginning(mailboxKey(one))));
  const drop = database.prepare('DELETE FROM remembered WHERE scope = ? AND key = ?');
  const kinds = ['generation', 'folder', 'missing-folder', 'folder-or-mailbox', 'mailbox'] as const;
  for (const scope of kinds.flatMap((kind): ScopeName[] => scopesOf(kind))) {
    const keys = database
      .prepare<[string], string>('SELECT key FROM remembered WHERE scope = ?')
      .pluck()
      .all(scope);
    for (const key of keys) if (!begins.has(beginning(key))) drop.run(scope, key);
  }
}

function hasTable(database: Database.Database, name: string): boolean {
  const sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?";
  return database.prepare<unknown[]>(sql).get(name) !== undefined;
}

function openForWriting(file: string): Database.Database {
  makePrivateFile(file);
  const database = new Database(file, { timeout: BUSY_TIMEOUT });
  try {
    refuseNewer(database, file);
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    if (database.pragma('user_version', { simple: true }) !== VERSION) begin(database);
    makeRunTable(database);
    const check = database.pragma('quick_check(1)', { simple: true });
    if (check !== 'ok') throw new UnreadableState();
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** A newer program may have what people made in it. @throws catalog-version */
function refuseNewer(database: Database.Database, file: string): void {
  const found = Number(database.pragma('user_version', { simple: true }));
  if (found <= VERSION) return;
  throw catalogError('catalog-version', { file, found, expected: VERSION, remedy: 'upgrade' });
}

/** What an older version left is not migrated: it is learned again. */
function begin(database: Database.Database): void {
  database.transaction(() => {
    database.exec('DROP TABLE IF EXISTS remembered');
    database.exec(
      'CREATE TABLE remembered (scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, key)) WITHOUT ROWID',
    );
    database.pragma(`user_version = ${VERSION}`);
  })();
}

/** Refuses pipes, whose other end SQLite would await for ever. False also below a file or an unreadable folder. */
function isFile(file: string): boolean {
  return existsSync(file) && statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

class UnreadableState extends Error {}

function isUnreadable(error: unknown): boolean {
  if (error instanceof UnreadableState || hasCode(error, 'catalog-damaged')) return true;
  return error instanceof Database.SqliteError && /^SQLITE_(CORRUPT|NOTADB)/.test(error.code);
}

function freeName(stem: string): string {
  for (let n = 1; ; n += 1) if (!existsSync(`${stem}-${n}`)) return `${stem}-${n}`;
}

/** Errors of the disk come out as catalog errors: `catalog-disk-full`, `catalog-io`, `catalog-busy`. */
function over(database: Database.Database, file: string): StateFile {
  const guard = <T>(act: () => T): T => {
    try {
      return act();
    } catch (error) {
      throw translate(error, file) ?? error;
    }
  };
  const find = database
    .prepare<[string, string], string>('SELECT value FROM remembered WHERE scope = ? AND key = ?')
    .pluck();
  const list = database.prepare<[string], { key: string; value: string }>(
    'SELECT key, value FROM remembered WHERE scope = ? ORDER BY key',
  );
  return {
    get(scope, key) {
      const text = guard(() => find.get(scope, key));
      return text === undefined ? undefined : parseValue(scope, parseJson(text));
    },
    entries: (scope) =>
      guard(() => list.all(scope)).flatMap(({ key, value: text }) => {
        const value = parseValue(scope, parseJson(text));
        return value === undefined ? [] : [{ key, value }];
      }),
    set(scope, key, value) {
      guard(() =>
        value === null || value === undefined
          ? database.prepare('DELETE FROM remembered WHERE scope = ? AND key = ?').run(scope, key)
          : database
              .prepare('REPLACE INTO remembered (scope, key, value) VALUES (?, ?, ?)')
              .run(scope, key, JSON.stringify(value)),
      );
    },
    together: (act) => guard(() => database.transaction(act).immediate()),
    runs: runJournal(database, guard),
    travelling: () => guard(() => travellingCopy(database, begin)),
    close: () => database.close(),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not ours then; as good as nothing remembered.
    return undefined;
  }
}
