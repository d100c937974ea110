import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import yauzl from 'yauzl';
import { LongZip } from '../../src/export/long-zip.ts';

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
