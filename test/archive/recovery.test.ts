import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import type { TornTail } from '../../src/archive/recovery.ts';
import { Positions } from './positions.ts';
import {
  DIR,
  hotPath,
  newLog,
  openOn,
  sampleMail,
  scanAll,
  soundBatches,
  writeBatches,
} from './sample-log.ts';
import { SimulatedDisk } from './simulated-disk.ts';

/** A log of four batches; where the last but one ends, and its bytes. */
async function sample() {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 3);
  const committed = disk.read(hotPath());
  await writeBatches(writer, known, 1, 50);
  await writer.close();
  return { known, committed, whole: disk.read(hotPath()), format: disk.read(`${DIR}/FORMAT`) };
}

function diskWith(bytes: Buffer, format: Buffer): SimulatedDisk {
  const disk = new SimulatedDisk();
  disk.put(`${DIR}/FORMAT`, format);
  disk.put(hotPath(), bytes);
  return disk;
}

async function reopen(disk: SimulatedDisk, expected?: { number: number; hash: string }) {
  const tails: TornTail[] = [];
  const writer = await openOn(disk.files, { expected, onTail: (tail) => tails.push(tail) });
  return { writer, tails };
}

test('cut at any byte of the last batch, exactly the committed state is left', async () => {
  const { known, committed, whole, format } = await sample();
  const third = known.batches[2]?.commit;
  for (let length = committed.length; length < whole.length; length += 1) {
    const disk = diskWith(whole.subarray(0, length), format);
    const { writer, tails } = await reopen(disk, third);
    expect(writer.last).toEqual({ number: 3, hash: third?.hash });
    expect(disk.read(hotPath()).equals(committed)).toBe(true);
    const torn = length - committed.length;
    const file = `${DIR}/log/tail-1.bin`;
    const offset = committed.length;
    expect(tails).toEqual(torn === 0 ? [] : [{ segment: 1, offset, bytes: torn, file }]);
    if (torn > 0)
      expect(disk.read(file).equals(whole.subarray(committed.length, length))).toBe(true);
  }
});

test('a torn tail is put aside, durably, before it is cut, and the log continues', async () => {
  const { known, committed, whole, format } = await sample();
  const disk = diskWith(whole.subarray(0, committed.length + 700), format);
  const { writer } = await reopen(disk);
  await writeBatches(writer, new Positions(), 2, 80);
  expect((await soundBatches(disk.files)).slice(0, 3)).toEqual(known.batches.slice(0, 3));
  await writer.close();
  const acts: string[] = [];
  const again = diskWith(whole.subarray(0, committed.length + 700), format);
  again.fault = (act, path) => {
    acts.push(`${act} ${path.slice(DIR.length)}`);
    return undefined;
  };
  await reopen(again);
  expect(acts.slice(acts.indexOf('create /log/tail-1.bin'))).toEqual([
    'create /log/tail-1.bin',
    'write /log/tail-1.bin',
    'datasync /log/tail-1.bin',
    'syncFolder /log',
    'truncate /log/0000000001.1.seg',
    'datasync /log/0000000001.1.seg',
  ]);
});

test('a bit flipped anywhere in what the catalog knows cuts nothing', async () => {
  const { known, whole, format } = await sample();
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: whole.length - 1 }),
      fc.nat({ max: 7 }),
      fc.boolean(),
      async (at, bit, tail) => {
        const bytes = Buffer.concat([whole, Buffer.alloc(tail ? 300 : 0, 'torn')]);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
        const disk = diskWith(bytes, format);
        await expect(reopen(disk, known.reached)).rejects.toMatchObject({ family: 'damage' });
        expect(disk.read(hotPath()).equals(bytes)).toBe(true);
        expect(disk.paths()).toEqual([`${DIR}/FORMAT`, hotPath()]);
      },
    ),
    { numRuns: 500 },
  );
});

