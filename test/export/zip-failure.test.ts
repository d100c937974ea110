import { expect, test } from 'vitest';
import { ZipWriter } from '../../src/transfer/export-target.ts';
import type { ManifestEntry } from '../../src/transfer/manifest-shapes.ts';

test('a failure reaches every message that waits to be written', async () => {
  const never = { pieces: () => neverEnding() };
  const writer = new ZipWriter({
    file: { write: async () => {}, discard: async () => {} },
    final: 'export.zip',
    plan: { done: () => {} } as never,
    earlier: async () => never,
    sidecar: async () => null,
  });
  const failing = {
    async *pieces() {
      yield Buffer.from('Subject: one\r\n');
      await released;
      throw new Error('the disk is full');
    },
  };
  const place = { path: 'a/1.eml', line: { date: null, size: 100 } } as never;
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
