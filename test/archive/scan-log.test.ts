import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import type { CommittedBatch, FoldedRecord } from '../../src/archive/format.ts';
import {
  decodeSegmentHeader,
  readRecordHeader,
  writeRecordHeader,
} from '../../src/archive/format.ts';
import { sealSegment } from '../../src/archive/seal.ts';
import type { Positions } from './positions.ts';
import { DIR, hotPath, newLog, scanAll, writeBatches } from './sample-log.ts';
import type { SimulatedDisk } from './simulated-disk.ts';

const SEALED = `${DIR}/log/0000000001.2.seg`;

async function sample(segmentBytes = 1_000_000) {
  const { disk, writer, known } = await newLog({ segmentBytes });
  await writeBatches(writer, known, 8);
  return { disk, writer, known };
}

/** Changes the bytes of a file in place. */
function change(disk: SimulatedDisk, path: string, act: (bytes: Buffer) => void): void {
  const bytes = disk.read(path);
  act(bytes);
  disk.put(path, bytes);
}

async function outcome(disk: SimulatedDisk) {
  const events = await scanAll(disk.files);
  return {
    order: events.map((e) =>
      e.what === 'batch'
        ? `${e.batch.commit.number}${e.sound ? '' : '?'}`
        : e.what === 'damage'
          ? e.damage.reason
          : e.what,
    ),
    damages: events.flatMap((e) => (e.what === 'damage' ? [e.damage] : [])),
    batches: events.flatMap((e) => (e.what === 'batch' ? [e.batch] : [])),
  };
}

function batchOf(known: Positions, number: number): CommittedBatch {
  const found = known.batches.find(({ commit }) => commit.number === number);
  if (found === undefined) throw new Error(`no batch ${number}`);
  return found;
}

function recordOf(known: Positions, number: number, index: number): FoldedRecord {
  const found = batchOf(known, number).records.at(index);
  if (found === undefined) throw new Error(`no record ${index} in batch ${number}`);
  return found;
}

test('a damaged payload costs that record; its batch comes with the others, marked', async () => {
  const { disk, known } = await sample();
  const victim = recordOf(known, 3, 1);
  change(disk, hotPath(), (bytes) =>
    bytes.fill(1, victim.position.offset + 64, victim.position.offset + 70),
  );
  const { order, damages, batches } = await outcome(disk);
  expect(order).toEqual(['1', '2', 'payload', '3?', '4', '5', '6', '7', '8']);
  expect(damages[0]).toMatchObject({ segment: 1, offset: victim.position.offset });
  expect(batches[2]?.records).toEqual(batchOf(known, 3).records.filter((r) => r !== victim));
});

test('behind a damaged header, records stand where they stood', async () => {
  const { disk, known } = await sample();
  const victim = recordOf(known, 3, 2);
  change(disk, hotPath(), (bytes) =>
    bytes.fill(1, victim.position.offset, victim.position.offset + 8),
  );
  const { order, damages, batches } = await outcome(disk);
  expect(order).toEqual(['1', '2', 'bytes', '3?', '4', '5', '6', '7', '8']);
  expect(damages[0]).toMatchObject({
    offset: victim.position.offset,
    end: recordOf(known, 3, 3).position.offset,
  });
  expect(batches[2]?.records).toEqual(batchOf(known, 3).records.filter((r) => r !== victim));
});

test('with two damaged headers, what stands between them is left out: its place is uncertain', async () => {
  const { disk, known } = await sample();
  const { records } = batchOf(known, 3);
  for (const index of [1, 4]) {
    const { offset } = recordOf(known, 3, index).position;
    change(disk, hotPath(), (bytes) => bytes.fill(1, offset, offset + 8));
  }
  const { order, batches } = await outcome(disk);
  expect(order).toEqual(['1', '2', 'bytes', 'bytes', '3?', '4', '5', '6', '7', '8']);
  expect(batches[2]?.records).toEqual([...records.slice(0, 1), ...records.slice(5)]);
});

test('a batch whose commit is lost is lost; the next one says so, and is read itself', async () => {
  const { disk, known } = await sample();
  const { offset } = recordOf(known, 4, 0).position;
  // The commit of batch 3 stands right before batch 4.
  change(disk, hotPath(), (bytes) => bytes.fill(0xaa, offset - 40, offset));
  const { order, batches } = await outcome(disk);
  expect(order).toEqual(['1', '2', 'commit', 'order', '4?', '5', '6', '7', '8']);
  expect(batches[2]?.records).toEqual(batchOf(known, 4).records);
});

