import { expect, test } from 'vitest';
import { SEGMENT_HEADER_BYTES } from '../../src/archive/format.ts';
import { openLogReader } from '../../src/archive/log-reader.ts';
import type { LogWriter } from '../../src/archive/log-writer.ts';
import {
  openReplicaLog,
  type ReplicaLogOptions,
  writeMissingBytes,
} from '../../src/archive/log-writer.ts';
import { sealSegment } from '../../src/archive/seal.ts';
import { randomFrom } from '../offsite/dying-store.ts';
import { AcknowledgingLog, type Trouble } from './acknowledging.ts';
import { Positions } from './positions.ts';
import { DIR, fill, hotPath, sampleMail, soundBatches, writeBatches } from './sample-log.ts';
import { SimulatedDisk, systemError } from './simulated-disk.ts';

const ID = Buffer.from('0123456789abcdef', 'hex');

function atEnd(
  disk: SimulatedDisk,
  log: AcknowledgingLog,
  more: Partial<ReplicaLogOptions> = {},
): ReplicaLogOptions {
  return {
    ...{ dir: DIR, files: disk.files, now: () => 1_770_000_000_000 },
    ...{ end: log.end, durability: log.begin(), ...more },
  };
}

/** Opens a copy and supplies what it lacks; returns the writer and how often it lacked something. */
async function opened(options: ReplicaLogOptions, log: AcknowledgingLog) {
  for (let supplies = 0; supplies < 3; supplies += 1) {
    const found = await openReplicaLog(options);
    if (found.is === 'open') return { writer: found.log, supplies };
    for (const missing of found.missing)
      await writeMissingBytes(options, missing, log.supply(missing));
  }
  throw new Error('the copy lacks something for ever');
}

/** What was acknowledged is in the files, byte for byte, and nothing else; and it reads back. */
async function expectSame(disk: SimulatedDisk, log: AcknowledgingLog): Promise<Positions> {
  const { end, accepted } = log;
  for (const { segment } of [...(end.closed ?? []), end.hot]) {
    const local = disk.read(hotPath(segment)).subarray(SEGMENT_HEADER_BYTES);
    expect(local.equals(log.bytesOf(segment))).toBe(true);
  }
  const batches = await soundBatches(disk.files);
  expect(batches.map(({ commit }) => commit.hash)).toEqual(accepted.map((one) => one.commit.hash));
  const known = new Positions();
  for (const batch of batches) known.fold(batch);
  const reader = openLogReader({ dir: DIR, files: disk.files, locator: known });
  for (const id of known.messages.keys()) reader.readMessage(id);
  reader.close();
  return known;
}

function letters(writer: LogWriter, n: number, known = new Positions()) {
  return fill(writer.newBatch(), [sampleMail(n), sampleMail(n + 1)], known, n);
}

test('a batch is offered before it is written, and is in the log once that was acknowledged', async () => {
  const disk = new SimulatedDisk();
  const log = new AcknowledgingLog(ID);
  const { writer } = await opened(atEnd(disk, log), log);
  expect(writer.archiveId).toEqual(ID);
  const before = disk.read(hotPath());
  const release = log.hold();
  let settled = false;
  const committing = writer.commit(letters(writer, 1)).finally(() => {
    settled = true;
  });
  // A second one waits its turn.
  const second = writer.commit(letters(writer, 3));
  await new Promise(setImmediate);
  expect([settled, log.accepted.length, disk.read(hotPath()).equals(before)]).toEqual([
    ...[false, 0, true],
  ]);
  release();
  const committed = await committing;
  expect(committed.commit).toMatchObject({ number: 1, hash: log.accepted[0]?.commit.hash });
  await second;
  expect(writer.last).toMatchObject({ number: 2, hash: log.end.commit.hash });
  await expectSame(disk, log);
});

test('a commit syncs nothing here; closing a segment syncs what it holds first', async () => {
  const disk = new SimulatedDisk();
  const log = new AcknowledgingLog(ID);
  const { writer } = await opened(atEnd(disk, log), log);
  const acts: string[] = [];
  disk.fault = (act) => {
    acts.push(act);
    return undefined;
  };
  await writer.commit(letters(writer, 1));
  expect(acts.splice(0)).toEqual(['write']);
  await writer.rollIfLarger(1);
  expect(acts).toEqual(['datasync', 'create', 'write', 'datasync', 'rename', 'syncFolder']);
  await writer.close();
  const cut = disk.afterPowerCut(() => false);
  await expectSame(cut, log);
});

