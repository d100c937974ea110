import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import { genesisHash } from '../../src/archive/format.ts';
import { mailWithAttachment, noise } from './generated-mail.ts';
import { Positions } from './positions.ts';
import {
  appeared,
  DIR,
  fill,
  hotPath,
  newLog,
  openOn,
  place,
  sampleMail,
  scanAll,
  soundBatches,
  writeBatches,
} from './sample-log.ts';
import { SimulatedDisk } from './simulated-disk.ts';

test('what a commit returns is what a scan reads, positions included', async () => {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 5);
  expect(known.batches).toHaveLength(5);
  expect(await soundBatches(disk.files)).toEqual(known.batches);
  expect(writer.last).toEqual({
    number: 5,
    hash: known.reached?.hash,
  });
});

test('commits are chained from a hash that only this archive has', async () => {
  const { writer, known } = await newLog();
  await writeBatches(writer, known, 2);
  const [first, second] = known.batches;
  expect(first?.previousHash).toBe(genesisHash(writer.archiveId));
  expect(second?.previousHash).toBe(first?.commit.hash);
  const other = await openOn(new SimulatedDisk().files);
  expect(other.last.hash).not.toBe(first?.previousHash);
});

test('a new archive is laid out durably before its first batch', async () => {
  const disk = new SimulatedDisk();
  await openOn(disk.files);
  const left = disk.afterPowerCut(() => false);
  expect(left.paths()).toEqual([`${DIR}/FORMAT`, hotPath()]);
  expect(left.read(`${DIR}/FORMAT`).toString()).toBe('mailkeep archive 1\n');
});

test('blobs come before messages, messages before facts, large blobs first', async () => {
  const { writer } = await newLog();
  const batch = writer.newBatch();
  const small = mailWithAttachment(noise(3000, 1));
  const large = mailWithAttachment(noise(100_000, 2));
  for (const raw of [small, large]) {
    batch.addSource(raw, hash('sha256', raw));
    batch.addFact(appeared(1, raw));
  }
  const { records } = await writer.commit(batch);
  expect(records.map((r) => (r.kind === 'blob' ? `blob ${r.size}` : r.kind))).toEqual([
    'blob 100000',
    'blob 3000',
    'message',
    'message',
    'fact',
    'fact',
  ]);
});

test('bytes that are stored, or in the batch already, are not written again', async () => {
  const { writer, known } = await newLog();
  const attachment = noise(5000);
  const a = mailWithAttachment(attachment);
  const b = mailWithAttachment(attachment, { lineLength: 60, eol: '\n' });
  const batch = fill(writer.newBatch(), [a, a, b], known);
  expect(batch.messages).toBe(2);
  const first = known.fold(await writer.commit(batch));
  expect(first.records.filter(({ kind }) => kind === 'blob')).toHaveLength(1);
  const c = mailWithAttachment(attachment, { lineLength: 72 });
  const second = await writer.commit(fill(writer.newBatch(), [c], known));
  expect(second.records.map(({ kind }) => kind)).toEqual(['message', 'fact']);
});

test('time never goes back, over a new opening and a new segment too', async () => {
  const disk = new SimulatedDisk();
  let now = 5000;
  const options = { now: () => now };
  const commitTime = async (writer: Awaited<ReturnType<typeof openOn>>) => {
    const batch = writer.newBatch();
    batch.addFact({ fact: 'acknowledged', ...place(1) });
    return (await writer.commit(batch)).commit.time;
  };
  const writer = await openOn(disk.files, options);
  expect(await commitTime(writer)).toBe(5000);
  now = 4000;
  expect(await commitTime(writer)).toBe(5000);
  expect(await writer.rollIfLarger(1)).toBe(true);
  await writer.close();
  const again = await openOn(disk.files, options);
  expect(again.segment).toBe(2);
  expect(await commitTime(again)).toBe(5000);
  now = 6000;
  expect(await commitTime(again)).toBe(6000);
});

test('a full segment is followed by another, and the chain continues', async () => {
  const { disk, writer, known } = await newLog({ segmentBytes: 10_000 });
  await writeBatches(writer, known, 12);
  expect(writer.segment).toBeGreaterThan(2);
  expect(await soundBatches(disk.files)).toEqual(known.batches);
  const numbers = known.batches.map(({ commit }) => commit.number);
  expect(numbers).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  await writer.close();
  const again = await openOn(disk.files, { expected: known.reached });
  await writeBatches(again, known, 1, 100);
  expect(await soundBatches(disk.files)).toEqual(known.batches);
});

test('rolling on request leaves a small or empty segment alone', async () => {
  const { writer } = await newLog();
  expect(await writer.rollIfLarger(0)).toBe(false);
  await writeBatches(writer, new Positions(), 1);
  expect(await writer.rollIfLarger(1_000_000)).toBe(false);
  expect(await writer.rollIfLarger(100)).toBe(true);
  expect(writer.segment).toBe(2);
});

test('commits asked for at once go one after the other', async () => {
  const { disk, writer } = await newLog();
  const batches = [1, 2, 3, 4].map((n) =>
    fill(writer.newBatch(), [sampleMail(n)], new Positions(), n),
  );
  const committed = await Promise.all(batches.map((batch) => writer.commit(batch)));
  expect(committed.map(({ commit }) => commit.number)).toEqual([1, 2, 3, 4]);
  expect(await soundBatches(disk.files)).toEqual(committed);
});

test('a batch is committed once, is not touched meanwhile, and is not empty', async () => {
  const { writer } = await newLog();
  await expect(writer.commit(writer.newBatch())).rejects.toThrow('empty');
  const batch = fill(writer.newBatch(), [sampleMail(1)], new Positions());
  const commit = writer.commit(batch);
  expect(() => batch.addBlob(Buffer.from('x'))).toThrow('committing');
  await commit;
  await expect(writer.commit(batch)).rejects.toThrow('committed');
});

test('a fact that no rebuild could read is refused before it is written', async () => {
  const { disk, writer } = await newLog();
  const before = disk.read(hotPath());
  const wrong = { ...appeared(1, sampleMail(1)), docid: Number.NaN };
  const add = async () => {
    const batch = writer.newBatch();
    batch.addFact(wrong);
    await writer.commit(batch);
  };
  await expect(add()).rejects.toThrow('wrong shape');
  expect(disk.read(hotPath()).equals(before)).toBe(true);
  expect(writer.last.number).toBe(0);
});

test('a scan behind a commit reads what follows it, and no older segment', async () => {
  const { disk, writer, known } = await newLog({ segmentBytes: 10_000 });
  await writeBatches(writer, known, 12);
  for (const [index, batch] of known.batches.entries()) {
    const events = await scanAll(disk.files, batch.commit);
    expect(events).toEqual(
      known.batches.slice(index + 1).map((b) => ({ what: 'batch', batch: b, sound: true })),
    );
  }
  // Damage in an old segment does not concern a scan that begins behind it.
  disk.put(hotPath(1), Buffer.alloc(100));
  const last = known.batches.at(-1)?.commit;
  expect(await scanAll(disk.files, last)).toEqual([]);
});

test('a scan behind a commit that the log does not have says so', async () => {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 3);
  const reasons = async (after: { number: number; hash: string }) =>
    (await scanAll(disk.files, after)).map((e) => (e.what === 'damage' ? e.damage.reason : e.what));
  expect(await reasons({ number: 9, hash: 'a'.repeat(64) })).toEqual(['ends-early']);
  expect(await reasons({ number: 2, hash: 'a'.repeat(64) })).toEqual(['diverged', 'batch']);
});
