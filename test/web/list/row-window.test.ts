import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  MAX_PIXELS,
  MAX_ROWS,
  positionToShow,
  REACH,
  renderedRows,
  rowHeightFor,
  runwayAround,
  shouldCentre,
  visibleRows,
} from '../../../src/web/client/list-model.ts';

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