test.each([
  ['refused', 'refused'],
  ['answer-lost', 'unknown'],
  ['request-lost', 'unknown'],
] as const)('after %s the writer refuses everything', async (trouble, reason) => {
  for (const act of ['commit', 'roll'] as const) {
    const disk = new SimulatedDisk();
    const log = new AcknowledgingLog(ID);
    const { writer } = await opened(atEnd(disk, log), log);
    const known = new Positions();
    await writeBatches(writer, known, 1);
    const before = disk.read(hotPath());
    log.meet(trouble);
    const wanted = { family: 'in-use', code: 'log-fenced', facts: { reason } };
    const attempt = act === 'commit' ? writer.commit(letters(writer, 9)) : writer.rollIfLarger(1);
    await expect(attempt).rejects.toMatchObject(wanted);
    for (const again of [writer.commit(letters(writer, 9)), writer.rollIfLarger(1)]) {
      await expect(again).rejects.toMatchObject(wanted);
    }
    expect(disk.read(hotPath()).equals(before)).toBe(true);
    await writer.close();
    // Only the log knows whether it took the act; opened again, the copy agrees.
    const again = await opened(atEnd(disk, log), log);
    expect(again.writer.segment).toBe(act === 'roll' && trouble === 'answer-lost' ? 2 : 1);
    expect(again.writer.last.number).toBe(act === 'commit' && trouble === 'answer-lost' ? 2 : 1);
    await expectSame(disk, log);
  }
});

test('what was surely not taken can be committed again', async () => {
  const disk = new SimulatedDisk();
  const log = new AcknowledgingLog(ID);
  const { writer } = await opened(atEnd(disk, log), log);
  const batch = letters(writer, 1);
  log.meet('away');
  await expect(writer.commit(batch)).rejects.toMatchObject({ code: 'log-write-failed' });
  await writer.commit(batch);
  log.meet('away');
  await expect(writer.rollIfLarger(1)).rejects.toMatchObject({ code: 'log-write-failed' });
  expect(writer.segment).toBe(1);
  expect(await writer.rollIfLarger(1)).toBe(true);
  await writer.commit(letters(writer, 3));
  await expectSame(disk, log);
});

test('a copy that cannot be written ends the writer, and is completed when it is opened again', async () => {
  for (const act of ['write', 'rename'] as const) {
    const disk = new SimulatedDisk();
    const log = new AcknowledgingLog(ID);
    const { writer } = await opened(atEnd(disk, log), log);
    await writeBatches(writer, new Positions(), 1);
    disk.fault = (kind, path) => {
      if (kind === act) throw systemError('ENOSPC', path);
      return undefined;
    };
    const wanted = { family: 'disk', code: 'log-copy-failed', facts: { errno: 'ENOSPC' } };
    const attempt = act === 'write' ? writer.commit(letters(writer, 9)) : writer.rollIfLarger(1);
    await expect(attempt).rejects.toMatchObject(wanted);
    await expect(writer.commit(letters(writer, 11))).rejects.toMatchObject(wanted);
    await writer.close();
    disk.fault = () => undefined;
    const again = await opened(atEnd(disk, log), log);
    expect(again.writer.last).toMatchObject({ hash: log.end.commit.hash });
    await again.writer.commit(letters(again.writer, 11));
    await expectSame(disk, log);
  }
});

