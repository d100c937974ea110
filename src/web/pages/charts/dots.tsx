import type { VNode } from 'preact';
import { BarLink, type Mark, Plot } from './plot.tsx';
import { percent } from './scale.ts';

export interface Dot {
  readonly title: string;
  readonly href: string | null;
  /** Milliseconds; null stands at the right edge. */
  readonly age: number | null;
  readonly late: boolean;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MARKS: readonly (readonly [age: number, text: string])[] = [
  [MINUTE, '1 min'],
  [5 * MINUTE, '5 min'],
  [HOUR, '1 h'],
  [6 * HOUR, '6 h'],
  [7 * DAY, '7 d'],
  [60 * DAY, '60 d'],
  [365 * DAY, '1 y'],
];
/** Places for dots next to each other. */
const PLACES = 64;
const RADIUS = 4;
/** From one dot of a pile to the next, in pixels. */
const STEP = 2 * RADIUS + 3;

/** Dots by age on a logarithmic scale, piled up where several are of one age, and a line at an age that is too old. */
export function AgeDots({
  height,
  dots,
  limit,
}: {
  readonly height: number;
  readonly dots: readonly Dot[];
  readonly limit: { readonly age: number; readonly text: string };
}): VNode {
  const oldest = Math.max(limit.age, ...dots.map(({ age }) => age ?? 0));
  // Some room at the right for those that never were compared.
  const top = Math.log(Math.max(2, (oldest * 2) / MINUTE));
  const shareOf = (age: number): number =>
    Math.min(1, Math.max(0, Math.log(Math.max(1, age / MINUTE)) / top));
  const swarm = placed(
    dots.map(({ age }) => Math.round((age === null ? 1 : shareOf(age)) * PLACES)),
    Math.max(1, Math.floor(height / STEP)),
  );
  const at = shareOf(limit.age);
  const labels: Mark[] = MARKS.filter(
    ([age]) => age <= oldest && Math.abs(shareOf(age) - at) > 0.08,
  ).map(([age, text]) => ({ at: shareOf(age), text }));
  return (
    <Plot height={height} marks={[]} labels={labels} class="aged">
      {labels.map((label) => (
        <line
          key={label.text}
          class="grid"
          x1={percent(label.at)}
          x2={percent(label.at)}
          y1="0"
          y2={height}
        />
      ))}
      <line class="limit" x1={percent(at)} x2={percent(at)} y1="0" y2={height} />
      <text class="ax warn" x={percent(at)} y={height + 17} text-anchor="middle">
        {limit.text}
      </text>
      {dots.map(({ title, href, late }, index) => {
        const { place, rank } = swarm[index] ?? { place: 0, rank: 0 };
        const y = height - RADIUS - 2 - rank * STEP;
        return (
          <BarLink key={title} href={href} title={title}>
            {late ? (
              // A diamond: a path that stands at a share of the width.
              <svg x={percent(place / PLACES)} y={y} overflow="visible" aria-hidden="true">
                <path class="late" d="M0-6 6 0 0 6-6 0Z" />
              </svg>
            ) : (
              <circle class="f-1" cx={percent(place / PLACES)} cy={y} r={RADIUS} />
            )}
          </BarLink>
        );
      })}
    </Plot>
  );
}

/** Piles dots up where they belong; what a full pile has no room for goes to the nearest one that has. */
function placed(
  wanted: readonly number[],
  most: number,
): { readonly place: number; readonly rank: number }[] {
  const heights = new Map<number, number>();
  const rows = Math.max(most, Math.ceil(wanted.length / (PLACES + 1)));
  return wanted.map((place) => {
    for (let away = 0; away <= PLACES; away += 1)
      for (const at of [place + away, place - away]) {
        const rank = heights.get(at) ?? 0;
        if (at < 0 || at > PLACES || rank >= rows) continue;
        heights.set(at, rank + 1);
        return { place: at, rank };
      }
    return { place, rank: 0 };
  });
}
