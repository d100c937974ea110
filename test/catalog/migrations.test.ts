import { brotliCompressSync } from 'node:zlib';
import Database from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { expect, test } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { openCatalog, openCatalogReader, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { commitChanges, placeSets, receivedDays, WITHOUT_SUMS } from './counted.ts';
import {
  appeared,
  attachment,
  entry,
  folder,
  History,
  INBOX,
  mailbox,
  place,
  sha256,
  temporaryDir,
} from './history.ts';

const DOCID = 1_700_000_000 * 64;

/** Takes one step, and returns the ids of the messages that are due then. */
async function stepped(db: Database.Database, step: keyof typeof migrations): Promise<string[]> {
  const kysely = new Kysely<unknown>({ dialect: new SqliteDialect({ database: db }) });
  await migrations[step]?.up(kysely);
  db.pragma(`user_version = ${Number(step.slice(0, 4))}`);
  return db
    .prepare<[], string>('SELECT lower(hex(id)) FROM messages WHERE extractor <= 0 ORDER BY 1')
    .pluck()
    .all();
}

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

test('a catalog of the first version is migrated: searches find the same, and a later pass reindexes it', async () => {
  const room = temporaryDir();
  await firstVersion(room.dir);
  expect(() => openCatalogReader(room.dir)).toThrow(
    expect.objectContaining({ facts: expect.objectContaining({ found: 1, remedy: 'write' }) }),
  );
  const catalog = await openCatalog(room.dir);
  const found = (query: string) => catalog.countHits({ node: parseQuery(query, { now: 0 }).node });
  expect(found('"old words"')).toBe(1);
  expect(catalog.index.pending({ limit: 9 })).toEqual([{ docid: DOCID, id: 'ab', size: 9 }]);
  catalog.index.index([{ docid: DOCID, entry: entry({ body: 'new words' }) }]);
  expect([found('"old words"'), found('"new words"')]).toEqual([0, 1]);
  expect(catalog.index.pendingCount()).toBe(0);
  catalog.close();
  room.remove();
});

test('a catalog that kept its texts in brotli is read as it is, and stores new ones in zstd', async () => {
  const room = temporaryDir();
  const history = new History();
  const before = await openCatalog(room.dir);
  before.foldBatch(
    history.commit([
      mailbox(INBOX, 'me@example.net'),
      folder(INBOX),
      appeared(place(INBOX, 1), 'old'),
    ]),
  );
  const index = (catalog: WritableCatalog, body: string, message: string) =>
    catalog.index.index(
      catalog.index
        .pending({ limit: 9 })
        .filter(({ id }) => id === sha256(message))
        .map(({ docid }) => ({ docid, entry: entry({ body, attachments: [attachment(1)] }) })),
    );
  index(before, 'an old plan', 'old');
  const [waiting] = before.attachments.pending({ limit: 9 });
  const outcome = { status: 'done', text: 'an old drawing', truncated: false } as const;
  before.attachments.settle(waiting?.textId ?? 0, outcome);
  index(before, 'an old plan', 'old');
  before.close();
  const db = new Database(catalogFile(room.dir));
  db.prepare('UPDATE texts SET text = ?').run(brotliCompressSync('an old plan'));
  db.prepare('UPDATE attachment_texts SET text = ?').run(brotliCompressSync('an old drawing'));
  db.exec(`${WITHOUT_SUMS}; ALTER TABLE texts DROP COLUMN attachments; PRAGMA user_version = 3`);
  db.close();
  expect(() => openCatalogReader(room.dir)).toThrow(
    expect.objectContaining({ facts: expect.objectContaining({ found: 3, remedy: 'write' }) }),
  );

  const catalog = await openCatalog(room.dir);
  catalog.foldBatch(history.commit([appeared(place(INBOX, 2), 'new')]));
  index(catalog, 'a new plan', 'new');
  const lines = catalog
    .search({ node: parseQuery('plan OR drawing', { now: 0 }).node, limit: 9, sort: 'newest' })
    .hits.map(({ line }) => [line.uid, line.snippet, line.matchedAttachments[0]?.snippet]);
  expect(lines.toSorted()).toEqual([
    [1, 'an old plan', 'an old drawing'],
    [2, 'a new plan', 'an old drawing'],
  ]);
  catalog.close();

  const after = new Database(catalogFile(room.dir), { readonly: true });
  const texts = after.prepare<[], Buffer>('SELECT text FROM texts').pluck().all();
  expect(texts.map((text) => text.readUInt32BE(0) === 0x28b52ffd).toSorted()).toEqual([
    false,
    true,
  ]);
  after.close();
  room.remove();
});

test('version 5 makes messages with attachments due to have them listed, and no others', async () => {
  const room = temporaryDir();
  const history = new History();
  const before = await openCatalog(room.dir);
  before.foldBatch(
    history.commit([
      mailbox(INBOX, 'me@example.net'),
      folder(INBOX),
      appeared(place(INBOX, 1), 'without'),
      appeared(place(INBOX, 2), 'with'),
    ]),
  );
  const picture = attachment(1, {
    filename: 'Größe "1".png',
    contentType: 'image/png',
    size: 12,
    inline: true,
    form: null,
  });
  const listed = ({ contentId: _, form: _f, hash: _h, ...shown }: typeof picture) => shown;
  const index = (catalog: WritableCatalog) => {
    const ids = new Map([1, 2].map((n) => [sha256(n === 1 ? 'without' : 'with'), n]));
    const pending = catalog.index.pending({ limit: 9 });
    catalog.index.index(
      pending.map(({ docid, id }) => ({
        docid,
        entry: entry({ body: 'plan', attachments: ids.get(id) === 2 ? [picture] : [] }),
      })),
    );
    return pending.map(({ id }) => ids.get(id));
  };
  const lists = (catalog: WritableCatalog) =>
    catalog
      .search({ node: parseQuery('plan', { now: 0 }).node, limit: 9, sort: 'newest' })
      .hits.map(({ line }) => [line.uid, line.attachments])
      .toSorted();
  expect(index(before)).toHaveLength(2);
  expect(lists(before)).toEqual([
    [1, []],
    [2, [listed(picture)]],
  ]);
  before.close();
  const db = new Database(catalogFile(room.dir));
  db.exec(`${WITHOUT_SUMS}; ALTER TABLE texts DROP COLUMN attachments; PRAGMA user_version = 4`);
  expect(await stepped(db, '0005_attachment_lists')).toEqual([sha256('with')]);
  db.close();

  const catalog = await openCatalog(room.dir);
  // Nobody knows yet which they are: an empty list would say that there are none.
  expect(lists(catalog)).toEqual([
    [1, null],
    [2, null],
  ]);
  expect(index(catalog).toSorted()).toEqual([1, 2]);
  expect(lists(catalog)).toEqual([
    [1, []],
    [2, [listed(picture)]],
  ]);
  catalog.close();
  room.remove();
});

test('attachments whose hash version 5 did not keep are listed, and due to be hashed', async () => {
  const room = temporaryDir();
  const history = new History();
  const before = await openCatalog(room.dir);
  before.foldBatch(
    history.commit([
      mailbox(INBOX, 'me@example.net'),
      folder(INBOX),
      ...['text', 'picture', 'nothing'].map((id, i) => appeared(place(INBOX, i + 1), id)),
    ]),
  );
  const picture = attachment(1, { contentType: 'image/png', filename: null, form: null });
  const lists = new Map([
    [sha256('text'), [attachment(1)]],
    [sha256('picture'), [picture]],
  ]);
  const index = (catalog: WritableCatalog) => {
    const pending = catalog.index.pending({ limit: 9 });
    catalog.index.index(
      pending.map(({ docid, id }) => ({
        docid,
        entry: entry({ body: 'plan', attachments: lists.get(id) ?? [] }),
      })),
    );
    return pending.map(({ id }) => id);
  };
  index(before);
  before.close();
  const db = new Database(catalogFile(room.dir));
  const rows = () => db.prepare('SELECT * FROM attachments ORDER BY docid, number').all();
  const fresh = rows();
  // As version 5 kept them.
  db.exec(`${WITHOUT_SUMS};
    UPDATE texts SET attachments = CAST((SELECT json_group_array(
      json_array(number, filename, type, size, inline)) FROM attachments a
      WHERE a.docid = texts.docid HAVING count(*) > 0) AS BLOB);
    CREATE TABLE old AS SELECT docid, number, filename, text_id FROM attachments WHERE text_id NOTNULL;
    DROP TABLE attachments;
    CREATE TABLE attachments (
      docid INTEGER NOT NULL, number INTEGER NOT NULL, filename TEXT,
      text_id INTEGER NOT NULL REFERENCES attachment_texts (id),
      PRIMARY KEY (docid, number)) WITHOUT ROWID;
    CREATE INDEX attachments_by_text ON attachments (text_id, docid);
    INSERT INTO attachments SELECT * FROM old; DROP TABLE old;
    PRAGMA user_version = 5`);
  const due = await stepped(db, '0006_all_attachments');
  const unhashed = fresh.map((row) =>
    typeof row === 'object' && row !== null && 'text_id' in row && row.text_id === null
      ? { ...row, hash: null }
      : row,
  );
  expect(rows()).toEqual(unhashed);
  expect(due).toEqual([sha256('picture')]);
  const catalog = await openCatalog(room.dir);
  expect(index(catalog)).toHaveLength(3);
  expect(rows()).toEqual(fresh);
  db.close();
  catalog.close();
  room.remove();
});

test('a catalog of version 6 gets the sums of its rows', async () => {
  const room = temporaryDir();
  const history = new History();
  const before = await openCatalog(room.dir);
  const archive = { ...INBOX, folder: 'Archive' };
  const other = { ...INBOX, mailbox: 'AC2' };
  before.foldBatch(
    history.commit([
      mailbox(INBOX, 'me@example.net'),
      mailbox(other, 'you@example.net'),
      ...[INBOX, archive, other].map((key) => folder(key)),
      ...['a', 'b', 'c', 'd'].map((id, i) => appeared(place(INBOX, i + 1), id)),
      appeared(place(other, 1), 'b'),
    ]),
  );
  before.foldBatch(
    history.commit([
      appeared(place(archive, 1), 'c'),
      ...[2, 3, 4].map((uid) => ({
        fact: 'ended' as const,
        ...place(INBOX, uid),
        reason: 'expunged' as const,
      })),
    ]),
  );
  before.close();
  const db = new Database(catalogFile(room.dir));
  const fresh = [placeSets(db).kept, receivedDays(db).kept, commitChanges(db).kept];
  db.exec(`${WITHOUT_SUMS}; PRAGMA user_version = 6`);
  const catalog = await openCatalog(room.dir);
  expect([placeSets(db).kept, receivedDays(db).kept, commitChanges(db).kept]).toEqual(fresh);
  expect([placeSets(db).counted, receivedDays(db).counted, commitChanges(db).counted]).toEqual(
    fresh,
  );
  // Who writes to whom is in the messages only.
  expect(catalog.index.pendingCount()).toBe(4);
  db.close();
  catalog.close();
  room.remove();
});
