import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { message, ProgramArchive } from './copy-program.ts';
import { batchesIn } from './sample-copy.ts';

let template: ProgramArchive;
let archive: ProgramArchive;
let to: string;

/** Three segments, of which the last is being written to, and a copy. */
beforeAll(async () => {
  template = new ProgramArchive();
  await template.import([message(1, 'walrus'), message(2, 'giraffe', Buffer.alloc(3000, 7))]);
  await template.closeSegment();
  await template.import([message(3, 'ocelot')]);
  await template.closeSegment();
  await template.import([message(4, 'heron'), message(5, 'badger')]);
  const key = path.join(template.folder, 'key.txt');
  const copy = path.join(template.folder, 'copy');
  await template.run('copy', 'init', '--to', copy, '--recovery-key-file', key);
  await template.run('copy', '--to', copy);
}, 120_000);

beforeEach(() => {
  archive = new ProgramArchive();
  to = path.join(archive.folder, 'copy');
  cpSync(template.folder, archive.folder, { recursive: true });
});

afterEach(() => rmSync(archive.folder, { recursive: true }));
afterAll(() => rmSync(template.folder, { recursive: true }));

/** The file of a segment, which is the only one of its own. */
function fileOf(segment: number): string {
  const log = path.join(archive.data, 'log');
  const prefix = String(segment).padStart(10, '0');
  const [name = ''] = readdirSync(log).filter((one) => one.startsWith(prefix));
  return path.join(log, name);
}

function damage(file: string): void {
  const bytes = readFileSync(file);
  // More than one bit, so that no checksum turns it back.
  bytes.fill(0x55, bytes.length >> 1, (bytes.length >> 1) + 40);
  writeFileSync(file, bytes);
}

test.each([1, 3])('a damaged segment is fetched from an encrypted copy: %i', async (segment) => {
  const before = await batchesIn(archive.data);
  damage(fileOf(segment));
  const repaired = await archive.ended(['verify', '--repair', '--from', to]);
  expect(JSON.parse(repaired.stdout)).toMatchObject({
    ok: true,
    // Its neighbour as well, which continues it.
    mended: expect.arrayContaining([expect.objectContaining({ segment })]),
    missing: [],
    unproven: [],
    skippedCopies: [],
  });
  expect(repaired).toMatchObject({ code: 0, stderr: '' });
  expect((await batchesIn(archive.data)).map(({ commit }) => commit)).toEqual(
    before.map(({ commit }) => commit),
  );
  const tmp = path.join(archive.data, 'tmp');
  expect(existsSync(tmp) ? readdirSync(tmp) : []).toEqual([]);
});

test('a segment that is lost comes back, at the end of the log as well', async () => {
  const before = await batchesIn(archive.data);
  rmSync(fileOf(2));
  rmSync(fileOf(3));
  const repaired = await archive.ended(['verify', '--repair', '--from', to]);
  expect(JSON.parse(repaired.stdout)).toMatchObject({ ok: true, unproven: [] });
  expect(repaired.code).toBe(0);
  expect((await batchesIn(archive.data)).length).toBe(before.length);
});

test('commits behind all that is known here come back because the manifest is signed', async () => {
  const before = await batchesIn(archive.data);
  // Nothing of the last segment can be read, and no catalog has seen its commits.
  const file = fileOf(3);
  writeFileSync(file, readFileSync(file).fill(0x55));
  for (const name of readdirSync(archive.data)) {
    if (name.startsWith('catalog')) rmSync(path.join(archive.data, name));
  }
  const repaired = await archive.ended(['verify', '--repair', '--from', to]);
  expect(JSON.parse(repaired.stdout)).toMatchObject({ ok: true, unproven: [] });
  expect(repaired.code).toBe(0);
  const hashes = async () => (await batchesIn(archive.data)).map(({ commit }) => commit.hash);
  expect(await hashes()).toEqual(before.map(({ commit }) => commit.hash));
});

test('bytes that the copy does not prove are not taken', async () => {
  damage(fileOf(1));
  const data = path.join(to, 'data');
  for (const name of readdirSync(data)) damage(path.join(data, name));
  const repaired = await archive.ended(['verify', '--repair', '--from', to]);
  expect(repaired.code).toBe(3);
  const result = JSON.parse(repaired.stdout) as { mended: { segment: number }[] };
  expect(result.mended.map(({ segment }) => segment)).not.toContain(1);
  expect(result).toMatchObject({
    ok: false,
    skippedSegments: [{ copy: to, reason: 'copy-object-damaged' }],
  });
});

test('a machine that may only write is told how to repair', async () => {
  const other = path.join(archive.folder, 'other');
  const key = path.join(archive.folder, 'other-key.txt');
  const init = ['copy', 'init', '--to', other, '--recovery-key-file', key, '--write-only'];
  await archive.run(...init);
  await archive.run('copy', '--to', other);
  const repaired = await archive.ended(['verify', '--repair', '--from', other]);
  expect(repaired.code).toBe(2);
  expect(repaired.stderr).toContain('offsite-write-only');
});
