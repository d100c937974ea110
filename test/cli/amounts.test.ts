import { expect, test } from 'vitest';
import { bytes, count, counted, span } from '../../src/core/text.ts';

test('counts are grouped, and nouns follow them', () => {
  expect([0, 999, 1000, 1234567].map(count)).toEqual(['0', '999', '1,000', '1,234,567']);
  expect(counted(1, 'message')).toBe('1 message');
  expect(counted(0, 'mailbox', 'mailboxes')).toBe('0 mailboxes');
});

test('sizes keep three digits', () => {
  expect([0, 999, 1000, 12_345, 999_949, 1e9, 1.5e12, 2e15].map(bytes)).toEqual([
    '0 B',
    '999 B',
    '1.0 kB',
    '12.3 kB',
    '1.0 MB',
    '1.0 GB',
    '1.5 TB',
    '2000 TB',
  ]);
});

test('spans have at most two units', () => {
  const s = 1000;
  expect(
    [0, 450, 9_999, 59 * s, 60 * s, 200 * s, 3_600 * s, 18_600 * s, 90_000 * s, 864_000 * s].map(
      span,
    ),
  ).toEqual([
    '0.0 s',
    '0.5 s',
    '10 s',
    '59 s',
    '1 min',
    '3 min 20 s',
    '1 h',
    '5 h 10 min',
    '1 d 1 h',
    '10 d',
  ]);
});
