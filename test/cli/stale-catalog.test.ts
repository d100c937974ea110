import { readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive } from '../verify/grown-archive.ts';
import { ran } from './surface.ts';

/** A log with two commits, a catalog that has reached the first, and file times that an `rsync -a` has set back. */
const archive = new GrownArchive();
beforeAll(async () => {
  const catalog = join(archive.dir, 'catalog.sqlite');
  await archive.grow([sampleMail(1)], false);
  const old = readFileSync(catalog);
  await archive.grow([sampleMail(6), sampleMail(7)], false);
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
