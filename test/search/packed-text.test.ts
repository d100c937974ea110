import { expect, it } from 'vitest';
import { packText, TEXT_BYTES_PER_MESSAGE, unpackText } from '../../src/search/packed-text.ts';

const unpack = (packed: Buffer | null) => unpackText(packed, 'catalog.sqlite');

it('names the remedy when a cached text does not unpack', () => {
  expect(() => unpack(Buffer.from('noise'))).toThrow(
    expect.objectContaining({ code: 'catalog-damaged', family: 'damage' }),
  );
});

it('keeps the beginning of a long text, and never half a character', () => {
  const text = `x${'東'.repeat(TEXT_BYTES_PER_MESSAGE)}`;
  const read = unpack(packText(text));
  expect(text.startsWith(read)).toBe(true);
  expect(Buffer.byteLength(read)).toBeGreaterThan(TEXT_BYTES_PER_MESSAGE - 3);
  expect(Buffer.byteLength(read)).toBeLessThanOrEqual(TEXT_BYTES_PER_MESSAGE);
});

it.each([0, 1, 2, 3, 4])('cuts a long text as its UTF-8, %i characters from a pair', (before) => {
  const text = `${'x'.repeat(TEXT_BYTES_PER_MESSAGE - before)}${'😀'.repeat(4)}`;
  const whole = Buffer.from(text).subarray(0, TEXT_BYTES_PER_MESSAGE).toString();
  expect(unpack(packText(text))).toBe(whole.replace(/\ufffd+$/, ''));
});

it('keeps nothing of no text', () => {
  expect(packText('')).toBeNull();
  expect(unpack(null)).toBe('');
});
