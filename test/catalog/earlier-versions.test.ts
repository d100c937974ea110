import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { CATALOG_VERSION } from '../../src/catalog/database.ts';
import { ran } from '../cli/surface.ts';
import { message } from '../offsite/copy-program.ts';

/** An archive with two commits of messages, whose catalog an earlier version wrote. */
let work: string;
let data: string;
const catalog = () => path.join(data, 'catalog.sqlite');
const segment = () => path.join(data, 'log', '0000000001.1.seg');
/** Bytes of the log before its last commit. */
let before: number;

beforeAll(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'earlier-'));
  data = path.join(work, 'intact');
  for (const [n, word] of ['walrus', 'narwhal', 'beluga'].entries())
    writeFileSync(path.join(work, `${n}.eml`), message(n, word));
  await on('import', '0.eml');
  before = readFileSync(segment()).length;
  await on('import', '1.eml');
  const database = new Database(catalog());
  // As version 8 left it, but for the columns that nothing reads any more.
  database.exec('DROP TABLE commit_changes; PRAGMA user_version = 8; PRAGMA journal_mode = DELETE');
  database.close();
});
afterAll(() => rmSync(work, { recursive: true }));

beforeEach(() => {
  data = path.join(work, 'data');
  rmSync(data, { recursive: true, force: true });
  cpSync(path.join(work, 'intact'), data, { recursive: true });
});

const on = (...line: string[]) => ran([...line, '--data', data], { cwd: work });

function versionOf(): unknown {
  const database = new Database(catalog(), { readonly: true });
  try {
    return database.pragma('user_version', { simple: true });
  } finally {
    database.close();
  }
}

test('a reader refuses it, names the commands that rebuild it, and changes nothing', async () => {
  const old = readFileSync(catalog());
  for (const line of [['search', 'walrus'], ['list'], ['stats']]) {
    const { code, stderr } = await on(...line);
    expect([line, code]).toEqual([line, 2]);
    expect(stderr).toContain(`has version 8; this program reads version ${CATALOG_VERSION}`);
    expect(stderr).toContain('"mailkeep sync" or "mailkeep rebuild"');
  }
  expect(readFileSync(catalog()).equals(old)).toBe(true);
});

test('a writer rebuilds it from the log', async () => {
  const { code, stderr } = await on('import', '2.eml');
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('Rebuilding the catalog: an earlier version of mailkeep wrote it.');
  expect(versionOf()).toBe(CATALOG_VERSION);
  for (const word of ['walrus', 'narwhal', 'beluga'])
    expect((await on('search', word, '--count')).stdout.trim()).toBe('1');
  expect(JSON.parse((await on('verify', '--json')).stdout)).toMatchObject({ ok: true });
});

test('rebuild replaces it, and says so where the log has lost commits', async () => {
  truncateSync(segment(), before);
  const { code, stdout } = await on('rebuild');
  expect(code).toBe(3);
  expect(stdout).toContain('the log ends before the last commit that the old catalog has');
  expect(versionOf()).toBe(CATALOG_VERSION);
});

test('so does a copy in its own folder', async () => {
  const copy = path.join(work, 'copy');
  const line = ['copy', '--to', copy];
  cpSync(data, copy, { recursive: true });
  const { code, stderr } = await on(...line);
  expect(code, stderr).toBe(0);
  data = copy;
  expect(versionOf()).toBe(CATALOG_VERSION);
  rmSync(copy, { recursive: true });
});

test.each<[string, () => void]>([
  ['is damaged', () => writeFileSync(segment(), flipped(before - 200))],
  ['has lost its last commit', () => truncateSync(segment(), before)],
])('a writer leaves it as it is where the log %s', async (_, harm) => {
  const old = readFileSync(catalog());
  harm();
  const { code } = await on('import', '2.eml');
  expect(code).toBe(3);
  expect(readFileSync(catalog()).equals(old)).toBe(true);
});

function flipped(at: number): Buffer {
  const bytes = readFileSync(segment());
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes;
}
