import { expect, it } from 'vitest';
import {
  packText,
  TEXT_BYTES_PER_MESSAGE,
  UnpackedTexts,
  unpackText,
} from '../../src/mail/normalise.ts';

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

it('never gives a kept text for other bytes, however many are kept', () => {
  const texts = new UnpackedTexts('catalog.sqlite');
  const ask = (docid: number, text: string) => expect(texts.of(docid, packText(text))).toBe(text);
  for (let round = 0; round < 3; round += 1)
    for (let docid = 0; docid < 600; docid += 1) ask(docid, `letter ${docid} ${round >> 1}`);
  ask(599, '');
  ask(599, 'letter 599 2');
  expect(() => texts.of(599, Buffer.from('noise'))).toThrow(
    expect.objectContaining({ code: 'catalog-damaged' }),
  );
  ask(599, 'letter 599 2');
});
