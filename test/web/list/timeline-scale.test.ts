import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  createScale,
  messagesBefore,
  positionOf,
  slotAt,
  slotText,
  stepBars,
  type TimelineScale,
  timeAt,
  timelineLabels,
} from '../../../src/web/client/timeline.tsx';
import type { ListTimeline } from '../../../src/web/mail-list.ts';

const BEGIN = Date.UTC(2019, 0, 1);

/** Months with messages, between some that have none. */
const timelines: fc.Arbitrary<ListTimeline> = fc
  .array(
    fc.record({
      skipped: fc.integer({ min: 0, max: 3 }),
      messages: fc.integer({ min: 1, max: 5_000 }),
      ended: fc.integer({ min: 0, max: 5_000 }),
    }),
    { minLength: 1, maxLength: 80 },
  )
  .map((months) => {
    let month = 0;
    const bars = months.map(({ skipped, messages, ended }) => {
      month += skipped + 1;
      const from = Date.UTC(2019, month, 1);
      const to = Date.UTC(2019, month + 1, 1);
      const key = new Date(from).toISOString().slice(0, 10);
      return { key, from, to, messages, ended: Math.min(ended, messages) };
    });
    const messages = bars.reduce((sum, bar) => sum + bar.messages, 0);
    return { unit: 'month', bars, messages, complete: true, countedFrom: null };
  });
const sorts = fc.constantFrom('newest' as const, 'oldest' as const);
const scales = fc.tuple(timelines, sorts).map(([timeline, sort]) => createScale(timeline, sort));
const positions = fc.double({ min: 0, max: 1, noNaN: true });

test('what came since has slots of its own, and no rows', () => {
  const bar = (month: number, messages: number, later: number) => ({
    ...{ key: `2026-0${month + 1}-01`, messages, ended: 0, later },
    ...{ from: Date.UTC(2026, month, 1), to: Date.UTC(2026, month + 1, 1) },
  });
  const scale = createScale(
    {
      ...{ unit: 'month', messages: 12, complete: true, countedFrom: null },
      bars: [bar(0, 8, 0), bar(2, 4, 5), bar(3, 0, 30)],
    },
    'newest',
  );
  expect(scale.slots.map((slot) => [slot.bar?.messages ?? null, slot.later])).toEqual([
    [null, 30],
    [4, 5],
    [null, 0],
    [8, 0],
  ]);
  expect(scale.most).toBe(30);
  expect(scale.slots.map(({ before }) => before)).toEqual([0, 0, 4, 4]);
  expect(scale.slots.map((slot) => slotText('month', slot))).toEqual([
    'April 2026, 0 messages, 30 since',
    'March 2026, 4 messages, 5 since',
    'No messages here',
    'January 2026, 8 messages',
  ]);
  expect(timelineLabels(scale, 1).map(({ slot }) => slot)).toContain(0);
  // The next bar with rows, not what came since.
  expect(stepBars(scale, Date.UTC(2026, 0, 9), -1)).toBe(Date.UTC(2026, 3, 1) - 1);
  expect(stepBars(scale, Date.UTC(2026, 2, 9), -1)).toBeNull();
});

test('a position and its moment name each other', () => {
  fc.assert(
    fc.property(scales, positions, (scale, position) => {
      const time = timeAt(scale, position);
      const back = positionOf(scale, time);
      // To the millisecond of the shortest slot.
      expect(Math.abs(back - position)).toBeLessThan(1e-6);
      const slot = slotAt(scale, position);
      expect(time).toBeGreaterThanOrEqual(slot?.from ?? Infinity);
      expect(time).toBeLessThan(slot?.to ?? -Infinity);
    }),
  );
});

test('down the timeline, time goes one way and messages never become fewer', () => {
  fc.assert(
    fc.property(scales, positions, positions, (scale, a, b) => {
      const [above, below] = [Math.min(a, b), Math.max(a, b)];
      const [first, second] = [timeAt(scale, above), timeAt(scale, below)];
      if (scale.sort === 'newest') expect(first).toBeGreaterThanOrEqual(second);
      else expect(first).toBeLessThanOrEqual(second);
      expect(messagesBefore(scale, first)).toBeLessThanOrEqual(messagesBefore(scale, second));
      expect(messagesBefore(scale, second)).toBeLessThan(scale.messages);
    }),
  );
});

test('every message has its slot, and the slots leave no time out', () => {
  fc.assert(
    fc.property(scales, ({ slots, sort, messages }) => {
      expect(slots.reduce((sum, { bar }) => sum + (bar?.messages ?? 0), 0)).toBe(messages);
      for (const [index, slot] of slots.entries()) {
        const above = slots[index - 1];
        if (above === undefined) continue;
        expect(sort === 'newest' ? above.from : above.to).toBe(
          sort === 'newest' ? slot.to : slot.from,
        );
        expect(slot.before).toBe(above.before + (above.bar?.messages ?? 0));
        expect(above.bar === null && slot.bar === null).toBe(false);
      }
    }),
  );
});

test('moments beyond the timeline are at its ends', () => {
  fc.assert(
    fc.property(scales, (scale) => {
      const [early, late] = scale.sort === 'newest' ? [1, 0] : [0, 1];
      expect(positionOf(scale, BEGIN - 1)).toBe(early);
      expect(positionOf(scale, Date.UTC(2099, 0, 1))).toBe(late);
      expect(timeAt(scale, -3)).toBe(timeAt(scale, 0));
      expect(timeAt(scale, Number.NaN)).toBe(timeAt(scale, 0));
    }),
  );
});

test('steps meet each bar once, whatever lies between, and end at the last one', () => {
  fc.assert(
    fc.property(scales, (scale) => {
      const bars = scale.slots.filter(({ bar }) => bar !== null).length;
      const met: TimelineScale['slots'][number][] = [];
      let time: number | null = timeAt(scale, 0);
      for (; time !== null && met.length <= bars; time = stepBars(scale, time, 1)) {
        const slot = slotAt(scale, positionOf(scale, time) + 1e-9);
        if (slot !== undefined) met.push(slot);
      }
      expect(met.map(({ from }) => from)).toEqual(
        scale.slots.filter(({ bar }) => bar !== null).map(({ from }) => from),
      );
      expect(stepBars(scale, timeAt(scale, 0), -1)).toBeNull();
    }),
  );
});

test('words have the room that they need, and each year stands at its first bar', () => {
  fc.assert(
    fc.property(scales, fc.integer({ min: 1, max: 12 }), (scale, room) => {
      const labels = timelineLabels(scale, room);
      for (const [index, label] of labels.entries()) {
        const above = labels[index - 1];
        if (above !== undefined) expect(label.slot - above.slot).toBeGreaterThanOrEqual(room);
        const { from, to } = scale.slots[label.slot] ?? { from: 0, to: 0 };
        const year = `’${String(new Date((from + to) / 2).getFullYear()).slice(2)}`;
        if (label.isYear) expect(label.text).toBe(year);
      }
      expect(labels[0]?.slot).toBe(0);
    }),
  );
});

test('a timeline without messages has no position, and nowhere to go', () => {
  const none: ListTimeline = {
    unit: 'day',
    bars: [],
    messages: 0,
    complete: true,
    countedFrom: null,
  };
  const scale = createScale(none, 'newest');
  expect(slotAt(scale, 0.5)).toBeUndefined();
  expect(positionOf(scale, BEGIN)).toBe(0);
  expect(messagesBefore(scale, BEGIN)).toBe(0);
  expect(stepBars(scale, BEGIN, 1)).toBeNull();
  expect(timelineLabels(scale, 1)).toEqual([]);
});
