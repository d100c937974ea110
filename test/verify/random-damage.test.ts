import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import { SEGMENT_HEADER_BYTES } from '../../src/archive/format.ts';
import { scanLog } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { type Random, randomFrom } from '../../src/sandbox/generated-mail.ts';
import { repairArchive } from '../../src/verify/repair-archive.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { checkerInProcess } from './checker-in-process.ts';
import { GrownArchive, START, verified } from './grown-archive.ts';

/** Damaged archives in each run; by hand, hundreds: MAILKEEP_DAMAGES=500 npx vitest run test/verify/random-damage */
const DAMAGES = Number(process.env.MAILKEEP_DAMAGES ?? 15);
const SEED = Number(process.env.MAILKEEP_SEED ?? 1);

/** Four segments: sealed, closed, sealed, and the one that is written to. */
let archive: GrownArchive;
beforeAll(async () => {
  archive = new GrownArchive();
  const mail = Array.from({ length: 24 }, (_, i) => sampleMail(i + 1));
  await archive.grow(mail.slice(0, 6), true);
  await archive.grow(mail.slice(6, 15), false);
  const writer = await openLogWriter({ dir: archive.dir, now: () => START });
  await writer.rollIfLarger(0);
  await writer.close();
  await archive.grow(mail.slice(15, 21), false);
  await archive.grow(mail.slice(21), false);
  expect(await verified(archive.dir)).toMatchObject({ messages: 24, found: 0 });
});
afterAll(() => archive.remove());

const damages = {
  cut: (random: Random, bytes: Buffer) => bytes.subarray(0, random.below(bytes.length)),
  zeroed: (random: Random, bytes: Buffer) => {
    const from = random.below(bytes.length);
    return Buffer.from(bytes).fill(0, from, Math.min(bytes.length, from + 1 + random.below(600)));
  },
  noise: (random: Random, bytes: Buffer) => {
    const noise = random.bytes(1 + random.below(300));
    const from = random.below(bytes.length);
    return Buffer.concat([bytes.subarray(0, from), noise, bytes.subarray(from + noise.length)]);
  },
  inserted: (random: Random, bytes: Buffer) => {
    const at = random.below(bytes.length);
    return Buffer.concat([bytes.subarray(0, at), random.bytes(9), bytes.subarray(at)]);
  },
  missing: (random: Random, bytes: Buffer) => {
    const from = random.below(bytes.length);
    return Buffer.concat([bytes.subarray(0, from), bytes.subarray(from + 1 + random.below(900))]);
  },
  repeated: (random: Random, bytes: Buffer) => {
    const from = SEGMENT_HEADER_BYTES + random.below(bytes.length - SEGMENT_HEADER_BYTES);
    return Buffer.concat([bytes.subarray(0, from), bytes.subarray(SEGMENT_HEADER_BYTES)]);
  },
} satisfies Record<string, (random: Random, bytes: Buffer) => Buffer>;

/** Damages one to three things in the log, and says what was done. */
function damage(random: Random, dir: string): string[] {
  const log = join(dir, 'log');
  return Array.from({ length: 1 + random.below(3) }, () => {
    const names = readdirSync(log);
    const [file = '', other = ''] = [
      names[random.below(names.length)],
      random.pick(names as [string]),
    ];
    const path = join(log, file);
    if (random.chance(0.1) && names.length > 1) {
      rmSync(path);
      return `${file} lost`;
    }
    if (random.chance(0.1)) {
      writeFileSync(path, readFileSync(join(log, other)));
      return `${file} overwritten by ${other}`;
    }
    const bytes = readFileSync(path);
    if (bytes.length <= SEGMENT_HEADER_BYTES) return `${file} left`;
    const how = random.pick(Object.keys(damages) as [keyof typeof damages]);
    writeFileSync(path, damages[how](random, bytes));
    return `${file} ${how}`;
  });
}

function sameLog(dir: string): boolean {
  const names = (of: string) => readdirSync(join(of, 'log')).sort();
  if (names(dir).join() !== names(archive.dir).join()) return false;
  return names(dir).every((name) =>
    readFileSync(join(dir, 'log', name)).equals(readFileSync(join(archive.dir, 'log', name))),
  );
}

test(`whatever is damaged is found and never thrown, and a copy brings it back, seed ${SEED}`, async () => {
  const dir = `${archive.dir}-damaged`;
  const failed: string[] = [];
  for (let n = 0; n < DAMAGES; n += 1) {
    const random = randomFrom(SEED, `damage ${n}`);
    cpSync(archive.dir, dir, { recursive: true });
    try {
      const done = damage(random, dir).join(', ');
      const same = sameLog(dir);
      for (const full of [true, false]) {
        const { found } = await verified(dir, { full });
        if (full || same) expect(found > 0, `${done} found (full: ${full})`).toBe(!same);
      }
      for await (const _event of scanLog({ dir }));
      // Without a copy less is recovered, and the rest is reported.
      const alone = random.chance(0.3);
      await repairArchive({
        dir,
        checker: checkerInProcess(realFiles),
        copies: alone ? [] : [archive.dir],
        now: () => START,
        signal: new AbortController().signal,
      });
      const { found, catalog, messages, findings } = await verified(dir);
      if (alone) continue;
      const after = `${done}, repaired: ${JSON.stringify(findings)}`;
      expect({ found, catalog, messages }, after).toEqual({
        found: 0,
        catalog: 'equal',
        messages: 24,
      });
    } catch (error) {
      failed.push(`archive ${n}: ${error instanceof Error ? error.message : error}`);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  }
  expect(failed).toEqual([]);
});
