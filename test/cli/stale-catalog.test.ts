import { readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { acquireLock } from '../../src/archive/lock.ts';
import { CATALOG_VERSION } from '../../src/catalog/database.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive } from '../verify/grown-archive.ts';
import { ran } from './surface.ts';

/** A log with two commits, a catalog that has reached the first, and file times that an `rsync -a` has set back. */
const archive = new GrownArchive();
let old: Buffer;
let current: Buffer;
beforeAll(async () => {
  const catalog = join(archive.dir, 'catalog.sqlite');
  await archive.grow([sampleMail(1)], false);
  old = readFileSync(catalog);
  await archive.grow([sampleMail(6), sampleMail(7)], false);
  current = readFileSync(catalog);
  writeFileSync(catalog, old);
  for (const name of readdirSync(join(archive.dir, 'log'))) {
    utimesSync(join(archive.dir, 'log', name), 1_000, 1_000);
  }
});
afterAll(() => archive.remove());

const on = (...line: string[]) => ran([...line, '--data', archive.dir]);

test('a catalog that is behind its log is reported whatever the times of the files are', async () => {
  for (const line of [['list'], ['search', 'number'], ['status']]) {
    const { code, stderr } = await on(...line);
    expect([line, code]).toEqual([line, 0]);
    expect(stderr).toContain('the catalog is behind the log (commit 1 of 2)');
  }
  expect(await on('list', '--quiet')).toMatchObject({ code: 0, stderr: '' });
});

test('with --json the warning is an object on standard error, and a field of status', async () => {
  for (const line of [['list'], ['search', 'number'], ['status']]) {
    const { code, stdout, stderr } = await on(...line, '--json');
    expect([line, code]).toEqual([line, 0]);
    expect(stdout).not.toContain('"warning"');
    expect(JSON.parse(stderr)).toEqual({
      warning: {
        code: 'catalog-behind',
        message: expect.stringContaining('(commit 1 of 2)'),
        hint: expect.stringContaining(`"mailkeep rebuild --data ${archive.dir}"`),
      },
    });
    expect(await on(...line, '--json', '--quiet')).toMatchObject({ code: 0, stderr: '' });
  }
  const { stdout } = await on('status', '--json');
  expect(JSON.parse(stdout)).toMatchObject({ catalogBehind: { reached: 1, last: 2 } });
});

test('with --json an error stays the one object on standard error', async () => {
  const { code, stderr } = await on('show', 'ffffffff', '--json');
  expect(code).not.toBe(0);
  expect(Object.keys(JSON.parse(stderr))).toEqual(['error']);
});

test('a catalog that has all of the log is no warning', async () => {
  writeFileSync(join(archive.dir, 'catalog.sqlite'), current);
  expect(await on('list', '--json')).toMatchObject({ code: 0, stderr: '' });
  const { stdout, stderr } = await on('status', '--json');
  expect([JSON.parse(stdout).catalogBehind, stderr]).toEqual([null, '']);
});

test('a reader of an earlier catalog says how far a running rebuild is', async () => {
  const file = join(archive.dir, 'catalog.sqlite');
  const db = new Database(file);
  db.pragma(`user_version = ${CATALOG_VERSION - 1}`);
  db.close();
  writeFileSync(`${file}.rebuild`, old);
  const idle = await on('list');
  expect(idle).toMatchObject({ code: 2, stderr: expect.stringContaining('"mailkeep rebuild"') });
  const lock = acquireLock(archive.dir);
  const busy = await on('list');
  lock.release();
  expect(busy.code).toBe(2);
  expect(busy.stderr).toContain('is being rebuilt for this version of mailkeep: commit 1 of 2.');
});
