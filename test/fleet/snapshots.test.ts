import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { deflateSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { UploadingStore } from '../../src/copies/object-store.ts';
import { fetchSnapshot } from '../../src/fleet/snapshots.ts';
import { temporaryDir } from '../catalog/history.ts';
import { signal } from '../objects/store-contract.ts';

let room: ReturnType<typeof temporaryDir>;
beforeEach(() => {
  room = temporaryDir();
});
afterEach(() => room.remove());

/** Fetches a snapshot from a store that has these bytes. */
async function fetched(bytes: Buffer): Promise<string> {
  const file = path.join(room.dir, 'fetched');
  const sha256 = createHash('sha256').update(bytes).digest();
  const of = { number: 1, hash: Buffer.alloc(32), catalogVersion: 1, key: 'snapshot' };
  const store: Pick<UploadingStore, 'label' | 'get'> = {
    label: 'store',
    async *get() {
      for (let at = 0; at < bytes.length; at += 10_000) yield bytes.subarray(at, at + 10_000);
    },
  };
  await fetchSnapshot(store, file, { ...of, bytes: bytes.length, sha256 }, signal);
  return file;
}

test('a snapshot is inflated into a file that only its owner reads', async () => {
  const file = await fetched(deflateSync(Buffer.alloc(100_000, 'x')));
  expect([statSync(file).size, statSync(file).mode & 0o777]).toEqual([100_000, 0o600]);
});

test.each([
  ['is not deflated', Buffer.alloc(30_000, 'x')],
  ['ends early', deflateSync(Buffer.alloc(100_000, 'x')).subarray(0, 50)],
  ['inflates to far more than any catalog', deflateSync(Buffer.alloc(80_000_000))],
])('a snapshot that %s is damaged', async (_, bytes) => {
  await expect(fetched(bytes)).rejects.toMatchObject({
    ...{ code: 'object-damaged', facts: { store: 'store', name: 'snapshot' } },
  });
  const file = path.join(room.dir, 'fetched');
  if (existsSync(file)) expect(statSync(file).size).toBeLessThan(40_000_000);
});