test('a fact that was changed with all its checksums breaks the chain', async () => {
  const { disk, known } = await sample();
  const victim = recordOf(known, 5, -1);
  change(disk, hotPath(), (bytes) => {
    const { offset } = victim.position;
    const space = decodeSegmentHeader(bytes);
    if (space === undefined) throw new Error('no segment header');
    const header = readRecordHeader(bytes, offset, space, offset);
    if (header === undefined) throw new Error('no record there');
    const payload = bytes.subarray(offset + 64, offset + 64 + header.storedLength);
    const at = payload.indexOf('Seen');
    payload.write('seeN', at, 'latin1');
    const forged = { ...header, hash: hash('sha256', payload, 'buffer'), crc: crc32(payload) };
    writeRecordHeader(bytes, offset, forged, space, offset);
  });
  expect((await outcome(disk)).order).toEqual(['1', '2', '3', '4', 'chain', '5?', '6', '7', '8']);
});

test('a batch that was taken out, whole, is missed', async () => {
  const { disk, known } = await sample(2000);
  const path = hotPath(3);
  const third = known.batches.filter(({ records }) => records[0]?.position.segment === 3);
  disk.delete(path);
  const { order, batches } = await outcome(disk);
  expect(order.filter((what) => what === 'segment-missing')).toHaveLength(1);
  expect(batches).toEqual(known.batches.filter((batch) => !third.includes(batch)));
});

test('a segment with a damaged header is named, and the others are read', async () => {
  const { disk, known } = await sample(2000);
  change(disk, hotPath(2), (bytes) => bytes.fill(0, 0, 4));
  const { order, batches } = await outcome(disk);
  expect(order.filter((what) => what === 'segment-header')).toHaveLength(1);
  expect(batches).toEqual(
    known.batches.filter(({ records }) => records[0]?.position.segment !== 2),
  );
});

test('what a writer has begun behind the last commit is a tail, and no damage', async () => {
  const { disk } = await sample();
  change(disk, hotPath(), () => {});
  const whole = disk.read(hotPath());
  disk.put(hotPath(), Buffer.concat([whole, Buffer.from('half a record')]));
  const events = await scanAll(disk.files);
  expect(events.at(-1)).toEqual({ what: 'tail', segment: 1, offset: whole.length, bytes: 13 });
});

test('in an older segment the same bytes are damage', async () => {
  const { disk, writer } = await sample();
  await writer.rollIfLarger(0);
  disk.put(hotPath(), Buffer.concat([disk.read(hotPath()), Buffer.from('half a record')]));
  const { order } = await outcome(disk);
  expect(order).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', 'bytes']);
});

test.each([
  ['zlib', 120],
  // Its blocks are eight times as large.
  ['zstd', 700],
] as const)(
  'a damaged block of a segment sealed with %s costs what lies in it',
  async (codec, count) => {
    const { disk, writer, known } = await sample(8_000_000);
    await writeBatches(writer, known, count, 100);
    await writer.rollIfLarger(0);
    await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec });
    disk.delete(hotPath());
    const whole = await outcome(disk);
    expect(whole.damages).toEqual([]);
    change(disk, SEALED, (bytes) => {
      // Some byte of the second block.
      const at = Math.floor(bytes.length / 2);
      bytes[at] = (bytes[at] ?? 0) ^ 0xff;
    });
    const { damages, batches } = await outcome(disk);
    expect(damages[0]).toMatchObject({ reason: 'payload' });
    expect(batches.length).toBeGreaterThan(30);
    expect(batches.length).toBeLessThan(known.batches.length);
    // Whatever comes has its right position.
    const written = new Map(
      known.batches.flatMap(({ records }) => records.map((r) => [r.position.ordinal, r])),
    );
    for (const record of batches.flatMap(({ records }) => records)) {
      expect(record).toEqual(written.get(record.position.ordinal));
    }
  },
);

test('a sealed segment without its footer, and no older one, is read all the same and reported', async () => {
  const { disk, writer, known } = await sample();
  await writer.rollIfLarger(0);
  await sealSegment({ dir: DIR, segment: 1, files: disk.files });
  disk.delete(hotPath());
  change(disk, SEALED, (bytes) => bytes.fill(0, bytes.length - 8));
  const { damages, batches } = await outcome(disk);
  expect(damages.map(({ reason }) => reason)).toContain('footer');
  expect(batches).toEqual(known.batches);
});
