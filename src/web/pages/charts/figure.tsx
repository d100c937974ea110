import type { ComponentChildren, VNode } from 'preact';
import { count } from '../../../wording/amounts.ts';
import { painted } from './plot.tsx';

export interface Key {
  readonly name: string;
  /** What it comes to, behind its name. */
  readonly count?: number;
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
          {keys.map((key) => (
            <li key={key.name}>
              <svg width="11" height="11" aria-hidden="true" focusable="false">
                <rect {...painted(key.fill)} width="11" height="11" rx="2" />
              </svg>
              {key.href == null ? (
                <KeyText of={key} />
              ) : (
                <a href={key.href}>
                  <KeyText of={key} />
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

function KeyText({ of: { name, count: number } }: { readonly of: Key }): VNode {
  return (
    <>
      <bdi>{name}</bdi>
      {number !== undefined && ` ${count(number)}`}
    </>
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

function CellText({
  cell: { text, href = null },
  isName = false,
}: {
  readonly cell: Cell;
  /** Strangers chose it. */
  readonly isName?: boolean;
}): VNode {
  const shown = isName ? <bdi>{text}</bdi> : text;
  return href === null ? (
    <>{shown}</>
  ) : (
    <a class="link" href={href}>
      {shown}
    </a>
  );
}
