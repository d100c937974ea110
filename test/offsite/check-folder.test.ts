import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { checkFolder, drawSample } from '../../src/copies/check-copy.ts';
import { copyLog } from '../../src/copies/copy-log.ts';
import { recordCopyMade } from '../../src/verify/copy-facts.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { type SampleCopy, sampleCopy, signal } from './sample-copy.ts';

let sample: SampleCopy;
let to: string;

/** A readable copy of two sealed segments and an open one. */
beforeEach(async () => {
  sample = await sampleCopy();
  const { writer, known, dir, work } = sample;
  for (const first of [1, 100]) {
    await writeBatches(writer, known, 3, first);
    await writer.rollIfLarger(0);
  }
  await sealClosedSegments({ dir, before: writer.segment });
  await writeBatches(writer, known, 1, 200);
  to = path.join(work, 'readable');
  await copyLog({ from: dir, to, signal, seen: 0, forget: async () => {} });
});

afterEach(() => sample.close());

function check(sampled?: { readonly parts: number }) {
  const onProgress = (): void => {};
  return checkFolder(to, {
    ...{ dataDir: sample.dir, sample: sampled, random: () => 0, signal, onProgress },
  });
}

function segmentFiles(): string[] {
  return readdirSync(path.join(to, 'log'))
    .filter((name) => name.endsWith('.seg'))
    .sort()
    .map((name) => path.join(to, 'log', name));
}

test('a readable copy that nobody touched has no finding', async () => {
  expect(await check()).toMatchObject({
    ...{ checked: 3, of: 3, findings: [], opened: true },
    ...{ number: 7, copiedAt: 1_770_000_000_000 },
  });
  expect(await check({ parts: 2 })).toMatchObject({ checked: 2, of: 3, findings: [] });
});

test('a flipped bit and a missing segment are found where they are', async () => {
  const [first = '', second = ''] = segmentFiles();
  const bytes = readFileSync(first);
  bytes.writeUInt8(bytes.readUInt8(200) ^ 4, 200);
  writeFileSync(first, bytes);
  rmSync(second);
  const { findings, checked } = await check();
  expect(checked).toBe(3);
  expect(findings.map(({ error }) => [error.code, error.facts.segment])).toEqual([
    ['log-damaged', 1],
    ['log-damaged', 2],
  ]);
  expect(findings[1]?.error.facts.reason).toBe('segment-missing');
});

test('a segment that was swapped for an intact one does not continue the one before', async () => {
  const other = await sampleCopy();
  try {
    for (const first of [1, 100]) {
      await writeBatches(other.writer, other.known, 2, first);
      await other.writer.rollIfLarger(0);
    }
    await sealClosedSegments({ dir: other.dir, before: other.writer.segment });
    const [, second = ''] = segmentFiles();
    cpSync(path.join(other.dir, 'log', path.basename(second)), second);
    const { findings } = await check();
    expect(findings.map(({ error }) => error.code)).toContain('offsite-broken-chain');
    to = other.dir;
    await expect(check()).rejects.toMatchObject({ code: 'copy-other-archive' });
  } finally {
    await other.close();
  }
});

test('a copy that ends before what was copied is found', async () => {
  recordCopyMade(sample.state, to, { at: 1, commit: 7, encrypted: false });
  expect((await check()).findings).toEqual([]);
  const [, , third = ''] = segmentFiles();
  rmSync(third);
  expect((await check()).findings).toMatchObject([
    { name: to, error: { code: 'offsite-cut-off', facts: { number: 6, seen: 7 } } },
  ]);
});

test('a folder without a copy is none', async () => {
  rmSync(path.join(to, 'FORMAT'));
  await expect(check()).rejects.toMatchObject({ code: 'offsite-no-copy' });
});

test('a sample has as many parts as asked for, at least one, in their order', () => {
  const parts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  let seed = 7;
  const random = (): number => {
    seed = (seed * 16_807) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const take = (sampled: { parts: number } | { share: number } | undefined) => [
    ...drawSample(parts, { sample: sampled, random }),
  ];
  expect(take(undefined)).toEqual(parts);
  expect(take({ share: 1 })).toEqual(parts);
  expect(take({ parts: 99 })).toEqual(parts);
  expect(take({ share: 0.001 })).toHaveLength(1);
  expect(take({ share: 0.3 })).toHaveLength(3);
  const some = take({ parts: 4 });
  expect(some).toEqual([...new Set(some)].sort((a, b) => a - b));
  expect(some).toHaveLength(4);
  expect(drawSample([], { sample: { share: 0.5 }, random })).toEqual([]);
  // Everything has its turn.
  const seen = new Set(Array.from({ length: 100 }, () => take({ parts: 1 })[0]));
  expect(seen.size).toBe(10);
});
