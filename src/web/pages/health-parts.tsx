import type { ComponentChildren } from 'preact';
import { type ClosingSums, closingText, count, span } from '../../core/text.ts';
import type { Linked } from '../health.ts';
import { pageAddress } from '../query-text.ts';
import { Icon, Link } from './icons.tsx';
import { Moment } from './time-band.tsx';

export function Messages({ count: number, query }: Linked) {
  if (number === 0) return <span class="zero">0</span>;
  return query === null ? <span>{count(number)}</span> : <Link q={query}>{count(number)}</Link>;
}

/** The elapsed time, with the moment as its title. */
export function Ago({ at, now }: { at: string | number; now: number }) {
  const time = new Date(at);
  return (
    <time dateTime={time.toISOString()} title={time.toLocaleString('en-GB')}>
      {span(Math.max(0, now - time.getTime()))} ago
    </time>
  );
}

export function Maybe({ at, never }: { at: string | number | null; never: string }) {
  return at === null ? <span class="zero">{never}</span> : <Moment ms={new Date(at).getTime()} />;
}

/** A column of a table. `head` has the names of the rows, `r` has numbers; other kinds are classes of the cells. */
type Column<T> = readonly [
  name: string,
  cell: (row: T) => ComponentChildren,
  kind?: 'head' | 'r' | 'wrap' | 'sentence' | ((row: T) => string | undefined),
];

/** A panel with a table. On a narrow window, the cells of a row are stacked. */
export function TablePanel<T>({
  title,
  note,
  columns,
  rows,
  labelled = true,
}: {
  title: ComponentChildren;
  note?: ComponentChildren;
  columns: readonly Column<T>[];
  rows: readonly T[];
  /** Shows the column's name in each cell on a narrow window. */
  labelled?: boolean;
}) {
  return (
    <section class="panel">
      <h2>
        <span>{title}</span>
        {note !== undefined && <small>{note}</small>}
      </h2>
      <div class="scroll">
        <table class="stacks">
          <thead>
            <tr>
              {columns.map(([name, , kind]) => (
                <th key={name} scope="col" class={kind === 'r' ? 'r' : undefined}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at}>
                {columns.map(([name, cell, kind]) => {
                  const label = { key: name, 'data-label': labelled ? name : undefined };
                  if (kind === 'head')
                    return (
                      <th scope="row" {...label}>
                        {cell(row)}
                      </th>
                    );
                  return (
                    <td class={typeof kind === 'function' ? kind(row) : kind} {...label}>
                      {cell(row)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

interface Sum extends ClosingSums {
  readonly originTotal: number;
}

/** The sum of a folder or a run, worded as in `sync`. */
export function SumText({ originTotal, ...sums }: Sum) {
  return <span>{closingText(sums, originTotal)}</span>;
}

export function PageLinks({
  path,
  parameters = {},
  from,
  step,
  all,
}: {
  path: string;
  parameters?: Readonly<Record<string, string | undefined>>;
  from: number;
  step: number;
  all: number;
}) {
  if (all <= step && from === 0) return null;
  const to = (at: number): string =>
    pageAddress(path, { ...parameters, from: at <= 0 ? undefined : String(at) });
  return (
    <nav class="pages" aria-label="Pages">
      {from > 0 && (
        <a class="btn" href={to(from - step)} rel="prev">
          <Icon name="back" />
          Before
        </a>
      )}
      <span>
        {count(Math.min(all, from + 1))} to {count(Math.min(all, from + step))} of {count(all)}
      </span>
      <span class="spacer" />
      {from + step < all && (
        <a class="btn" href={to(from + step)} rel="next">
          Next
        </a>
      )}
    </nav>
  );
}
