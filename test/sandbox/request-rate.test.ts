import { describe, expect, test } from 'vitest';
import { RequestRate } from '../../src/sandbox/faults.ts';

const ADDRESS = '192.0.2.1';

describe('without a block', () => {
  test('the window slides: what was taken a minute ago is free again', () => {
    const rate = new RequestRate(3, null);
    const take = (now: number) => rate.take(ADDRESS, now);
    expect(take(0)).toEqual({
      allowed: true,
      blocked: false,
      limit: 3,
      remaining: 2,
      retryAfter: 0,
    });
    expect(take(10_000)).toMatchObject({ allowed: true, remaining: 1, retryAfter: 0 });
    // The last one: the next is allowed once the first is a minute old.
    expect(take(20_000)).toMatchObject({ allowed: true, remaining: 0, retryAfter: 40 });
    expect(take(59_001)).toMatchObject({ allowed: false, remaining: 0, retryAfter: 1 });
    expect(take(60_000)).toMatchObject({ allowed: true, remaining: 0, retryAfter: 10 });
    expect(take(60_001)).toMatchObject({ allowed: false, retryAfter: 10 });
  });

  test('addresses do not count for each other', () => {
    const rate = new RequestRate(1, null);
    expect(rate.take(ADDRESS, 0).allowed).toBe(true);
    expect(rate.take('192.0.2.2', 0).allowed).toBe(true);
    expect(rate.take(ADDRESS, 0).allowed).toBe(false);
  });

  test('refusals never block', () => {
    const rate = new RequestRate(1, null);
    for (let n = 0; n < 1000; n += 1) rate.take(ADDRESS, 0);
    expect(rate.take(ADDRESS, 60_000)).toMatchObject({ allowed: true });
  });
});

describe('with a block after three refusals in a row', () => {
  test('the third blocks, for all of its time and no longer', () => {
    const rate = new RequestRate(1, { refusals: 3, forMs: 300_000 });
    const take = (now: number) => rate.take(ADDRESS, now);
    take(0);
    expect(take(1)).toMatchObject({ allowed: false, blocked: false, retryAfter: 60 });
    expect(take(2)).toMatchObject({ blocked: false });
    expect(take(3)).toMatchObject({ blocked: true, retryAfter: 300 });
    // The limit itself would allow it by now; asking does not make the block longer.
    expect(take(150_003)).toMatchObject({ allowed: false, blocked: true, retryAfter: 150 });
    expect(take(300_002)).toMatchObject({ blocked: true, retryAfter: 1 });
    expect(take(300_003)).toMatchObject({ allowed: true, blocked: false });
  });

  test('a request that is allowed in between forgives', () => {
    const rate = new RequestRate(1, { refusals: 3, forMs: 300_000 });
    for (let minute = 0; minute < 10; minute += 1) {
      const now = minute * 60_000;
      expect(rate.take(ADDRESS, now).allowed).toBe(true);
      expect(rate.take(ADDRESS, now).blocked).toBe(false);
      expect(rate.take(ADDRESS, now).blocked).toBe(false);
    }
  });
});
