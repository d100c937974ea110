import { afterAll, beforeAll, expect, test } from 'vitest';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { journalPurge, pendingPurge } from '../../src/verify/prune.ts';
import { endings } from '../archive/endings.ts';
import { Killed, type SimulatedDisk, systemError } from '../archive/simulated-disk.ts';
import { verified } from '../verify/grown-archive.ts';
import { inflated } from './inflated.ts';
import { FACTS, GOING, idOf, letter, MAIL, PurgedArchive, STAYING } from './purged-archive.ts';

let archive: PurgedArchive;
beforeAll(async () => {
  archive = await PurgedArchive.create();
});
afterAll(() => archive.remove());

const WORDS = ['gone', 'moved', 'late', 'replaced'];

/** Nothing that was not to go is lost, and nothing of what was to go is left in any file of the log. */
async function isPurged(disk: SimulatedDisk): Promise<void> {
  const { found, findings } = await verified(archive.dir, { files: disk.files });
  expect({ found, findings }).toEqual({ found: 0, findings: [] });
  expect(await archive.sources(disk)).toEqual({
    staying: STAYING.map(() => true),
    forgotten: GOING.map(() => undefined),
  });
  const names = disk.paths().map((path) => path.slice(archive.dir.length));
  expect(names).toEqual([
    '/FORMAT',
    ...names.filter((name) => /^\/log\/\d{10}\.\d+\.seg$/.test(name)),
  ]);

  const bytes = inflated(disk, archive.dir);
  for (const word of WORDS) {
    for (const part of ['from', 'subject', 'body']) {
      expect([word, part, bytes.includes(`${word}${part}`)]).toEqual([word, part, false]);
    }
  }
  expect(bytes.includes('staysbody')).toBe(true);
  expect(bytes.includes('replacingsubject')).toBe(true);
}

test('every copy, fact, kept byte and blob of a message goes, and nothing else', async () => {
  const disk = archive.fresh();
  expect(letter('gone')).toEqual(MAIL.gone);
  const purgeSearch = await archive.purge(disk);
  await isPurged(disk);
  expect(purgeSearch?.shared.map(({ message, with: other }) => [message, other])).toEqual([
    [idOf(MAIL.shares), idOf(MAIL.sharesToo)],
  ]);
  // Once more changes nothing.
  const before = disk.paths();
  await archive.purge(disk);
  expect(disk.paths()).toEqual(before);
});

test('a purge that was written down and not decided is dropped', async () => {
  const disk = archive.fresh();
  const { files } = disk;
  const { dir } = archive;
  const log = await openLogWriter({ dir, files, now: Date.now });
  disk.fault = (act, path) => {
    if (act === 'write' && path.endsWith('.seg')) throw systemError('EIO', path);
    return undefined;
  };
  const nothing = { records: new Map(), blobs: new Map(), shared: [] };
  await expect(journalPurge(files, dir, log, FACTS, nothing)).rejects.toMatchObject({
    code: 'log-write-failed',
  });
  disk.fault = () => undefined;
  await log.close();
  const isThere = () => disk.paths().includes(`${dir}/purge.json`);
  expect(isThere()).toBe(true);
  expect(await pendingPurge(files, dir)).toBeUndefined();
  expect(isThere()).toBe(false);
});

const SEEDS = Number(process.env.MAILKEEP_PURGE_SEEDS ?? 3);

test(
  `killed, or without power, at any act: what was committed is whole all the while, and the same call finishes (${SEEDS} seeds)`,
  async () => {
    let stops = 0;
    for (const { name, after } of endings(SEEDS)) {
      for (let k = 0; ; k += 1) {
        const disk = archive.fresh();
        disk.fault = (act, _path, count) => {
          if (count === k) throw new Killed(act);
          return undefined;
        };
        const outcome = await archive.purge(disk).catch((error: unknown) => error);
        const next = after(disk);
        const half = await verified(archive.dir, { files: next.files });
        expect([name, k, half.found, half.findings]).toEqual([name, k, 0, []]);
        await archive.purge(next);
        await isPurged(next);
        stops += 1;
        if (!(outcome instanceof Error)) break;
      }
    }
    console.info(`stopped at ${stops} moments`);
  },
  600_000 + SEEDS * 60_000,
);

test('no room at any write: a clear error, nothing lost, and it resumes when there is room', async () => {
  for (let k = 0; ; k += 1) {
    const disk = archive.fresh();
    let writes = 0;
    disk.fault = (act, path) => {
      if (act === 'write' && writes++ === k) throw systemError('ENOSPC', path);
      return undefined;
    };
    const outcome = await archive.purge(disk).catch((error: unknown) => error);
    disk.fault = () => undefined;
    if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'disk-full' });
    const half = await verified(archive.dir, { files: disk.files });
    expect([k, half.found, half.findings]).toEqual([k, 0, []]);
    await archive.purge(disk);
    await isPurged(disk);
    if (!(outcome instanceof Error)) break;
  }
}, 600_000);
