import { expect, test } from 'vitest';
import { findManifests } from '../../src/copies/manifests.ts';
import type { ObjectStore } from '../../src/copies/object-store.ts';
import { sampleCopy, signal } from './sample-copy.ts';

test('a listing of manifests that does not end is refused', async () => {
  const { store, key, close } = await sampleCopy();
  try {
    const endless: ObjectStore = Object.assign(Object.create(store), {
      async *list() {
        for (let at = 0; at < 1_000_000; at += 1) {
          const name = `manifests/9000000000000000-${at.toString(16).padStart(32, '0')}`;
          yield { name, length: 1, modified: 0 };
        }
      },
      get() {
        throw new Error('none of them is read');
      },
    });
    await expect(findManifests(endless, key, signal)).rejects.toMatchObject({
      code: 'offsite-too-many-manifests',
    });
  } finally {
    await close();
  }
});
