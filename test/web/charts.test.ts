import { type ComponentChild, h } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { describe, expect, test } from 'vitest';

import {
  AgeDots,
  Bars,
  Columns,
  createAxis,
  Diverging,
  Heat,
  Lines,
  labelPositions,
  percent,
  StackedArea,
  shortNumber,
} from '../../src/web/pages/charts.tsx';

describe('scales', () => {
  test('end at a round number that nothing exceeds', () => {
    for (const most of [1, 2, 3, 7, 9.5, 10, 11, 99, 100, 101, 12_345, 92_530, 1e9, 3e15]) {
      const { top, marks } = createAxis(most);
      expect(top, `${most}`).toBeGreaterThanOrEqual(most);
      expect(top).toBeLessThanOrEqual(most * 2.5 + 4);
      expect(marks.length).toBeLessThanOrEqual(6);
      expect(marks.every((mark) => Number.isInteger(mark))).toBe(true);
      expect(marks.at(-1)).toBe(top);
    }
    expect(createAxis(92_530)).toEqual({
      top: 100_000,
      marks: [0, 25_000, 50_000, 75_000, 100_000],
    });
  });

  test('stand where there is nothing to measure', () => {
    for (const most of [0, -1, Number.NaN, Number.NEGATIVE_INFINITY])
      expect(createAxis(most)).toEqual({ top: 1, marks: [0, 1] });
  });

  test('name numbers in four characters', () => {
    const named = [0, 5, 950, 999, 1_000, 1_200, 25_000, 100_000, 999_600, 1_250_000, 2.5, 0.25];
    expect(named.map(shortNumber)).toEqual([
      ...['0', '5', '950', '999', '1k', '1.2k', '25k', '100k', '1M', '1.3M', '2.5', '0.3'],
    ]);
    expect(shortNumber(14_200_000_000)).toBe('14G');
  });

  test('give shares that stay within the plot', () => {
    expect([-1, 0, 1 / 3, 1, 2].map(percent)).toEqual(['0%', '0%', '33.333%', '100%', '100%']);
    expect(labelPositions(0, 5)).toEqual([]);
    expect(labelPositions(1, 5)).toEqual([0]);
    expect(labelPositions(90, 5)).toEqual([17, 35, 53, 71, 89]);
  });
});

const EXTREMES = [0, 1, 5, 999_999_999_999, Number.MAX_SAFE_INTEGER];

