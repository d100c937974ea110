import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scanLog } from '../../src/archive/log-reader.ts';
import { repairArchive } from '../../src/verify/repair-archive.ts';
import { endings, powerCuts } from '../archive/endings.ts';
import { mailWithAttachment, noise } from '../archive/generated-mail.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { Killed, SimulatedDisk, systemError } from '../archive/simulated-disk.ts';
import { checkerInProcess } from './checker-in-process.ts';
import { GrownArchive, START, verified } from './grown-archive.ts';

const CUTS = powerCuts(2);

/** Stored by itself when sealed, not in a block with other records (bytes). */
const LARGE = 270_000;
/** Its bytes come from the mailbox again; those of the other are lost for good. */
const fetched = mailWithAttachment(noise(LARGE, 1));
const lost = mailWithAttachment(noise(LARGE, 2));
const [FETCHED, LOST] = [fetched, lost].map((raw) => hash('sha256', raw));
const sound = [3, 4, 5, 6].map((n) => sampleMail(n));

const archive = new GrownArchive();
/** The log with both damaged in the sealed segment, and a flipped bit in the hot one. */
const damaged = new Map<string, Buffer>();
beforeAll(async () => {
  await archive.grow([fetched, lost, ...sound.slice(0, 2)], true);
  await archive.grow(sound.slice(2), false);
  const { dir } = archive;
  for (const name of ['FORMAT', ...readdirSync(join(dir, 'log')).map((file) => `log/${file}`)]) {
    damaged.set(`${dir}/${name}`, readFileSync(join(dir, name)));
  }
  const sealed = damaged.get(`${dir}/log/0000000001.2.seg`);
  for (const seed of [1, 2]) {
    const at = sealed?.indexOf(noise(LARGE, seed).subarray(100, 200)) ?? -1;
    expect(at).toBeGreaterThan(0);
    sealed?.fill(0, at, at + 900);
  }
  const hot = damaged.get(`${dir}/log/0000000002.1.seg`);
  hot?.writeUInt8(hot.readUInt8(400) ^ 8, 400);
});
afterAll(() => archive.remove());

function fresh(): SimulatedDisk {
  const disk = new SimulatedDisk();
  for (const [path, bytes] of damaged) disk.put(path, bytes);
  return disk;
}

const repair = (disk: SimulatedDisk) =>
  repairArchive({
    dir: archive.dir,
    files: disk.files,
    checker: checkerInProcess(disk.files),
    copies: [],
    fetchAgain: async (id) => (id === FETCHED ? fetched : undefined),
    now: () => START + 1,
    signal: new AbortController().signal,
  });

/** Everything that was committed is there, what could be fetched is again, and what could not is recorded once. */
async function isRepaired(disk: SimulatedDisk, moment: string): Promise<void> {
  const { findings } = await verified(archive.dir, { files: disk.files });
  const incomplete = findings.flatMap((finding) => {
    if (finding.what === 'missing') return [finding.hash];
    return finding.what === 'message' ? [finding.message.id] : [];
  });
  expect(incomplete, moment).toEqual([LOST]);
  const missing: string[] = [];
  const commits: unknown[] = [];
  for await (const event of scanLog({ dir: archive.dir, files: disk.files })) {
    if (event.what !== 'batch') continue;
    commits.push(event.batch.commit);
    for (const record of event.batch.records) {
      if (record.kind === 'fact' && record.fact.fact === 'missing') missing.push(record.fact.hash);
    }
  }
  const before = archive.known.batches.map(({ commit }) => commit);
  expect(commits.slice(0, before.length), moment).toEqual(before);
  expect(new Set(missing).size, moment).toBe(missing.length);
  expect(missing, moment).toContain(LOST);
  const names = disk.paths();
  // Put aside; or, killed before that, an older generation next to the complete one.
  const hot = damaged.get(`${archive.dir}/log/0000000002.1.seg`) ?? Buffer.alloc(0);
  const kept = names.filter((path) => disk.read(path).equals(hot));
  expect(kept.length, moment).toBeGreaterThan(0);
  expect(names.filter((path) => path.endsWith('.tmp'))).toEqual([]);
}

test('bytes come back in new records, and what is found nowhere is recorded', async () => {
  const disk = fresh();
  const { restored, missing } = await repair(disk);
  expect(restored.map((it) => [it.hash, it.from])).toContainEqual([FETCHED, 'origin']);
  expect(missing.map((it) => it.hash)).toContain(LOST);
  await isRepaired(disk, 'undisturbed');
});

test(
  `killed, or without power, at any act of a repair: the same command finishes it (${CUTS} seeds)`,
  async () => {
    let stops = 0;
    for (const { name, after } of endings(CUTS)) {
      for (let k = 0; ; k += 1) {
        const disk = fresh();
        disk.fault = (act, _path, count) => {
          if (count === k) throw new Killed(act);
          return undefined;
        };
        const outcome = await repair(disk).catch((error: unknown) => error);
        const next = after(disk);
        await repair(next);
        await isRepaired(next, `${name}, act ${k}`);
        stops += 1;
        if (!(outcome instanceof Error)) break;
      }
    }
    console.info(`stopped at ${stops} moments`);
  },
  300_000 + CUTS * 60_000,
);

test('no room at any write of a repair: a clear error, and it resumes when there is room', async () => {
  let failures = 0;
  for (let k = 0; ; k += 1) {
    const disk = fresh();
    let writes = 0;
    disk.fault = (act, path) => {
      if (act === 'write' && writes++ === k) throw systemError('ENOSPC', path);
      return undefined;
    };
    const outcome = await repair(disk).catch((error: unknown) => error);
    disk.fault = () => undefined;
    if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'disk-full' });
    await repair(disk);
    await isRepaired(disk, `write ${k}`);
    if (!(outcome instanceof Error)) break;
    failures += 1;
  }
  expect(failures).toBeGreaterThan(3);
}, 300_000);
