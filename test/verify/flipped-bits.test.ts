import { hash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ArchiveCodec } from '../../src/archive/payload.ts';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { openSegment } from '../../src/archive/segment-files.ts';
import type { SegmentDamage } from '../../src/catalog/findings.ts';
import { readLog } from '../../src/verify/read-log.ts';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import type { Positions } from '../archive/positions.ts';
import { DIR, fill, hotPath, newLog, sampleMail, writeBatches } from '../archive/sample-log.ts';
import type { SimulatedDisk } from '../archive/simulated-disk.ts';
import { checkerInProcess } from './checker-in-process.ts';
import { GrownArchive, verified } from './grown-archive.ts';

const never = new AbortController().signal;

/** What reading the log alone says, and where. */
async function troubles(disk: SimulatedDisk, known: Positions) {
  const damages: SegmentDamage[] = [];
  let other = 0;
  await readLog({
    dir: DIR,
    files: disk.files,
    checker: checkerInProcess(disk.files),
    full: true,
    signal: never,
    vouched: known.reached === undefined ? [] : [{ ...known.reached, by: 'catalog' }],
    listener: {
      batches: () => {},
      damage: (damage) => damages.push(damage),
      message: ({ what }) => {
        if (what === 'unsound') other += 1;
      },
      vouched: () => {
        other += 1;
      },
    },
  });
  return { damages, other };
}

/** A sealed segment, with a block and a large record, and a hot one. With zlib the large record stands alone. */
async function small(codec: ArchiveCodec, largeBytes = 70_000) {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 1);
  const large = mailWithAttachment(Buffer.alloc(largeBytes, 'compressible '));
  known.fold(await writer.commit(fill(writer.newBatch(), [large], known, 90)));
  await writer.rollIfLarger(0);
  await sealClosedSegments({ dir: DIR, before: writer.segment, files: disk.files, codec });
  disk.delete(hotPath(1));
  known.fold(await writer.commit(fill(writer.newBatch(), [sampleMail(2)], known, 100)));
  await writer.close();
  return { disk, known };
}

/** Flips every bit of these bytes of a file, one at a time, and fails when reading the log does not find it there. */
async function expectFound(
  disk: SimulatedDisk,
  known: Positions,
  path: string,
  from: number,
  to: number,
): Promise<number> {
  const bytes = disk.read(path);
  let bits = 0;
  for (let at = from; at < to; at += 1) {
    for (let bit = 0; bit < 8; bit += 1) {
      bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
      disk.put(path, bytes);
      const { damages, other } = await troubles(disk, known);
      const named = damages.some(
        ({ file, offset, end, reason }) =>
          file === path && ((offset <= at && at < end) || reason === 'segment-header'),
      );
      // In the last batch of the last segment it may look like a write that was cut off: the catalog knows better.
      if (!named && other === 0) throw new Error(`bit ${bit} of byte ${at} of ${path}`);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
      bits += 1;
    }
  }
  disk.put(path, bytes);
  return bits;
}

describe.each<ArchiveCodec>(['zstd', 'zlib'])('sealed with %s:', (codec) => {
  test('an archive that is whole gives no finding', async () => {
    const { disk, known } = await small(codec);
    expect(await troubles(disk, known)).toEqual({ damages: [], other: 0 });
  });

  // The watchdog is generous: tens of thousands of archives are read.
  test('every single flipped bit of a small log is found, at its place', {
    timeout: 600_000,
  }, async () => {
    const { disk, known } = await small(codec);
    let bits = 0;
    for (const path of disk.paths().filter((name) => name.endsWith('.seg'))) {
      bits += await expectFound(disk, known, path, 0, disk.read(path).length);
    }
    expect(bits).toBeGreaterThan(20_000);
  });

  test('truncation at any byte is found', async () => {
    const { disk, known } = await small(codec);
    for (const path of disk.paths().filter((name) => name.endsWith('.seg'))) {
      const bytes = disk.read(path);
      for (let length = 0; length < bytes.length; length += 1) {
        disk.put(path, bytes.subarray(0, length));
        const { damages, other } = await troubles(disk, known);
        if (damages.length + other === 0) throw new Error(`${path} cut to ${length} bytes`);
      }
      disk.put(path, bytes);
    }
  });
});

// The watchdog is generous: each archive has a quarter of a megabyte to hash.
test('every single flipped bit of a zstd frame that stands alone is found, at its place', {
  timeout: 300_000,
}, async () => {
  const { disk, known } = await small('zstd', 270_000);
  const opened = openSegment(disk.files, DIR, { segment: 1, generation: 2 });
  const containers = opened?.sealed?.index.containers ?? [];
  const alone = containers.findIndex(({ block }) => !block);
  const from = containers[alone]?.offset ?? 0;
  const to = containers[alone + 1]?.offset ?? 0;
  opened?.file.close();
  expect(await expectFound(disk, known, opened?.path ?? '', from, to)).toBeGreaterThan(700);
});

