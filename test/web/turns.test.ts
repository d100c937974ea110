import { expect, test } from 'vitest';
import { Semaphore } from '../../src/core/concurrency.ts';

function held(): { readonly act: () => Promise<string>; readonly end: () => void } {
  let end: () => void = () => {};
  const ended = new Promise<string>((resolve) => {
    end = () => resolve('held');
  });
  return { act: () => ended, end };
}

test('those who wait have their turns in order, also after one that failed', async () => {
  const turns = new Semaphore(1);
  const order: number[] = [];
  const first = held();
  const all = [
    turns.run(first.act),
    turns.run(() => {
      order.push(1);
      throw new Error('failed');
    }),
    turns.run(() => order.push(2)),
  ];
  first.end();
  const outcomes = await Promise.allSettled(all);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(order).toEqual([1, 2]);
});

test('what nobody waits for any more is not begun, and holds up nobody', async () => {
  const turns = new Semaphore(1);
  const first = held();
  const holding = turns.run(first.act);
  const leaving = new AbortController();
  const begun: string[] = [];
  const left = turns.run(() => begun.push('left'), leaving.signal);
  const stayed = turns.run(() => begun.push('stayed'), new AbortController().signal);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  first.end();
  await Promise.all([holding, stayed]);
  expect(begun).toEqual(['stayed']);
  await expect(turns.run(() => begun.push('late'), leaving.signal)).rejects.toThrow('gone');
  await turns.run(() => begun.push('next'));
  expect(begun).toEqual(['stayed', 'next']);
});

test('a request that is left between its turn and its work is not begun', async () => {
  const turns = new Semaphore(1);
  const leaving = new AbortController();
  const left = turns.run(() => 'begun', leaving.signal);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  expect(await turns.run(() => 'free')).toBe('free');
});
