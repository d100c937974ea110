import type { ComponentChildren, VNode } from 'preact';
import { count } from '../../core/text.ts';
import { Link } from './icons.tsx';

/** The top value of an axis and its marks, starting at 0. */
export interface Axis {
  readonly top: number;
  readonly marks: readonly number[];
}

const STEPS = [1, 2, 2.5, 5, 10];

/**
 * Returns an axis from 0 to a round number that is at least `most`.
 *
 * @param parts maximum marks above 0
 * @param whole whether marks are whole numbers
 */
export function axisTo(most: number, parts = 4, whole = true): Axis {
  if (!(most > 0)) return { top: 1, marks: [0, 1] };
  const rough = most / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  const fits = STEPS.map((step) => step * power).find((step) => step >= rough * (1 - 1e-9));
  const least = fits ?? 10 * power;
  const step = whole ? Math.max(1, Math.ceil(least)) : least;
  const count = Math.ceil((most / step) * (1 - 1e-9));
  return { top: count * step, marks: Array.from({ length: count + 1 }, (_, at) => at * step) };
}

const UNITS = ['', 'k', 'M', 'G', 'T'];

/** Returns a number in at most four characters: `950`, `25k`, `1.2M`. */
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

/** Returns a share of the whole as an SVG percentage, such as `12.5%`. */
export function percent(share: number): string {
  return `${Number((Math.min(1, Math.max(0, share)) * 100).toFixed(3))}%`;
}

/** Returns which of `count` bars get a label: at most `most`, evenly spaced, including the last. */
export function labelled(count: number, most: number): number[] {
  if (count <= 0) return [];
  const step = Math.max(1, Math.ceil(count / most));
  const found: number[] = [];
  for (let at = count - 1; at >= 0; at -= step) found.unshift(at);
  return found;
}

/** Height below the plot for the labels of the horizontal axis. */
const BELOW = 22;
/** Height above the plot, so that the topmost mark has room. */
const ABOVE = 12;

export interface Mark {
  /** From 0 at the left or the bottom to 1. */
  readonly at: number;
  readonly text: string;
}

/**
 * The frame of a chart. The plot grows with the window while text keeps its size: its content is placed at shares of
 * the width, and paths go into `Stretched`. Screen readers skip it, since a table next to it has the same numbers.
 */
