import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import type { ArchiveCodec } from '../../src/archive/payload.ts';
import {
  dropOldGenerations,
  listCompactable,
  sealClosedSegments,
  sealSegment,
} from '../../src/archive/seal.ts';
import { listSegments } from '../../src/archive/segment-files.ts';
import { endings, powerCuts } from './endings.ts';
import { mailWithAttachment, noise } from './generated-mail.ts';
import type { Positions } from './positions.ts';
import {
  DIR,
  fill,
  hotPath,
  newLog,
  openOn,
  sampleMail,
  scanAll,
  soundBatches,
  writeBatches,
} from './sample-log.ts';
import { Killed, type SimulatedDisk, systemError } from './simulated-disk.ts';

const DAY = 24 * 60 * 60 * 1000;

/** An archive of one closed segment with small and large records, and a second one that is written to. */
async function closed() {
  const { disk, writer, known } = await newLog();
  const raws = await writeBatches(writer, known, 20);
  const large = [
    mailWithAttachment(noise(300_000)),
    mailWithAttachment(Buffer.alloc(300_000, 'compressible ')),
    Buffer.from(`Subject: long\r\n\r\n${'a long text runs on and on\r\n'.repeat(5000)}`),
  ];
  known.fold(await writer.commit(fill(writer.newBatch(), large, known, 900)));
  await writer.rollIfLarger(0);
  await writeBatches(writer, known, 1, 500);
  return { disk, writer, known, raws: [...raws, ...large] };
}

function expectAllReadable(disk: SimulatedDisk, known: Positions, raws: readonly Buffer[]): void {
  const reader = openLogReader({ dir: DIR, locator: known, files: disk.files });
  for (const raw of raws) {
    expect(reader.readMessage(hash('sha256', raw)).equals(raw)).toBe(true);
  }
  reader.close();
}

function generations(disk: SimulatedDisk): unknown {
  return Object.fromEntries(listSegments(disk.files, DIR));
}

test('a sealed file takes its name only once it is durable, and FORMAT allows zstd before it begins', async () => {
  const { disk } = await closed();
  const acts: string[] = [];
  disk.fault = (act, path) => {
    if (acts.at(-1) !== `${act} ${path}`) acts.push(`${act} ${path}`);
    return undefined;
  };
  await sealSegment({ dir: DIR, segment: 1, files: disk.files });
  const path = `${DIR}/log/0000000001.2.seg`;
  const format = `${DIR}/FORMAT`;
  expect(acts).toEqual([
    `create ${format}.tmp`,
    `write ${format}.tmp`,
    `datasync ${format}.tmp`,
    `rename ${format}`,
    `syncFolder ${DIR}`,
    `create ${path}.tmp`,
    `write ${path}.tmp`,
    `datasync ${path}.tmp`,
    `rename ${path}`,
    `syncFolder ${DIR}/log`,
  ]);
});

