import { constants, zstdCompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { hasCode } from '../../src/core/errors.ts';
import { packUtf8, unpackUtf8 } from '../../src/mail/normalise.ts';
import { seededRandom } from '../../src/transfer/export-test.ts';

const MAX_BYTES = 786_432;
const SEED = Math.floor(Math.random() * 1e9);

const unpack = (packed: Buffer, maxBytes = MAX_BYTES): string =>
  unpackUtf8(packed, { maxBytes, file: 'catalog.sqlite', reason: 'text' });
const damaged = expect.objectContaining({
  code: 'catalog-damaged',
  facts: { file: 'catalog.sqlite', reason: 'text' },
});

/** Made-up words, some of them frequent, so that literals, matches and repeats all occur. */
function prose(bytes: number): string {
  const random = seededRandom(SEED + bytes);
  const words = Array.from({ length: 300 }, () => random().toString(36).slice(2, 11));
  let text = '';
  while (text.length < Math.min(bytes, 70_000))
    text += `${words[Math.floor(random() ** 2 * words.length)]} `;
  return text.repeat(Math.ceil(bytes / text.length)).slice(0, bytes);
}

/** UTF-16 units of the text, of which no byte gives more than one. */
function unitsOrDamage(packed: Buffer, maxBytes: number): number | 'damage' {
  try {
    return unpack(packed, maxBytes).length;
  } catch (error) {
    if (hasCode(error, 'catalog-damaged')) return 'damage';
    throw error;
  }
}

describe(`packed text (seed ${SEED})`, () => {
  test.each([1, 5, 255, 256, 257, 8192, 65_791, 65_792, MAX_BYTES])(
    'of %i bytes is read back',
    (bytes) => {
      for (const text of [prose(bytes), 'x'.repeat(bytes)]) {
        for (const level of [2, 3, 6, 19]) {
          expect(unpack(packUtf8(Buffer.from(text), level), bytes)).toBe(text);
        }
      }
    },
  );

  test.each([1, 40, 300, 1200])(
    'of %i bytes with a flipped bit is damaged, or no longer',
    (bytes) => {
      const packed = packUtf8(Buffer.from(prose(bytes)), 3);
      const outcomes = Array.from({ length: packed.length * 8 }, (_, bit) => {
        const flipped = Buffer.from(packed);
        flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        return unitsOrDamage(flipped, bytes);
      });
      expect(outcomes).toContain('damage');
      expect(Math.max(...outcomes.filter((one) => one !== 'damage'))).toBeLessThanOrEqual(bytes);
    },
  );

  test.each([1, 40, 300, 8192])('of %i bytes that is cut off anywhere is damaged', (bytes) => {
    const packed = packUtf8(Buffer.from(prose(bytes)), 3);
    const outcomes = Array.from({ length: packed.length }, (_, length) =>
      unitsOrDamage(packed.subarray(0, length), bytes),
    );
    expect(new Set(outcomes)).toEqual(new Set(['damage']));
  });

  test('that is longer than any text is damaged, whatever its header states', () => {
    const zeros = Buffer.alloc(10_000_000);
    const frame = packUtf8(zeros, 3);
    const lying = Buffer.from(frame);
    lying.writeUInt32LE(8192, 5);
    const windowed = zstdCompressSync(zeros, {
      params: { [constants.ZSTD_c_contentSizeFlag]: 0, [constants.ZSTD_c_windowLog]: 27 },
    });
    for (const packed of [frame, lying, windowed]) {
      expect(() => unpack(packed)).toThrow(damaged);
    }
  });
});
