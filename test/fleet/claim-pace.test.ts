import { expect, test } from 'vitest';
import { ClaimPace } from '../../src/fleet/claim-pace.ts';
import { AT_ONCE } from '../../src/fleet/in-turns.ts';

/** A clock that stands: whoever waits for it waits for ever. */
const standing = { after: () => () => {} };
const never = new AbortController().signal;

async function isTimeWith(act: (pace: ClaimPace) => void): Promise<boolean> {
  const pace = new ClaimPace();
  act(pace);
  const time = pace.next(standing, 2_000, never).then(() => true);
  return await Promise.race([
    time,
    new Promise<boolean>((resolve) => setImmediate(resolve, false)),
  ]);
}

test('archives are claimed at once when those that held others up are open', async () => {
  expect(new ClaimPace().roomWith(1)).toBe(AT_ONCE - 1);
  const full = (pace: ClaimPace): void => {
    expect(pace.roomWith(AT_ONCE)).toBe(0);
  };
  const half = (pace: ClaimPace): void => {
    full(pace);
    for (let opening = AT_ONCE - 1; opening >= AT_ONCE / 2; opening -= 1) pace.opened(opening);
  };
  const nothingHeldUp = (pace: ClaimPace): void => {
    pace.roomWith(0);
    pace.opened(0);
  };
  expect(await isTimeWith(half)).toBe(true);
  expect(await isTimeWith(full)).toBe(false);
  expect(await isTimeWith(nothingHeldUp)).toBe(false);
});

test('it is time once for each time that others were held up', async () => {
  const pace = new ClaimPace();
  pace.roomWith(AT_ONCE);
  pace.opened(0);
  await pace.next(standing, 2_000, never);
  pace.opened(0);
  const again = pace.next(standing, 2_000, never).then(() => true);
  expect(
    await Promise.race([again, new Promise<boolean>((resolve) => setImmediate(resolve, false))]),
  ).toBe(false);
});
