import { expect, test } from 'vitest';
import { FRESH_PACE, type PaceState, readHostPause, readPaceState } from '../../src/core/pace.ts';

const learned: PaceState = {
  ...FRESH_PACE,
  learned: 12.5,
  announced: 60,
  refusals: 2,
  minute: { since: 1_790_000_000_000, count: 3, before: 4 },
};
const without = (name: string) =>
  Object.fromEntries(Object.entries(learned).filter(([each]) => each !== name));

test.each([FRESH_PACE, learned])('a pace is read back as it was written', (pace) => {
  expect(readPaceState(JSON.parse(JSON.stringify(pace)))).toEqual(pace);
  expect(readPaceState({ ...pace, later: 'unknown' })).toEqual(pace);
});

test.each([
  undefined,
  null,
  'pace',
  [],
  { until: 1, pauses: 2 },
  ...Object.keys(learned).map(without),
  { ...learned, learned: 0 },
  { ...learned, announced: -1 },
  { ...learned, gain: -1 },
  { ...learned, due: '1' },
  { ...learned, due: Number.NaN },
  { ...learned, credit: Number.POSITIVE_INFINITY },
  { ...learned, minute: null },
  { ...learned, second: { since: 1, count: 2 } },
])('%j is no pace', (value) => {
  expect(readPaceState(value)).toBeUndefined();
});

test('a pause of a host is read back, and nothing else', () => {
  expect(readHostPause({ until: 5, pauses: 1, more: 2 })).toEqual({ until: 5, pauses: 1 });
  for (const value of [null, 5, {}, { until: 5 }, { until: -1, pauses: 1 }, learned])
    expect(readHostPause(value)).toBeUndefined();
});
