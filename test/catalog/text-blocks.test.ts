import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile, openForReading } from '../../src/catalog/open.ts';
import { TextReader } from '../../src/catalog/text-blocks.ts';

it('names the remedy when a block of cached texts does not unpack', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'mailkeep-texts-'));
  (await openCatalog(dir)).close();
  const db = new Database(catalogFile(dir));
  db.prepare('INSERT INTO text_blocks (id, size, data) VALUES (1, 5, ?)').run(Buffer.from('noise'));
  db.close();
  const connection = openForReading(catalogFile(dir));
  const read = () => new TextReader(connection).read({ block: 1, offset: 0, length: 5 });
  expect(read).toThrow(expect.objectContaining({ code: 'catalog-damaged', family: 'damage' }));
  connection.close();
  rmSync(dir, { recursive: true, force: true });
});
