import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { SearchHit } from '../../../src/catalog/search.ts';
import {
  ListModel,
  type ListPage,
  MAX_KEPT,
  MAX_PIXELS,
  MAX_ROWS,
  type Place,
  positionToShow,
  REACH,
  RowCache,
  type RowPage,
  renderedRows,
  rowHeightFor,
  runwayAround,
  shouldCentre,
  visibleRows,
} from '../../../src/web/client/list-model.ts';

const PAGE = 100;
const ROW_PX = 54;

/** A server with messages, the newest first; a message's moment is a second for each that is older. */
class Server {
  asked = 0;
  #answers: (() => void)[] = [];

  constructor(public ids: number[]) {}

  page = async (place: Place): Promise<ListPage> => {
    this.asked += 1;
    await new Promise<void>((resolve) => this.#answers.push(resolve));
    return this.now(place);
  };

  position = async (id: string) => {
    await new Promise<void>((resolve) => this.#answers.push(resolve));
    const before = this.ids.indexOf(Number(id));
    return {
      before: { count: before, complete: true },
      all: { count: this.ids.length, complete: true },
    };
  };

  now(place: Place): ListPage {
    const { length } = this.ids;
    const at = 'from' in place ? this.ids.indexOf(Number(place.from)) : 0;
    switch (place.kind) {
      case 'first':
        return this.#slice(0, PAGE);
      case 'last':
        return this.#slice(length - PAGE, length);
      case 'after':
        return this.#slice(at + 1, at + 1 + PAGE);
      case 'before':
        return this.#slice(at - PAGE, at);
      case 'at':
        return this.#slice(at, at + PAGE);
      case 'time': {
        const found = this.ids.findIndex((id) => id * 1000 <= place.time);
        return this.#slice(found < 0 ? length : found, (found < 0 ? length : found) + PAGE);
      }
    }
  }

  /** Lets everything that was asked for be answered, and what follows from it. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 4; quiet += 1) {
      if (this.#answers.length > 0) quiet = 0;
      for (const answer of this.#answers.splice(0)) answer();
      await Promise.resolve();
      await Promise.resolve();
    }
  }

  #slice(from: number, to: number): ListPage {
    const [low, high] = [Math.max(0, from), Math.min(this.ids.length, Math.max(0, to))];
    const rows = this.ids.slice(low, high).map(hitOf);
    return {
      rows,
      previous: low > 0 ? String(this.ids[low]) : null,
      next: high < this.ids.length ? String(this.ids[high - 1]) : null,
    };
  }
}

function hitOf(id: number): SearchHit {
  return { docid: id, line: { id: String(id) } } as unknown as SearchHit;
}

/** Ids that no beginning of another one is: the newest has the highest. */
function serverOf(size: number): Server {
  return new Server(Array.from({ length: size }, (_, index) => 1_000_000 + size - index));
}

function modelOf(server: Server): ListModel {
  return new ListModel(server, server.now({ kind: 'first' }), ROW_PX);
}

function idsShown(model: ListModel, low: number, high: number): (string | undefined)[] {
  return Array.from({ length: high - low }, (_, index) => model.at(low + index)?.line.id);
}

test('scrolling and seeking at random shows the list, row by row', async () => {
  const moves = fc.array(
    fc.oneof(
      fc.record({
        kind: fc.constant('scroll' as const),
        rows: fc.integer({ min: -150, max: 150 }),
      }),
      fc.record({
        kind: fc.constant('seek' as const),
        part: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      fc.record({ kind: fc.constantFrom('first' as const, 'last' as const) }),
      fc.record({ kind: fc.constant('rest' as const) }),
    ),
    { maxLength: 25 },
  );
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 9_000 }), moves, async (size, all) => {
      const server = serverOf(size);
      const model = modelOf(server);
      let top = 0;
      let epoch = model.epoch;
      for (const move of all) {
        if (move.kind === 'scroll') top += move.rows;
        else if (move.kind === 'rest') model.centre();
        else if (move.kind === 'seek')
          void model.seek({ kind: 'time', time: (1_000_000 + move.part * size) * 1000 });
        else void model.seek({ kind: move.kind });
        await server.settle();
        if (model.epoch !== epoch) top = model.top;
        ({ epoch } = model);
        // Rows that come may show where the list ends: a browser scrolls back from beyond the end.
        for (let looks = 0; looks < 2; looks += 1) {
          const { low, high } = model.runway;
          top = Math.max(low, Math.min(top, high - 20));
          model.look({ low: top, high: Math.min(high, top + 20) });
          await server.settle();
        }
        const { runway, edges } = model;
        expect(runway.high - runway.low).toBeLessThanOrEqual(2 * REACH);
        const first = model.at(top)?.line.id;
        expect(first).toBeDefined();
        const index = server.ids.indexOf(Number(first));
        const shown = idsShown(model, top, Math.min(runway.high, top + 20));
        expect(shown).toEqual(server.ids.slice(index, index + shown.length).map(String));
        expect(model.position(top)).toBe(index);
        expect(model.size).toBe(edges.end === null ? null : size);
      }
      model.close();
    }),
    { numRuns: 40, examples: [[101, [{ kind: 'scroll', rows: 101 }]]] },
  );
});

test('mail that comes meanwhile shifts nothing', async () => {
  const server = serverOf(3_000);
  const model = modelOf(server);
  model.look({ low: 0, high: 20 });
  await server.settle();
  const before = idsShown(model, 0, 20);
  server.ids.unshift(2_000_002, 2_000_001);
  for (let low = 0; low <= 1_000; low += 50) {
    model.look({ low, high: low + 20 });
    await server.settle();
  }
  expect(idsShown(model, 1_000, 1_003)).toEqual(server.ids.slice(1_002, 1_005).map(String));
  for (let low = 1_000; low >= 0; low -= 50) {
    model.look({ low, high: low + 20 });
    await server.settle();
  }
  expect(idsShown(model, 0, 20)).toEqual(before);
  expect(model.position(0)).toBe(0);
});

test('the page behind and the page before are there before they are in view', async () => {
  const server = serverOf(5_000);
  const model = modelOf(server);
  model.look({ low: 0, high: 20 });
  await server.settle();
  expect(model.at(119)).toBeDefined();
  const { asked } = server;
  model.look({ low: 10, high: 30 });
  await server.settle();
  // Nothing is asked for that is there.
  expect(server.asked).toBe(asked);
});

test('a long way keeps no more rows than the most', async () => {
  const server = serverOf(9_000);
  const model = modelOf(server);
  for (let low = 0; low < 8_000; low += 60) {
    model.look({ low, high: low + 20 });
    await server.settle();
  }
  let kept = 0;
  for (let row = 0; row < 9_000; row += 1) if (model.at(row) !== undefined) kept += 1;
  expect(kept).toBeLessThanOrEqual(MAX_KEPT);
  expect(model.at(7_990)?.line.id).toBe(String(server.ids[7_990]));
});

test('of several places that are wanted while one is on its way, the last one follows', async () => {
  const server = serverOf(5_000);
  const model = modelOf(server);
  await server.settle();
  const begun = server.asked;
  for (const second of [4_000, 3_000, 2_000, 1_000])
    void model.seek({ kind: 'time', time: (1_000_000 + second) * 1000 });
  await server.settle();
  expect(server.asked - begun).toBe(2);
  expect(model.at(model.top)?.line.id).toBe('1001000');
});

test('a glance asks for nothing around it, and what follows does', async () => {
  const server = serverOf(5_000);
  const model = modelOf(server);
  await server.settle();
  const begun = server.asked;
  void model.seek({ kind: 'time', time: 1_002_000_000 }, true);
  await server.settle();
  model.look({ low: 0, high: 20 });
  await server.settle();
  expect(server.asked - begun).toBe(1);
  expect(model.position(0)).toBeNull();
  void model.seek({ kind: 'time', time: 1_002_000_000 });
  await server.settle();
  model.look({ low: 0, high: 20 });
  await server.settle();
  expect(model.at(-100)).toBeDefined();
  expect(model.position(0)).toBe(3_000);
});

test('behind the oldest message its end is shown', async () => {
  const server = serverOf(700);
  const model = modelOf(server);
  void model.seek({ kind: 'time', time: 5 });
  await server.settle();
  expect(model.at(model.edges.end === null ? 0 : model.edges.end - 1)?.line.id).toBe('1000001');
});

test('a list that was closed asks for nothing more', async () => {
  const server = serverOf(2_000);
  const model = modelOf(server);
  model.look({ low: 80, high: 100 });
  model.close();
  await server.settle();
  expect(model.at(150)).toBeUndefined();
});

test('what is not in view is asked for when the list rests, and what is lacking at once', async () => {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const server = serverOf(1_000);
  const first = server.now({ kind: 'first' });
  const rested = new ListModel(server, first, ROW_PX, 150);
  const seen = first.rows.length;
  rested.look({ low: 0, high: 12 });
  await server.settle();
  expect(rested.at(seen)).toBeUndefined();
  vi.advanceTimersByTime(150);
  await server.settle();
  expect(rested.at(seen)?.line.id).toBe(String(server.ids[seen]));

  const lacking = new ListModel(server, first, ROW_PX, 150);
  lacking.look({ low: 0, high: seen + 5 });
  await server.settle();
  expect(lacking.at(seen)?.line.id).toBe(String(server.ids[seen]));

  const left = new ListModel(server, first, ROW_PX, 150);
  left.look({ low: 0, high: 12 });
  left.close();
  vi.advanceTimersByTime(1_000);
  await server.settle();
  expect(left.at(seen)).toBeUndefined();
});

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

/** A list with some number of rows, of which one or both ends may be unknown, and a row of it. */
const lists = fc
  .record({
    start: fc.integer({ min: -2_000_000, max: 0 }),
    length: fc.integer({ min: 1, max: 2_000_000 }),
    at: fc.double({ min: 0, max: 0.999999, noNaN: true }),
    knowsStart: fc.boolean(),
    knowsEnd: fc.boolean(),
  })
  .map(({ start, length, at, knowsStart, knowsEnd }) => ({
    edges: { start: knowsStart ? start : null, end: knowsEnd ? start + length : null },
    row: start + Math.floor(at * length),
  }));
const heights = fc.double({ min: 1, max: 200, noNaN: true });
const viewports = fc.double({ min: 0, max: 5_000, noNaN: true });

test('the scroller holds the row, no more than its reach around it, and never what lies beyond an end', () => {
  fc.assert(
    fc.property(lists, heights, ({ edges, row }, height) => {
      const { low, high } = runwayAround(row, edges, height);
      expect(low).toBeLessThanOrEqual(row);
      expect(high).toBeGreaterThan(row);
      expect(row - low).toBeLessThanOrEqual(REACH);
      expect(high - row).toBeLessThanOrEqual(REACH);
      expect((high - low) * height).toBeLessThanOrEqual(MAX_PIXELS);
      expect(low).toBeGreaterThanOrEqual(edges.start ?? low);
      expect(high).toBeLessThanOrEqual(edges.end ?? high);
    }),
  );
});

test('rows that are very high do not make the scroller too high', () => {
  const { low, high } = runwayAround(0, { start: null, end: null }, 100_000);
  expect((high - low) * 100_000).toBeLessThanOrEqual(MAX_PIXELS);
  expect(high - low).toBe(80);
});

test('an empty list has no stretch', () => {
  expect(runwayAround(0, { start: 0, end: 0 }, 54)).toEqual({ low: 0, high: 0 });
  expect(runwayAround(500, { start: 0, end: 0 }, 54)).toEqual({ low: 0, high: 0 });
});

test('no more rows are in the document than the most, all that are in view are, whatever the window', () => {
  fc.assert(
    fc.property(
      lists,
      heights,
      viewports,
      fc.double({ min: 0, max: 1, noNaN: true }),
      ({ edges, row }, wanted, viewport, part) => {
        const height = rowHeightFor(wanted, viewport);
        const runway = runwayAround(row, edges, height);
        const length = (runway.high - runway.low) * height;
        const top = part * Math.max(0, length - viewport);
        const visible = visibleRows(top, viewport, height, runway);
        const rendered = renderedRows(visible, runway);
        expect(rendered.high - rendered.low).toBeLessThanOrEqual(MAX_ROWS);
        expect(rendered.low).toBeLessThanOrEqual(visible.low);
        expect(rendered.high).toBeGreaterThanOrEqual(visible.high);
        expect(rendered.low).toBeGreaterThanOrEqual(runway.low);
        expect(rendered.high).toBeLessThanOrEqual(runway.high);
        // The first pixel and the last one belong to a row.
        expect((visible.low - runway.low) * height).toBeLessThanOrEqual(top);
        const shownEnd = Math.min(length, top + viewport);
        expect((visible.high - runway.low) * height).toBeGreaterThanOrEqual(shownEnd - 1e-6);
      },
    ),
  );
});

test('centring is not asked for again once it was done', () => {
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 60 }), ({ edges, row }, rows) => {
      const runway = runwayAround(row, edges, 54);
      const shown = { low: row, high: Math.min(runway.high, row + rows) };
      expect(shouldCentre(shown, runway, edges)).toBe(false);
    }),
  );
});

