import {
  type ComponentChildren,
  cloneElement,
  isValidElement,
  toChildArray,
  type VNode,
} from 'preact';
import { type ClosingSums, closingText, count, span } from '../../core/text.ts';
import type { Linked } from '../health-content.ts';
import { pageAddress } from '../query-text.ts';
import { Icon } from './icons.tsx';
import { Moment } from './time-band.tsx';

/** A number of messages, as a link to these. */
export function Messages({ count: number, query }: Linked): VNode {
  if (number === 0) return <span class="zero">0</span>;
  return query === null ? (
    <span>{count(number)}</span>
  ) : (
    <a class="link" href={pageAddress('/mail', { q: query })}>
      {count(number)}
    </a>
  );
}

/** How long ago something was, with the moment as its title. */
export function Ago({ at, now }: { readonly at: string | number; readonly now: number }): VNode {
  const time = new Date(at);
  return (
    <time dateTime={time.toISOString()} title={time.toLocaleString('en-GB')}>
      {span(Math.max(0, now - time.getTime()))} ago
    </time>
  );
}

/** A moment that may not be known. */
export function Maybe({
  at,
  never,
}: {
  readonly at: string | number | null;
  readonly never: string;
}): VNode {
  return at === null ? <span class="zero">{never}</span> : <Moment ms={new Date(at).getTime()} />;
}

type Head = readonly (readonly [label: string, isNumber: boolean])[];

/** A row of a table. On a narrow window its cells stand below each other, each with the name of its column. */
export function Row({
  head,
  children,
}: {
  readonly head: Head;
  readonly children: ComponentChildren;
}): VNode {
  return (
    <tr>
      {toChildArray(children).map((cell, at) =>
        isValidElement(cell) ? cloneElement(cell, { 'data-label': head[at]?.[0] }) : cell,
      )}
    </tr>
  );
}

/** A panel with a table, whose rows are `Row`s. */
export function TablePanel({
  title,
  note,
  head,
  children,
}: {
  readonly title: ComponentChildren;
  readonly note?: ComponentChildren;
  readonly head: Head;
  readonly children: ComponentChildren;
}): VNode {
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
              {head.map(([label, isNumber]) => (
                <th key={label} scope="col" class={isNumber ? 'r' : undefined}>
                  {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      </div>
    </section>
  );
}

/** The sums of a folder, and what the service counted. */
interface Sum extends ClosingSums {
  readonly originTotal: number;
}

/** The sum of a folder or a run, in the words of `sync`. */
export function SumText({ originTotal, ...sums }: Sum): VNode {
  return <span>{closingText(sums, originTotal)}</span>;
}

/** Links to the page before and the one after, by position. */
export function PageLinks({
  path,
  parameters = {},
  from,
  step,
  all,
}: {
  readonly path: string;
  readonly parameters?: Readonly<Record<string, string | undefined>>;
  readonly from: number;
  readonly step: number;
  readonly all: number;
}): VNode | null {
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

/** Nothing to do. */
export function Fine({ children }: { readonly children: string }): VNode {
  return (
    <p class="strip ok">
      <Icon name="shield" />
      <span>{children}</span>
    </p>
  );
}
