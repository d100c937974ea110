import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile, openForReading } from '../../src/catalog/open.ts';
import { cachedText, packText, TEXT_BYTES_PER_MESSAGE } from '../../src/catalog/packed-text.ts';
import { temporaryDir } from './history.ts';

async function stored(packed: Buffer | null): Promise<() => string> {
  const room = temporaryDir();
  (await openCatalog(room.dir)).close();
  const db = new Database(catalogFile(room.dir));
  db.prepare('INSERT INTO texts (docid, text) VALUES (1, ?)').run(packed);
  db.close();
  return () => {
    const connection = openForReading(catalogFile(room.dir));
    try {
      return cachedText(connection, 1);
    } finally {
      connection.close();
      room.remove();
    }
  };
}

it('names the remedy when a cached text does not unpack', async () => {
  const read = await stored(Buffer.from('noise'));
  expect(read).toThrow(expect.objectContaining({ code: 'catalog-damaged', family: 'damage' }));
});

it('keeps the beginning of a long text, and never half a character', async () => {
  const text = `x${'東'.repeat(TEXT_BYTES_PER_MESSAGE)}`;
  const read = (await stored(packText(text)))();
  expect(text.startsWith(read)).toBe(true);
  expect(Buffer.byteLength(read)).toBeGreaterThan(TEXT_BYTES_PER_MESSAGE - 3);
  expect(Buffer.byteLength(read)).toBeLessThanOrEqual(TEXT_BYTES_PER_MESSAGE);
});

it('keeps nothing of no text', async () => {
  expect(packText('')).toBeNull();
  expect((await stored(null))()).toBe('');
});