export function Plot({
  height,
  marks,
  labels,
  children,
  ...more
}: {
  /** Height of the plot alone, in pixels. */
  height: number;
  marks: readonly Mark[];
  labels: readonly Mark[];
  class?: string | undefined;
  children: ComponentChildren;
}) {
  return (
    <div class={`chart ${more.class ?? ''}`.trim()} aria-hidden="true">
      <svg class="axis" height={ABOVE + height + BELOW} aria-hidden="true" focusable="false">
        {marks.map(({ at, text }) => (
          <text
            key={text}
            class="ax"
            x="100%"
            y={ABOVE + level(at, height) + 3.5}
            text-anchor="end"
          >
            {text}
          </text>
        ))}
      </svg>
      <svg class="plot" height={ABOVE + height + BELOW} aria-hidden="true" focusable="false">
        <g transform={`translate(0 ${ABOVE})`}>
          {marks.map(({ at }) => (
            <line
              key={at}
              class="grid"
              x1="0"
              x2="100%"
              y1={level(at, height)}
              y2={level(at, height)}
            />
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

/** Returns the distance of a height share from the top, to a tenth of a pixel. */
function level(at: number, height: number): number {
  return Math.round(height * (1 - at) * 10) / 10;
}

/** Width of the coordinates of `Stretched`. */
export const WIDE = 1000;

/** Draws paths in coordinates of `WIDE` by the plot's height, stretched to its width. */
export function Stretched({ height, children }: { height: number; children: ComponentChildren }) {
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

/** A bar with its link. The table has the same links, so that the keyboard can skip the bars. */
export function BarLink({
  href,
  title,
  children,
}: {
  href: string | null;
  title: string;
  children: ComponentChildren;
}) {
  if (href === null)
    return (
      <g>
        <title>{title}</title>
        {children}
      </g>
    );
  return (
    <a href={href} tabindex={-1}>
      <title>{title}</title>
      {children}
    </a>
  );
}

/** Textures also distinguish the series: solid, vertical lines, dots, horizontal lines, diagonal lines. */
export const FILLS = ['f-1', 'f-2', 'f-3', 'f-4', 'f-5'] as const;

const TEXTURED: Readonly<Record<string, string>> = {
  'f-2': 'url(#t-2)',
  'f-3': 'url(#t-3)',
  'f-4': 'url(#t-4)',
  'f-5': 'url(#t-5)',
  'f-ended': 'url(#t-ended)',
};

/** Returns the fill of a shape: a texture of the page, or the one of its class. */
export function painted(fill: string): { readonly class: string; readonly fill?: string } {
  const texture = TEXTURED[fill];
  return texture === undefined ? { class: fill } : { class: fill, fill: texture };
}

export function Textures() {
  const size = { width: 5, height: 5, patternUnits: 'userSpaceOnUse' } as const;
  return (
    <svg class="textures" width="0" height="0" aria-hidden="true" focusable="false">
      <defs>
        <pattern id="t-2" {...size}>
          <rect class="g-2" width="5" height="5" />
          <rect class="t-line" width="1" height="5" />
        </pattern>
        <pattern id="t-3" {...size}>
          <rect class="g-3" width="5" height="5" />
          <circle class="t-line" cx="2.5" cy="2.5" r="1" />
        </pattern>
        <pattern id="t-4" {...size}>
          <rect class="g-4" width="5" height="5" />
          <rect class="t-line" width="5" height="1" />
        </pattern>
        <pattern id="t-5" {...size} patternTransform="rotate(-45)">
          <rect class="g-5" width="5" height="5" />
          <rect class="t-line" width="1" height="5" />
        </pattern>
        <pattern
          id="t-ended"
          width="4"
          height="4"
          patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)"
        >
          <rect class="g-ended" width="4" height="4" />
          <rect class="t-ended" width="1.4" height="4" />
        </pattern>
      </defs>
    </svg>
  );
}

interface Key {
  readonly name: string;
  /** Total, shown after the name. */
  readonly count?: number;
  readonly fill: string;
  readonly href?: string | null | undefined;
}

/** A chart with its name, its key, a sentence that sums it up, and the same numbers as a table. */
export function Figure({
  name,
  wide,
  keys = [],
  note,
  remark = null,
  table = null,
  children,
  ...more
}: {
  name: string;
  wide: 4 | 5 | 6 | 7 | 8 | 12;
  keys?: readonly Key[];
  note?: ComponentChildren;
  remark?: ComponentChildren;
  table?: VNode | null;
  id?: string;
  children: ComponentChildren;
}) {
  return (
    <section class={`panel c${wide}`} aria-label={name} id={more.id}>
      <h2>
        <span>{name}</span>
        {note !== undefined && <small>{note}</small>}
      </h2>
      {keys.length > 0 && (
        <ul class="keys">
          {keys.map((key) => (
            <li key={key.name}>
              <svg width="11" height="11" aria-hidden="true" focusable="false">
                <rect {...painted(key.fill)} width="11" height="11" rx="2" />
              </svg>
              <Linked href={key.href}>
                <bdi>{key.name}</bdi>
                {key.count !== undefined && ` ${count(key.count)}`}
              </Linked>
            </li>
          ))}
        </ul>
      )}
      {children}
      {remark !== null && <p class="remark">{remark}</p>}
      {table !== null && (
        <details class="as-table">
          <summary>
            as table<span class="vh">: {name}</span>
          </summary>
          <section class="scroll" tabindex={0} aria-label={`${name}, as table`}>
            {table}
          </section>
        </details>
      )}
    </section>
  );
}

export function Linked({ href, children }: Pick<Key, 'href'> & { children: ComponentChildren }) {
  return href == null ? <>{children}</> : <a href={href}>{children}</a>;
}

interface Cell {
  readonly text: string;
  readonly href?: string | null;
}

/** Numbers in rows; the first column has the names of the rows. */
export function NumberTable({
  head,
  rows,
}: {
  head: readonly string[];
  rows: readonly (readonly Cell[])[];
}) {
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
        {rows.map((cells, row) => (
          <tr key={row}>
            {cells.map((cell, at) =>
              at === 0 ? (
                <th key={at} scope="row">
                  <CellText cell={cell} isName />
                </th>
              ) : (
                <td key={at} class="r">
                  <CellText cell={cell} />
                </td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A name comes from outside. */
function CellText({ cell: { text, href }, isName }: { cell: Cell; isName?: boolean }) {
  const shown = isName === true ? <bdi>{text}</bdi> : text;
  return href == null ? <>{shown}</> : <Link to={href}>{shown}</Link>;
}