test('a bit flipped anywhere before the last commit cuts nothing, with no catalog to ask', async () => {
  const { known, whole, format } = await sample();
  // The last record is the commit itself: damage in it cannot be distinguished from a torn write without the catalog.
  const commit = known.batches[3]?.records.at(-1)?.position.offset ?? 0;
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: commit - 1 }), fc.nat({ max: 7 }), async (at, bit) => {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
      const disk = diskWith(bytes, format);
      await expect(reopen(disk)).rejects.toMatchObject({ family: 'damage' });
      expect(disk.read(hotPath()).equals(bytes)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test('a damaged log stays readable as far as it verifies', async () => {
  const { known, whole, format } = await sample();
  const disk = diskWith(whole, format);
  const victim = [...known.messages.values()][4];
  const bytes = disk.read(hotPath());
  bytes.fill(0xff, (victim?.offset ?? 0) + 70, (victim?.offset ?? 0) + 90);
  disk.put(hotPath(), bytes);
  await expect(reopen(disk, known.reached)).rejects.toMatchObject({ code: 'log-damaged' });
  const reader = openLogReader({ dir: DIR, locator: known, files: disk.files });
  const outcomes = [...known.messages.keys()].map((id) => {
    try {
      return hash('sha256', reader.readMessage(id)) === id ? 'read' : 'wrong';
    } catch (error) {
      expect(error).toMatchObject({ code: 'message-damaged', facts: { message: id } });
      return 'damaged';
    }
  });
  expect(outcomes.filter((outcome) => outcome === 'damaged')).toHaveLength(1);
  expect(outcomes.filter((outcome) => outcome === 'read')).toHaveLength(11);
});

describe('the catalog knows better', () => {
  test('a log that ends before its commit is damage', async () => {
    const { known, committed, format } = await sample();
    const disk = diskWith(committed, format);
    await expect(reopen(disk, known.reached)).rejects.toMatchObject({
      code: 'log-ends-early',
      facts: { expectedNumber: 4, lastNumber: 3 },
    });
  });

  test('another commit under its number is damage', async () => {
    const { whole, format } = await sample();
    await expect(
      reopen(diskWith(whole, format), { number: 2, hash: 'b'.repeat(64) }),
    ).rejects.toMatchObject({ code: 'log-diverged', facts: { number: 2 } });
  });

  test('an archive without a log is damage when there was one', async () => {
    const { known } = await sample();
    const disk = new SimulatedDisk();
    await expect(reopen(disk, known.reached)).rejects.toMatchObject({ code: 'log-ends-early' });
  });
});

describe('bytes of mail cannot pass for records', () => {
  test('not even the whole log, mailed to oneself', async () => {
    const { known, whole, format } = await sample();
    const disk = diskWith(whole, format);
    const { writer } = await reopen(disk);
    const raw = Buffer.concat([Buffer.from('Subject: my archive\r\n\r\n'), whole]);
    const batch = writer.newBatch();
    batch.addSource(raw, hash('sha256', raw));
    await writer.commit(batch);
    await writer.close();
    // Break the header before the mailed log: a search for the next record runs through all of it.
    const bytes = disk.read(hotPath());
    bytes[whole.length + 1] = 0;
    const broken = diskWith(bytes, format);
    await expect(reopen(broken)).rejects.toMatchObject({
      code: 'log-damaged',
      facts: { offset: whole.length },
    });
    const batches = (await scanAll(broken.files)).filter((event) => event.what === 'batch');
    expect(batches).toHaveLength(known.batches.length + 1);
  });
});

describe('a power cut that wrote the end of a batch and not its middle', () => {
  const page = 4096;
  /** The last batch with its first whole page unwritten. */
  async function holed() {
    const { known, committed, whole, format } = await sample();
    const bytes = Buffer.from(whole);
    const from = Math.ceil(committed.length / page) * page;
    expect(from).toBeLessThan(whole.length - 200);
    bytes.fill(0, committed.length, Math.min(from, whole.length));
    return { known, committed, bytes, format };
  }

  test('is a torn tail where the catalog does not know the batch', async () => {
    const { known, committed, bytes, format } = await holed();
    const disk = diskWith(bytes, format);
    const { writer, tails } = await reopen(disk, known.batches[2]?.commit);
    expect(writer.last.number).toBe(3);
    expect(tails).toMatchObject([{ offset: committed.length }]);
    expect(disk.read(hotPath()).equals(committed)).toBe(true);
  });

  test('is damage where it does', async () => {
    const { known, bytes, format } = await holed();
    const disk = diskWith(bytes, format);
    await expect(reopen(disk, known.reached)).rejects.toMatchObject({ family: 'damage' });
    expect(disk.read(hotPath()).equals(bytes)).toBe(true);
  });
});

test('tails are numbered on', async () => {
  const { committed, format } = await sample();
  const disk = diskWith(Buffer.concat([committed, Buffer.from('one')]), format);
  disk.put(`${DIR}/log/tail-7.bin`, Buffer.from('older'));
  const { tails } = await reopen(disk);
  expect(tails.map(({ file }) => file)).toEqual([`${DIR}/log/tail-8.bin`]);
});

describe('FORMAT', () => {
  test.each([
    ['mailkeep archive 3\n', 'archive-format-newer'],
    ['something else\n', 'archive-format-unreadable'],
  ])('%j is refused', async (text, code) => {
    const { whole } = await sample();
    const disk = diskWith(whole, Buffer.from(text));
    await expect(reopen(disk)).rejects.toMatchObject({ code });
    expect(() => openLogReader({ dir: DIR, locator: new Positions(), files: disk.files })).toThrow(
      expect.objectContaining({ code }),
    );
  });

  test('missing next to a log is damage; missing without one is no archive', async () => {
    const { whole } = await sample();
    const disk = new SimulatedDisk();
    disk.put(hotPath(), whole);
    await expect(reopen(disk)).rejects.toMatchObject({ code: 'archive-format-unreadable' });
    await expect(scanAll(new SimulatedDisk().files)).rejects.toMatchObject({
      code: 'archive-missing',
    });
  });

  test('written before a segment was, an archive is laid out again', async () => {
    const disk = new SimulatedDisk();
    disk.put(`${DIR}/FORMAT`, Buffer.from('mailkeep archive 1\n'));
    const { writer } = await reopen(disk);
    await writeBatches(writer, new Positions(), 1);
    expect(await soundBatches(disk.files)).toHaveLength(1);
  });
});

test('sample messages differ', () => {
  const ids = new Set(Array.from({ length: 30 }, (_, n) => hash('sha256', sampleMail(n + 1))));
  expect(ids.size).toBeGreaterThan(20);
});
