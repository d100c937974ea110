import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Answer,
  currentRate,
  FRESH_PACE,
  learnFromResponse,
  MAX_HOLD_MS,
  maxInFlight,
  type PacePolicy,
  type PaceState,
  requestTurn,
} from '../../src/core/pace.ts';

const START = 1_700_000_000_000;

function policy(requestsPerMinute: number, concurrency = 4): PacePolicy {
  return { requestsPerMinute, concurrency };
}

function answer(status: number, startedAt: number, more: Partial<Answer> = {}): Answer {
  return { status, startedAt, retryAfterMs: null, limit: null, remaining: null, ...more };
}

/** What a response at that moment teaches. */
function learn(
  state: PaceState,
  rate: number,
  status: number,
  at: number,
  more?: Partial<Answer>,
): PaceState {
  return learnFromResponse(state, policy(rate), answer(status, at, more), at);
}

/** Asks again and again, as an eager client does; returns the times of passing until `end`. */
function run(state: PaceState, of: PacePolicy, from: number, end: number, clockMs = 0) {
  const times: number[] = [];
  let now = from;
  while (now < end) {
    const decision = requestTurn(state, of, now);
    if (decision.go) {
      state = decision.state;
      times.push(now);
    } else now += Math.max(decision.waitMs, clockMs);
  }
  return { state, times };
}

/** The most times in any span that includes its start and not its end. */
function mostWithin(times: readonly number[], span: number): number {
  let most = 0;
  let first = 0;
  for (let last = 0; last < times.length; last += 1) {
    while ((times[last] ?? 0) - (times[first] ?? 0) >= span) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

describe('the ceiling', () => {
  test('is never exceeded in any minute, however requests come and whatever the rate', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.double({ min: 0.2, max: 5, noNaN: true }), fc.integer({ min: 5, max: 3000 })),
        fc.array(
          fc.record({
            idle: fc.integer({ min: 0, max: 90_000 }),
            requests: fc.integer({ min: 1, max: 120 }),
          }),
          { minLength: 1, maxLength: 12 },
        ),
        fc.constantFrom(0, 1, 15),
        (rate, phases, clockMs) => {
          let state = FRESH_PACE;
          let now = START;
          const times: number[] = [];
          for (const { idle, requests } of phases) {
            now += idle;
            for (let left = requests; left > 0; ) {
              const decision = requestTurn(state, policy(rate), now);
              if (decision.go) {
                state = decision.state;
                times.push(now);
                left -= 1;
              } else now += Math.max(decision.waitMs, clockMs);
            }
          }
          expect(mostWithin(times, 60_000)).toBeLessThanOrEqual(Math.ceil(rate));
        },
      ),
    );
  });

  test.each([60, 600, 6000])('is nearly reached by a steady stream at %i a minute', (rate) => {
    const { times } = run(FRESH_PACE, policy(rate), START, START + 600_000, 1);
    expect(times.length).toBeGreaterThan(rate * 10 * 0.99);
    expect(times.length).toBeLessThanOrEqual(rate * 10);
  });

  test('ten million a minute is no wait at all for a client far below it', () => {
    let state = FRESH_PACE;
    for (let i = 0; i < 20_000; i += 1) {
      const decision = requestTurn(state, policy(10_000_000), START + Math.floor(i / 100));
      if (!decision.go) throw new Error('made to wait');
      state = decision.state;
    }
  });

  test('idling earns a burst of four at 60 a minute, and no more', () => {
    const { times } = run(FRESH_PACE, policy(60), START, START + 1);
    expect(times).toHaveLength(4);
  });

  test('a burst is paid back at once by the pause after it', () => {
    const { times } = run(FRESH_PACE, policy(60), START, START + 10_000);
    expect(times.slice(0, 4)).toEqual([START, START, START, START]);
    expect((times[4] ?? 0) - START).toBeGreaterThanOrEqual(4000);
  });

  test('one a minute is one a minute', () => {
    const { times } = run(FRESH_PACE, policy(1), START, START + 240_000);
    expect(times).toHaveLength(4);
  });
});

