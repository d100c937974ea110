import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
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

const COUNT = 50;

test('the documents of one transaction become one segment of the index', async () => {
  const room = temporaryDir();
  const catalog = await openCatalog(room.dir);
  const history = new History();
  const facts = Array.from({ length: COUNT }, (_, n) =>
    appeared(place(INBOX, n + 1), `letter ${n}`),
  );
  catalog.foldBatch(history.commit([mailbox(INBOX, 'me@example.net'), folder(INBOX)]));
  catalog.foldBatch(history.commit(facts));
  catalog.index.mode('bulk');
  catalog.index.index(
    facts.map(({ docid }, n) => ({
      docid,
      entry: entry({
        body: `word${n} and more`,
        messageId: `${n}@example.org`,
        // Replies join threads, which moves rows of other tables.
        references: n === 0 ? [] : [`${n - 1}@example.org`],
      }),
    })),
  );
  catalog.close();
  const db = new Database(catalogFile(room.dir), { readonly: true });
  const segments = db.prepare('SELECT count(DISTINCT segid) FROM msg_fts_idx').pluck().get();
  db.close();
  room.remove();
  expect(segments).toBe(1);
});
