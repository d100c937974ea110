import { expect, test } from 'vitest';
import { FOLDERS } from '../../src/copies/format/manifest.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { batchesIn, broughtBack, sampleCopy, signal } from './sample-copy.ts';

test('objects that disappeared there are uploaded again', async () => {
  const sample = await sampleCopy();
  const { writer, known, store, copy, dir } = sample;
  try {
    await writeBatches(writer, known, 3, 1);
    const first = await copy();
    expect(first.missing).toBe(0);
    for await (const { name } of store.list(FOLDERS.data, signal)) await store.delete(name, signal);
    const second = await copy();
    expect(second).toMatchObject({ missing: first.objects, uploaded: first.objects });
    const back = await broughtBack(sample, 'back');
    expect(back?.lost).toEqual([]);
    expect(await batchesIn(back?.dir ?? '')).toEqual(await batchesIn(dir));
    expect(await copy()).toMatchObject({ missing: 0, uploaded: 0 });
  } finally {
    await sample.close();
  }
});
