import type { VNode } from 'preact';
import { BarLink, type Mark, Plot, painted, Stretched, WIDE } from './plot.tsx';
import { axisTo, percent, shortNumber } from './scale.ts';

export interface Layer {
  readonly name: string;
  readonly fill: string;
  /** At the left edge, and at the end of each period. */
  readonly values: readonly number[];
}

export interface Column {
  readonly title: string;
  readonly href: string | null;
}

/** Layers on top of each other, and a link for each period. */
export function StackedArea({
  height,
  layers,
  columns,
  labels,
}: {
  readonly height: number;
  readonly layers: readonly Layer[];
  readonly columns: readonly Column[];
  readonly labels: readonly Mark[];
}): VNode {
  const points = columns.length + 1;
  const totals = Array.from({ length: points }, (_, at) =>
    layers.reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
  );
  const { top, marks } = axisTo(Math.max(...totals));
  const below = new Array<number>(points).fill(0);
  const shapes = layers.map(({ name, fill, values }) => {
    const lower = [...below];
    for (const at of below.keys()) below[at] = (below[at] ?? 0) + (values[at] ?? 0);
    return { name, fill, path: band(lower, below, top, height) };
  });
  return (
    <Plot
      height={height}
      marks={marks.map((mark) => ({ at: mark / top, text: shortNumber(mark) }))}
      labels={labels}
    >
      <Stretched height={height}>
        {shapes.map(({ name, fill, path }) => (
          <path key={name} {...painted(fill)} d={path} />
        ))}
      </Stretched>
      {columns.map(({ title, href }, at) => (
        <BarLink key={title} href={href} title={title}>
          <rect
            class="hit"
            x={percent(at / columns.length)}
            width={percent(1 / columns.length)}
            y="0"
            height={height}
          />
        </BarLink>
      ))}
    </Plot>
  );
}

function band(
  lower: readonly number[],
  upper: readonly number[],
  top: number,
  height: number,
): string {
  const step = WIDE / Math.max(1, lower.length - 1);
  const point = (value: number, at: number): string =>
    `${round(at * step)} ${round(height * (1 - value / top))}`;
  const there = upper.map(point);
  const back = lower.map(point).reverse();
  return `M${[...there, ...back].join('L')}Z`;
}

export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
