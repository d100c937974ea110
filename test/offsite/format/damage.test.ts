import { describe, expect, test } from 'vitest';
import {
  CHUNK_BYTES,
  chunkEncryption,
  HEADER_BYTES,
  newKeyPair,
  newObjectKey,
} from '../../../src/copies/format/sealed-object.ts';
import { about, noise, numbers, opened, opening, sealed, sealing } from './sample.ts';

const DAMAGED = 'copy-object-damaged';
const STORED = CHUNK_BYTES + 16;
/** Of one chunk, and of three: the last one has 64 KiB. */
const plain = noise(50_000, 'small');
const small = await sealed(plain);
const large = await sealed(noise(2 * CHUNK_BYTES + 1_000, 'large'));

function flipped(object: Buffer, bit: number): Buffer {
  const copy = Buffer.from(object);
  copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  return copy;
}

function chunk(object: Buffer, index: number): Buffer {
  return object.subarray(HEADER_BYTES + index * STORED, HEADER_BYTES + (index + 1) * STORED);
}

function withChunks(...indexes: number[]): Buffer {
  const header = large.subarray(0, HEADER_BYTES);
  return Buffer.concat([header, ...indexes.map((index) => chunk(large, index))]);
}

test('every flipped bit of header, length and tag is damage', async () => {
  const bits = [
    ...Array(8 * (HEADER_BYTES + 8)).keys(),
    ...Array.from(Array(128).keys(), (bit) => 8 * small.length - 1 - bit),
  ];
  for (const bit of bits) {
    const found = await opened(flipped(small, bit));
    expect([bit, found.code, found.before]).toEqual([bit, DAMAGED, 0]);
  }
});

test('flipped bits anywhere are damage, and nothing of their chunk is passed on', async () => {
  const next = numbers(20261125);
  for (let n = 0; n < 300; n += 1) {
    const bit = next(8 * small.length);
    const found = await opened(flipped(small, bit));
    expect([bit, found.code, found.before]).toEqual([bit, DAMAGED, 0]);
  }
  for (const index of [0, 1, 2]) {
    const bit = 8 * (HEADER_BYTES + index * STORED) + next(8 * 65_536);
    const found = await opened(flipped(large, bit));
    const before = Math.max(0, index * CHUNK_BYTES - 8);
    expect([bit, found]).toEqual([bit, { code: DAMAGED, reason: 'chunk', before }]);
  }
});

test('every cut is damage', async () => {
  const ends = [0, 1, 2, 3].map((index) => Math.min(HEADER_BYTES + index * STORED, large.length));
  const cuts = [
    ...Array(HEADER_BYTES).keys(),
    ...ends.flatMap((end) => [end - 17, end - 16, end - 1, end, end + 1, end + 16, end + 17]),
  ].filter((length) => length < large.length);
  for (const length of cuts) {
    const found = await opened(large.subarray(0, length));
    expect([length, found.code]).toEqual([length, DAMAGED]);
  }
  const whole = await opened(large.subarray(0, HEADER_BYTES + 2 * STORED));
  expect(whole).toMatchObject({ reason: 'cut' });
});

test('every byte after the end is damage', async () => {
  const tails = [Buffer.alloc(1), Buffer.alloc(16), chunk(small, 0), small, Buffer.alloc(STORED)];
  const full = await sealed(noise(CHUNK_BYTES - 8, 'full'));
  for (const object of [small, large, full]) {
    for (const tail of tails) {
      const found = await opened(Buffer.concat([object, tail]));
      expect([object.length, tail.length, found.code]).toEqual([
        object.length,
        tail.length,
        DAMAGED,
      ]);
    }
  }
  expect(await opened(Buffer.concat([full, Buffer.alloc(1)]))).toMatchObject({
    reason: 'appended',
    before: 0,
  });
});

