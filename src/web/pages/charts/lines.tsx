import type { VNode } from 'preact';
import { round } from './area.tsx';
import { type Mark, Plot, Stretched, WIDE } from './plot.tsx';
import { axisTo, percent } from './scale.ts';

export interface Line {
  readonly name: string;
  readonly class: string;
  /** Shares of the width, ascending, with the values there. */
  readonly points: readonly (readonly [at: number, value: number])[];
}

/** Lines, each with its name at its end. A line may begin late: before that nothing is known. */
export function Lines({
  height,
  lines,
  labels,
  text,
  ...more
}: {
  readonly height: number;
  /** Returns what stands at a mark. */
  readonly text: (value: number) => string;
  readonly class?: string;
  readonly lines: readonly Line[];
  readonly labels: readonly Mark[];
}): VNode {
  const most = Math.max(0, ...lines.flatMap(({ points }) => points.map(([, value]) => value)));
  const { top, marks } = axisTo(most, 4, false);
  const y = (value: number): number => height * (1 - value / top);
  const named = lines.flatMap((line) => {
    const last = line.points.at(-1);
    return last === undefined ? [] : [{ ...line, at: last[0], y: y(last[1]) }];
  });
  return (
    <Plot
      height={height}
      marks={marks.map((mark) => ({ at: mark / top, text: text(mark) }))}
      labels={labels}
      class={more.class}
    >
      <Stretched height={height}>
        {lines.map(({ name, points, ...line }) => (
          <path
            key={name}
            class={`line ${line.class}`}
            d={`M${points.map(([at, value]) => `${round(at * WIDE)} ${round(y(value))}`).join('L')}`}
          />
        ))}
      </Stretched>
      {lines.map(({ name, points, ...line }) =>
        points.length === 1
          ? points.map(([at, value]) => (
              <circle key={name} class={`dot ${line.class}`} cx={percent(at)} cy={y(value)} r="3" />
            ))
          : null,
      )}
      {apart(named, height).map(({ name, at, y: height, ...line }) => (
        <text
          key={name}
          class={`name ${line.class}`}
          x={percent(at)}
          y={height}
          text-anchor={at > 0.5 ? 'end' : 'start'}
        >
          {name}
        </text>
      ))}
    </Plot>
  );
}

/** Pixels from one name to the next, and between two lines with a name between them. */
const NAME = 14;
const BETWEEN = 18;

/** Puts names above their lines, below where another line is close above, and never on top of each other. */
function apart<L extends { readonly y: number }>(lines: readonly L[], height: number): L[] {
  let last = Number.NEGATIVE_INFINITY;
  return lines
    .toSorted((a, b) => a.y - b.y)
    .map((line, i, sorted) => {
      const room = line.y - (sorted[i - 1]?.y ?? Number.NEGATIVE_INFINITY);
      const isBelow = room < BETWEEN && line.y + NAME < height;
      const y = Math.max(isBelow ? line.y + NAME : line.y - 7, last + NAME);
      last = y;
      return { ...line, y };
    });
}
