import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive, verified } from './grown-archive.ts';

test('bytes where text should be, or text where bytes should be, are reported', async () => {
  const other = new GrownArchive();
  try {
    await other.grow([sampleMail(1), sampleMail(2), sampleMail(3)], false);
    const catalog = join(other.dir, 'catalog.sqlite');
    const sound = readFileSync(catalog);
    for (const [table, column, value, state] of [
      ['messages', 'subject', 'CAST(subject AS BLOB)', 'damaged'],
      ['flag_sets', 'flags', 'CAST(flags AS BLOB)', 'damaged'],
      // SQLite takes these for JSON of its own: a text, one with a quote in it, and an object that is none.
      ['folders', 'path', "CAST('INBOX' AS BLOB)", 'different'],
      ['messages', 'subject', `CAST('Gab"c' AS BLOB)`, 'damaged'],
      ['messages', 'subject', "CAST('<abc' AS BLOB)", 'damaged'],
      ['messages', 'id', 'CAST(id AS TEXT)', 'damaged'],
      ['records', 'hash', 'CAST(hash AS TEXT)', 'different'],
      ['places', 'fingerprint', 'CAST(fingerprint AS TEXT)', 'different'],
      ['meta', 'commit_hash', 'CAST(commit_hash AS TEXT)', 'damaged'],
    ] as const) {
      const db = new Database(catalog);
      const { changes } = db.prepare(`UPDATE ${table} SET ${column} = ${value}`).run();
      db.close();
      expect(changes).toBeGreaterThan(0);
      for (const full of [true, false]) {
        const { catalog: found, findings } = await verified(other.dir, { full });
        expect(found, `${table}.${column} = ${value}`).toBe(state);
        expect(findings).not.toEqual([]);
      }
      writeFileSync(catalog, sound);
    }
  } finally {
    other.remove();
  }
});
