import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { foldWord, indexText } from '../../src/mail/normalise.ts';
import { temporaryDir } from './history.ts';

/** Of these the index takes each character for itself, or pairs of them. */
const UNSPACED =
  /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Bopo}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}]/u;

describe('words outside of the index', () => {
  const room = temporaryDir();
  let db: Database.Database;

  beforeAll(async () => {
    (await openCatalog(room.dir)).close();
    db = new Database(join(room.dir, 'catalog.sqlite'));
    db.exec("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, msg_fts, 'instance')");
  });
  afterAll(() => {
    db.close();
    room.remove();
  });

  test('every small letter is folded as within the index', () => {
    const letters = Array.from({ length: 0x1_ffff - 0x7f }, (_, i) => i + 0x80)
      .filter((code) => code < 0xd800 || code > 0xdfff)
      .map((code) => String.fromCodePoint(code))
      // Of capitals the tokenizer knows fewer than JavaScript; nobody writes the others.
      .filter((letter) => /^\p{L}$/u.test(letter) && letter === letter.toLowerCase())
      .filter((letter) => /^[\p{L}\p{M}]+$/u.test(letter.normalize('NFKC')))
      .filter((letter) => !UNSPACED.test(letter.normalize('NFKC')))
      // Modifier apostrophes part words, as the common one does.
      .filter((letter) => !foldWord(letter).includes("'"));
    expect(letters.length).toBeGreaterThan(8_000);
    const insert = db.prepare('INSERT INTO msg_fts (rowid, body) VALUES (?, ?)');
    db.transaction(() => {
      for (const [i, letter] of letters.entries()) insert.run(i + 1, indexText(`x${letter}x`));
    })();
    const terms = new Map<number, string>();
    const rows = db.prepare<[], { doc: number; term: string }>('SELECT doc, term FROM temp.terms');
    for (const { doc, term } of rows.all()) terms.set(doc, term);
    const different = letters.filter((letter, i) => terms.get(i + 1) !== foldWord(`x${letter}x`));
    expect(different).toEqual([]);
  });
});
