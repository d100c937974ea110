import { expect, test } from 'vitest';
import { parseHeaderDate } from '../../src/mail/header-date.ts';

test.each([
  ['Mon, 05 Jan 2026 10:00:00 +0000', '2026-01-05T10:00:00.000Z'],
  ['5 Jan 2026 10:00 +0130', '2026-01-05T08:30:00.000Z'],
  ['Mon, 5 Jan 26 10:00:01 -0500 (EST)', '2026-01-05T15:00:01.000Z'],
  ['Fri, 23 Aug 2002 09:08:07 EDT', '2002-08-23T13:08:07.000Z'],
  ['Sat, 1 Feb 97 23:59:60 GMT', '1997-02-01T23:59:59.000Z'],
  ['From ada@example.org Thu Jan  1 12:30:00 2026', '2026-01-01T12:30:00.000Z'],
  ['From x Wed Aug 21 08:17:51 EDT 2002', '2002-08-21T12:17:51.000Z'],
  ['Tue, 1 Jun 2021 10:00:00', '2021-06-01T10:00:00.000Z'],
])('%s', (text, iso) => {
  const time = parseHeaderDate(text);
  expect(time === null ? null : new Date(time).toISOString()).toBe(iso);
});

test.each(['', 'yesterday', 'Mon, 05 Foo 2026 10:00:00 +0000', 'Mon, 5 Jan 1920 10:00:00 +0000'])(
  '%j contains no time',
  (text) => {
    expect(parseHeaderDate(text)).toBeNull();
  },
);
