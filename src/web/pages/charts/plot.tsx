import type { ComponentChildren, VNode } from 'preact';
import { percent } from './scale.ts';

/** Height of the stretch below the plot that the labels of the horizontal axis take. */
const BELOW = 22;
/** Height of the stretch above it, so that the topmost mark has room. */
export const ABOVE = 12;

export interface Mark {
  /** From 0 at the left or the bottom to 1. */
  readonly at: number;
  readonly text: string;
}

/**
 * The frame of a chart. The plot grows with the window while text keeps its size: whatever is in it stands at shares of
 * the width, and what needs paths is in `Stretched`. Readers skip it: a table next to it has the same numbers.
 */
export function Plot({
  height,
  marks,
  labels,
  children,
  ...more
}: {
  /** Of the plot alone, in pixels. */
  readonly height: number;
  /** Of the vertical axis, with lines; from the bottom. */
  readonly marks: readonly Mark[];
  /** Of the horizontal axis. */
  readonly labels: readonly Mark[];
  readonly class?: string | undefined;
  readonly children: ComponentChildren;
}): VNode {
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

/** The distance of a share of the height from the top, to a tenth of a pixel. */
function level(at: number, height: number): number {
  return Math.round(height * (1 - at) * 10) / 10;
}

/** Width of the coordinates of `Stretched`. */
export const WIDE = 1000;

/** Paths in coordinates of `WIDE` by the height of the plot, stretched to its width. */
export function Stretched({
  height,
  children,
}: {
  readonly height: number;
  readonly children: ComponentChildren;
}): VNode {
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

/** What a bar leads to. The table has the same links, so that the keyboard need not pass every bar. */
export function BarLink({
  href,
  title,
  children,
}: {
  readonly href: string | null;
  readonly title: string;
  readonly children: ComponentChildren;
}): VNode {
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

/** Series are told apart by their texture too: solid, upright lines, dots, level lines, slanting lines. */
export const FILLS = ['f-1', 'f-2', 'f-3', 'f-4', 'f-5'] as const;

const TEXTURED: Readonly<Record<string, string>> = {
  'f-2': 'url(#t-2)',
  'f-3': 'url(#t-3)',
  'f-4': 'url(#t-4)',
  'f-5': 'url(#t-5)',
  'f-ended': 'url(#t-ended)',
};

/** Returns how a shape is filled: with a texture of the page, or as its class says. */
export function painted(fill: string): { readonly class: string; readonly fill?: string } {
  const texture = TEXTURED[fill];
  return texture === undefined ? { class: fill } : { class: fill, fill: texture };
}

/** The textures of a page, once. */
export function Textures(): VNode {
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
