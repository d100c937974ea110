import type { ComponentChildren, RenderableProps } from 'preact';
import { count } from '../../core/text.ts';

const STEPS = [1, 2, 2.5, 5, 10];

/** Returns an axis from 0 to a round number that is at least `most`. @param parts maximum marks above 0 */
export function createAxis(most: number, parts = 4, areWhole = true) {
  if (!(most > 0)) return { top: 1, marks: [0, 1] };
  const estimate = most / parts;
  const power = 10 ** Math.floor(Math.log10(estimate));
  const fits = STEPS.map((step) => step * power).find((step) => step >= estimate * (1 - 1e-9));
  const least = fits ?? 10 * power;
  const step = areWhole ? Math.max(1, Math.ceil(least)) : least;
  const count = Math.ceil((most / step) * (1 - 1e-9));
  return { top: count * step, marks: Array.from({ length: count + 1 }, (_, at) => at * step) };
}

const UNITS = ['', 'k', 'M', 'G', 'T'];

/** Shortens a number to at most four characters: `950`, `25k`, `1.2M`. */
export function shortNumber(value: number): string {
  let [amount, unit] = [Math.abs(value), 0];
  while (amount >= 999.5 && unit < UNITS.length - 1) {
    amount /= 1000;
    unit += 1;
  }
  const text =
    amount >= 10 || Number.isInteger(amount) ? String(Math.round(amount)) : tenths(amount);
  return `${value < 0 ? '−' : ''}${text}${UNITS[unit]}`;
}

function tenths(amount: number): string {
  return amount.toFixed(amount < 0.1 ? 2 : 1).replace(/\.0$/, '');
}

export function percent(share: number): string {
  return `${Number((Math.min(1, Math.max(0, share)) * 100).toFixed(3))}%`;
}

/** Chooses which bars get a label: at most `most` of `count`, evenly spaced and including the last. */
export function labelPositions(count: number, most: number): number[] {
  if (count <= 0) return [];
  const step = Math.max(1, Math.ceil(count / most));
  const found: number[] = [];
  for (let at = count - 1; at >= 0; at -= step) found.unshift(at);
  return found;
}

/** Pixels above the plot for the topmost mark, and below it for the labels of the horizontal axis. */
const [ABOVE, BELOW] = [12, 22];

export interface Mark {
  /** Position as a fraction of the axis, from the left or the bottom. */
  readonly at: number;
  readonly text: string;
}

interface Framed {
  /** Height of the plot in pixels, excluding its labels. */
  readonly height: number;
  readonly labels: readonly Mark[];
  readonly class?: string | undefined;
}

type PlotProps = Framed & { readonly marks: readonly Mark[] };

/**
 * A chart's frame. The plot grows with the window while text keeps its size, so content is placed at fractions of the
 * width and paths go into `Stretched`. Screen readers skip it, because a table next to it shows the same numbers.
 */
function Plot({ height, marks, labels, children, ...more }: RenderableProps<PlotProps>) {
  // Rounds to a tenth of a pixel.
  const level = (at: number): number => Math.round(height * (1 - at) * 10) / 10;
  const whole = ABOVE + height + BELOW;
  return (
    <div class={`chart ${more.class ?? ''}`.trim()} aria-hidden="true">
      <svg class="axis" height={whole} aria-hidden="true" focusable="false">
        {marks.map(({ at, text }) => (
          <text key={text} class="ax" x="100%" y={ABOVE + level(at) + 3.5} text-anchor="end">
            {text}
          </text>
        ))}
      </svg>
      <svg class="plot" height={whole} aria-hidden="true" focusable="false">
        <g transform={`translate(0 ${ABOVE})`}>
          {marks.map(({ at }) => (
            <line key={at} class="grid" x1="0" x2="100%" y1={level(at)} y2={level(at)} />
          ))}
          {labels.map(({ at, text }) => (
            <text
              key={`${at} ${text}`}
              class="ax"
              x={percent(at)}
              y={height + 17}
              text-anchor={at < 0.04 ? 'start' : at > 0.94 ? 'end' : 'middle'}
            >
              {text}
            </text>
          ))}
          {children}
        </g>
      </svg>
    </div>
  );
}

const WIDE = 1000;

