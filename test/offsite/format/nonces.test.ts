import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { afterAll, expect, test } from 'vitest';
import { CHUNK_BYTES, seal } from '../../../src/copies/format/sealed-object.ts';
import { sourceFiles } from '../../architecture/source-tree.ts';
import { about, all, noise, pieces, sealing } from './sample.ts';

const original = crypto.createCipheriv;
const used: string[] = [];
crypto.createCipheriv = ((...given: Parameters<typeof original>) => {
  const [, key, nonce] = given;
  used.push(
    `${Buffer.from(key as Buffer).toString('hex')} ${Buffer.from(nonce as Buffer).toString('hex')}`,
  );
  return original(...given);
}) as typeof original;
syncBuiltinESMExports();
afterAll(() => {
  crypto.createCipheriv = original;
  syncBuiltinESMExports();
});

test('no nonce is used twice under a key, whether objects are finished, broken off or tried again', async () => {
  const plain = noise(2 * CHUNK_BYTES + 5, 'plain');
  for (let n = 0; n < 60; n += 1) {
    let left = n % 6;
    for await (const _ of seal(sealing, about, plain.length, pieces(plain, CHUNK_BYTES)).bytes) {
      left -= 1;
      if (left === 0) break;
    }
  }
  await expect(all(seal(sealing, about, 5, pieces(plain)).bytes)).rejects.toThrow();
  // Each object has a key that wraps and one for its chunks. 10 were broken off before their first chunk, and the
  // first chunk of the last one is longer than its length.
  expect(new Set(used.map((one) => one.split(' ')[0])).size).toBe(61 + 50);
  expect(used.length).toBeGreaterThan(130);
  expect(new Set(used).size).toBe(used.length);
});

test('copies are encrypted in one place of the program, and the secrets of a fleet in another', () => {
  const places = (pattern: RegExp) =>
    sourceFiles(['src'])
      .filter(({ text }) => pattern.test(text))
      .map(({ file }) => file);
  expect(places(/\bcreateCipheriv\b/)).toEqual([
    // Draws a nonce of its own for each secret.
    'src/fleet/secrets.ts',
    'src/copies/format/sealed-object.ts',
  ]);
  // The library takes a new key for each file.
  expect(places(/\.encrypt\(|\bEncrypter\b/)).toEqual(['src/copies/format/keys.ts']);
});