const corpus = process.env.MAILKEEP_CORPUS;

function mails(): Buffer[] {
  if (corpus === undefined || !existsSync(join(corpus, 'tricky'))) {
    return Array.from({ length: 60 }, (_, n) =>
      n % 7 === 0 ? mailWithAttachment(noise(290_000, n + 1)) : sampleMail(n + 1),
    );
  }
  return readdirSync(join(corpus, 'tricky'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name)))
    .filter(({ length }) => length < 500_000)
    .slice(0, 400);
}

describe('on the disk, with a catalog', () => {
  const archive = new GrownArchive();
  const top = mkdtempSync(join(tmpdir(), 'mailkeep-flips-'));
  beforeAll(async () => {
    const raws = mails();
    const half = Math.ceil(raws.length / 2);
    await archive.grow(raws.slice(0, half), true);
    await archive.grow(raws.slice(half), false);
  });
  afterAll(() => {
    archive.remove();
    rmSync(top, { recursive: true });
  });

  test('nothing is found in what is whole, and nothing is changed', async () => {
    const contents = () =>
      readdirSync(join(archive.dir, 'log'))
        .sort()
        .map((name) => hash('sha256', readFileSync(join(archive.dir, 'log', name))));
    const before = contents();
    const result = await verified(archive.dir);
    expect(result).toMatchObject({ found: 0, findings: [], catalog: 'equal' });
    expect(result.rebuilt).toBe(result.messages);
    expect(contents()).toEqual(before);
  });

  test('sampled bits are found, and the messages they concern are named', async () => {
    const ids = new Set(archive.known.messages.keys());
    let seed = 20260203;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return Math.floor((seed / 2147483648) * below);
    };
    const dir = join(top, 'flipped');
    cpSync(archive.dir, dir, { recursive: true });
    const files = readdirSync(join(dir, 'log')).filter((name) => name.endsWith('.seg'));
    let named = 0;
    for (let round = 0; round < 60; round += 1) {
      const path = join(dir, 'log', files[round % files.length] ?? '');
      const bytes = readFileSync(path);
      const at = random(bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << random(8));
      writeFileSync(path, bytes);
      const { findings, found } = await verified(dir);
      const said = JSON.stringify(findings);
      expect(found, `byte ${at} of ${basename(path)}`).toBeGreaterThan(0);
      if ([...ids].some((id) => said.includes(id)) || said.includes('"uid"')) named += 1;
      bytes[at] = readFileSync(join(archive.dir, 'log', basename(path)))[at] ?? 0;
      writeFileSync(path, bytes);
    }
    // What remains are headers of files, footers and commits of facts alone.
    expect(named).toBeGreaterThan(50);
  });

  test('a message whose bytes were hit is named with its subject and place', async () => {
    const dir = join(top, 'named');
    cpSync(archive.dir, dir, { recursive: true });
    const [id = '', position] = [...archive.known.messages].at(-1) ?? [];
    const path = join(dir, 'log', '0000000002.1.seg');
    const bytes = readFileSync(path);
    const at = (position?.offset ?? 0) + 64 + 300;
    bytes[at] = (bytes[at] ?? 0) ^ 4;
    writeFileSync(path, bytes);
    const { findings } = await verified(dir);
    expect(findings).toContainEqual(
      expect.objectContaining({
        what: 'log',
        reason: 'payload',
        messages: [
          expect.objectContaining({
            id,
            subject: expect.stringContaining('Grüße'),
            places: [expect.objectContaining({ mailbox: 'ada@example.org', folder: 'INBOX' })],
          }),
        ],
      }),
    );
  });

  test('a row that was changed in the catalog is found', async () => {
    const dir = join(top, 'rows');
    cpSync(archive.dir, dir, { recursive: true });
    const { default: Database } = await import('better-sqlite3');
    const db = new Database(join(dir, 'catalog.sqlite'));
    db.exec(
      "UPDATE messages SET subject = 'forged' WHERE docid = (SELECT max(docid) FROM messages)",
    );
    db.exec('DELETE FROM places WHERE id = (SELECT min(id) FROM places)');
    db.close();
    const { findings, catalog } = await verified(dir);
    expect(catalog).toBe('different');
    expect(findings).toMatchObject([
      { what: 'catalog', table: 'messages', difference: 'different', columns: ['subject'] },
      { what: 'catalog', table: 'places', difference: 'lacking', message: { id: hashOfFirst() } },
      // What the first commit opened is counted by the places.
      { what: 'catalog', table: 'commit_changes', difference: 'surplus' },
      { what: 'catalog', table: 'commit_changes', difference: 'lacking' },
      // The message names the set of its places.
      { what: 'catalog', table: 'messages', difference: 'different', columns: ['place_set'] },
    ]);
  });

  function hashOfFirst(): string {
    return hash('sha256', mails()[0] ?? '');
  }
});
