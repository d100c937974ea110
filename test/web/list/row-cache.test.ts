import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_KEPT, RowCache, type RowPage } from '../../../src/web/client/list-model.ts';

interface Row {
  readonly line: { readonly id: string };
}

function rowOf(index: number): Row {
  return { line: { id: `m${index}` } };
}

/** The rows of a list from one index up to another, as a server answers them. */
function pageOf(size: number, from: number, to: number): RowPage<Row> {
  const [low, high] = [Math.max(0, from), Math.min(size, to)];
  return {
    rows: Array.from({ length: Math.max(0, high - low) }, (_, index) => rowOf(low + index)),
    previous: low > 0 ? `m${low}` : null,
    next: high < size ? `m${high - 1}` : null,
  };
}

const indexOf = (id: string | null | undefined): number => Number(id?.slice(1));

test('whatever is asked for and forgotten, a number stands for one row, and the stretch has no gaps', () => {
  const moves = fc.array(
    fc.record({
      side: fc.constantFrom('append', 'prepend'),
      rows: fc.integer({ min: 1, max: 400 }),
      shown: fc.integer({ min: 0, max: 60 }),
    }),
    { maxLength: 40 },
  );
  const sizes = fc.integer({ min: 1, max: 6_000 });
  fc.assert(
    fc.property(sizes, fc.double({ min: 0, max: 0.99, noNaN: true }), moves, (size, part, all) => {
      const origin = Math.floor(part * size);
      const cache = new RowCache(pageOf(size, origin, origin + 100));
      for (const { side, rows, shown } of all) {
        if (side === 'append' && cache.next !== null) {
          const from = indexOf(cache.next) + 1;
          cache.append(pageOf(size, from, from + rows));
        } else if (side === 'prepend' && cache.previous !== null) {
          const to = indexOf(cache.previous);
          cache.prepend(pageOf(size, to - rows, to));
        }
        const edge = side === 'append' ? cache.high - shown : cache.low;
        cache.trim({ low: Math.max(cache.low, edge), high: Math.min(cache.high, edge + shown) });
        expect(cache.high - cache.low).toBeLessThanOrEqual(Math.max(MAX_KEPT, 100));
        const wrong = [];
        for (let row = cache.low; row < cache.high; row += 1)
          if (indexOf(cache.at(row)?.line.id) !== origin + row) wrong.push(row);
        expect(wrong).toEqual([]);
        const { start, end } = cache.edges;
        if (start !== null) expect(origin + start).toBe(0);
        if (end !== null) expect(origin + end).toBe(size);
        expect(cache.previous === null).toBe(origin + cache.low === 0);
        expect(cache.next === null).toBe(origin + cache.high === size);
      }
    }),
    { numRuns: 60 },
  );
});

test('what is in view is never forgotten', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 4_900 }),
      fc.integer({ min: 0, max: 60 }),
      (low, length) => {
        const cache = new RowCache(pageOf(5_000, 0, 5_000));
        cache.trim({ low, high: low + length });
        expect(cache.high - cache.low).toBe(MAX_KEPT);
        expect(cache.low).toBeLessThanOrEqual(low);
        expect(cache.high).toBeGreaterThanOrEqual(low + length);
      },
    ),
  );
});

test('counts say where the ends are until they are met, and give way to what is met', () => {
  const cache = new RowCache(pageOf(5_000, 1_000, 1_100));
  expect(cache.edges).toEqual({ start: null, end: null });
  cache.expectBefore(0, 1_000);
  expect(cache.edges).toEqual({ start: -1_000, end: null });
  cache.expectAll(5_000);
  expect(cache.edges).toEqual({ start: -1_000, end: 4_000 });
  // Fewer were counted than there are.
  cache.expectAll(1_050);
  expect(cache.edges.end).toBeNull();
  cache.append(pageOf(1_150, 1_100, 1_200));
  expect(cache.edges.end).toBe(150);
  cache.expectAll(9_999);
  expect(cache.edges.end).toBe(150);
  cache.prepend(pageOf(1_150, 0, 1_000));
  expect(cache.edges.start).toBe(-1_000);
  cache.expectBefore(0, 1);
  expect(cache.edges.start).toBe(-1_000);
});
