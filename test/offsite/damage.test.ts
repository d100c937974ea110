import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { type CheckedCopy, checkObjects, checkSegments } from '../../src/copies/check-copy.ts';
import { openManifest } from '../../src/copies/format/manifest.ts';
import { copyMemory, findManifests } from '../../src/copies/manifests.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { broughtBack, prover, type SampleCopy, sampleCopy, signal } from './sample-copy.ts';

let sample: SampleCopy;

/** Two sealed segments and a tail of two objects. */
beforeEach(async () => {
  sample = await sampleCopy();
  const { writer, known, dir } = sample;
  for (const first of [1, 100]) {
    await writeBatches(writer, known, 3, first);
    await writer.rollIfLarger(0);
  }
  await sealClosedSegments({ dir, before: writer.segment });
  await writeBatches(writer, known, 1, 200);
  await sample.copy();
});

afterEach(() => sample.close());

async function manifest() {
  const { newest, invalid } = await findManifests(sample.store, sample.key, signal);
  return { newest, invalid };
}

async function withoutKey(): Promise<CheckedCopy> {
  const { newest } = await manifest();
  return checkObjects({ store: sample.store, objects: newest?.clear.objects ?? [], signal });
}

async function withKey(): Promise<CheckedCopy> {
  const { newest } = await manifest();
  if (newest === undefined) throw new Error('no manifest is valid');
  const { store, key, work } = sample;
  const opening = { copyId: Buffer.from(key.copyId, 'hex'), privateKeys: key.privateKeys };
  const scratch = path.join(work, 'scratch');
  mkdirSync(scratch, { recursive: true });
  return checkSegments({
    ...{ store, key: opening, prover, scratch, signal, chosen: undefined },
    manifest: await openManifest(newest.clear, opening),
    objects: new Map(newest.clear.objects.map((entry) => [entry.name, entry])),
  });
}

function files(folder: string): string[] {
  return readdirSync(path.join(sample.target, folder))
    .sort()
    .map((name) => path.join(sample.target, folder, name));
}

test('a copy that nobody touched has no finding', async () => {
  expect(await withoutKey()).toMatchObject({ checked: 3, of: 3, findings: [] });
  expect(await withKey()).toMatchObject({ checked: 3, of: 3, findings: [] });
});

describe.each([
  ['flipped', (bytes: Buffer) => flipped(bytes, Math.floor(bytes.length / 2))],
  ['flipped in its first byte', (bytes: Buffer) => flipped(bytes, 0)],
  ['flipped in its last byte', (bytes: Buffer) => flipped(bytes, bytes.length - 1)],
  ['cut by a byte', (bytes: Buffer) => bytes.subarray(0, -1)],
  ['cut to nothing', () => Buffer.alloc(0)],
  ['longer by a byte', (bytes: Buffer) => Buffer.concat([bytes, Buffer.of(0)])],
])('an object that is %s', (_, change) => {
  test('is found with and without the key, and costs nothing else', async () => {
    for (const file of files('data')) {
      const bytes = readFileSync(file);
      writeFileSync(file, change(bytes));
      const name = `data/${path.basename(file)}`;
      expect((await withoutKey()).findings.map((finding) => finding.name)).toEqual([name]);
      expect((await withKey()).findings.map((finding) => finding.name)).toEqual([name]);
      const back = await broughtBack(sample, `back-${path.basename(file)}`);
      expect(back?.lost.length).toBe(1);
      expect(back?.segments).toBe(2);
      writeFileSync(file, bytes);
    }
    expect((await withKey()).findings).toEqual([]);
  });

  test('is no manifest any more', async () => {
    for (const file of files('manifests')) writeFileSync(file, change(readFileSync(file)));
    const { newest, invalid } = await manifest();
    expect(newest).toBeUndefined();
    expect(invalid.length).toBe(1);
  });
});

test('objects that changed places, or are missing, are found', async () => {
  const [first = '', second = '', third = ''] = files('data');
  const aside = `${first}0`;
  renameSync(first, aside);
  renameSync(second, first);
  renameSync(aside, second);
  expect((await withoutKey()).findings.length).toBe(2);
  expect((await withKey()).findings.length).toBe(2);
  rmSync(third);
  expect((await withoutKey()).findings.length).toBe(3);
  expect((await withKey()).findings.map(({ error }) => error.code)).toContain('object-missing');
});

test('an older manifest instead of the newest is refused where the newest was seen', async () => {
  const [older = ''] = files('manifests');
  const bytes = readFileSync(older);
  await writeBatches(sample.writer, sample.known, 1, 300);
  await sample.copy();
  for (const file of files('manifests')) if (file !== older) rmSync(file);
  writeFileSync(older, bytes);
  await expect(sample.copy()).rejects.toMatchObject({
    code: 'offsite-rolled-back',
    facts: { number: 7, seen: 8 },
  });
  // Under a name of a later commit it is none.
  renameSync(older, older.replace('0000000000000007', '0000000000000009'));
  const { newest, invalid } = await manifest();
  expect({ newest, invalid: invalid.length }).toEqual({ newest: undefined, invalid: 1 });
  await expect(sample.copy()).rejects.toMatchObject({ code: 'offsite-no-manifest' });
});

test('the copy of another archive is not continued', async () => {
  const other = await sampleCopy();
  try {
    await writeBatches(other.writer, other.known, 9, 400);
    const { store, key } = sample;
    const memory = copyMemory(undefined, key.copyId);
    const before = files('data');
    await expect(sample.copy({ dir: other.dir, store, key, memory })).rejects.toMatchObject({
      code: 'offsite-diverged',
    });
    expect(files('data')).toEqual(before);
  } finally {
    await other.close();
  }
});

test('an archive that lost its last commits does not shorten its copy', async () => {
  const { writer, known } = sample;
  const shorter = await broughtBack(sample, 'shorter');
  await writeBatches(writer, known, 1, 300);
  await sample.copy();
  const memory = copyMemory(undefined, sample.key.copyId);
  await expect(sample.copy({ dir: shorter?.dir ?? '', memory })).rejects.toMatchObject({
    code: 'offsite-ahead',
    facts: { number: 8, here: 7 },
  });
});

function flipped(bytes: Buffer, at: number): Buffer {
  const changed = Buffer.from(bytes);
  changed[at] = (changed[at] ?? 0) ^ 1;
  return changed;
}
