import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  CHUNK_BYTES,
  HEADER_BYTES,
  newKeyPair,
  seal,
  sealedLength,
} from '../../../src/copies/format/sealed-object.ts';
import { hasCode } from '../../../src/core/errors.ts';
import { about, all, noise, numbers, opened, opening, pieces, sealed, sealing } from './sample.ts';

const BOUNDARIES = [65_536, 131_072, CHUNK_BYTES, CHUNK_BYTES + 65_536, 2 * CHUNK_BYTES];

describe('what is sealed opens', () => {
  const lengths = BOUNDARIES.flatMap((at) => [at - 9, at - 8, at - 7, at - 1, at, at + 1]);
  test.each([0, 1, 8, ...lengths])('%i bytes', async (length) => {
    const plain = noise(length, 'plain');
    const { bytes, length: announced, sha256 } = seal(sealing, about, length, pieces(plain));
    expect(sha256).toThrow(/not sealed yet/);
    const object = await all(bytes);
    expect([object.length, announced]).toEqual([sealedLength(length), sealedLength(length)]);
    expect(sha256()).toBe(hash('sha256', object));
    const { content } = await opened(object);
    expect(content?.equals(plain)).toBe(true);
  });

  test('whatever pieces it comes in', async () => {
    const plain = noise(CHUNK_BYTES + 70_000, 'plain');
    for (const most of [17, 4_096, 65_536, 2_000_000]) {
      const next = numbers(most);
      const object = await all(seal(sealing, about, plain.length, pieces(plain, most, next)).bytes);
      const { content } = await opened(object);
      expect([most, content?.equals(plain)]).toEqual([most, true]);
    }
  });

  test('with a key of before a rotation', async () => {
    const object = await sealed(noise(10, 'plain'));
    const privateKeys = [newKeyPair().privateKey, ...opening.privateKeys];
    expect(await opened(object, about, { ...opening, privateKeys })).toHaveProperty('content');
  });
});

test('lengths of objects show 64 KiB steps only', () => {
  const seen = new Set<number>();
  for (let length = 0; length < 131_072; length += 1) seen.add(sealedLength(length));
  expect([...seen]).toEqual([1, 2, 3].map((n) => HEADER_BYTES + n * 65_536 + 16));
});

test('the same bytes never become the same object', async () => {
  const plain = noise(100, 'plain');
  const [a, b] = [await sealed(plain), await sealed(plain)];
  // What is the same: magic, version, kind, copy, key. Neither an ephemeral key nor any other 16 bytes.
  expect(a.subarray(0, 32).equals(b.subarray(0, 32))).toBe(true);
  for (let at = 32; at + 16 <= a.length; at += 16) {
    expect(a.subarray(at, at + 16).equals(b.subarray(at, at + 16))).toBe(false);
  }
});

describe('bytes that change while they are sealed', () => {
  test.each([
    ['fewer', 99_999],
    ['more', 100_001],
    ['far more', 3_000_000],
  ])('fail the object if there are %s', async (_, found) => {
    const { bytes } = seal(sealing, about, 100_000, pieces(noise(found, 'x'), 40_000));
    await expect(all(bytes)).rejects.toSatisfy((error) => hasCode(error, 'copy-source-changed'));
  });

  test('are closed when there are too many, and when nobody wants more', async () => {
    let closed = 0;
    async function* endless() {
      try {
        for (;;) yield Buffer.alloc(1_000);
      } finally {
        closed += 1;
      }
    }
    await expect(all(seal(sealing, about, 100_000, endless()).bytes)).rejects.toThrow();
    for await (const piece of seal(sealing, about, 2 * CHUNK_BYTES, endless()).bytes) {
      if (piece.length === CHUNK_BYTES) break;
    }
    expect(closed).toBe(2);
  });

  test('a second reader of the same object gets nothing', async () => {
    const { bytes } = seal(sealing, about, 10, pieces(Buffer.alloc(10)));
    await all(bytes);
    expect(await all(bytes)).toHaveLength(0);
  });
});