test('a catalog of another log, or of a later one, changes nothing', async () => {
  const disk = new SimulatedDisk();
  const log = new AcknowledgingLog(ID);
  const { writer } = await opened(atEnd(disk, log), log);
  const known = new Positions();
  await writeBatches(writer, known, 3);
  await writer.close();
  const [first, , third] = known.batches;
  log.loseCommits(1);
  const before = disk.read(hotPath());
  const expecting = (expected: ReplicaLogOptions['expected']) =>
    openReplicaLog(atEnd(disk, log, { expected }));
  await expect(expecting(third?.commit)).rejects.toMatchObject({ code: 'log-ends-early' });
  for (const number of [1, 2]) {
    await expect(expecting({ number, hash: '00'.repeat(32) })).rejects.toMatchObject({
      code: 'log-diverged',
    });
  }
  const stranger = new AcknowledgingLog(Buffer.alloc(8, 7));
  await expect(openReplicaLog(atEnd(disk, stranger))).rejects.toMatchObject({
    code: 'log-damaged',
    facts: { reason: 'diverged' },
  });
  expect(disk.read(hotPath()).equals(before)).toBe(true);
  expect((await expecting(first?.commit)).is).toBe('open');
});

test('what the copy has beyond the end is put aside, and nothing else is', async () => {
  const disk = new SimulatedDisk();
  const log = new AcknowledgingLog(ID);
  const { writer } = await opened(atEnd(disk, log), log);
  const known = new Positions();
  await writeBatches(writer, known, 2);
  const beyond = log.accepted[1]?.bytes ?? Buffer.alloc(0);
  await writer.rollIfLarger(1);
  await writeBatches(writer, known, 1, 7);
  await writer.close();
  const second = disk.read(hotPath(2));

  log.loseCommits(2);
  const tails: { segment: number; file: string }[] = [];
  const again = await openReplicaLog(atEnd(disk, log, { onTail: (tail) => tails.push(tail) }));
  expect(again.is).toBe('open');
  expect(tails).toMatchObject([
    { segment: 2, offset: 0, bytes: second.length },
    { segment: 1, offset: log.end.hot.offset, bytes: beyond.length },
  ]);
  const kept = tails.map(({ file }) => disk.read(file));
  expect(kept[0]?.equals(second)).toBe(true);
  expect(kept[1]?.equals(beyond)).toBe(true);
  await expectSame(
    disk.afterPowerCut(() => false),
    log,
  );
});

test('a closed segment has to be complete, plain or sealed, unless it is sealed elsewhere', async () => {
  const disk = new SimulatedDisk();
  const log = new AcknowledgingLog(ID);
  const { writer } = await opened(atEnd(disk, log), log);
  await writeBatches(writer, new Positions(), 2);
  const short = disk.read(hotPath());
  await writeBatches(writer, new Positions(), 1, 20);
  await writer.rollIfLarger(1);
  await writeBatches(writer, new Positions(), 1, 40);
  await writer.close();
  const lacking = async (more: Partial<ReplicaLogOptions> = {}) => {
    const found = await openReplicaLog(atEnd(disk, log, more));
    if (found.is === 'missing') return found.missing;
    await found.log.close();
    return [];
  };

  const whole = disk.read(hotPath());
  disk.put(hotPath(), short);
  expect(await lacking()).toMatchObject([
    { what: 'end', segment: 1, from: short.length, until: whole.length },
  ]);
  disk.delete(hotPath());
  expect(await lacking({ end: { ...log.end, closed: [] } })).toEqual([]);
  expect(await lacking()).toMatchObject([
    { what: 'segment', segment: 1, from: SEGMENT_HEADER_BYTES, until: whole.length },
  ]);

  disk.put(hotPath(), whole);
  await sealSegment({ dir: DIR, files: disk.files, segment: 1 });
  disk.delete(hotPath());
  expect(await lacking()).toEqual([]);

  // The same segment with another last commit, as after a failover.
  log.loseCommits(2);
  const other = await opened(atEnd(new SimulatedDisk(), log), log);
  await writeBatches(other.writer, new Positions(), 1, 60);
  await other.writer.rollIfLarger(1);
  await other.writer.close();
  expect(await lacking()).toMatchObject([
    { what: 'segment', segment: 1 },
    { what: 'segment', segment: 2 },
  ]);
  await opened(atEnd(disk, log), log);
  await expectSame(disk, log);
});

