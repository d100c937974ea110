import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { describeError } from '../../src/core/errors.ts';
import { convertSqliteError } from '../../src/core/sqlite.ts';

/** What SQLite throws under a code, about a file on a disk that has room. */
function said(code: string) {
  const dir = mkdtempSync(path.join(tmpdir(), 'sqlite-errors-'));
  const file = path.join(dir, 'state.sqlite');
  writeFileSync(file, '');
  try {
    const error = convertSqliteError(new Database.SqliteError('disk I/O error', code), file);
    return { code: error?.code, text: error === undefined ? '' : describeError(error).message };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test('a disk that fails is not a full one', () => {
  for (const code of ['SQLITE_IOERR_SHMSIZE', 'SQLITE_IOERR_WRITE', 'SQLITE_IOERR_FSYNC']) {
    const { code: known, text } = said(code);
    expect(known).toBe('catalog-io');
    expect(text).not.toContain('full');
  }
});

test('a full disk is named as one', () => {
  expect(said('SQLITE_FULL')).toMatchObject({ code: 'catalog-disk-full' });
});

test.each(['SQLITE_READONLY', 'SQLITE_READONLY_DBMOVED', 'SQLITE_CANTOPEN'])(
  '%s is a trouble of permissions or of the medium',
  (code) => expect(said(code).code).toBe('catalog-io'),
);
