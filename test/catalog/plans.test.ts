import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { WritableCatalog } from '../../src/catalog/catalog.ts';
import { findContradictions } from '../../src/catalog/comparison.ts';
import { Connection, catalogFile } from '../../src/catalog/database.ts';
import { LIST_ROWS } from '../../src/catalog/list.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { appeared, folder, INBOX, openRoom, place, type Room } from './history.ts';

const OTHER = { ...INBOX, folder: 'Other' };
const COUNT = 3_000;

/** How SQLite runs the queries that must answer at once, whatever the archive's size. */
describe('query plans', () => {
  let room: Room;
  let catalog: WritableCatalog;
  let db: Database.Database;

  beforeAll(async () => {
    room = await openRoom(folder(OTHER));
    ({ catalog } = room);
    room.fold(
      ...Array.from({ length: COUNT }, (_, i) =>
        appeared(place(i % 100 === 0 ? OTHER : INBOX, i + 1), `m${i}`, {
          listing: {
            flags: i % 200 === 0 ? ['\\Flagged'] : i % 500 === 1 ? ['$Rare'] : ['\\Seen'],
          },
        }),
      ),
    );
    room.fold(
      ...Array.from({ length: 20 }, (_, i) => ({
        fact: 'ended' as const,
        ...place(INBOX, i * 7 + 2),
        reason: 'deleted',
      })),
    );
    room.index((_, i) => ({
      body: i === 70 ? 'once' : i % 2 === 0 ? 'common word' : 'other word',
    }));
    db = new Database(catalogFile(room.dir), { readonly: true });
  });
  afterAll(() => {
    db.close();
    room.close();
  });

  const planOf = (sql: string, params: readonly unknown[] = []) =>
    db
      .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
      .all(...params)
      .map(({ detail }) => detail);

  const views = Object.entries(LIST_ROWS).flatMap(([order, scopes]) =>
    Object.entries(scopes).flatMap(([scope, each]) =>
      Object.entries(each).map(([name, view]) => [`${order} ${scope} ${name}`, view] as const),
    ),
  );
  /** How many statements SQLite prepares: better-sqlite3 makes a function for the rows of each. */
  const preparedIn = (act: () => void): number => {
    const original = globalThis.Function;
    let count = 0;
    globalThis.Function = new Proxy(original, {
      apply(target, self, args) {
        count += 1;
        return Reflect.apply(target, self, args);
      },
    });
    try {
      act();
    } finally {
      globalThis.Function = original;
    }
    return count;
  };

  test('a search prepares no statement again for each of its hits', () => {
    const { node } = parseQuery('common', { now: 0 });
    const search = () => catalog.prepare({ node }).page({ limit: 20, sort: 'newest' }).hits;
    const docids = search().map(({ docid }) => docid);
    const joined = db.prepare(
      'SELECT m.docid, t.text FROM messages m JOIN texts t ON t.docid = m.docid WHERE m.docid = ?',
    );
    expect(preparedIn(() => docids.map((docid) => joined.get(docid)))).toBe(20);
    expect(preparedIn(search)).toBe(0);
  });

  test.each(views)('listing %s needs no sort', (_name, view) => {
    const { sql, bind } = view.compiled();
    const plan = planOf(sql, bind({ folder: 1, low: 0, high: Number.MAX_SAFE_INTEGER, commit: 2 }));
    expect(plan.filter((step) => step.includes('TEMP B-TREE'))).toEqual([]);
    expect(plan.filter((step) => /^SCAN \w+$/.test(step))).toEqual([]);
  });

  test('checking the index for contradictions searches for words once, not for each message', () => {
    const values = vi.spyOn(Connection.prototype, 'values');
    const found = [...findContradictions(new Connection(db, catalogFile(room.dir)))];
    const asked = values.mock.calls.map(([sql]) => sql).filter((sql) => sql.includes('MATCH'));
    values.mockRestore();
    expect(found).toEqual([]);
    expect(asked.length).toBeGreaterThan(0);
    // FTS5 names the limits of a search by rowid behind the colon.
    for (const sql of asked)
      expect(planOf(sql).filter((step) => /VIRTUAL TABLE INDEX \d+:[=<>]/.test(step))).toEqual([]);
  });

  const drivenBy = (query: string) =>
    catalog.prepare({ node: parseQuery(query, { now: 0 }).node }).explain().drives;

  test.each([
    'common',
    'common -other',
    '"common word" OR other',
    'common in:INBOX',
    'common is:read',
    'common larger:10',
    'common after:2000',
    'in:Other',
    'common in:Other',
    'is:unread',
    'is:starred',
    'is:deleted',
    '-is:deleted common',
    '*',
    'common OR in:Other',
    'comm*',
    'flag:rare common',
    'common thread:"30@example.org"',
    'common in:INBOX is:starred',
  ])('searching %s needs no sort', (query) => {
    const drives = drivenBy(query);
    expect(drives.length).toBeGreaterThan(0);
    for (const { sql } of drives)
      for (const statement of sql)
        expect(planOf(statement).filter((step) => step.includes('TEMP B-TREE'))).toEqual([]);
  });

  test.each([
    ['common', 'match'],
    ['common in:INBOX', 'match and folders'],
    ['word in:Other', 'folders'],
    ['common in:Other', 'match and folders'],
    ['common is:unread', 'match and unread'],
    ['common is:starred', 'match and starred'],
    ['once in:INBOX', 'match'],
    ['in:Other', 'folders'],
    ['is:deleted', 'ended'],
    ['is:deleted word', 'ended'],
    ['flag:rare', 'flags'],
    ['common flag:rare', 'match and flags'],
    ['common thread:"30@example.org"', 'thread'],
    ['id:30@example.org common', 'message-id'],
    ['id:30@example.org OR id:31@example.org', 'message-id'],
    ['larger:5', 'all'],
    ['common OR in:Other', 'sets'],
    ['(common OR in:Other) larger:5', 'sets'],
  ])('searching %s is driven by %s', (query, driver) => {
    expect(drivenBy(query).map((drive) => drive.driver)).toEqual([driver]);
  });

  test('alternatives with few candidates are walked side by side', () => {
    expect(drivenBy('flag:rare OR is:deleted').map(({ driver }) => driver)).toEqual([
      'flags',
      'ended',
    ]);
  });

  test('conditions that alternatives share are listed once', () => {
    const [sets] = drivenBy('(common OR in:Other) (comm* OR is:deleted)');
    expect(sets?.sql.length).toBe(4);
  });

  test('what words with a star find is listed once, for everything there is', () => {
    const [sets] = drivenBy('((comm* in:Other) OR other) after:2000');
    const bounded = sets?.sql.map((sql) => [sql.includes('*'), / >= '?\d/.test(sql)]);
    expect(bounded).toContainEqual([true, false]);
    expect(bounded).not.toContainEqual([true, true]);
    expect(bounded).toContainEqual([false, true]);
  });

  test('a word that stands nowhere leaves nothing to walk', () => {
    expect(drivenBy('nowhere in:Other')).toEqual([]);
  });

  test('the newest message of a folder is where looking begins', () => {
    const [drive] = drivenBy('common in:INBOX');
    expect(drive?.sql[0]).toMatch(/msg_fts\.rowid < \d+/);
  });

  test.each([
    [
      'SELECT uid FROM places WHERE folder_id = 1 AND generation = 1 AND uid > 5 AND uid <= 9 AND to_commit IS NULL ORDER BY uid LIMIT 5',
      'places_by_uid',
    ],
    [
      'SELECT count(*) FROM places WHERE folder_id = 1 AND to_commit IS NULL',
      'COVERING INDEX places_current',
    ],
    [
      'SELECT count(*) FROM (SELECT 1 FROM places p WHERE p.to_commit IS NULL AND p.marks & 1 = 0 LIMIT 9)',
      'COVERING INDEX places_unread',
    ],
    [
      'SELECT count(*) FROM (SELECT 1 FROM places p WHERE p.to_commit IS NULL AND p.marks & 2 = 2 LIMIT 9)',
      'COVERING INDEX places_starred',
    ],
    [
      'SELECT count(*) FROM (SELECT 1 FROM places p WHERE p.folder_id = 1 AND p.to_commit IS NOT NULL LIMIT 9)',
      'COVERING INDEX places_ended',
    ],
    [
      'SELECT count(*) FROM (SELECT 1 FROM messages m WHERE m.open_places = 0 LIMIT 9)',
      'COVERING INDEX messages_ended',
    ],
    ["SELECT docid FROM records WHERE kind = 2 AND hash = x'00'", 'PRIMARY KEY'],
    [
      'SELECT docid FROM messages WHERE extractor <= 0 AND docid < 99 ORDER BY docid DESC LIMIT 5',
      'messages_pending',
    ],
  ])('%s uses %s', (sql, index) => {
    const plan = planOf(sql);
    expect(plan.join('; ')).toContain(index);
    expect(plan.join('; ')).not.toContain('TEMP B-TREE');
  });
});
