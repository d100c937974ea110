import {
  appendFileSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { FileLayer } from '../../src/archive/file-system.ts';
import { realFiles } from '../../src/archive/file-system.ts';
import { lastCommitNumber, readLogHead } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { sealSegment } from '../../src/archive/seal.ts';
import { GrownArchive, START } from '../verify/grown-archive.ts';
import { mailWithAttachment, noise } from './generated-mail.ts';
import { sampleMail } from './sample-log.ts';

const archives: GrownArchive[] = [];
afterEach(() => {
  for (const archive of archives.splice(0)) archive.remove();
});
function newArchive(): GrownArchive {
  const archive = new GrownArchive();
  archives.push(archive);
  return archive;
}

const samples = (...numbers: number[]): Buffer[] => numbers.map((n) => sampleMail(n));

/** The disk, and the bytes that were read from it. */
function counting(): { readonly files: FileLayer; readonly read: () => number } {
  let bytes = 0;
  const files: FileLayer = {
    open(path, access) {
      const file = realFiles.open(path, access);
      return {
        read(target, position) {
          const got = file.read(target, position);
          bytes += got;
          return got;
        },
        size: () => file.size(),
        write: (from, position) => file.write(from, position),
        datasync: () => file.datasync(),
        truncate: (length) => file.truncate(length),
        close: () => file.close(),
      };
    },
    list: (folder) => realFiles.list(folder),
    makeFolder: (folder) => realFiles.makeFolder(folder),
    rename: (from, to) => realFiles.rename(from, to),
    remove: (path) => realFiles.remove(path),
    syncFolder: (folder) => realFiles.syncFolder(folder),
    modifiedAt: (path) => realFiles.modifiedAt(path),
  };
  return { files, read: () => bytes };
}

function lastSegment(dir: string): string {
  const names = readdirSync(join(dir, 'log')).filter((name) => name.endsWith('.seg'));
  return join(dir, 'log', names.toSorted().at(-1) ?? '');
}

test('the last commit of an unsealed segment costs a few kilobytes, however long it is', async () => {
  const archive = newArchive();
  const large = [1, 2, 3, 4].map((n) => mailWithAttachment(noise(400_000, n)));
  await archive.grow([...large, ...samples(1, 2, 3, 4)], false);
  const { files, read } = counting();
  expect(lastCommitNumber(archive.dir, files)).toBe(readLogHead(archive.dir).number);
  expect(statSync(lastSegment(archive.dir)).size).toBeGreaterThan(1_000_000);
  expect(read()).toBeLessThan(20_000);
});

test('a commit with a changed hash is not taken for the last one', async () => {
  const archive = newArchive();
  await archive.grow(samples(1, 2, 3, 4, 5, 6, 7), false);
  const file = lastSegment(archive.dir);
  const bytes = readFileSync(file);
  const at = bytes.lastIndexOf('"hash":"') + '"hash":"'.length;
  bytes[at] = bytes[at] === 0x61 ? 0x62 : 0x61;
  writeFileSync(file, bytes);
  expect(lastCommitNumber(archive.dir, realFiles)).toBe(2);
});

test('a segment without a commit gives the number of the one before', async () => {
  const archive = newArchive();
  await archive.grow(samples(1, 2, 3, 4), true);
  expect(readLogHead(archive.dir).number).toBe(2);
  expect(lastCommitNumber(archive.dir, realFiles)).toBe(2);
});

test('a sealed last segment gives its last commit', async () => {
  const archive = newArchive();
  await archive.grow(samples(1, 2, 3, 4, 5, 6, 7), true);
  const empty = lastSegment(archive.dir);
  rmSync(empty);
  expect(lastSegment(archive.dir)).toMatch(/0000000001\.2\.seg$/);
  expect(lastCommitNumber(archive.dir, realFiles)).toBe(3);
});

test('a commit that stands alone in a sealed segment is found as well', async () => {
  const archive = newArchive();
  await archive.grow(samples(1), false);
  const writer = await openLogWriter({ dir: archive.dir, now: () => START });
  await writer.commit(fillBlob(writer.newBatch()));
  await writer.rollIfLarger(0);
  await sealSegment({ dir: archive.dir, segment: 1 });
  await writer.close();
  rmSync(lastSegment(archive.dir));
  expect(lastCommitNumber(archive.dir, realFiles)).toBe(2);
});

function fillBlob<T extends { addBlob(bytes: Buffer): unknown }>(batch: T): T {
  batch.addBlob(noise(300_000, 5));
  return batch;
}

test('bytes of unfinished work behind the last commit are passed over', async () => {
  const archive = newArchive();
  await archive.grow(samples(1, 2, 3, 4), false);
  const file = lastSegment(archive.dir);
  const whole = readFileSync(file);
  for (const tail of [1, 64, 500, 10_000]) {
    writeFileSync(file, whole);
    appendFileSync(file, Buffer.alloc(tail, 7));
    expect(lastCommitNumber(archive.dir, realFiles), `${tail} bytes`).toBe(2);
  }
  // Cut within the last commit's record: the one before it is the last.
  writeFileSync(file, whole.subarray(0, whole.length - 10));
  expect(lastCommitNumber(archive.dir, realFiles)).toBe(1);
});

test('where there is no log, or its last header is damaged, there is no number', async () => {
  const archive = newArchive();
  await archive.grow(samples(1), false);
  const file = lastSegment(archive.dir);
  writeFileSync(file, readFileSync(file).fill(0, 0, 64));
  expect(lastCommitNumber(archive.dir, realFiles)).toBeUndefined();
  expect(lastCommitNumber(join(archive.dir, 'nowhere'), realFiles)).toBeUndefined();
});