describe.each<ArchiveCodec>(['zstd', 'zlib'])('with %s,', (codec) => {
  test('a sealed segment reads, record by record and batch by batch, like the hot one', async () => {
    const { disk, writer, known, raws } = await closed();
    const before = await soundBatches(disk.files);
    const { sealed, damaged } = await sealClosedSegments({
      dir: DIR,
      before: writer.segment,
      files: disk.files,
      codec,
    });
    expect(damaged).toEqual([]);
    expect(sealed).toMatchObject([{ segment: 1, generation: 2 }]);
    expect(sealed[0]?.bytesAfter).toBeLessThan((sealed[0]?.bytesBefore ?? 0) * 0.7);
    expect(generations(disk)).toEqual({ 1: [2, 1], 2: [1] });
    disk.delete(hotPath(1));
    expect(await soundBatches(disk.files)).toEqual(before);
    expectAllReadable(disk, known, raws);
    for (const { commit } of known.batches) {
      const after = await scanAll(disk.files, commit);
      expect(after.map(({ what }) => what)).toEqual(
        before.filter((batch) => batch.commit.number > commit.number).map(() => 'batch'),
      );
    }
  });

  test('a segment is sealed once, and the one that is written to is not', async () => {
    const { disk, writer } = await closed();
    const again = { dir: DIR, before: writer.segment, files: disk.files, codec };
    await sealClosedSegments(again);
    expect(await sealClosedSegments(again)).toEqual({ sealed: [], damaged: [] });
  });

  test('many segments are listed once, whether they are sealed, compacted or passed over', async () => {
    const { disk, writer, known } = await newLog();
    for (let segment = 1; segment <= 12; segment += 1) {
      await writeBatches(writer, known, 1, segment * 10);
      await writer.rollIfLarger(0);
    }
    let listings = 0;
    const files = {
      ...disk.files,
      list(dir: string) {
        listings += 1;
        return disk.files.list(dir);
      },
    };
    const sealing = { dir: DIR, before: writer.segment, files, codec };
    expect((await sealClosedSegments(sealing)).sealed).toHaveLength(12);
    listings = 0;
    expect((await sealClosedSegments(sealing)).sealed).toEqual([]);
    expect(listings).toBe(1);
    const other = codec === 'zstd' ? 'zlib' : 'zstd';
    expect([...listCompactable(files, DIR, other, [])]).toHaveLength(12);
    expect(listings).toBe(2);
  });

  const CUTS = powerCuts(2);

  test(
    `killed, or without power, at any act of sealing: everything reads as before, and sealing works again (${CUTS} seeds)`,
    async () => {
      for (const { name, after } of endings(CUTS)) {
        for (let k = 0; ; k += 1) {
          const { disk, known, raws } = await closed();
          const start = disk.acts;
          disk.fault = (act, _path, count) => {
            if (count === start + k) throw new Killed(act);
            return undefined;
          };
          const outcome = await sealSegment({
            dir: DIR,
            segment: 1,
            files: disk.files,
            codec,
          }).catch((error: unknown) => error);
          const next = after(disk);
          const writer = await openOn(next.files, { expected: known.reached });
          expect(next.paths().filter((path) => path.endsWith('.tmp'))).toEqual([]);
          expect(await soundBatches(next.files), `${name}, act ${k}`).toEqual(known.batches);
          expectAllReadable(next, known, raws);
          await sealClosedSegments({ dir: DIR, before: writer.segment, files: next.files, codec });
          expect(await soundBatches(next.files), `${name}, act ${k}`).toEqual(known.batches);
          expectAllReadable(next, known, raws);
          if (!(outcome instanceof Error)) break;
        }
      }
    },
    120_000 + CUTS * 30_000,
  );

  test('no room at any write of sealing: a clear error, nothing changes, and it resumes when there is room', async () => {
    for (let k = 0; ; k += 1) {
      const { disk, known, raws } = await closed();
      let writes = 0;
      disk.fault = (act, path) => {
        if (act === 'write' && writes++ === k) throw systemError('ENOSPC', path);
        return undefined;
      };
      const seal = () => sealSegment({ dir: DIR, segment: 1, files: disk.files, codec });
      const outcome = await seal().catch((error: unknown) => error);
      if (!(outcome instanceof Error)) break;
      expect(outcome).toMatchObject({ code: 'disk-full' });
      expect(generations(disk)).toEqual({ 1: [1], 2: [1] });
      expect(disk.paths().some((path) => path.endsWith('.tmp'))).toBe(false);
      expectAllReadable(disk, known, raws);
      await seal();
      expect(await soundBatches(disk.files)).toEqual(known.batches);
      expectAllReadable(disk, known, raws);
    }
  });

  test('a damaged segment is not sealed: its damage would look like the truth', async () => {
    const { disk, writer } = await closed();
    const bytes = disk.read(hotPath(1));
    bytes[3000] = (bytes[3000] ?? 0) ^ 1;
    disk.put(hotPath(1), bytes);
    const { sealed, damaged } = await sealClosedSegments({
      dir: DIR,
      before: writer.segment,
      files: disk.files,
      codec,
    });
    expect(sealed).toEqual([]);
    expect(damaged).toMatchObject([{ code: 'log-damaged', facts: { segment: 1 } }]);
    expect(generations(disk)).toEqual({ 1: [1], 2: [1] });
  });

  test('a sealed file without a whole footer is not in force while there is the old one', async () => {
    const { disk, known, raws } = await closed();
    await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec });
    const path = `${DIR}/log/0000000001.2.seg`;
    const bytes = disk.read(path);
    disk.put(path, bytes.subarray(0, bytes.length - 5));
    expectAllReadable(disk, known, raws);
    expect(await soundBatches(disk.files)).toEqual(known.batches);
  });

  describe('old generations', () => {
    test('go a day after they were replaced, and readers look again', async () => {
      const { disk, known, raws } = await closed();
      const reader = openLogReader({ dir: DIR, locator: known, files: disk.files });
      const [first] = raws;
      const id = hash('sha256', first ?? '');
      reader.readMessage(id);
      disk.now = 10 * DAY;
      await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec });
      const drop = (now: number) =>
        dropOldGenerations({ dir: DIR, now, files: disk.files, keepMs: DAY });
      expect(await drop(10 * DAY + DAY - 1)).toEqual([]);
      expect(await drop(11 * DAY)).toEqual([hotPath(1)]);
      expect(generations(disk)).toEqual({ 1: [2], 2: [1] });
      expect(reader.readMessage(id).equals(first ?? Buffer.alloc(0))).toBe(true);
      expectAllReadable(disk, known, raws);
    });

    test('stay where the newer one is not whole', async () => {
      const { disk } = await closed();
      await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec });
      const path = `${DIR}/log/0000000001.2.seg`;
      disk.put(path, disk.read(path).subarray(0, 500));
      expect(
        await dropOldGenerations({ dir: DIR, now: 99 * DAY, files: disk.files, keepMs: DAY }),
      ).toEqual([]);
    });

    test('are not needed by a writer that finds a sealed segment last', async () => {
      const { disk, known } = await closed();
      await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec });
      disk.delete(hotPath(1));
      disk.delete(hotPath(2));
      const writer = await openOn(disk.files, { expected: known.batches.at(-2)?.commit });
      expect(writer.segment).toBe(2);
      expect(writer.last.number).toBe(21);
    });
  });

  describe('purging', () => {
    test('takes payloads away and leaves the chain whole; a later sealing keeps it so', async () => {
      const { disk, known, raws } = await closed();
      const gone = [raws[2], raws[60]].map((raw) => hash('sha256', raw ?? ''));
      const target = known.batches[0]?.records.find(({ kind }) => kind === 'blob');
      const large = known.batches[20]?.records.find(({ kind }) => kind === 'blob');
      const blobs = [target, large].map((record) => (record?.kind === 'blob' ? record.hash : ''));
      await sealSegment({
        dir: DIR,
        segment: 1,
        files: disk.files,
        codec,
        purge: (record) => blobs.includes(record.hash.toString('hex')),
      });
      await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec });
      expect(generations(disk)).toEqual({ 1: [3, 2, 1], 2: [1] });
      const left = await soundBatches(disk.files);
      expect(left.map(({ commit }) => commit)).toEqual(known.batches.map(({ commit }) => commit));
      const reader = openLogReader({ dir: DIR, locator: known, files: disk.files });
      for (const id of gone) {
        expect(() => reader.readMessage(id)).toThrow(
          expect.objectContaining({ code: 'bytes-purged' }),
        );
      }
      const others = raws.filter((raw) => !gone.includes(hash('sha256', raw)));
      for (const raw of others) {
        if (raw.includes('frontier') && sharesBlob(raw)) continue;
        expect(reader.readMessage(hash('sha256', raw)).equals(raw)).toBe(true);
      }
      const file = disk.read(`${DIR}/log/0000000001.3.seg`);
      expect(file.includes(noise(300_000).subarray(0, 64))).toBe(false);
    });
  });
});

/** Messages whose attachment is that of message 3, or the purged large one. */
function sharesBlob(raw: Buffer): boolean {
  return raw.equals(sampleMail(3)) || raw.equals(mailWithAttachment(noise(300_000)));
}
