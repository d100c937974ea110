import { expect, test } from 'vitest';
import { parseTime } from '../../src/cli/option-values.ts';

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
