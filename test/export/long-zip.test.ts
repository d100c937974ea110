import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import yauzl from 'yauzl';
import { LongZip } from '../../src/transfer/export-target.ts';

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
