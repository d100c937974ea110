import type { VNode } from 'preact';
import { percent } from './scale.ts';

const HIGH = 20;

/** Rows of squares, the darker the more. Each has its number as its title. */
export function Heat({
  rows,
  columns,
  counts,
  titleOf,
}: {
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly counts: readonly (readonly number[])[];
  readonly titleOf: (row: number, column: number) => string;
}): VNode {
  const most = Math.max(1, ...counts.flat());
  const wide = 1 / Math.max(1, columns.length);
  const height = rows.length * HIGH;
  return (
    <div class="chart heat" aria-hidden="true">
      <svg class="axis" height={height + 22} aria-hidden="true" focusable="false">
        {rows.map((name, row) => (
          <text key={name} class="ax" x="100%" y={row * HIGH + 14} text-anchor="end">
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
                y={row * HIGH + 1}
                height={HIGH - 2}
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

/** Steps that the eye tells apart; what is little is never so faint that it looks like nothing. */
function shade(share: number): number {
  return share === 0 ? 0.05 : Math.round((0.16 + 0.84 * share ** 0.8) * 100) / 100;
}
