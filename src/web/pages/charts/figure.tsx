import type { ComponentChildren, VNode } from 'preact';
import { painted } from './plot.tsx';

export interface Key {
  readonly name: string;
  /** The class that fills it. */
  readonly fill: string;
  readonly href?: string | null;
}

/** A chart with its name, its key, what it comes to in a sentence, and the same numbers as a table. */
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
  readonly name: string;
  /** Columns of twelve. */
  readonly wide: 4 | 5 | 6 | 7 | 8 | 12;
  readonly keys?: readonly Key[];
  /** What stands at the right of the name. */
  readonly note?: ComponentChildren;
  /** What must be known to read it. */
  readonly remark?: ComponentChildren;
  readonly table?: VNode | null;
  readonly id?: string;
  readonly children: ComponentChildren;
}): VNode {
  return (
    <section class={`panel c${wide}`} aria-label={name} id={more.id}>
      <h2>
        <span>{name}</span>
        {note !== undefined && <small>{note}</small>}
      </h2>
      {keys.length > 0 && (
        <ul class="keys">
          {keys.map(({ name: called, fill, href = null }) => (
            <li key={called}>
              <svg width="11" height="11" aria-hidden="true" focusable="false">
                <rect {...painted(fill)} width="11" height="11" rx="2" />
              </svg>
              {href === null ? (
                <bdi>{called}</bdi>
              ) : (
                <a href={href}>
                  <bdi>{called}</bdi>
                </a>
              )}
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

export interface Cell {
  readonly text: string;
  readonly href?: string | null;
}

/** Numbers in rows; the first column names a row. */
export function NumberTable({
  head,
  rows,
}: {
  readonly head: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}): VNode {
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
                  <CellText cell={cell} />
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

function CellText({ cell: { text, href = null } }: { readonly cell: Cell }): VNode {
  return href === null ? (
    <bdi>{text}</bdi>
  ) : (
    <a class="link" href={href}>
      <bdi>{text}</bdi>
    </a>
  );
}
