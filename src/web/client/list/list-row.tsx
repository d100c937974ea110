import { Component, type VNode } from 'preact';
import type { SearchHit } from '../../../catalog/search/hit.ts';
import { RowText, rowClasses } from '../../pages/mail-row.tsx';

export interface ListRowProps {
  /** Undefined while the row is on its way. */
  readonly hit: SearchHit | undefined;
  readonly href: string;
  /** Distance from the top of the scroller, in pixels. */
  readonly top: number;
  readonly selected: boolean;
  /** Place in the list, from 1; undefined while that is not known. */
  readonly place: number | undefined;
  /** Rows in all; -1 while that is not known. */
  readonly size: number;
}

/** Returns the id of a row's element. */
export function rowElement(id: string): string {
  return `row-${id.slice(0, 16)}`;
}

/** A row of the list at its place: made again only where something of it is another. */
export class ListRow extends Component<ListRowProps> {
  override shouldComponentUpdate(next: ListRowProps): boolean {
    const { hit, href, top, selected, place, size } = this.props;
    return !(
      hit === next.hit &&
      href === next.href &&
      top === next.top &&
      selected === next.selected &&
      place === next.place &&
      size === next.size
    );
  }

  override render({ hit, href, top, selected, place, size }: ListRowProps): VNode {
    const style = { transform: `translateY(${top}px)` };
    if (hit === undefined)
      return (
        <div class="row bones" aria-hidden="true" style={style}>
          <i />
          <i />
          <i />
        </div>
      );
    return (
      // An option that is a link: it opens in another tab as links do. The keys are those of the listbox.
      <a
        class={rowClasses(hit)}
        role="option"
        id={rowElement(hit.line.id)}
        href={href}
        tabindex={-1}
        aria-selected={selected}
        aria-setsize={size}
        aria-posinset={place}
        style={style}
      >
        <RowText hit={hit} />
      </a>
    );
  }
}
