import type { VNode } from 'preact';
import { BarLink, type Mark, Plot } from './plot.tsx';
import { axisTo, percent, shortNumber } from './scale.ts';

export interface Pair {
  readonly title: string;
  /** Null where nothing is known. */
  readonly up: number | null;
  readonly down: number | null;
  /** What the halves of a column lead to. */
  readonly upHref: string | null;
  readonly downHref: string | null;
}

/** Share of the height above the line, at least and at most. */
const LEAST = 0.25;

/** Bars that grow upwards and downwards from a line. Both are of one scale. */
export function Diverging({
  height,
  pairs,
  labels,
}: {
  readonly height: number;
  readonly pairs: readonly Pair[];
  readonly labels: readonly Mark[];
}): VNode {
  const most = (of: 'up' | 'down') => Math.max(0, ...pairs.map((pair) => pair[of] ?? 0));
  const up = axisTo(most('up'), 3);
  const down = axisTo(most('down'), 2);
  // A few that ended must be seen next to many that came: the smaller side has a quarter of the height at least.
  const share = up.top / (up.top + down.top);
  const line = height * Math.min(1 - LEAST, Math.max(LEAST, share));
  const scale = Math.min(line / up.top, (height - line) / down.top);
  const bar = 1 / Math.max(1, pairs.length);
  const marks = [
    ...up.marks.map((mark) => ({
      at: 1 - (line - mark * scale) / height,
      text: shortNumber(mark),
    })),
    ...down.marks.slice(-1).map((mark) => ({
      at: 1 - (line + mark * scale) / height,
      text: shortNumber(mark),
    })),
  ];
  const spaced = marks.filter(
    ({ at }, index) => index === 0 || Math.abs(at - (marks[0]?.at ?? 0)) * height > 12,
  );
  return (
    <Plot height={height} marks={spaced} labels={labels}>
      {pairs.map(({ title, up: came, down: gone, upHref, downHref }, at) => {
        const column = { x: percent(at * bar), width: percent(bar) };
        const slim = { x: percent((at + 0.15) * bar), width: percent(0.7 * bar) };
        if (came === null || gone === null)
          return (
            <BarLink key={title} href={null} title={title}>
              <rect class="absent" {...column} y={line - 1} height="2" />
            </BarLink>
          );
        return (
          <g key={title}>
            <BarLink href={upHref} title={title}>
              <rect class="hit" {...column} y="0" height={line} />
              <rect
                class="f-1"
                {...slim}
                y={line - thick(came * scale)}
                height={thick(came * scale)}
              />
            </BarLink>
            <BarLink href={downHref} title={title}>
              <rect class="hit" {...column} y={line} height={height - line} />
              <rect class="f-gone" {...slim} y={line + 1} height={thick(gone * scale)} />
            </BarLink>
          </g>
        );
      })}
    </Plot>
  );
}

/** What there is must be seen. */
export function thick(height: number): number {
  return height > 0 ? Math.max(1, Math.round(height * 10) / 10) : 0;
}
