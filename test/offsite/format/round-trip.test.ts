import crypto, { hash } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  CHUNK_BYTES,
  chunkEncryption,
  HEADER_BYTES,
  newKeyPair,
  newObjectKey,
  seal,
  sealedLength,
} from '../../../src/copies/format/sealed-object.ts';
import { hasCode } from '../../../src/core/errors.ts';
import { sourceFiles } from '../../architecture/source-tree.ts';
import {
  about,
  all,
  flipped,
  noise,
  numbers,
  opened,
  opening,
  pieces,
  sealed,
  sealing,
} from './sample.ts';

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

const DAMAGED = 'copy-object-damaged';
const STORED = CHUNK_BYTES + 16;
/** Of one chunk, and of three: the last one has 64 KiB. */
const plain = noise(50_000, 'small');
const small = await sealed(plain);
const large = await sealed(noise(2 * CHUNK_BYTES + 1_000, 'large'));

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

test('no nonce is used twice under a key, whether objects are finished, broken off or tried again', async () => {
  const original = crypto.createCipheriv;
  const used: string[] = [];
  crypto.createCipheriv = ((...given: Parameters<typeof original>) => {
    const [key, nonce] = given
      .slice(1, 3)
      .map((part) => Buffer.from(part as Buffer).toString('hex'));
    used.push(`${key} ${nonce}`);
    return original(...given);
  }) as typeof original;
  syncBuiltinESMExports();
  onTestFinished(() => {
    crypto.createCipheriv = original;
    syncBuiltinESMExports();
  });
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

test('copies and the secrets of a fleet are encrypted in one place of the program', () => {
  const places = (pattern: RegExp) =>
    sourceFiles(['src'])
      .filter(({ text }) => pattern.test(text))
      .map(({ file }) => file);
  expect(places(/\bcreateCipheriv\b/)).toEqual(['src/copies/format/sealed-object.ts']);
  // The library takes a new key for each file.
  expect(places(/\.encrypt\(|\bEncrypter\b/)).toEqual(['src/copies/format/keys.ts']);
});
