import type { VNode } from 'preact';
import { thick } from './diverging.tsx';
import { BarLink, type Mark, Plot } from './plot.tsx';
import { axisTo, percent, shortNumber } from './scale.ts';

export interface Upright {
  readonly title: string;
  /** Null where nothing is known. */
  readonly value: number | null;
  /** The part of it that deserves attention. */
  readonly marked: number;
}

/** Upright bars against a limit. */
export function Columns({
  height,
  bars,
  limit,
  labels,
}: {
  readonly height: number;
  readonly bars: readonly Upright[];
  readonly limit: { readonly value: number; readonly text: string } | null;
  readonly labels: readonly Mark[];
}): VNode {
  const most = Math.max(0, ...bars.map(({ value }) => value ?? 0));
  const { top, marks } = axisTo(Math.max(most, limit?.value ?? 0), 3);
  const bar = 1 / Math.max(1, bars.length);
  return (
    <Plot
      height={height}
      marks={marks.map((mark) => ({ at: mark / top, text: shortNumber(mark) }))}
      labels={labels}
    >
      {limit !== null && (
        <>
          <line
            class="limit"
            x1="0"
            x2="100%"
            y1={height * (1 - limit.value / top)}
            y2={height * (1 - limit.value / top)}
          />
          <text class="ax warn" x="100%" y={height * (1 - limit.value / top) - 5} text-anchor="end">
            {limit.text}
          </text>
        </>
      )}
      {bars.map(({ title, value, marked }, at) => {
        const tall = thick(((value ?? 0) / top) * height);
        const part = thick((marked / top) * height);
        const place = { x: percent((at + 0.12) * bar), width: percent(0.76 * bar) };
        return (
          <BarLink key={title} href={null} title={title}>
            <rect class="hit" x={percent(at * bar)} width={percent(bar)} y="0" height={height} />
            {value === null ? (
              <rect
                class="absent"
                x={percent(at * bar)}
                width={percent(bar)}
                y={height - 2}
                height="2"
              />
            ) : (
              <rect class="f-1" {...place} y={height - tall} height={tall} />
            )}
            {part > 0 && <rect class="f-warn" {...place} y={height - part} height={part} />}
          </BarLink>
        );
      })}
    </Plot>
  );
}
