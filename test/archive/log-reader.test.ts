import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { FileLayer } from '../../src/archive/file-system.ts';
import { type LogReader, openLogReader, scanLog } from '../../src/archive/log-reader.ts';
import { sealSegment } from '../../src/archive/seal.ts';
import { mailWithAttachment, noise } from './generated-mail.ts';
import { DIR, fill, hotPath, newLog, writeBatches } from './sample-log.ts';

const ATTACHMENT = noise(4 * 1024 * 1024);

async function sample() {
  const { disk, writer, known } = await newLog();
  const raws = await writeBatches(writer, known, 4);
  const large = mailWithAttachment(ATTACHMENT);
  known.fold(await writer.commit(fill(writer.newBatch(), [large], known, 100)));
  await writer.rollIfLarger(0);
  const reader = openLogReader({ dir: DIR, locator: known, files: disk.files });
  return { disk, writer, known, reader, raws, large };
}

describe.each(['hot', 'sealed'])('in a %s segment', (state) => {
  async function stored() {
    const all = await sample();
    if (state === 'sealed') {
      await sealSegment({ dir: DIR, segment: 1, files: all.disk.files });
      all.disk.delete(hotPath());
    }
    return all;
  }

  test('a message comes whole, in pieces, or as far as is asked', async () => {
    const { reader, raws, large } = await stored();
    for (const raw of [...raws, large]) {
      const id = hash('sha256', raw);
      expect(reader.readMessage(id).equals(raw)).toBe(true);
      expect(reader.sizeOf(id)).toBe(raw.length);
      const pieces: Buffer[] = [];
      for await (const piece of reader.streamMessage(id)) pieces.push(Buffer.from(piece));
      expect(Buffer.concat(pieces).equals(raw)).toBe(true);
      for (const most of [0, 1, 100, raw.length - 1, raw.length, raw.length + 1]) {
        const { bytes, cut } = reader.readSource(id, most);
        expect(bytes.equals(raw.subarray(0, most))).toBe(true);
        expect(cut).toBe(most < raw.length);
      }
    }
  });

  test('a blob comes by its hash', async () => {
    const { reader, known } = await stored();
    const chunk = ATTACHMENT.subarray(0, 3 * 1024 * 1024);
    expect(reader.readBlob(hash('sha256', chunk)).equals(chunk)).toBe(true);
    for (const name of known.blobs.keys()) expect(hash('sha256', reader.readBlob(name))).toBe(name);
  });

  test('bytes that are not what was stored are an error, however little is wrong', async () => {
    const { disk, reader, large, raws } = await stored();
    const path = state === 'hot' ? hotPath() : `${DIR}/log/0000000001.2.seg`;
    const bytes = disk.read(path);
    // Most of the file is the large attachment.
    const at = Math.floor(bytes.length / 2);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    disk.put(path, bytes);
    reader.refresh();
    const id = hash('sha256', large);
    expect(() => reader.readMessage(id)).toThrow(expect.objectContaining({ code: 'blob-damaged' }));
    const read = async () => {
      for await (const piece of reader.streamMessage(id)) void piece;
    };
    await expect(read()).rejects.toMatchObject({ family: 'damage' });
    for (const raw of raws) {
      expect(reader.readMessage(hash('sha256', raw)).equals(raw)).toBe(true);
    }
  });

  test('a position that points elsewhere never gives other bytes', async () => {
    const { disk, known, raws } = await stored();
    const positions = [...known.messages.values(), ...known.blobs.values()];
    const [raw] = raws;
    const id = hash('sha256', raw ?? '');
    for (const position of positions) {
      const locator = { blob: (name: string) => known.blob(name), message: () => position };
      const reader = openLogReader({ dir: DIR, locator, files: disk.files });
      if (position === known.message(id)) continue;
      expect(() => reader.readMessage(id)).toThrow(
        expect.objectContaining({ code: 'message-damaged' }),
      );
    }
  });
});

test('a reader that is given the blocks of a scan reads none of them again', async () => {
  const { disk, known, raws } = await sample();
  await sealSegment({ dir: DIR, segment: 1, files: disk.files });
  disk.delete(hotPath());
  let reads = 0;
  const files: FileLayer = {
    ...disk.files,
    open(path, access) {
      const file = disk.files.open(path, access);
      const read = (target: Uint8Array, position: number): number => {
        reads += 1;
        return file.read(target, position);
      };
      return { ...file, read };
    },
  };
  const readsOf = (reader: LogReader): number => {
    const before = reads;
    for (const raw of raws) expect(reader.readMessage(hash('sha256', raw))).toEqual(raw);
    return reads - before;
  };
  const given = openLogReader({ dir: DIR, locator: known, files });
  let blocks = 0;
  const inflated = (path: string, offset: number, block: Buffer): void => {
    blocks += 1;
    given.keepBlock(path, offset, block);
  };
  for await (const event of scanLog({ dir: DIR, files, inflated }))
    expect(event.what).toBe('batch');
  expect(blocks).toBeGreaterThan(0);
  const alone = openLogReader({ dir: DIR, locator: known, files });
  expect(readsOf(given)).toBeLessThan(readsOf(alone));
});

