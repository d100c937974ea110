import type { VNode } from 'preact';
import { painted } from './plot.tsx';
import { percent } from './scale.ts';

export interface BarPart {
  readonly value: number;
  readonly fill: string;
  readonly href: string | null;
  readonly title: string;
}

export interface BarRow {
  readonly name: string;
  readonly href: string | null;
  readonly parts: readonly BarPart[];
  /** What the bar comes to. */
  readonly text: string;
}

/** A list of level bars: readable as text, with the bar as a picture of it. */
export function Bars({ rows }: { readonly rows: readonly BarRow[] }): VNode {
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

function BarPicture({
  parts,
  most,
}: {
  readonly parts: readonly BarPart[];
  readonly most: number;
}): VNode {
  let before = 0;
  return (
    <svg width="100%" height="10" aria-hidden="true" focusable="false">
      {parts.map(({ value, fill, href, title }) => {
        const x = before / most;
        before += value;
        const bar = (
          <rect
            {...painted(fill)}
            x={percent(x)}
            width={percent(value / most)}
            height="10"
            rx="1.5"
          >
            <title>{title}</title>
          </rect>
        );
        return href === null ? (
          <g key={title}>{bar}</g>
        ) : (
          <a key={title} href={href} tabindex={-1}>
            {bar}
          </a>
        );
      })}
    </svg>
  );
}
