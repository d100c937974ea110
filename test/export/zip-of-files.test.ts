import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { type ZippedFile, zipOfFiles } from '../../src/transfer/export-target.ts';
import { ZipReader } from '../../src/transfer/read-zip.ts';

const DATE = Date.UTC(2026, 4, 6, 7, 8, 10);

async function* listed(files: readonly ZippedFile[]): AsyncGenerator<ZippedFile> {
  yield* files;
}

/** Returns the files of a zip by their names. */
async function unzipped(bytes: AsyncIterable<Uint8Array>): Promise<Map<string, Buffer>> {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'zip-of-')), 'a.zip');
  writeFileSync(file, await buffer(bytes));
  const zip = await ZipReader.open(file);
  const found = new Map<string, Buffer>();
  for (const name of zip.names()) {
    const pieces = await zip.pieces(name);
    if (pieces !== undefined) found.set(name, await buffer(pieces));
  }
  return found;
}

test('every file is in the zip, whatever its size', async () => {
  const files = [0, 1, 70_000, 3_000_000].map((size) => ({
    name: `${size}.bin`,
    date: size === 1 ? null : DATE,
    bytes: size === 0 ? [] : [randomBytes(size / 2), randomBytes(size - Math.floor(size / 2))],
  }));
  const found = await unzipped(zipOfFiles(listed(files)));
  expect([...found.keys()]).toEqual(files.map(({ name }) => name));
  for (const { name, bytes } of files) expect(found.get(name)).toEqual(Buffer.concat(bytes));
  expect((await unzipped(zipOfFiles(listed([])))).size).toBe(0);
});

test('a file is asked for when the one before was taken', async () => {
  const asked: string[] = [];
  async function* files(): AsyncGenerator<ZippedFile> {
    for (const name of ['a', 'b', 'c']) {
      asked.push(name);
      const bytes = Array.from({ length: 50 }, () => randomBytes(100_000));
      yield { name, date: DATE, bytes };
    }
  }
  const zip = zipOfFiles(files());
  await zip.next();
  expect(asked).toEqual(['a']);
  for await (const _ of zip);
  expect(asked).toEqual(['a', 'b', 'c']);
});

test('whoever stops gives back what was opened', async () => {
  for (const taken of [0, 1, 3]) {
    let open = 0;
    async function* bytes(): AsyncGenerator<Uint8Array> {
      open += 1;
      try {
        for (;;) yield randomBytes(100_000);
      } finally {
        open -= 1;
      }
    }
    async function* files(): AsyncGenerator<ZippedFile> {
      open += 1;
      try {
        yield { name: 'endless', date: DATE, bytes: bytes() };
      } finally {
        open -= 1;
      }
    }
    const zip = zipOfFiles(files());
    for (let i = 0; i < taken; i += 1) await zip.next();
    if (taken > 0) expect(open).toBeGreaterThan(0);
    await zip.return();
    await expect.poll(() => open).toBe(0);
  }
});

test('what cannot be read ends the zip', async () => {
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield randomBytes(10);
    throw new RangeError('torn');
  }
  async function* late(): AsyncGenerator<ZippedFile> {
    yield { name: 'a', date: DATE, bytes: [randomBytes(10)] };
    throw new RangeError('torn');
  }
  for (const files of [listed([{ name: 'a', date: DATE, bytes: broken() }]), late()])
    await expect(buffer(zipOfFiles(files))).rejects.toThrow('torn');
});
