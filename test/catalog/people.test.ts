import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { WritableCatalog } from '../../src/catalog/catalog.ts';
import { findMiscountedSums } from '../../src/catalog/comparison.ts';
import { Connection, catalogFile } from '../../src/catalog/database.ts';
import { appeared, entry, INBOX, openRoom, place, type Room } from './history.ts';

/** Messages of one year. */
const MESSAGES = 600;

let room: Room;
let catalog: WritableCatalog;
beforeEach(async () => {
  room = await openRoom();
  ({ catalog } = room);
});
afterEach(() => {
  vi.restoreAllMocks();
  room.close();
});

/** Indexes messages in groups, the newest first, as an indexer does with those that are due again. */
function index(docids: readonly number[], senderOf: (docid: number) => string): void {
  for (let at = 0; at < docids.length; at += 50)
    catalog.index.index(
      docids.slice(at, at + 50).map((docid) => {
        const sender = senderOf(docid);
        const recipients = ['me@example.net'];
        return { docid, entry: entry({ from: sender, senders: [sender], recipients }) };
      }),
    );
}

test('where most messages of a year have another sender, few rows are read for each', () => {
  room.fold(...Array.from({ length: MESSAGES }, (_, i) => appeared(place(INBOX, i + 1), `m${i}`)));
  const docids = catalog.index.pending({ limit: MESSAGES }).map(({ docid }) => docid);
  const at = new Map(docids.map((docid, i) => [docid, i]));
  // Each sender wrote twice: once in the first half of the year, once in the second.
  const before = (docid: number) => `s${(at.get(docid) ?? 0) % (MESSAGES / 2)}@example.org`;
  index(docids, before);

  const asked = new Set<string>();
  let rows = 0;
  const { text, first } = Connection.prototype;
  vi.spyOn(Connection.prototype, 'text').mockImplementation(function* (
    this: Connection,
    sql: string,
    params: readonly unknown[],
  ): Generator<never, void, undefined> {
    asked.add(sql);
    for (const row of text.call(this, sql, params)) {
      rows += 1;
      yield row as never;
    }
  });
  vi.spyOn(Connection.prototype, 'first').mockImplementation(function (
    this: Connection,
    sql: string,
    params: readonly unknown[],
  ) {
    asked.add(sql);
    return first.call(this, sql, params);
  });
  index(docids, (docid) => `t${(at.get(docid) ?? 0) % 7}@example.net`);
  vi.restoreAllMocks();

  // One for the sender and one for the domain of each, and a few of the group that is being indexed.
  expect(rows).toBeGreaterThan(MESSAGES / 2);
  expect(rows).toBeLessThan(4 * MESSAGES);
  const db = new Database(catalogFile(room.dir), { readonly: true });
  for (const sql of asked) {
    if (!sql.includes('message_people')) continue;
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql.replaceAll('?', '1')}`).all();
    expect(JSON.stringify(plan), sql).not.toMatch(/SCAN message_people|rowid[<>]/);
  }
  const own = new Connection(db, catalogFile(room.dir));
  expect([...findMiscountedSums(own)]).toEqual([]);
  db.close();
});
