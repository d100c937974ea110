import { expect, test } from 'vitest';
import { Turns } from '../../src/web/served-archive.ts';

function held(): { readonly act: () => Promise<string>; readonly end: () => void } {
  let end: () => void = () => {};
  const ended = new Promise<string>((resolve) => {
    end = () => resolve('held');
  });
  return { act: () => ended, end };
}

test('those who wait have their turns in order, also after one that failed', async () => {
  const turns = new Turns(1);
  const order: number[] = [];
  const first = held();
  const all = [
    turns.take(first.act),
    turns.take(() => {
      order.push(1);
      throw new Error('failed');
    }),
    turns.take(() => order.push(2)),
  ];
  first.end();
  const outcomes = await Promise.allSettled(all);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(order).toEqual([1, 2]);
});

test('what nobody waits for any more is not begun, and holds up nobody', async () => {
  const turns = new Turns(1);
  const first = held();
  const holding = turns.take(first.act);
  const leaving = new AbortController();
  const begun: string[] = [];
  const left = turns.take(() => begun.push('left'), leaving.signal);
  const stayed = turns.take(() => begun.push('stayed'), new AbortController().signal);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  first.end();
  await Promise.all([holding, stayed]);
  expect(begun).toEqual(['stayed']);
  await expect(turns.take(() => begun.push('late'), leaving.signal)).rejects.toThrow('gone');
  await turns.take(() => begun.push('next'));
  expect(begun).toEqual(['stayed', 'next']);
});

test('a request that is left between its turn and its work is not begun', async () => {
  const turns = new Turns(1);
  const leaving = new AbortController();
  const left = turns.take(() => 'begun', leaving.signal);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  expect(await turns.take(() => 'free')).toBe('free');
});