describe('a 429', () => {
  test('holds everything for as long as Retry-After asks', () => {
    const state = learn(FRESH_PACE, 60, 429, START, { retryAfterMs: 30_000 });
    expect(requestTurn(state, policy(60), START + 29_999)).toMatchObject({ go: false, waitMs: 1 });
    expect(requestTurn(state, policy(60), START + 30_000).go).toBe(true);
  });

  test('without Retry-After waits by itself, longer each time', () => {
    const first = learn(FRESH_PACE, 60, 429, START);
    const second = learn(first, 60, 429, START + 10_000);
    expect(first.holdUntil - START).toBe(5000);
    expect(second.holdUntil - START - 10_000).toBe(10_000);
  });

  test('a Retry-After of a year is an hour', () => {
    const year = 365 * 86_400_000;
    const state = learn(FRESH_PACE, 60, 429, START, { retryAfterMs: year });
    expect(state.holdUntil).toBe(START + MAX_HOLD_MS);
  });

  test('halves what was really sent, not the ceiling', () => {
    const { state } = run(FRESH_PACE, policy(1_000_000), START, START + 1);
    let sent = FRESH_PACE;
    for (let i = 0; i < 100; i += 1) {
      const decision = requestTurn(sent, policy(1_000_000), START + i * 500);
      if (decision.go) sent = decision.state;
    }
    const now = START + 50_000;
    const taught = learn(sent, 1_000_000, 429, now, { retryAfterMs: 20_000 });
    expect(currentRate(taught, policy(1_000_000))).toBeCloseTo(50, 0);
    expect(state.learned).toBeNull();
  });

  test('one answered at once for a burst in flight together is one refusal', () => {
    let state = FRESH_PACE;
    for (let i = 0; i < 4; i += 1) {
      const decision = requestTurn(state, policy(60), START);
      if (decision.go) state = decision.state;
    }
    for (let i = 0; i < 4; i += 1) {
      state = learnFromResponse(state, policy(60), answer(429, START), START + 100 + i);
    }
    expect(state.refusals).toBe(1);
  });

  test('afterwards requests go one at a time until an answer is none', () => {
    const refused = learn(FRESH_PACE, 60, 429, START);
    expect(maxInFlight(refused, policy(60))).toBe(1);
    const well = learnFromResponse(refused, policy(60), answer(200, START + 6000), START + 6100);
    expect(maxInFlight(well, policy(60))).toBe(4);
  });

  test('the rate recovers slowly, and never above the ceiling', () => {
    const of = policy(60);
    let { state } = run(FRESH_PACE, of, START, START + 60_000);
    let now = START + 60_000;
    state = learnFromResponse(state, of, answer(429, now), now);
    const rates = [currentRate(state, of)];
    for (let minute = 0; minute < 30; minute += 1) {
      now += 60_000;
      state = learnFromResponse(state, of, answer(200, now), now);
      state = learnFromResponse(state, of, answer(200, now), now);
      rates.push(currentRate(state, of));
    }
    expect(rates[0]).toBeCloseTo(30, 0);
    expect(rates[1]).toBeCloseTo(33, 0);
    expect(rates.every((rate, i) => i === 0 || rate >= (rates[i - 1] ?? 0))).toBe(true);
    expect(rates.at(-1)).toBe(60);
    expect(state.learned).toBeNull();
  });

  test('never brings the rate below one a minute, or below a lower ceiling', () => {
    for (const ceiling of [60, 0.5]) {
      let state = FRESH_PACE;
      for (let i = 0; i < 20; i += 1) {
        const now = START + i * 7_200_000;
        state = learn(state, ceiling, 429, now);
      }
      expect(currentRate(state, policy(ceiling))).toBe(Math.min(1, ceiling));
    }
  });
});

describe('what the service announces', () => {
  test('a limit below the ceiling is kept to, one above changes nothing', () => {
    const low = learn(FRESH_PACE, 600, 200, START, { limit: 90 });
    expect(currentRate(low, policy(600))).toBe(90);
    const high = learn(FRESH_PACE, 60, 200, START, { limit: 90 });
    expect(currentRate(high, policy(60))).toBe(60);
  });

  test('a limit of nothing is one a minute', () => {
    const state = learn(FRESH_PACE, 600, 200, START, { limit: 0 });
    expect(currentRate(state, policy(600))).toBe(1);
  });

  test('Retry-After on a success counts only when nothing remains', () => {
    const left = { retryAfterMs: 20_000, limit: 90, remaining: 1 };
    expect(learn(FRESH_PACE, 90, 200, START, left).holdUntil).toBe(0);
    const none = learn(FRESH_PACE, 90, 200, START, { ...left, remaining: 0 });
    expect(none.holdUntil).toBe(START + 20_000);
  });
});

test('a clock set back by a day does not stop anything', () => {
  const { state } = run(FRESH_PACE, policy(60), START, START + 60_000);
  const held = learnFromResponse(state, policy(60), answer(429, START), START + 60_000);
  const yesterday = START - 86_400_000;
  const decision = requestTurn(held, policy(60), yesterday);
  expect(decision.go ? 0 : decision.waitMs).toBeLessThanOrEqual(5000);
});
