import { expect, test } from 'vitest';
import { parseTime } from '../../src/cli/option-values.ts';
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

const now = Date.parse('2026-03-10T12:00:00Z');

test('a span is that long ago, an ISO time is exact, a date is its last moment here', () => {
  expect(parseTime('--as-of', '3d', now)).toBe(now - 3 * 86_400_000);
  expect(parseTime('--as-of', '15m', now)).toBe(now - 900_000);
  expect(parseTime('--as-of', '2026-03-01T10:30:00.123Z', now)).toBe(
    Date.parse('2026-03-01T10:30:00.123Z'),
  );
  expect(parseTime('--as-of', '2026-03-01T10:30:00', now)).toBe(Date.parse('2026-03-01T10:30:00'));
  expect(parseTime('--as-of', '2026-03-01', now)).toBe(new Date(2026, 2, 2).getTime() - 1);
});

test('anything else is refused by name', () => {
  for (const text of ['', 'now-ish', '1/2/2026', '2026-13-01', '2026-02-30', '3 days']) {
    expect(() => parseTime('--as-of', text, now)).toThrow(
      expect.objectContaining({
        code: 'usage-bad-date',
        facts: { option: '--as-of', found: text },
      }),
    );
  }
});
