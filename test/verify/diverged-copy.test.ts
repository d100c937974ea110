import { hash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import {
  logFolder,
  RECORD_KIND,
  SEGMENT_HEADER_BYTES,
  segmentPath,
} from '../../src/archive/format.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { sealSegment } from '../../src/archive/seal.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { newSigningKey, readSigningKey, signCheckpoint } from '../../src/verify/checkpoint.ts';
import { repairArchive } from '../../src/verify/repair-archive.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { checkerInProcess } from './checker-in-process.ts';
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

function repaired(options: { readonly trustsCopies?: boolean } = {}) {
  return repairArchive({
    ...options,
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

describe('what a copy has behind all that is known here', () => {
  let whole: Awaited<ReturnType<typeof verified>>;

  /** Of four segments, the copy has all; here the first is left, and a catalog of the time of the second. */
  async function fallBehind(): Promise<void> {
    for (const from of [3, 9, 15]) {
      await roll(archive.dir);
      await archive.grow(mail.slice(from, from + 6), false);
      if (from === 3) cpSync(catalogFile(archive.dir), `${archive.dir}-catalog`);
    }
    whole = await verified(archive.dir);
    expect(whole).toMatchObject({ segments: 4, messages: 21, found: 0 });
    cpSync(archive.dir, copy.dir, { recursive: true });
    for (const segment of [2, 3, 4]) rmSync(pathOf(segment));
    rmSync(catalogFile(archive.dir));
    cpSync(`${archive.dir}-catalog`, catalogFile(archive.dir));
    rmSync(`${archive.dir}-catalog`);
  }

  const segmentsOf = ({ mended }: Awaited<ReturnType<typeof repaired>>) =>
    mended.map(({ segment }) => segment);

  async function expectAll(): Promise<void> {
    const { last, messages, found, catalog } = await verified(archive.dir);
    expect({ last, messages, found, catalog }).toEqual({
      last: whole.last,
      messages: 21,
      found: 0,
      catalog: 'behind',
    });
  }

  test('is not taken, and is named', async () => {
    await fallBehind();
    const done = await repaired();
    expect(segmentsOf(done)).toEqual([2]);
    const { last, messages, found, catalog } = await verified(archive.dir);
    expect({ messages, found, catalog }).toEqual({ messages: 9, found: 0, catalog: 'equal' });
    expect(done.unproven).toEqual([
      { copy: copy.dir, number: whole.last?.number, known: last?.number },
    ]);
  });

  test('comes back with the rest where its owner trusts it', async () => {
    await fallBehind();
    const done = await repaired({ trustsCopies: true });
    expect([segmentsOf(done), done.unproven]).toEqual([[2, 3, 4], []]);
    await expectAll();
  });

  /** Signs the end of the copy with a key, and puts the statement into a folder. */
  function sign(keyFile: string, folder: string): void {
    writeFileSync(keyFile, newSigningKey());
    const { last, archiveId } = whole;
    if (archiveId === null || last === null) throw new Error('an archive without commits');
    const head = { archiveId, ...last };
    const statement = signCheckpoint(head, readSigningKey(keyFile), START);
    mkdirSync(join(folder, 'checkpoints'), { recursive: true });
    writeFileSync(join(folder, 'checkpoints', 'a.json'), JSON.stringify(statement));
  }

  test("comes back where this archive's key has signed it", async () => {
    await fallBehind();
    sign(join(archive.dir, 'checkpoint.key'), copy.dir);
    expect(segmentsOf(await repaired())).toEqual([2, 3, 4]);
    await expectAll();
  });

  test("is not taken where another key has signed it, though the copy calls it the archive's", async () => {
    await fallBehind();
    writeFileSync(join(archive.dir, 'checkpoint.key'), newSigningKey());
    sign(join(copy.dir, 'checkpoint.key'), copy.dir);
    expect(segmentsOf(await repaired())).toEqual([2]);
  });
});

test('a copy whose owner says that mail was purged is not believed', async () => {
  await archive.grow(mail.slice(3, 6), false);
  await roll(archive.dir);
  cpSync(archive.dir, copy.dir, { recursive: true });
  // Whoever can write to a copy can append to it, and can seal its segments without what they contain.
  const messages = mail.slice(0, 6).map((raw) => hash('sha256', raw));
  await copy.commit((batch) => {
    for (const message of messages)
      batch.addFact({ fact: 'purged', message, reason: 'forgotten', blobs: [] });
  });
  const bytes = readFileSync(pathOf(1));
  bytes.fill(0, 300, 700);
  writeFileSync(pathOf(1), bytes);
  const { mended, unproven } = await repaired();
  expect(mended.map(({ segment }) => segment)).toEqual([1]);
  expect(unproven).toEqual([{ copy: copy.dir, number: 3, known: 2 }]);
  expect(await verified(archive.dir)).toMatchObject({ messages: 6, found: 0, catalog: 'equal' });
});

test('what a copy has sealed away does not go here with the next repair', async () => {
  await roll(archive.dir);
  cpSync(archive.dir, copy.dir, { recursive: true });
  await sealSegment({ dir: copy.dir, segment: 1, purge: ({ kind }) => kind !== RECORD_KIND.fact });
  const bytes = readFileSync(pathOf(1));
  bytes[400] = (bytes[400] ?? 0) ^ 4;
  writeFileSync(pathOf(1), bytes);
  const { mended } = await repaired();
  expect(mended.map(({ segment }) => segment)).toEqual([1]);
  expect(await verified(archive.dir)).toMatchObject({ messages: 3, found: 0, catalog: 'equal' });
});