test('what the locator does not know is unknown; a blob that a recipe needs is damage', async () => {
  const { known, reader, disk, large } = await sample();
  expect(() => reader.readMessage('0'.repeat(64))).toThrow(
    expect.objectContaining({ code: 'bytes-unknown' }),
  );
  const locator = { blob: () => undefined, message: (id: string) => known.message(id) };
  const blind = openLogReader({ dir: DIR, locator, files: disk.files });
  expect(() => blind.readMessage(hash('sha256', large))).toThrow(
    expect.objectContaining({ code: 'blob-damaged' }),
  );
});

test('a reader that is open while segments are sealed and dropped reads on', async () => {
  const { disk, reader, raws } = await sample();
  const [first, second] = raws;
  expect(reader.readMessage(hash('sha256', first ?? ''))).toEqual(first);
  await sealSegment({ dir: DIR, segment: 1, files: disk.files });
  disk.delete(hotPath());
  // The open file still serves; a reader that reopens it has to list the folder again.
  expect(reader.readMessage(hash('sha256', second ?? ''))).toEqual(second);
  reader.refresh();
  for (const raw of raws) expect(reader.readMessage(hash('sha256', raw))).toEqual(raw);
});

test('a reader that listed the folder before a file was replaced lists it again', async () => {
  const { disk, known, writer, raws } = await sample();
  await writeBatches(writer, known, 1, 301);
  const reader = openLogReader({ dir: DIR, locator: known, files: disk.files });
  const [inSecond] = known.batches.at(-1)?.records.filter((r) => r.kind === 'message') ?? [];
  // Opens segment 2, and remembers that segment 1 has one generation.
  expect(inSecond?.kind === 'message' && reader.readMessage(inSecond.id).length).toBeTruthy();
  await sealSegment({ dir: DIR, segment: 1, files: disk.files });
  disk.delete(hotPath());
  for (const raw of raws) expect(reader.readMessage(hash('sha256', raw))).toEqual(raw);
});

test('damage of the file that is open is met once, where a newer generation is whole', async () => {
  const { disk, known, reader, raws } = await sample();
  for (const raw of raws) reader.readMessage(hash('sha256', raw));
  await sealSegment({ dir: DIR, segment: 1, files: disk.files });
  for (const { offset } of known.messages.values()) disk.rot(hotPath(), offset + 70);
  for (const raw of raws) expect(reader.readMessage(hash('sha256', raw))).toEqual(raw);
});

test('a recipe that rebuilds other bytes than those of its message is damage', async () => {
  const { disk, known, writer } = await sample();
  const id = hash('sha256', 'what was meant');
  const batch = writer.newBatch();
  batch.addSource(Buffer.from('something else'), id);
  known.fold(await writer.commit(batch));
  const reader = openLogReader({ dir: DIR, locator: known, files: disk.files });
  const wrong = { code: 'message-damaged', facts: { message: id, reason: 'hash' } };
  expect(() => reader.readMessage(id)).toThrow(expect.objectContaining(wrong));
  expect(() => reader.readSource(id, 1000)).toThrow(expect.objectContaining(wrong));
  const read = async () => {
    for await (const piece of reader.streamMessage(id)) void piece;
  };
  await expect(read()).rejects.toMatchObject(wrong);
});

/** Messages with attachments of 40 kB that compress by half, and share blocks when they are sealed. */
function mailsWithText(count: number): Buffer[] {
  return Array.from({ length: count }, (_, n) =>
    mailWithAttachment(Buffer.from(noise(20_000, n + 1).toString('hex'))),
  );
}

test.each(['read by itself', 'kept from a scan'])(
  'what was read stays as it is while the block it came from is forgotten, %s',
  async (way) => {
    const { disk, writer, known } = await newLog();
    // 14 MB of blocks, of which 8 MiB are kept.
    const mails = mailsWithText(350);
    known.fold(await writer.commit(fill(writer.newBatch(), mails, known, 0)));
    await writer.rollIfLarger(0);
    await sealSegment({ dir: DIR, segment: 1, files: disk.files });
    disk.delete(hotPath());
    const reader = openLogReader({ dir: DIR, locator: known, files: disk.files });
    if (way === 'kept from a scan') {
      const inflated = (path: string, offset: number, block: Buffer) =>
        reader.keepBlock(path, offset, block);
      const scanned = scanLog({ dir: DIR, files: disk.files, inflated });
      for await (const event of scanned) expect(event.what).toBe('batch');
    }
    const ids = mails.map((mail) => hash('sha256', mail));
    const blobs = [...known.blobs.keys()];
    const held = blobs.map((name) => reader.readBlob(name));
    for (const [n, bytes] of held.entries()) expect(hash('sha256', bytes)).toBe(blobs[n]);

    const [first, ...others] = ids;
    const pieces: Buffer[] = [];
    for await (const piece of reader.streamMessage(first ?? '')) {
      for (const id of others) reader.readMessage(id);
      pieces.push(piece);
    }
    expect(mails[0]?.equals(Buffer.concat(pieces))).toBe(true);
  },
);
