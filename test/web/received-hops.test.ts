import { expect, test } from 'vitest';
import { readHops } from '../../src/web/message-view.ts';

const received = (...values: string[]) => values.map((value) => ({ name: 'Received', value }));

test('the lowest Received line is the first hop, and each has the time since the one before', () => {
  const hops = readHops([
    { name: 'Delivered-To', value: 'bob@example.org' },
    ...received(
      'from relay.example (relay.example [192.0.2.7]) by mx.example (Postfix) with ESMTPS id 4F1 for <bob@example.org>; Mon, 2 Feb 2026 10:01:05 +0000 (UTC)',
      'from [10.0.0.5] by relay.example with ESMTPSA; Mon, 2 Feb 2026 11:00:00 +0100',
    ),
  ]);
  expect(hops).toEqual([
    {
      from: '[10.0.0.5]',
      by: 'relay.example',
      with: 'ESMTPSA',
      time: Date.UTC(2026, 1, 2, 10),
      delay: null,
    },
    {
      from: 'relay.example (relay.example [192.0.2.7])',
      by: 'mx.example',
      with: 'ESMTPS',
      time: Date.UTC(2026, 1, 2, 10, 1, 5),
      delay: 65_000,
    },
  ]);
});

test('clocks that differ give a negative delay, and a line without a time none', () => {
  const hops = readHops(
    received(
      'by c.example; Mon, 2 Feb 2026 10:00:10 +0000',
      'by b.example with nonsense; not a date',
      'by a.example; Mon, 2 Feb 2026 10:00:30 +0000',
    ),
  );
  expect(hops.map(({ by, delay }) => [by, delay])).toEqual([
    ['a.example', null],
    ['b.example', null],
    ['c.example', -20_000],
  ]);
});

test('words in comments are no clauses, and a semicolon in one does not end the line', () => {
  const [hop] = readHops(
    received('from a (by evil; with (nested) lies) by b with SMTP; Mon, 2 Feb 2026 10:00:00 +0000'),
  );
  expect(hop).toMatchObject({
    from: 'a (by evil; with (nested) lies)',
    by: 'b',
    with: 'SMTP',
    time: Date.UTC(2026, 1, 2, 10),
  });
});

test('hostile lines are read in limits', () => {
  const started = performance.now();
  const lines = [
    '('.repeat(1_000_000),
    `${'from '.repeat(200_000)};`,
    `by ${'x'.repeat(1_000_000)}; ${'1 '.repeat(500_000)}`,
    `from ${'(a) '.repeat(250_000)}`,
    '',
    ';;;;',
    ')))) from ((((',
  ];
  const hops = readHops(
    received(...lines, ...Array.from({ length: 100_000 }, () => 'from a by b')),
  );
  expect(hops).toHaveLength(100);
  for (const { from, by, with: how } of hops)
    expect(Math.max(from.length, by.length, how.length)).toBeLessThanOrEqual(200);
  // Linear work takes some milliseconds; quadratic work would take hours.
  expect(performance.now() - started).toBeLessThan(5_000);
});
