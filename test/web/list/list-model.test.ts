import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { SearchHit } from '../../../src/catalog/search.ts';
import {
  ListModel,
  type ListPage,
  MAX_KEPT,
  type Place,
  REACH,
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
