import { readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openCatalog, openCatalogReader } from '../../src/catalog/catalog.ts';
import {
  catalogFile,
  openForReading,
  openForWriting,
  snapshotInto,
} from '../../src/catalog/database.ts';
import { appeared, folder, History, INBOX, mailbox, place, temporaryDir } from './history.ts';

let room: ReturnType<typeof temporaryDir>;
beforeEach(() => {
  room = temporaryDir();
});
afterEach(() => room.remove());

async function written() {
  const catalog = await openCatalog(room.dir);
  const history = new History();
  catalog.foldBatch(history.commit([mailbox(INBOX, 'me@example.net'), folder(INBOX)]));
  for (let uid = 1; uid <= 5; uid += 1) {
    catalog.foldBatch(history.commit([appeared(place(INBOX, uid), `m${uid}`)]));
  }
  return { catalog, history };
}

/** Copies the catalog through a connection of its own. */
function copyTo(file: string, isWithinTransaction = false): void {
  const connection = openForReading(catalogFile(room.dir));
  connection.db.pragma('query_only = OFF');
  if (isWithinTransaction) connection.db.exec('BEGIN');
  try {
    snapshotInto(connection, file);
  } finally {
    connection.close();
  }
}

/** Every row of every table that SQLite can walk. */
function rows(file: string): Record<string, unknown[]> {
  const db = new Database(file, { readonly: true });
  const tables = db
    .prepare<[], string>(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'`,
    )
    .pluck()
    .all();
  const found = tables.map((table) => [table, db.prepare(`SELECT * FROM "${table}"`).all()]);
  db.close();
  return Object.fromEntries(found);
}

test('a snapshot is a catalog with the same rows, and nobody else may read it', async () => {
  const { catalog, history } = await written();
  const reader = openCatalogReader(room.dir);
  const walk = reader.list({});
  walk.next();
  const file = join(room.dir, "it's a snapshot.sqlite");
  copyTo(file);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const before = rows(catalogFile(room.dir));
  expect(Object.keys(before).length).toBeGreaterThan(10);
  expect(rows(file)).toEqual(before);
  // What comes later is not in it.
  const reached = catalog.reached();
  catalog.foldBatch(history.commit([appeared(place(INBOX, 6), 'm6')]));
  walk.return?.();
  reader.close();
  catalog.close();

  const elsewhere = temporaryDir();
  renameSync(file, catalogFile(elsewhere.dir));
  const taken = await openCatalog(elsewhere.dir);
  expect(taken.reached()).toEqual(reached);
  const last = history.batches.at(-1);
  if (last !== undefined) taken.foldBatch(last);
  expect([...taken.list({})]).toHaveLength(6);
  taken.close();
  expect(rows(catalogFile(elsewhere.dir))).toEqual(rows(catalogFile(room.dir)));
  elsewhere.remove();
});

test('a snapshot replaces no file, and leaves none that is not complete', async () => {
  const { catalog } = await written();
  const file = join(room.dir, 'there.sqlite');
  writeFileSync(file, '');
  const refused = { code: 'catalog-io', facts: { file, reason: 'EEXIST' } };
  expect(() => copyTo(file)).toThrow(expect.objectContaining(refused));
  expect(statSync(file).size).toBe(0);
  const nowhere = join(room.dir, 'no', 'folder.sqlite');
  expect(() => copyTo(nowhere)).toThrow(
    expect.objectContaining({ code: 'catalog-io', facts: { file: nowhere, reason: 'ENOENT' } }),
  );
  const half = join(room.dir, 'half.sqlite');
  // SQLite refuses within a transaction, when the file has been made.
  expect(() => copyTo(half, true)).toThrow();
  expect(readdirSync(room.dir)).not.toContain('half.sqlite');
  copyTo(half);
  catalog.close();
});

test('the memory for pages is an option of a reader', async () => {
  const file = catalogFile(room.dir);
  const size = (connection: Awaited<ReturnType<typeof openForWriting>>) => {
    const pages = connection.db.pragma('cache_size', { simple: true });
    connection.close();
    return pages;
  };
  expect(size(await openForWriting(file))).toBe(-16_384);
  expect(size(openForReading(file))).toBe(-16_000);
  expect(size(openForReading(file, { cacheKib: 512 }))).toBe(-512);
  (await openCatalog(room.dir)).close();
  openCatalogReader(room.dir, file, { cacheKib: 1_024 }).close();
});
