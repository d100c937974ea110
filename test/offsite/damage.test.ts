import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import {
  type CheckedCopy,
  checkFolder,
  checkObjects,
  checkSegments,
  drawSample,
} from '../../src/copies/check-copy.ts';
import { copyLog } from '../../src/copies/copy-log.ts';
import { openManifest } from '../../src/copies/format/manifest.ts';
import { copyMemory, findManifests } from '../../src/copies/manifests.ts';
import { recordCopyMade } from '../../src/verify/copy-facts.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { broughtBack, prover, type SampleCopy, sampleCopy, signal } from './sample-copy.ts';

describe('an encrypted copy', () => {
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
});

describe('a readable copy', () => {
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
});
