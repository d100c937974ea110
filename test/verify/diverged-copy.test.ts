import { cpSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/files/real-files.ts';
import { SEGMENT_HEADER_BYTES } from '../../src/archive/format/headers.ts';
import { logFolder, segmentPath } from '../../src/archive/format/layout.ts';
import { openLogWriter } from '../../src/archive/write/open-log-writer.ts';
import { catalogFile } from '../../src/catalog/open.ts';
import { repairArchive } from '../../src/verify/repair/repair-archive.ts';
import { checkerInProcess } from '../../src/verify/segment-checker.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive, START, verified } from './grown-archive.ts';

const mail = Array.from({ length: 30 }, (_, i) => sampleMail(i + 1));
let archive: GrownArchive;
let copy: GrownArchive;
beforeEach(async () => {
  archive = new GrownArchive();
  copy = new GrownArchive(`${archive.dir}-copy`);
  await archive.grow(mail.slice(0, 3), false);
});
afterEach(() => {
  archive.remove();
  copy.remove();
});

const pathOf = (segment: number) => segmentPath(archive.dir, { segment, generation: 1 });

async function roll(dir: string): Promise<void> {
  const writer = await openLogWriter({ dir, now: () => START });
  await writer.rollIfLarger(0);
  await writer.close();
}

/** From the first commit on, the copy goes its own way, and further: in one segment, or in three. */
async function growApart(segments: 1 | 3): Promise<void> {
  cpSync(archive.dir, copy.dir, { recursive: true });
  await archive.grow(mail.slice(3, 6), false);
  await roll(archive.dir);
  await archive.grow(mail.slice(6, 9), false);
  await copy.grow(mail.slice(9, 15), false);
  if (segments === 3) await roll(copy.dir);
  await copy.grow(mail.slice(15, 21), false);
  if (segments === 3) await roll(copy.dir);
  await copy.grow(mail.slice(21, 30), false);
}

function logOf(dir: string): Record<string, string> {
  const folder = logFolder(dir);
  return Object.fromEntries(
    readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'base64')]),
  );
}

function repaired() {
  return repairArchive({
    dir: archive.dir,
    checker: checkerInProcess(realFiles),
    copies: [copy.dir],
    now: () => START,
    signal: new AbortController().signal,
  });
}

test.each([
  [1, 'the first segment', () => rmSync(pathOf(1))],
  [3, 'the first segment', () => rmSync(pathOf(1))],
  [1, 'the last segment', () => rmSync(pathOf(2))],
  [3, 'the last segment', () => rmSync(pathOf(2))],
  [1, 'all but a header', () => [rmSync(pathOf(2)), truncateSync(pathOf(1), SEGMENT_HEADER_BYTES)]],
  [3, 'all but a header', () => [rmSync(pathOf(2)), truncateSync(pathOf(1), SEGMENT_HEADER_BYTES)]],
] as const)(
  'a copy that went its own way, in %i segments, does not give %s',
  async (segments, _, lose) => {
    await growApart(segments);
    lose();
    const left = logOf(archive.dir);
    const { mended, before } = await repaired();
    expect(before.found).toBeGreaterThan(0);
    expect(mended).toEqual([]);
    expect(logOf(archive.dir)).toMatchObject(left);
  },
);

test('what a copy has behind all that the catalog saw comes back with the rest', async () => {
  for (const from of [3, 9, 15]) {
    await roll(archive.dir);
    await archive.grow(mail.slice(from, from + 6), false);
    if (from === 3) cpSync(catalogFile(archive.dir), `${archive.dir}-catalog`);
  }
  const whole = await verified(archive.dir);
  expect(whole).toMatchObject({ segments: 4, messages: 21, found: 0 });
  cpSync(archive.dir, copy.dir, { recursive: true });
  for (const segment of [2, 3, 4]) rmSync(pathOf(segment));
  rmSync(catalogFile(archive.dir));
  cpSync(`${archive.dir}-catalog`, catalogFile(archive.dir));
  rmSync(`${archive.dir}-catalog`);
  const { mended } = await repaired();
  expect(mended.map(({ segment }) => segment)).toEqual([2, 3, 4]);
  const { last, messages, found, catalog } = await verified(archive.dir);
  expect({ last, messages, found, catalog }).toEqual({
    last: whole.last,
    messages: 21,
    found: 0,
    catalog: 'behind',
  });
});
