import { expect, test } from 'vitest';
import { ByteRate } from '../../src/copies/object-store.ts';
import type { Clock } from '../../src/core/concurrency.ts';
import { signal } from './store-contract.ts';

/** Time passes when somebody waits for it. */
class WaitedClock implements Clock {
  time = 1_000_000;

  now(): number {
    return this.time;
  }

  after(ms: number, call: () => void): () => void {
    queueMicrotask(() => {
      this.time += ms;
      call();
    });
    return () => {};
  }
}

test('bytes pass at the rate that was set, from the first second on', async () => {
  const clock = new WaitedClock();
  const rate = new ByteRate(1000, clock);
  expect(rate.piece).toBe(100);
  const start = clock.time;
  for (let sent = 0; sent < 10_000; sent += 100) {
    await rate.take(100, signal);
    expect(sent).toBeLessThanOrEqual(clock.time - start);
  }
  expect(clock.time - start).toBe(9_900);
  // Time in which nothing is sent is not saved up.
  clock.time += 60_000;
  const later = clock.time;
  for (let sent = 0; sent < 1000; sent += 100) await rate.take(100, signal);
  expect(clock.time - later).toBe(900);
});

test('without a limit nothing waits, and a clock that is set back stops nothing', async () => {
  const clock = new WaitedClock();
  const free = new ByteRate(undefined, clock);
  await free.take(1e12, signal);
  expect(clock.time).toBe(1_000_000);
  const rate = new ByteRate(1e6, clock);
  await rate.take(1e6, signal);
  clock.time = 0;
  await rate.take(1, signal);
  expect(clock.time).toBeLessThan(120_000);
});

test('a signal ends the waiting', async () => {
  const rate = new ByteRate(1, { now: () => 0, after: () => () => {} });
  await rate.take(1, signal);
  const controller = new AbortController();
  const waiting = rate.take(1, controller.signal);
  controller.abort(new Error('stopped'));
  await expect(waiting).rejects.toThrow('stopped');
});
