import {
  type Axis,
  axisTo,
  BarLink,
  type Mark,
  Plot,
  painted,
  percent,
  Stretched,
  shortNumber,
  WIDE,
} from './chart-frame.tsx';

interface Framed {
  /** Height of the plot alone, in pixels. */
  readonly height: number;
  readonly labels: readonly Mark[];
}

/** Returns the marks of an axis with their texts. */
function marksOf({ top, marks }: Axis, text = shortNumber): Mark[] {
  return marks.map((mark) => ({ at: mark / top, text: text(mark) }));
}

interface Pair {
  readonly title: string;
  /** Null if unknown. */
  readonly up: number | null;
  readonly down: number | null;
  readonly upHref: string | null;
  readonly downHref: string | null;
}

/** Minimum share of the height above the line, and below it. */
const LEAST = 0.25;

export function Diverging({ height, pairs, labels }: Framed & { pairs: readonly Pair[] }) {
  const most = (of: 'up' | 'down') => Math.max(0, ...pairs.map((pair) => pair[of] ?? 0));
  const up = axisTo(most('up'), 3);
  const down = axisTo(most('down'), 2);
  // A few deletions must be visible next to many arrivals, so the smaller side gets at least a quarter of the height.
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

/** Returns a height that is visible unless it is 0. */
function thick(height: number): number {
  return height > 0 ? Math.max(1, Math.round(height * 10) / 10) : 0;
}

interface Upright {
  readonly title: string;
  /** Null if unknown. */
  readonly value: number | null;
  readonly marked: number;
}

export function Columns({
  height,
  bars,
  limit,
  labels,
}: Framed & {
  bars: readonly Upright[];
  limit: { readonly value: number; readonly text: string } | null;
}) {
  const most = Math.max(0, ...bars.map(({ value }) => value ?? 0));
  const axis = axisTo(Math.max(most, limit?.value ?? 0), 3);
  const { top } = axis;
  const bar = 1 / Math.max(1, bars.length);
  return (
    <Plot height={height} marks={marksOf(axis)} labels={labels}>
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
        const column = { x: percent(at * bar), width: percent(bar) };
        const place = { x: percent((at + 0.12) * bar), width: percent(0.76 * bar) };
        return (
          <BarLink key={title} href={null} title={title}>
            <rect class="hit" {...column} y="0" height={height} />
            {value === null ? (
              <rect class="absent" {...column} y={height - 2} height="2" />
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

interface Layer {
  readonly name: string;
  readonly fill: string;
  /** At the left edge, and at the end of each period. */
  readonly values: readonly number[];
}

interface Column {
  readonly title: string;
  readonly href: string | null;
}

export function StackedArea({
  height,
  layers,
  columns,
  labels,
}: Framed & { layers: readonly Layer[]; columns: readonly Column[] }) {
  const points = columns.length + 1;
  const bar = 1 / columns.length;
  const totals = Array.from({ length: points }, (_, at) =>
    layers.reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
  );
  const axis = axisTo(Math.max(...totals));
  const below = new Array<number>(points).fill(0);
  const shapes = layers.map(({ name, fill, values }) => {
    const lower = [...below];
    for (const at of below.keys()) below[at] = (below[at] ?? 0) + (values[at] ?? 0);
    return { name, fill, path: band(lower, below, axis.top, height) };
  });
  return (
    <Plot height={height} marks={marksOf(axis)} labels={labels}>
      <Stretched height={height}>
        {shapes.map(({ name, fill, path }) => (
          <path key={name} {...painted(fill)} d={path} />
        ))}
      </Stretched>
      {columns.map(({ title, href }, at) => (
        <BarLink key={title} href={href} title={title}>
          <rect class="hit" x={percent(at * bar)} width={percent(bar)} y="0" height={height} />
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

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

export interface Line {
  readonly name: string;
  readonly class: string;
  /** Ascending shares of the width, with their values. */
  readonly points: readonly (readonly [at: number, value: number])[];
}

/** Lines, each with its name at its end. A line may start late if earlier values are unknown. */
export function Lines({
  height,
  lines,
  labels,
  text,
  ...more
}: Framed & { text: (value: number) => string; class?: string; lines: readonly Line[] }) {
  const most = Math.max(0, ...lines.flatMap(({ points }) => points.map(([, value]) => value)));
  const axis = axisTo(most, 4, false);
  const y = (value: number): number => height * (1 - value / axis.top);
  const named = lines.flatMap((line) => {
    const last = line.points.at(-1);
    return last === undefined ? [] : [{ ...line, at: last[0], y: y(last[1]) }];
  });
  return (
    <Plot height={height} marks={marksOf(axis, text)} labels={labels} class={more.class}>
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

/** Distance in pixels between names, and between two lines with a name in between. */
const NAME = 14;
const BETWEEN = 18;

/** Puts names above their lines, or below if another line is close above, without overlap. */
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

interface BrickShape {
  readonly title: string;
  readonly class: string;
}

const LENGTH = 22;
const HIGH = 16;

/** A wall of bricks. The browser lays out the rows: each brick is an image in a line of text. */
export function Bricks({ bricks }: { bricks: readonly BrickShape[] }) {
  return (
    <p class="wall" aria-hidden="true">
      {bricks.map(({ title, ...brick }) => (
        <svg key={title} width={LENGTH} height={HIGH} aria-hidden="true" focusable="false">
          <title>{title}</title>
          <rect class={brick.class} x="1" y="1" width={LENGTH - 2} height={HIGH - 2} rx="2" />
          {brick.class === 'b-damaged' && <path class="b-cross" d={`M5 4 17 12M17 4 5 12`} />}
        </svg>
      ))}
    </p>
  );
}

const HEAT_HIGH = 20;

/** Rows of squares, darker for larger numbers. The title of each has its number. */
export function Heat({
  rows,
  columns,
  counts,
  titleOf,
}: {
  rows: readonly string[];
  columns: readonly string[];
  counts: readonly (readonly number[])[];
  titleOf: (row: number, column: number) => string;
}) {
  const most = Math.max(1, ...counts.flat());
  const wide = 1 / Math.max(1, columns.length);
  const height = rows.length * HEAT_HIGH;
  return (
    <div class="chart heat" aria-hidden="true">
      <svg class="axis" height={height + 22} aria-hidden="true" focusable="false">
        {rows.map((name, row) => (
          <text key={name} class="ax" x="100%" y={row * HEAT_HIGH + 14} text-anchor="end">
            {name}
          </text>
        ))}
      </svg>
      <svg class="plot" height={height + 22} aria-hidden="true" focusable="false">
        {counts.map((line, row) =>
          line.map((value, column) => (
            <g key={`${row} ${column}`}>
              <title>{titleOf(row, column)}</title>
              <rect
                class="cell"
                x={percent((column + 0.05) * wide)}
                width={percent(0.9 * wide)}
                y={row * HEAT_HIGH + 1}
                height={HEAT_HIGH - 2}
                rx="2"
                fill-opacity={shade(value / most)}
              />
            </g>
          )),
        )}
        {columns.map((name, column) =>
          column % 3 === 0 ? (
            <text key={name} class="ax" x={percent((column + 0.05) * wide)} y={height + 15}>
              {name}
            </text>
          ) : null,
        )}
      </svg>
    </div>
  );
}

/** Returns a shade in visible steps; small values stay distinguishable from none. */
function shade(share: number): number {
  return share === 0 ? 0.05 : Math.round((0.16 + 0.84 * share ** 0.8) * 100) / 100;
}

interface BarPart {
  readonly value: number;
  readonly fill: string;
  readonly href: string | null;
  readonly title: string;
}

interface BarRow {
  readonly name: string;
  readonly href: string | null;
  readonly parts: readonly BarPart[];
  readonly text: string;
}

export function Bars({ rows }: { rows: readonly BarRow[] }) {
  const total = ({ parts }: BarRow): number => parts.reduce((sum, { value }) => sum + value, 0);
  const most = Math.max(1, ...rows.map(total));
  return (
    <ul class="bars">
      {rows.map((row) => (
        <li key={row.name}>
          {row.href === null ? (
            <span class="who" title={row.name}>
              <bdi>{row.name}</bdi>
            </span>
          ) : (
            <a class="who" href={row.href} title={row.name}>
              <bdi>{row.name}</bdi>
            </a>
          )}
          <BarPicture parts={row.parts} most={most} />
          <span class="r">{row.text}</span>
        </li>
      ))}
    </ul>
  );
}

function BarPicture({ parts, most }: { parts: readonly BarPart[]; most: number }) {
  let before = 0;
  return (
    <svg width="100%" height="10" aria-hidden="true" focusable="false">
      {parts.map(({ value, fill, href, title }) => {
        const x = before / most;
        before += value;
        const place = { x: percent(x), width: percent(value / most) };
        return (
          <BarLink key={title} href={href} title={title}>
            <rect {...painted(fill)} {...place} height="10" rx="1.5" />
          </BarLink>
        );
      })}
    </svg>
  );
}

interface Dot {
  readonly title: string;
  readonly href: string | null;
  /** Milliseconds; null is shown at the right edge. */
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
const PLACES = 64;
const RADIUS = 4;
/** Distance between two dots of a pile, in pixels. */
const STEP = 2 * RADIUS + 3;

/** Dots by age on a logarithmic scale, piled up if they share an age, with a line at the limit. */
export function AgeDots({
  height,
  dots,
  limit,
}: Omit<Framed, 'labels'> & {
  dots: readonly Dot[];
  limit: { readonly age: number; readonly text: string };
}) {
  const oldest = Math.max(limit.age, ...dots.map(({ age }) => age ?? 0));
  // Leaves room at the right for folders that were never compared.
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
              // A diamond: a path placed at a share of the width.
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

/** Piles dots up at their places; dots that do not fit go to the nearest pile with room. */
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