/** Stretches paths, drawn `WIDE` units wide, to the width of the plot. */
function Stretched({ height, children }: RenderableProps<{ height: number }>) {
  return (
    <svg
      width="100%"
      height={height}
      viewBox={`0 0 ${WIDE} ${height}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      overflow="visible"
    >
      {children}
    </svg>
  );
}

interface Linked {
  readonly title: string;
  readonly href: string | null;
}

/** A shape with a link. It is excluded from the tab order, because the table contains the same links. */
function BarLink({ href, title, children }: RenderableProps<Linked>) {
  const Tag = href === null ? 'g' : 'a';
  return (
    <Tag {...(href !== null && { href, tabindex: -1 })}>
      <title>{title}</title>
      {children}
    </Tag>
  );
}

/** Textures also distinguish the series: solid, vertical lines, dots, horizontal lines, diagonal lines. */
export const FILLS = ['f-1', 'f-2', 'f-3', 'f-4', 'f-5'] as const;

function fillProps(fill: string): { readonly class: string; readonly fill?: string } {
  const isTextured = /^f-(?:[2-5]|ended)$/.test(fill);
  return isTextured
    ? { class: fill, fill: fill.replace(/^f-(.*)/, 'url(#t-$1)') }
    : { class: fill };
}

const TEXTURES = {
  2: <rect class="t-line" width="1" height="5" />,
  3: <circle class="t-line" cx="2.5" cy="2.5" r="1" />,
  4: <rect class="t-line" width="5" height="1" />,
  5: <rect class="t-line" width="1" height="5" />,
};

export function Textures() {
  const size = { width: 5, height: 5, patternUnits: 'userSpaceOnUse' } as const;
  return (
    <svg class="textures" width="0" height="0" aria-hidden="true" focusable="false">
      <defs>
        {Object.entries(TEXTURES).map(([n, mark]) => (
          <pattern
            key={n}
            id={`t-${n}`}
            {...size}
            patternTransform={n === '5' ? 'rotate(-45)' : undefined}
          >
            <rect class={`g-${n}`} width="5" height="5" />
            {mark}
          </pattern>
        ))}
        <pattern id="t-ended" {...size} width="4" height="4" patternTransform="rotate(45)">
          <rect class="g-ended" width="4" height="4" />
          <rect class="t-ended" width="1.4" height="4" />
        </pattern>
      </defs>
    </svg>
  );
}

interface FigureProps {
  readonly name: string;
  readonly wide: 4 | 5 | 6 | 7 | 8 | 12;
  readonly keys?: readonly {
    readonly name: string;
    readonly count?: number;
    readonly fill: string;
    readonly href?: string | null;
  }[];
  readonly note?: ComponentChildren;
  readonly remark?: ComponentChildren;
  readonly table?: TableProps | false;
  readonly id?: string;
  readonly children: ComponentChildren;
}

/** A chart with its name, key, summary, and a table of its numbers. */
export function Figure({ name, wide, keys = [], note, remark, table, id, children }: FigureProps) {
  return (
    <section class={`panel c${wide}`} aria-label={name} id={id}>
      <h2>
        <span>{name}</span>
        {note !== undefined && <small>{note}</small>}
      </h2>
      {keys.length > 0 && (
        <ul class="keys">
          {keys.map((key) => (
            <li key={key.name}>
              <svg width="11" height="11" aria-hidden="true" focusable="false">
                <rect {...fillProps(key.fill)} width="11" height="11" rx="2" />
              </svg>
              <OptionalLink href={key.href}>
                <bdi>{key.name}</bdi>
                {key.count !== undefined && ` ${count(key.count)}`}
              </OptionalLink>
            </li>
          ))}
        </ul>
      )}
      {children}
      {remark != null && <p class="remark">{remark}</p>}
      {table && (
        <details class="as-table">
          <summary>
            as table<span class="vh">: {name}</span>
          </summary>
          <section class="scroll" tabindex={0} aria-label={`${name}, as table`}>
            <NumberTable {...table} />
          </section>
        </details>
      )}
    </section>
  );
}

type MaybeHref = { readonly href?: string | null | undefined; readonly class?: string };

export function OptionalLink({ href, children, ...more }: RenderableProps<MaybeHref>) {
  if (href == null) return <>{children}</>;
  return (
    <a {...more} href={href}>
      {children}
    </a>
  );
}

type Cell = string | readonly [text: string, href: string | null];

interface TableProps {
  readonly head: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

/** A table of numbers. The first cell of a row is its name, which is untrusted text. */
function NumberTable({ head, rows }: TableProps) {
  const shown = (cell: Cell, isName: boolean) => {
    const [text, href] = typeof cell === 'string' ? [cell] : cell;
    return (
      <OptionalLink href={href} class="link">
        {isName ? <bdi>{text}</bdi> : text}
      </OptionalLink>
    );
  };
  return (
    <table>
      <thead>
        <tr>
          {head.map((text, at) => (
            <th key={text} scope="col" class={at === 0 ? undefined : 'r'}>
              <bdi>{text}</bdi>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name = '', ...cells], row) => (
          <tr key={row}>
            <th scope="row">{shown(name, true)}</th>
            {cells.map((cell, at) => (
              <td key={at} class="r">
                {shown(cell, false)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function axisMarks({ top, marks }: ReturnType<typeof createAxis>, text = shortNumber): Mark[] {
  return marks.map((mark) => ({ at: mark / top, text: text(mark) }));
}

/** Places one of `count` bars. @param margin fraction of its width to leave free on each side */
function column(at: number, count: number, margin = 0) {
  const width = 1 / Math.max(1, count);
  return { x: percent((at + margin) * width), width: percent((1 - 2 * margin) * width) };
}

function thick(height: number): number {
  return height > 0 ? Math.max(1, round(height)) : 0;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

interface Pair {
  readonly title: string;
  /** Null if unknown. */
  readonly up: number | null;
  readonly down: number | null;
  readonly upHref: string | null;
  readonly downHref: string | null;
}

const LEAST = 0.25;

export function Diverging({ height, pairs, labels }: Framed & { pairs: readonly Pair[] }) {
  const most = (of: 'up' | 'down') => Math.max(0, ...pairs.map((pair) => pair[of] ?? 0));
  const up = createAxis(most('up'), 3);
  const down = createAxis(most('down'), 2);
  // The smaller side gets at least a quarter of the height, so that a few deletions stay visible beside many arrivals.
  const share = up.top / (up.top + down.top);
  const line = height * Math.min(1 - LEAST, Math.max(LEAST, share));
  const scale = Math.min(line / up.top, (height - line) / down.top);
  const marks = [...up.marks, ...down.marks.slice(-1).map((mark) => -mark)].map((mark) => ({
    at: 1 - (line - mark * scale) / height,
    text: shortNumber(Math.abs(mark)),
  }));
  const spaced = marks.filter(
    ({ at }, index) => index === 0 || Math.abs(at - (marks[0]?.at ?? 0)) * height > 12,
  );
  return (
    <Plot height={height} marks={spaced} labels={labels}>
      {pairs.map(({ title, up: came, down: gone, upHref, downHref }, at) => {
        const whole = column(at, pairs.length);
        const slim = column(at, pairs.length, 0.15);
        if (came === null || gone === null)
          return (
            <BarLink key={title} href={null} title={title}>
              <rect class="absent" {...whole} y={line - 1} height="2" />
            </BarLink>
          );
        const above = thick(came * scale);
        return (
          <g key={title}>
            <BarLink href={upHref} title={title}>
              <rect class="hit" {...whole} y="0" height={line} />
              <rect class="f-1" {...slim} y={line - above} height={above} />
            </BarLink>
            <BarLink href={downHref} title={title}>
              <rect class="hit" {...whole} y={line} height={height - line} />
              <rect class="f-gone" {...slim} y={line + 1} height={thick(gone * scale)} />
            </BarLink>
          </g>
        );
      })}
    </Plot>
  );
}

interface Columns extends Framed {
  readonly bars: readonly {
    readonly title: string;
    /** Null if unknown. */
    readonly value: number | null;
    readonly marked: number;
  }[];
  readonly limit: { readonly value: number; readonly text: string } | null;
}

export function Columns({ height, bars, limit, labels }: Columns) {
  const most = Math.max(0, ...bars.map(({ value }) => value ?? 0));
  const axis = createAxis(Math.max(most, limit?.value ?? 0), 3);
  const level = height * (1 - (limit?.value ?? 0) / axis.top);
  return (
    <Plot height={height} marks={axisMarks(axis)} labels={labels}>
      {limit !== null && (
        <>
          <line class="limit" x1="0" x2="100%" y1={level} y2={level} />
          <text class="ax warn" x="100%" y={level - 5} text-anchor="end">
            {limit.text}
          </text>
        </>
      )}
      {bars.map(({ title, value, marked }, at) => {
        const barHeight = thick(((value ?? 0) / axis.top) * height);
        const part = thick((marked / axis.top) * height);
        const whole = column(at, bars.length);
        const slim = column(at, bars.length, 0.12);
        return (
          <BarLink key={title} href={null} title={title}>
            <rect class="hit" {...whole} y="0" height={height} />
            {value === null ? (
              <rect class="absent" {...whole} y={height - 2} height="2" />
            ) : (
              <rect class="f-1" {...slim} y={height - barHeight} height={barHeight} />
            )}
            {part > 0 && <rect class="f-warn" {...slim} y={height - part} height={part} />}
          </BarLink>
        );
      })}
    </Plot>
  );
}

interface Stack extends Framed {
  readonly layers: readonly {
    readonly name: string;
    readonly fill: string;
    /** Values at the left edge and at the end of each column. */
    readonly values: readonly number[];
  }[];
  readonly columns: readonly Linked[];
}

export function StackedArea({ height, layers, columns, labels }: Stack) {
  const points = Array.from({ length: columns.length + 1 }, (_, at) => at);
  const sums = points.map(() => 0);
  const stacked = layers.map(({ values, ...layer }) => {
    const lower = [...sums];
    for (const at of points) sums[at] = (sums[at] ?? 0) + (values[at] ?? 0);
    return { ...layer, lower, upper: [...sums] };
  });
  const axis = createAxis(Math.max(...sums));
  const step = WIDE / Math.max(1, columns.length);
  const point = (value: number, at: number): string =>
    `${round(at * step)} ${round(height * (1 - value / axis.top))}`;
  return (
    <Plot height={height} marks={axisMarks(axis)} labels={labels}>
      <Stretched height={height}>
        {stacked.map(({ name, fill, lower, upper }) => (
          <path
            key={name}
            {...fillProps(fill)}
            d={`M${[...upper.map(point), ...lower.map(point).reverse()].join('L')}Z`}
          />
        ))}
      </Stretched>
      {columns.map((bar, at) => (
        <BarLink key={bar.title} {...bar}>
          <rect class="hit" {...column(at, columns.length)} y="0" height={height} />
        </BarLink>
      ))}
    </Plot>
  );
}

export interface Line {
  readonly name: string;
  readonly class: string;
  /** Values at ascending fractions of the width. */
  readonly points: readonly (readonly [at: number, value: number])[];
}

interface LinesProps extends Framed {
  readonly text: (value: number) => string;
  readonly lines: readonly Line[];
}

/** Lines labelled at their right end. A line starts later if earlier values are unknown. */
export function Lines({ height, lines, labels, text, ...more }: LinesProps) {
  const most = Math.max(0, ...lines.flatMap(({ points }) => points.map(([, value]) => value)));
  const axis = createAxis(most, 4, false);
  const y = (value: number): number => height * (1 - value / axis.top);
  const ends = lines.flatMap((line) => {
    const last = line.points.at(-1);
    return last === undefined ? [] : [{ ...line, at: last[0], y: y(last[1]) }];
  });
  return (
    <Plot height={height} marks={axisMarks(axis, text)} labels={labels} class={more.class}>
      <Stretched height={height}>
        {lines.map(({ name, points, ...line }) => (
          <path
            key={name}
            class={`line ${line.class}`}
            d={`M${points.map(([at, value]) => `${round(at * WIDE)} ${round(y(value))}`).join('L')}`}
          />
        ))}
      </Stretched>
      {ends.map(
        ({ name, points, at, y, ...line }) =>
          points.length === 1 && (
            <circle key={name} class={`dot ${line.class}`} cx={percent(at)} cy={y} r="3" />
          ),
      )}
      {separate(ends, height).map(({ name, at, y, ...line }) => (
        <text
          key={name}
          class={`name ${line.class}`}
          x={percent(at)}
          y={y}
          text-anchor={at > 0.5 ? 'end' : 'start'}
        >
          {name}
        </text>
      ))}
    </Plot>
  );
}

/** Minimum pixels between names, and between lines that have a name between them. */
const NAME = 14;
const BETWEEN = 18;

/** Puts each name above its line, or below if there is another line just above it, so that names never overlap. */
function separate<L extends { readonly y: number }>(lines: readonly L[], height: number): L[] {
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

/** A wall of bricks. Each brick is an image in a line of text, so the browser lays out the rows. */
export function ProofWall({ bricks }: { bricks: readonly Record<'title' | 'class', string>[] }) {
  return (
    <p class="wall" aria-hidden="true">
      {bricks.map(({ title, ...brick }) => (
        <svg key={title} width="22" height="16" aria-hidden="true" focusable="false">
          <title>{title}</title>
          <rect class={brick.class} x="1" y="1" width="20" height="14" rx="2" />
          {brick.class === 'b-damaged' && <path class="b-cross" d="M5 4 17 12M17 4 5 12" />}
        </svg>
      ))}
    </p>
  );
}

const HEAT_HIGH = 20;

interface HeatProps {
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly counts: readonly (readonly number[])[];
  readonly titleOf: (row: number, column: number) => string;
}

export function Heat({ rows, columns, counts, titleOf }: HeatProps) {
  const most = Math.max(1, ...counts.flat());
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
          line.map((value, at) => (
            <g key={`${row} ${at}`}>
              <title>{titleOf(row, at)}</title>
              <rect
                class="cell"
                {...column(at, columns.length, 0.05)}
                y={row * HEAT_HIGH + 1}
                height={HEAT_HIGH - 2}
                rx="2"
                fill-opacity={shade(value / most)}
              />
            </g>
          )),
        )}
        {columns.map(
          (name, at) =>
            at % 3 === 0 && (
              <text key={name} class="ax" x={column(at, columns.length, 0.05).x} y={height + 15}>
                {name}
              </text>
            ),
        )}
      </svg>
    </div>
  );
}

/** Returns an opacity that keeps even small values visibly different from zero. */
function shade(share: number): number {
  return share === 0 ? 0.05 : Math.round((0.16 + 0.84 * share ** 0.8) * 100) / 100;
}

interface BarRow {
  readonly name: string;
  readonly href: string | null;
  readonly parts: readonly (Linked & { readonly value: number; readonly fill: string })[];
  readonly text: string;
}

export function Bars({ rows }: { rows: readonly BarRow[] }) {
  const total = ({ parts }: BarRow): number => parts.reduce((sum, { value }) => sum + value, 0);
  const most = Math.max(1, ...rows.map(total));
  return (
    <ul class="bars">
      {rows.map(({ name, href, parts, text }) => {
        const Name = href === null ? 'span' : 'a';
        let before = 0;
        return (
          <li key={name}>
            <Name class="who" title={name} {...(href !== null && { href })}>
              <bdi>{name}</bdi>
            </Name>
            <svg width="100%" height="10" aria-hidden="true" focusable="false">
              {parts.map(({ value, fill, ...part }) => {
                const place = { x: percent(before / most), width: percent(value / most) };
                before += value;
                return (
                  <BarLink key={part.title} {...part}>
                    <rect {...fillProps(fill)} {...place} height="10" rx="1.5" />
                  </BarLink>
                );
              })}
            </svg>
            <span class="r">{text}</span>
          </li>
        );
      })}
    </ul>
  );
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const AGES: readonly (readonly [age: number, text: string])[] = [
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
/** Pixels between neighbouring dots in a pile. */
const STEP = 2 * RADIUS + 3;

interface AgeDotsProps {
  readonly height: number;
  readonly dots: readonly (Linked & {
    /** Milliseconds; null puts the dot at the right edge. */
    readonly age: number | null;
    readonly late: boolean;
  })[];
  readonly limit: { readonly age: number; readonly text: string };
}

/** Dots on a logarithmic age scale, piled up where ages coincide, with a line at the limit. */
export function AgeDots({ height, dots, limit }: AgeDotsProps) {
  const oldest = Math.max(limit.age, ...dots.map(({ age }) => age ?? 0));
  // Leaves room on the right for folders that have never been compared.
  const top = Math.log(Math.max(2, (oldest * 2) / MINUTE));
  const shareOf = (age: number): number =>
    Math.min(1, Math.max(0, Math.log(Math.max(1, age / MINUTE)) / top));
  const swarm = pileUp(
    dots.map(({ age }) => Math.round((age === null ? 1 : shareOf(age)) * PLACES)),
    Math.max(1, Math.floor(height / STEP)),
  );
  const at = shareOf(limit.age);
  const labels = AGES.map(([age, text]) => ({ age, text, at: shareOf(age) })).filter(
    (label) => label.age <= oldest && Math.abs(label.at - at) > 0.08,
  );
  const vertical = (share: number) => ({
    x1: percent(share),
    x2: percent(share),
    y1: 0,
    y2: height,
  });
  return (
    <Plot height={height} marks={[]} labels={labels} class="aged">
      {labels.map((label) => (
        <line key={label.text} class="grid" {...vertical(label.at)} />
      ))}
      <line class="limit" {...vertical(at)} />
      <text class="ax warn" x={percent(at)} y={height + 17} text-anchor="middle">
        {limit.text}
      </text>
      {dots.map(({ title, href, late }, index) => {
        const { place, rank } = swarm[index] ?? { place: 0, rank: 0 };
        const y = height - RADIUS - 2 - rank * STEP;
        return (
          <BarLink key={title} href={href} title={title}>
            {late ? (
              // A diamond: a path placed at a fraction of the width.
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

/** Piles up dots at their positions. A dot that does not fit goes to the nearest pile with room. */
function pileUp(
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
