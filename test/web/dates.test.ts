import { afterEach, expect, test } from 'vitest';
import { clockText, dayText, monthName, shortMonth, weekdayText } from '../../src/core/text.ts';
import { seeded } from '../bench/seeded.ts';

const DAY_MS = 86_400_000;
const { TZ } = process.env;
afterEach(() => {
  if (TZ === undefined) delete process.env.TZ;
  else process.env.TZ = TZ;
});

test.each(['UTC', 'Europe/Berlin', 'America/St_Johns', 'Pacific/Kiritimati', 'Asia/Kathmandu'])(
  'dates in %s are those that Intl writes, but for a September of three letters',
  (zone) => {
    process.env.TZ = zone;
    const format = (options: Intl.DateTimeFormatOptions) =>
      new Intl.DateTimeFormat('en-GB', { timeZone: zone, ...options });
    const day = format({ day: 'numeric', month: 'short', year: 'numeric' });
    const clock = format({ hour: '2-digit', minute: '2-digit' });
    const weekday = format({ weekday: 'short' });
    const random = seeded('dates', zone);
    for (let i = 0; i < 2_000; i += 1) {
      // From 1970 to 2100; every third is the last moment of a day in UTC.
      const within = i % 3 === 0 ? -1 : random.below(DAY_MS);
      const moment = (1 + random.below(47_480)) * DAY_MS + within;
      const intl = day.format(moment).replace('Sept', 'Sep');
      expect([moment, dayText(moment)]).toEqual([moment, intl]);
      expect([moment, clockText(moment)]).toEqual([moment, ` ${clock.format(moment)}`]);
      expect([moment, weekdayText(moment)]).toEqual([moment, weekday.format(moment)]);
    }
  },
);

test('months have their names', () => {
  const names = Array.from({ length: 12 }, (_, i) => monthName(i + 1));
  const format = new Intl.DateTimeFormat('en-GB', { month: 'long' });
  expect(names).toEqual(names.map((_, i) => format.format(new Date(2026, i, 15))));
  expect(shortMonth(11)).toBe('Nov');
  expect([shortMonth(0), shortMonth(13), shortMonth(Number.NaN)]).toEqual(['', '', '']);
});