test('damage in the copy is asked for from where it begins', async () => {
  const disk = new SimulatedDisk();
  const log = new AcknowledgingLog(ID);
  const { writer } = await opened(atEnd(disk, log), log);
  await writeBatches(writer, new Positions(), 3);
  await writer.close();
  const [first, second] = log.accepted;
  disk.rot(hotPath(), (second?.place.offset ?? 0) + 100);
  expect(await openReplicaLog(atEnd(disk, log))).toMatchObject({
    is: 'missing',
    missing: [
      {
        ...{ what: 'end', segment: 1, from: second?.place.offset, until: log.end.hot.offset },
        after: { number: 1, hash: first?.commit.hash },
      },
    ],
  });
  disk.rot(hotPath(), 20);
  expect(await openReplicaLog(atEnd(disk, log))).toMatchObject({
    is: 'missing',
    missing: [{ what: 'segment', segment: 1, from: SEGMENT_HEADER_BYTES, after: { number: 0 } }],
  });
  await opened(atEnd(disk, log), log);
  await expectSame(disk, log);
});

const HISTORIES = Number(process.env.MAILKEEP_ELSEWHERE ?? 12);
const FIRST = Number(process.env.MAILKEEP_SEED ?? 1);

test.each(Array.from({ length: HISTORIES }, (_, n) => FIRST + n))(
  'the copy equals what was acknowledged (MAILKEEP_SEED=%i)',
  async (seed) => {
    const random = randomFrom(seed);
    const below = (n: number) => Math.floor(random() * n);
    const log = new AcknowledgingLog(ID);
    // Machines that have held the archive: all but one of them have an old copy.
    const machines = [new SimulatedDisk(), new SimulatedDisk()];
    let at = 0;
    let mail = 1;
    const disk = () => machines[at] ?? new SimulatedDisk();
    let { writer } = await opened(atEnd(disk(), log), log);
    let known = new Positions();

    const reopen = async (): Promise<void> => {
      const behind = atEnd(disk(), log, { segmentBytes: 4_000 + below(20_000) });
      // The catalog has reached any commit of the log, or is gone.
      const reached = log.accepted[below(log.accepted.length + 1)]?.commit;
      ({ writer } = await opened({ ...behind, expected: reached }, log));
      known = await expectSame(disk(), log);
    };

    for (let step = 0; step < 25; step += 1) {
      const drawn = random();
      if (drawn < 0.5) {
        const trouble = (
          ['none', 'none', 'none', 'away', 'refused', 'answer-lost', 'request-lost'] as const
        )[below(7)] as Trouble;
        log.meet(trouble);
        const count = 1 + below(3);
        const raws = Array.from({ length: count }, (_, n) => sampleMail(mail + n));
        const batch = fill(writer.newBatch(), raws, known, mail);
        mail += count;
        const outcome = await writer.commit(batch).catch((error: unknown) => error);
        if (trouble === 'none') known.fold(outcome as Positions['batches'][number]);
        else if (trouble === 'away') {
          expect(outcome).toMatchObject({ code: 'log-write-failed' });
        } else {
          expect(outcome).toMatchObject({ code: 'log-fenced' });
          await expect(writer.commit(batch)).rejects.toBe(outcome);
          await writer.close();
          await reopen();
        }
      } else if (drawn < 0.6) {
        await writer.rollIfLarger(1);
      } else if (drawn < 0.7) {
        // Another machine becomes the writer, while this one still believes to be it.
        const before = { writer, machine: at };
        at = below(machines.length + 1);
        if (at === before.machine) at = (at + 1) % machines.length;
        if (at === machines.length) machines.push(new SimulatedDisk());
        await reopen();
        const late = before.writer.commit(letters(before.writer, mail));
        await expect(late).rejects.toMatchObject({ code: 'log-fenced' });
        await before.writer.close();
      } else if (drawn < 0.8) {
        await writer.close();
        machines[at] = disk().afterPowerCut(() => random() < 0.5);
        await reopen();
      } else if (drawn < 0.87) {
        await writer.close();
        log.loseCommits(1 + below(3));
        await reopen();
      } else if (drawn < 0.95) {
        await writer.close();
        const path = hotPath(1 + below(log.end.hot.segment));
        const { length } = disk().read(path);
        disk().rot(path, below(length));
        await reopen();
      } else {
        await writer.close();
        await reopen();
      }
      if (random() < 0.3) await expectSame(disk(), log);
    }
    await expectSame(disk(), log);
    await writer.close();
  },
);
