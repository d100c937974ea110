import { describe, expect, it, test } from 'vitest';
import { cronTimes, Timetable } from '../../src/daemon/schedule.ts';

const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString());
const at = (text: string): number => Date.parse(text);

describe('the times of a cron expression', () => {
  test.each([
    ['*/5 * * * *', 'UTC', '2026-11-20T10:00:00Z', '2026-11-20T10:05:00.000Z'],
    ['*/5 * * * *', 'UTC', '2026-11-20T10:04:59.999Z', '2026-11-20T10:05:00.000Z'],
    ['*/10 * * * * *', 'UTC', '2026-11-20T10:00:01Z', '2026-11-20T10:00:10.000Z'],
    ['0 3 * * *', 'UTC', '2026-11-20T10:00:00Z', '2026-11-21T03:00:00.000Z'],
    ['0 3 * * *', 'Europe/Berlin', '2026-11-20T10:00:00Z', '2026-11-21T02:00:00.000Z'],
    ['0 3 * * *', 'Asia/Kathmandu', '2026-11-20T10:00:00Z', '2026-11-20T21:15:00.000Z'],
    ['0 4 * * 0', 'UTC', '2026-11-20T10:00:00Z', '2026-11-22T04:00:00.000Z'],
    ['0 0 29 2 *', 'UTC', '2026-11-20T10:00:00Z', '2028-02-29T00:00:00.000Z'],
    // The hour from two to three comes twice that day in Berlin.
    ['*/20 * * * *', 'Europe/Berlin', '2026-10-24T23:50:00Z', '2026-10-25T00:00:00.000Z'],
    ['*/20 * * * *', 'Europe/Berlin', '2026-10-25T00:50:00Z', '2026-10-25T01:00:00.000Z'],
    // The hour is skipped that day in Berlin.
    ['30 2 29 3 *', 'Europe/Berlin', '2026-03-28T10:00:00Z', '2027-03-29T00:30:00.000Z'],
  ])('%s in %s after %s is %s', (expression, zone, after, next) => {
    expect(iso(cronTimes(expression, zone).next(at(after)))).toBe(next);
  });
});

describe('the timetable', () => {
  const start = at('2026-11-20T10:00:00Z');
  const table = (lastAt: number | null, now = start, jitter = 0, atStart = true): Timetable =>
    new Timetable(
      [
        { name: 'sync', times: cronTimes('*/5 * * * *', 'UTC'), lastAt, atStart },
        { name: 'sweep', times: cronTimes('0 3 * * *', 'UTC'), lastAt, atStart: false },
      ],
      () => jitter,
      now,
    );

  it('begins with a sync, and not with a sweep', () => {
    const times = table(null);
    expect(times.due(start)).toEqual(['sync']);
    expect(times.due(start)).toEqual([]);
    expect(iso(times.nextAt('sync'))).toBe('2026-11-20T10:05:00.000Z');
    expect(iso(times.nextAt('sweep'))).toBe('2026-11-21T03:00:00.000Z');
  });

  it('makes up once for what was missed while nobody was running', () => {
    const times = table(at('2026-11-17T10:00:00Z'), start, 0, false);
    expect(times.due(start)).toEqual(['sync', 'sweep']);
    expect(times.due(start + 1000)).toEqual([]);
  });

  it('misses nothing when it was begun lately', () => {
    const times = table(at('2026-11-20T09:58:00Z'), at('2026-11-20T09:59:00Z'), 0, false);
    expect(times.due(at('2026-11-20T09:59:59Z'))).toEqual([]);
    expect(times.waitMs(at('2026-11-20T09:59:59Z'))).toBe(1000);
    expect(times.due(start)).toEqual(['sync']);
  });

  it('makes up once for a sleep, however long', () => {
    const times = table(null);
    times.due(start);
    const woken = start + 40 * 3_600_000;
    expect(times.due(woken)).toEqual(['sync', 'sweep']);
    expect(iso(times.nextAt('sweep'))).toBe('2026-11-22T03:00:00.000Z');
  });

  it('continues when the clock is set back by a day', () => {
    const times = table(null);
    times.due(start);
    const back = start - 86_400_000;
    expect(times.due(back)).toEqual([]);
    expect(iso(times.nextAt('sync'))).toBe('2026-11-19T10:05:00.000Z');
    expect(iso(times.nextAt('sweep'))).toBe('2026-11-20T03:00:00.000Z');
  });

  it('does not wait for a last time that lies in the future', () => {
    expect(table(start + 86_400_000).due(start)).toEqual(['sync']);
  });

  it('is late by the jitter, and makes up without', () => {
    const times = table(at('2026-11-20T09:57:00Z'), at('2026-11-20T09:58:00Z'), 20_000, false);
    expect(iso(times.nextAt('sync'))).toBe('2026-11-20T10:00:20.000Z');
    expect(table(at('2026-11-17T10:00:00Z'), start, 20_000, false).due(start)).toEqual([
      'sync',
      'sweep',
    ]);
  });
});
