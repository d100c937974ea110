import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import yauzl from 'yauzl';
import {
  LongZip,
  type ZippedFile,
  ZipWriter,
  zipOfFiles,
} from '../../src/transfer/export-target.ts';
import type { ManifestEntry } from '../../src/transfer/manifest-shapes.ts';
import { ZipReader } from '../../src/transfer/read-zip.ts';

const NAMES = Array.from({ length: 200 }, (_, n) => `message ${n}.eml`);

test('no more than two entries are ever walked, and the directory has them all in order', async () => {
  const zip = new LongZip();
  const written = buffer(zip.outputStream);
  let most = 0;
  for (const name of NAMES) {
    await new Promise<void>((resolve) => {
      zip.addReadStreamLazy(name, { mtime: new Date(0) }, (take) => {
        most = Math.max(most, zip.walked);
        zip.settle();
        take(null, Readable.from([Buffer.from(`the text of ${name}`)], { objectMode: false }));
        resolve();
      });
    });
  }
  zip.finish();
  expect(most).toBe(2);
  const read = await yauzl.fromBufferPromise(await written);
  const found: string[] = [];
  for await (const entry of read.eachEntry()) {
    const text = await buffer(await read.openReadStreamPromise(entry));
    expect(text.toString()).toBe(`the text of ${entry.fileName}`);
    found.push(entry.fileName);
  }
  expect(found).toEqual(NAMES);
});

test('nothing of what was written is held but its line in the directory', async () => {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new Error('no garbage collector');
  const zip = new LongZip();
  zip.outputStream.resume();
  const sources: WeakRef<Buffer>[] = [];
  const add = (name: string) =>
    new Promise<void>((resolve) => {
      const source = Buffer.alloc(64 * 1024, name);
      sources.push(new WeakRef(source));
      zip.addReadStreamLazy(name, { mtime: new Date(0) }, (take) => {
        zip.settle();
        take(null, Readable.from([source], { objectMode: false }));
        resolve();
      });
    });
  for (const name of NAMES) await add(name);
  await setImmediate();
  collect();
  const held = sources.filter((source) => source.deref() !== undefined);
  expect(held.length).toBeLessThan(NAMES.length / 10);
  zip.finish();
});

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

test('a failure reaches every message that waits to be written', async () => {
  const never = { pieces: () => neverEnding() };
  const writer = new ZipWriter({
    file: { write: async () => {}, finish: async () => {}, discard: async () => {} },
    final: 'export.zip',
    plan: { done: () => {} } as never,
    earlier: async () => never,
    sidecar: () => null,
  });
  const failing = {
    async *pieces() {
      yield Buffer.from('Subject: one\r\n');
      await released;
      throw new Error('the disk is full');
    },
  };
  const place = { entry: { path: 'a/1.eml', date: null, size: 100 } } as never;
  const entry = { path: 'b/2.eml', date: null, size: 1 } as ManifestEntry;
  const results = Promise.allSettled([
    writer.put(1, place, async () => failing),
    writer.keep(2, entry),
    writer.keep(3, entry),
  ]);
  release();
  const states = (await results).map(({ status }) => status);
  expect(states).toEqual(['rejected', 'rejected', 'rejected']);
});

const { promise: released, resolve: release } = Promise.withResolvers<void>();

async function* neverEnding(): AsyncGenerator<Buffer> {
  yield Buffer.from('x');
  await new Promise(() => {});
}
