import Database from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { expect, test } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { openCatalog, openCatalogReader } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/open.ts';
import { parseQuery } from '../../src/search/parse.ts';
import { extraction, temporaryDir } from './history.ts';

const DOCID = 1_700_000_000 * 64;

/** The first version's catalog with one indexed message, as its program left it. */
async function firstVersion(dir: string): Promise<void> {
  const db = new Database(catalogFile(dir));
  await migrations['0001_catalog']?.up(
    new Kysely<unknown>({ dialect: new SqliteDialect({ database: db }) }),
  );
  db.exec(`
    PRAGMA user_version = 1;
    UPDATE meta SET extractor = 1, messages = 1;
    INSERT INTO commits VALUES (1, 0);
    INSERT INTO mailboxes VALUES (1, 'h', 'AC1', 'me@example.net', 1);
    INSERT INTO folders VALUES (1, 1, 'INBOX', 'INBOX', '.', NULL, 1, NULL);
    INSERT INTO flag_sets VALUES (1, '[]', 0);
    INSERT INTO messages VALUES (${DOCID}, x'ab', 9, 0, 'Plan', NULL, NULL, '<a@example.org>', 1, 1, 1);
    INSERT INTO places VALUES (1, 1, 1, 1, ${DOCID}, 1, NULL, 1, 1, 0, x'', NULL, 0, 0, NULL);
    INSERT INTO msg_fts (rowid, body, meta) VALUES (${DOCID}, 'old words', 'zall');
    INSERT INTO text_blocks VALUES (1, 0, x'');
    INSERT INTO texts VALUES (${DOCID}, NULL, 1, 0, 0);`);
  db.close();
}

test('a catalog of the first version goes on: found as before, and indexed anew in its time', async () => {
  const room = temporaryDir();
  await firstVersion(room.dir);
  expect(() => openCatalogReader(room.dir)).toThrow(
    expect.objectContaining({ facts: expect.objectContaining({ found: 1, remedy: 'write' }) }),
  );
  const catalog = await openCatalog(room.dir);
  const found = (query: string) => catalog.countHits({ node: parseQuery(query, { now: 0 }).node });
  expect(found('"old words"')).toBe(1);
  expect(catalog.index.pending({ limit: 9 })).toEqual([{ docid: DOCID, id: 'ab', size: 9 }]);
  catalog.index.index([{ docid: DOCID, extraction: extraction({ body: 'new words' }) }]);
  expect([found('"old words"'), found('"new words"')]).toEqual([0, 1]);
  expect(catalog.index.pendingCount()).toBe(0);
  catalog.close();
  room.remove();
});
