import { expect, test } from 'vitest';
import { WaitQueue } from '../../src/core/concurrency.ts';

function drain(lines: WaitQueue<string>): string[] {
  const order: string[] = [];
  for (let next = lines.next(); next !== undefined; next = lines.next()) order.push(next.item);
  return order;
}

test('lanes go by rank', () => {
  const lines = new WaitQueue<string>();
  for (const lane of ['sweep', 'backlog', 'new-mail', 'hint'] as const) {
    lines.add({ lane, key: 'a', item: lane });
  }
  expect(drain(lines)).toEqual(['hint', 'new-mail', 'backlog', 'sweep']);
});

test('keys take turns within a lane, each in its own order', () => {
  const lines = new WaitQueue<string>();
  for (const item of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) {
    lines.add({ lane: 'backlog', key: item.slice(0, 1), item });
  }
  expect(drain(lines)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
});

test('the lowest lane is served now and then, so that none waits for ever', () => {
  const lines = new WaitQueue<string>();
  lines.add({ lane: 'sweep', key: 's', item: 'sweep' });
  for (let i = 0; i < 40; i += 1) lines.add({ lane: 'hint', key: 'h', item: 'hint' });
  expect(drain(lines).indexOf('sweep')).toBe(15);
});

test('one taken out is not served, and the rest keep their places', () => {
  const lines = new WaitQueue<string>();
  const waiting = ['1', '2', '3'].map((item) => ({ lane: 'hint', key: 'a', item }) as const);
  for (const each of waiting) lines.add(each);
  const [, second] = waiting;
  if (second !== undefined) lines.remove(second);
  if (second !== undefined) lines.remove(second);
  expect(lines.size).toBe(2);
  expect(drain(lines)).toEqual(['1', '3']);
  expect(lines.size).toBe(0);
});
