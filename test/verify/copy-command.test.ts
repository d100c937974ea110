import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { acquireLock } from '../../src/archive/lock.ts';
import { dropOldGenerations, sealSegment } from '../../src/archive/seal.ts';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { ran } from '../cli/surface.ts';
import { GrownArchive } from './grown-archive.ts';

const archive = new GrownArchive();
const top = mkdtempSync(join(tmpdir(), 'mailkeep-copied-'));
const to = join(top, 'copy');
beforeAll(async () => {
  await archive.grow([sampleMail(1), mailWithAttachment(noise(290_000, 3)), sampleMail(2)], true);
  await archive.grow([sampleMail(4), sampleMail(5)], false);
});
afterAll(() => {
  archive.remove();
  rmSync(top, { recursive: true });
});

test('a copy proves itself, can be searched, and mends the archive it is of', async () => {
  const made = await ran(['copy', '--data', archive.dir, '--to', to, '--rebuild', '--json']);
  expect(made).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse(made.stdout)).toMatchObject({ number: 2, written: 2, catalog: 'rebuilt' });
  const proof = await ran(['verify', '--data', to, '--json']);
  expect(JSON.parse(proof.stdout)).toMatchObject({ ok: true, catalog: 'equal', messages: 5 });
  const listed = await ran(['list', '--data', to, '--json']);
  expect(listed.stdout.trim().split('\n')).toHaveLength(5);

  rmSync(join(archive.dir, 'log', '0000000001.2.seg'));
  const broken = await ran(['verify', '--data', archive.dir, '--json']);
  expect(broken.code).toBe(3);
  const mended = await ran(['verify', '--data', archive.dir, '--repair', '--from', to, '--json']);
  expect(mended).toMatchObject({ code: 0 });
  expect(JSON.parse(mended.stdout)).toMatchObject({ ok: true, mended: [{ segment: 1 }] });

  rmSync(join(archive.dir, 'log', '0000000002.1.seg'));
  const last = await ran(['verify', '--data', archive.dir, '--repair', '--from', to]);
  expect(last.code).toBe(0);
  expect(last.stdout.split('\n')).toContain('Segment 2 is intact again, as generation 2');
});

test('a purge takes the catalog of the copy with it, and those that repairs put aside', async () => {
  const aside = join(to, 'catalog.sqlite.before-repair-1');
  writeFileSync(aside, 'text of messages');
  const again = await ran(['copy', '--data', archive.dir, '--to', to, '--json']);
  expect(JSON.parse(again.stdout)).toMatchObject({ purged: 0, catalog: 'as it was' });
  expect(existsSync(aside)).toBe(true);
  await sealSegment({
    dir: archive.dir,
    segment: 1,
    purge: ({ rawLength }) => rawLength >= 290_000,
  });
  await dropOldGenerations({ dir: archive.dir, now: Date.now() + 1e9, keepMs: 0 });
  const output = await ran(['copy', '--data', archive.dir, '--to', to, '--json']);
  expect(JSON.parse(output.stdout)).toMatchObject({ purged: 1, catalog: 'removed' });
  expect(readdirSync(to).filter((name) => name.startsWith('catalog'))).toEqual([]);
});

test('the catalog of a copy comes along, and one that is behind its log is reported', async () => {
  const own = new GrownArchive();
  try {
    await own.grow([sampleMail(1)], true);
    const copy = join(top, 'follows');
    expect(await ran(['copy', '--data', own.dir, '--to', copy, '--rebuild'])).toMatchObject({
      code: 0,
    });
    const old = readFileSync(join(copy, 'catalog.sqlite'));
    await own.grow([sampleMail(6), sampleMail(7)], false);
    const output = await ran(['copy', '--data', own.dir, '--to', copy, '--json']);
    expect(JSON.parse(output.stdout)).toMatchObject({ number: 2, catalog: 'updated' });
    const listed = await ran(['list', '--data', copy, '--json']);
    expect([listed.stdout.trim().split('\n').length, listed.stderr]).toEqual([3, '']);
    const searched = await ran(['search', 'number', '--data', copy, '--json']);
    const original = await ran(['rebuild', '--data', own.dir]).then(() =>
      ran(['search', 'number', '--data', own.dir, '--json']),
    );
    expect(searched.stdout).toBe(original.stdout);

    // What an older mailkeep left: the log came along, and the catalog did not.
    writeFileSync(join(copy, 'catalog.sqlite'), old);
    utimesSync(join(copy, 'catalog.sqlite'), 1_000, 1_000);
    for (const line of [['list'], ['search', 'a'], ['status']]) {
      const { code, stderr } = await ran([...line, '--data', copy]);
      expect([line, code]).toEqual([line, 0]);
      expect(stderr).toContain('the catalog is behind the log (commit 1 of 2)');
      expect(stderr).toContain(`"mailkeep rebuild --data ${copy}"`);
    }
    // A writer is about to bring it along.
    const writer = acquireLock(copy);
    expect(await ran(['list', '--data', copy])).toMatchObject({ code: 0, stderr: '' });
    writer.release();
    expect((await ran(['rebuild', '--data', copy])).code).toBe(0);
    expect(await ran(['list', '--data', copy])).toMatchObject({ code: 0, stderr: '' });

    writeFileSync(join(copy, 'catalog.sqlite'), 'no database');
    const removed = await ran(['copy', '--data', own.dir, '--to', copy, '--json']);
    expect(JSON.parse(removed.stdout)).toMatchObject({ catalog: 'removed' });
  } finally {
    own.remove();
  }
});

test('an archive is not copied onto itself', async () => {
  const refused = await ran(['copy', '--data', archive.dir, '--to', archive.dir]);
  expect(refused).toMatchObject({ code: 2, stdout: '' });
});

test('a folder with other files stays as it is; what a killed copy left there is gone on with', async () => {
  const taken = join(top, 'taken');
  mkdirSync(taken);
  writeFileSync(join(taken, 'letters.zip'), '');
  const refused = await ran(['copy', '--data', archive.dir, '--to', taken]);
  expect(refused).toMatchObject({ code: 2, stdout: '' });
  expect(refused.stderr).toContain('letters.zip');
  expect(readdirSync(taken)).toEqual(['letters.zip']);

  const begun = join(top, 'begun');
  mkdirSync(join(begun, 'log'), { recursive: true });
  for (const name of ['lock', 'lock-journal', 'lock.json', 'FORMAT.tmp'])
    writeFileSync(join(begun, name), '');
  const made = await ran(['copy', '--data', archive.dir, '--to', begun]);
  expect(made).toMatchObject({ code: 0, stderr: '' });
});
