import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { catalogFile } from '../../src/catalog/database.ts';
import { appeared, INBOX, openRoom, place } from './history.ts';

const COUNT = 50;

test('the documents of one transaction become one segment of the index', async () => {
  const room = await openRoom();
  room.fold(
    ...Array.from({ length: COUNT }, (_, n) => appeared(place(INBOX, n + 1), `letter ${n}`)),
  );
  room.catalog.index.mode('bulk');
  room.index((_, n) => ({
    body: `word${n} and more`,
    messageId: `${n}@example.org`,
    // Replies join threads, which moves rows of other tables.
    references: n === COUNT - 1 ? [] : [`${n + 1}@example.org`],
  }));
  room.catalog.close();
  const db = new Database(catalogFile(room.dir), { readonly: true });
  const segments = db.prepare('SELECT count(DISTINCT segid) FROM msg_fts_idx').pluck().get();
  db.close();
  room.close();
  expect(segments).toBe(1);
});
