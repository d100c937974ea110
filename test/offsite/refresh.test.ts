import { expect, test } from 'vitest';
import { writeBatches } from '../archive/sample-log.ts';
import { dyingAt, Killed } from './dying-store.ts';
import { sampleCopy } from './sample-copy.ts';

test('what an interrupted copy uploaded is continued, but not by one that uploads everything again', async () => {
  const sample = await sampleCopy();
  try {
    await writeBatches(sample.writer, sample.known, 2);
    await sample.writer.rollIfLarger(0);
    await writeBatches(sample.writer, sample.known, 1, 50);
    // It lists manifests, uploads two objects, and dies before the manifest.
    const interrupted = () => sample.copy({ store: dyingAt(sample.store, 4, 'before').dying });
    await expect(interrupted()).rejects.toBeInstanceOf(Killed);
    expect(sample.state.entries('copy-upload')).toHaveLength(2);
    expect(await sample.copy({ refresh: true })).toMatchObject({ uploaded: 2, objects: 2 });
    expect(await sample.copy()).toMatchObject({ uploaded: 0, objects: 2 });
  } finally {
    await sample.close();
  }
});