/** No shape has a size that SVG does not know. */
function expectDrawn(content: ComponentChild): void {
  const svg = renderToString(h('div', null, content));
  expect(svg).not.toMatch(/NaN|Infinity|undefined|="-[\d.]+" height|(?:width|height|r)="-/);
  expect(svg).not.toMatch(/\sstyle=|<script|<style/);
  expect(svg).toContain('<svg');
}

describe('charts', () => {
  const titles = EXTREMES.map((value, at) => ({ title: `${at}: ${value}`, href: null }));

  test.each([
    ['nothing', [0, 0, 0, 0, 0]],
    ['extremes', EXTREMES],
    ['one peak', [0, 0, 1e15, 0, 0]],
  ])('of %s can be drawn', (_name, values) => {
    const bars = titles.map((title, at) => ({ ...title, value: values[at] ?? 0 }));
    expectDrawn(
      h(StackedArea, {
        height: 100,
        columns: titles,
        labels: [],
        layers: [
          { name: 'a', fill: 'f-1', values: [0, ...values] },
          { name: 'b', fill: 'f-ended', values: [0, ...values] },
        ],
      }),
    );
    expectDrawn(
      h(Lines, {
        height: 100,
        text: String,
        labels: [],
        lines: [
          { name: 'a', class: 'l-1', points: values.map((value, at) => [at / 5, value] as const) },
          { name: 'b', class: 'l-2', points: [[0.9, values[1] ?? 0]] },
        ],
      }),
    );
    expectDrawn(
      h(Diverging, {
        height: 100,
        labels: [],
        pairs: bars.map(({ title, value }, at) => ({
          title,
          up: at === 1 ? null : value,
          down: at === 1 ? null : (values[4 - at] ?? 0),
          upHref: '/mail',
          downHref: null,
        })),
      }),
    );
    for (const limit of [null, { value: 1, text: 'low' }, { value: 1e15, text: 'high' }])
      expectDrawn(
        h(Columns, {
          height: 100,
          labels: [],
          limit,
          bars: bars.map(({ title, value }, at) => ({
            title,
            value: at === 0 ? null : value,
            marked: value / 2,
          })),
        }),
      );
    expectDrawn(
      h(AgeDots, {
        height: 100,
        limit: { age: 93_600_000, text: '26 h' },
        dots: bars.map(({ title, value }, at) => ({
          title,
          href: '/mail',
          age: at === 2 ? null : value,
          late: at % 2 === 0,
        })),
      }),
    );
    expectDrawn(
      h(Heat, {
        rows: ['Mon'],
        columns: titles.map(({ title }) => title),
        counts: [values],
        titleOf: String,
      }),
    );
    expectDrawn(
      h(Bars, {
        rows: bars.map(({ title, value }) => ({
          name: title,
          href: null,
          text: String(value),
          parts: [{ value, fill: 'f-1', href: null, title }],
        })),
      }),
    );
  });

  test('without any bar can be drawn', () => {
    expectDrawn(h(StackedArea, { height: 100, columns: [], labels: [], layers: [] }));
    expectDrawn(
      h(Lines, {
        height: 100,
        text: String,
        labels: [],
        lines: [{ name: 'a', class: 'l-1', points: [] }],
      }),
    );
    expectDrawn(h(Diverging, { height: 100, labels: [], pairs: [] }));
    expectDrawn(h(Columns, { height: 100, labels: [], limit: null, bars: [] }));
    expectDrawn(h(AgeDots, { height: 100, limit: { age: 1, text: '' }, dots: [] }));
  });

  test.each([
    [100, 95],
    [95, 100],
    [100, 20],
    [20, 100],
    [100, 89],
    [1, 1],
    [0, 0],
  ])('have names that lie on no end of a line: %i and %i', (mail, disk) => {
    const ends = [
      ['mail', mail],
      ['on disk', disk],
    ] as const;
    const lines = ends.map(([name, value]) => ({
      name,
      class: name,
      points: [[1, value]] as const,
    }));
    const svg = renderToString(h(Lines, { height: 170, text: String, labels: [], lines }));
    const heights = (pattern: RegExp) => [...svg.matchAll(pattern)].map(([, y]) => Number(y));
    const dots = heights(/<circle[^>]* cy="([^"]+)"/g);
    const names = heights(/<text class="name [^>]* y="([^"]+)"/g);
    expect([dots.length, names.length]).toEqual([2, 2]);
    expect(Math.abs((names[0] ?? 0) - (names[1] ?? 0))).toBeGreaterThanOrEqual(14);
    // Letters are some ten pixels tall, above where they stand.
    if (mail !== disk)
      for (const name of names)
        expect(dots.filter((dot) => dot > name - 10 && dot < name + 2)).toEqual([]);
  });

  test('show a little as something', () => {
    const pairs = [
      { title: 'many', up: 1_000_000, down: 0, upHref: '/mail?q=many', downHref: null },
      { title: 'one', up: 1, down: 1, upHref: '/mail?q=came', downHref: '/mail?q=went' },
    ];
    const svg = renderToString(h(Diverging, { height: 100, labels: [], pairs }));
    expect([...svg.matchAll(/class="f-(?:1|gone)"[^>]*height="1"/g)]).toHaveLength(2);
    // Each half of a column leads to what it counts.
    expect([...svg.matchAll(/href="([^"]*)"/g)].map(([, href]) => href)).toEqual([
      '/mail?q=many',
      '/mail?q=came',
      '/mail?q=went',
    ]);
  });
});