test.each([
  ['swapped', [1, 0, 2]],
  ['left out', [0, 2]],
  ['left out at the beginning', [1, 2]],
  ['doubled', [0, 0, 1, 2]],
  ['doubled at the end', [0, 1, 2, 2]],
  ['all in reverse', [2, 1, 0]],
])('chunks that are %s are damage', async (_, indexes) => {
  expect(withChunks(0, 1, 2).equals(large)).toBe(true);
  expect(await opened(withChunks(...indexes))).toMatchObject({ code: DAMAGED });
});

test('a chunk of another object of the same copy is damage', async () => {
  const other = await sealed(plain);
  const mixed = Buffer.concat([small.subarray(0, HEADER_BYTES), other.subarray(HEADER_BYTES)]);
  expect(await opened(mixed)).toMatchObject({ code: DAMAGED, reason: 'chunk' });
});

describe('an object that is whole, but not what it should be,', () => {
  test('is damage under another name', async () => {
    const moved = { ...about, name: `data/${'1'.repeat(48)}` };
    expect(await opened(small, moved)).toMatchObject({ code: DAMAGED, reason: 'key' });
  });

  test('is damage as another kind', async () => {
    const found = await opened(small, { ...about, kind: 'tail' });
    expect(found).toMatchObject({ code: DAMAGED, reason: 'other-kind' });
    const renamed = Buffer.from(small);
    renamed[5] = 2;
    expect(await opened(renamed, { ...about, kind: 'tail' })).toMatchObject({ reason: 'key' });
  });

  test('is damage in another copy, even one of the same keys', async () => {
    const copyId = Buffer.alloc(16, 1);
    expect(await opened(small, about, { ...opening, copyId })).toMatchObject({
      code: DAMAGED,
      reason: 'other-copy',
    });
    const renamed = Buffer.from(small);
    copyId.copy(renamed, 8);
    expect(await opened(renamed, about, { ...opening, copyId })).toMatchObject({ reason: 'key' });
  });

  test('says that its key is unknown where nothing is damaged', async () => {
    const privateKeys = [newKeyPair().privateKey];
    const unknown = { code: 'copy-key-unknown', reason: null, before: 0 };
    expect(await opened(small, about, { ...opening, privateKeys })).toEqual(unknown);
    expect(await opened(small, about, { ...opening, privateKeys: [] })).toEqual(unknown);
  });

  test('is damage with an ephemeral key that shares no secret', async () => {
    const object = Buffer.from(small);
    object.fill(0, 32, 64);
    expect(await opened(object)).toMatchObject({ code: DAMAGED, reason: 'key' });
  });
});

describe('whoever has the public key can seal, but not what a reader would misread:', () => {
  /** Seals one chunk of text, framed or not. */
  function sealedText(text: Buffer): Buffer {
    const { header, key, bound } = newObjectKey(sealing, about);
    const cipher = chunkEncryption(key, 0, true, bound);
    return Buffer.concat([header, cipher.update(text), cipher.final(), cipher.getAuthTag()]);
  }
  function framed(length: bigint, size: number): Buffer {
    const text = Buffer.alloc(size);
    if (size >= 8) text.writeBigUInt64LE(length);
    return text;
  }

  test.each([
    ['no length', framed(0n, 7)],
    ['nothing at all', framed(0n, 0)],
    ['a length beyond its end', framed(65_529n, 65_536)],
    ['a length beyond all numbers', framed(2n ** 64n - 1n, 65_536)],
    ['too little padding', framed(5n, 13)],
    ['too much padding', framed(5n, 131_072)],
    ['padding that is not zero', Buffer.concat([framed(5n, 65_535), Buffer.from([1])])],
  ])('%s', async (_, text) => {
    expect(await opened(sealedText(text))).toEqual({ code: DAMAGED, reason: 'frame', before: 0 });
  });

  test('a frame that is right opens', async () => {
    expect(await opened(sealedText(framed(5n, 65_536)))).toEqual({ content: Buffer.alloc(5) });
  });
});