test('centring is asked for near an end of the scroller that is no end of the list', () => {
  const unknown = { start: null, end: null };
  const runway = runwayAround(0, unknown, 54);
  expect(shouldCentre({ low: 1_500, high: 1_520 }, runway, unknown)).toBe(true);
  expect(shouldCentre({ low: -1_500, high: -1_480 }, runway, unknown)).toBe(true);
  expect(shouldCentre({ low: 1_500, high: 1_520 }, runway, { start: null, end: 2_000 })).toBe(
    false,
  );
  // An end that lies within.
  expect(shouldCentre({ low: 0, high: 20 }, runway, { start: -10, end: null })).toBe(true);
});

test('a row is brought into view, and one that is in view moves nothing', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 3_999 }),
      fc.integer({ min: 0, max: 3_000 }),
      fc.integer({ min: 60, max: 2_000 }),
      (row, from, viewport) => {
        const runway = { low: 0, high: 4_000 };
        const top = positionToShow(row, from * 54, viewport, 54, runway);
        expect(top).toBeLessThanOrEqual(row * 54);
        expect(top + viewport).toBeGreaterThanOrEqual((row + 1) * 54);
        const wasInView = from * 54 <= row * 54 && (row + 1) * 54 <= from * 54 + viewport;
        if (wasInView) expect(top).toBe(from * 54);
      },
    ),
  );
});
