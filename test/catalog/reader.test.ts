import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openCatalog, openCatalogReader } from '../../src/catalog/catalog.ts';
import { CATALOG_VERSION, catalogFile, openForWriting } from '../../src/catalog/database.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import {
  appeared,
  entry,
  folder,
  History,
  INBOX,
  mailbox,
  place,
  temporaryDir,
} from './history.ts';

describe('opening the catalog', () => {
  let room: ReturnType<typeof temporaryDir>;
  beforeEach(() => {
    room = temporaryDir();
  });
  afterEach(() => room.remove());

  const thrownBy = async (act: () => unknown): Promise<MailkeepError> => {
    try {
      await act();
    } catch (error) {
      if (error instanceof MailkeepError) return error;
      throw error;
    }
    throw new Error('nothing was thrown');
  };
  const setVersion = (version: number) => {
    const db = new Database(catalogFile(room.dir));
    db.pragma(`user_version = ${version}`);
    db.close();
  };

  test('every opening is WAL and NORMAL, the second one too', async () => {
    for (let i = 0; i < 2; i += 1) {
      const connection = await openForWriting(catalogFile(room.dir));
      expect(connection.db.pragma('journal_mode', { simple: true })).toBe('wal');
      expect(connection.db.pragma('synchronous', { simple: true })).toBe(1);
      connection.close();
    }
  });

  test('SQLite is new enough for contentless deletes and large rowids', () => {
    const db = new Database(':memory:');
    const version = db.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? '';
    db.close();
    const [major = 0, minor = 0] = version.split('.').map(Number);
    expect(major * 1000 + minor).toBeGreaterThanOrEqual(3043);
  });

  test('a reader says what to do where there is no catalog', async () => {
    const error = await thrownBy(() => openCatalogReader(room.dir));
    expect(error.code).toBe('catalog-missing');
  });

  test.each([
    [CATALOG_VERSION + 1, 'upgrade'],
    [CATALOG_VERSION - 1, 'write'],
    [0, 'rebuild'],
  ])('a reader that meets version %i names the remedy: %s', async (version, remedy) => {
    (await openCatalog(room.dir)).close();
    setVersion(version);
    const error = await thrownBy(() => openCatalogReader(room.dir));
    expect(error.code).toBe('catalog-version');
    expect(error.facts).toMatchObject({ found: version, expected: CATALOG_VERSION, remedy });
  });

  test.each([1, -1])('a writer refuses another version (%i) and leaves it as it is', async (by) => {
    (await openCatalog(room.dir)).close();
    setVersion(CATALOG_VERSION + by);
    expect((await thrownBy(() => openCatalog(room.dir))).code).toBe('catalog-version');
    const db = new Database(catalogFile(room.dir));
    expect(db.pragma('user_version', { simple: true })).toBe(CATALOG_VERSION + by);
    db.close();
  });

  test('a file that is no database is damage, for reader and writer', async () => {
    writeFileSync(catalogFile(room.dir), 'x'.repeat(10_000));
    for (const open of [openCatalog, openCatalogReader]) {
      const error = await thrownBy(() => open(room.dir));
      expect([error.code, error.family]).toEqual(['catalog-damaged', 'damage']);
    }
  });

  test('a reader works while the writer writes, and sees each batch whole', async () => {
    const writer = await openCatalog(room.dir);
    const history = new History();
    writer.foldBatch(history.commit([mailbox(INBOX, 'me@example.net'), folder(INBOX)]));
    const reader = openCatalogReader(room.dir);
    const walk = reader.list({});
    expect(walk.next().done).toBe(true);
    for (let i = 1; i <= 3; i += 1) {
      writer.foldBatch(history.commit([appeared(place(INBOX, i), `m${i}`)]));
      expect([...reader.list({})]).toHaveLength(i);
    }
    // A walk that is under way stays with what it began with.
    const under = reader.list({});
    under.next();
    writer.foldBatch(history.commit([appeared(place(INBOX, 4), 'm4')]));
    expect([...under]).toHaveLength(2);
    expect(reader.reached()).toMatchObject({ number: 5 });
    reader.close();
    writer.close();
  });

  test('where SQLite gets no room for its -shm file, the database is read all the same', async () => {
    const writer = await openCatalog(room.dir);
    const history = new History();
    writer.foldBatch(
      history.commit([mailbox(INBOX, 'a@b'), folder(INBOX), appeared(place(INBOX, 1), 'a')]),
    );
    writer.close();
    // As in a directory that cannot be written; root could write there, so a directory stands in the way.
    mkdirSync(`${catalogFile(room.dir)}-shm`);
    const reader = openCatalogReader(room.dir);
    expect([...reader.list({})]).toHaveLength(1);
    reader.close();
  });

  test('a reader needs no writer, and changes nothing', async () => {
    const writer = await openCatalog(room.dir);
    const history = new History();
    writer.foldBatch(
      history.commit([
        mailbox(INBOX, 'me@example.net'),
        folder(INBOX),
        appeared(place(INBOX, 1), 'a'),
      ]),
    );
    writer.index.index(
      writer.index
        .pending({ limit: 10 })
        .map(({ docid }) => ({ docid, entry: entry({ body: 'hello there' }) })),
    );
    writer.close();
    // Where it is called to must not matter.
    const moved = join(room.dir, 'a folder #1? 100%');
    mkdirSync(moved);
    renameSync(catalogFile(room.dir), catalogFile(moved));
    const reader = openCatalogReader(moved);
    const { node } = parseQuery('hello', { now: 0 });
    expect(reader.prepare({ node }).page({ limit: 5, sort: 'newest' }).hits).toHaveLength(1);
    reader.close();
  });
});
