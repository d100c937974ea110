import { Component, createRef, type VNode } from 'preact';
import type { Density } from './density.ts';
import type { ListModel } from './list-model.ts';
import { ListRow, rowElement } from './list-row.tsx';
import {
  MOST_ROWS,
  positionToShow,
  type RowRange,
  renderedRows,
  rowHeightFor,
  visibleRows,
} from './row-window.ts';

export interface RowsViewProps {
  /** Is given the view while it is there. */
  readonly handle: { current: RowsView | null };
  readonly model: ListModel;
  readonly density: Density;
  /** The id of the selected message. */
  readonly selected: string | null;
  /** What is shown is not what was asked for. */
  readonly isOld: boolean;
  readonly hrefOf: (id: string) => string;
  readonly onOpen: (id: string) => void;
  readonly onKey: (event: KeyboardEvent) => void;
  /** Hears with every frame of a scroll which rows are in view. */
  readonly onShown: (visible: RowRange) => void;
  readonly onRest: (visible: RowRange) => void;
}

/** A scroll rests once it has not moved for so long. Milliseconds. */
const REST_MS = 300;
const NONE: RowRange = { low: 0, high: 0 };

/**
 * The rows in view, of a list of any length. While it scrolls, its position is read once a frame; sizes come from an
 * observer, and nothing else of the layout is asked for.
 */
export class RowsView extends Component<RowsViewProps> {
  readonly #scroller = createRef<HTMLDivElement>();
  readonly #probe = createRef<HTMLDivElement>();
  #observer: ResizeObserver | undefined;
  #model: ListModel | undefined;
  #leave: (() => void) | undefined;
  #rest: number | undefined;
  /** The scroll has come to rest, and nobody has heard of it yet. */
  #isResting = false;
  /** Pixels. */
  #top = 0;
  #height = 0;
  #rowHeight = 54;
  #wantedHeight = 54;
  /** What the position is of: another stretch of the list, or another height of rows, moves it. */
  #epoch = -1;
  #low = 0;
  #mustScroll = true;
  /** Where the scroller is. */
  #scrolledTo = 0;
  #visible = NONE;
  #rendered = NONE;

  /** The rows that are at least partly in view. */
  get visible(): RowRange {
    return this.#visible;
  }

  /** Rows that fit into the view as a whole. */
  get fitting(): number {
    return Math.max(1, Math.floor(this.#height / this.#rowHeight));
  }

  focus(): void {
    this.#scroller.current?.focus({ preventScroll: true });
  }

  /** Scrolls as little as it takes for a row to be in view. */
  show(row: number): void {
    const { runway } = this.props.model;
    const top = positionToShow(row, this.#top, this.#height, this.#rowHeight, runway);
    if (top === this.#top) return;
    this.#top = top;
    this.#mustScroll = true;
    this.#moved();
    this.forceUpdate();
  }

  override componentDidMount(): void {
    this.props.handle.current = this;
    this.#observer = new ResizeObserver((entries) => this.#resized(entries));
    for (const { current } of [this.#scroller, this.#probe])
      if (current !== null) this.#observer.observe(current);
    this.#shown();
  }

  override componentDidUpdate(): void {
    this.#shown();
  }

  override componentWillUnmount(): void {
    this.props.handle.current = null;
    this.#observer?.disconnect();
    this.#leave?.();
    clearTimeout(this.#rest);
  }

  override render({ model, density, selected, isOld, hrefOf, onKey }: RowsViewProps): VNode {
    this.#settle(model);
    const { runway, edges, size } = model;
    const { low, high } = this.#rendered;
    const rows: VNode[] = [];
    let active: string | undefined;
    for (let row = low; row < high; row += 1) {
      const hit = model.at(row);
      const isSelected = hit !== undefined && hit.line.id === selected;
      if (isSelected) active = rowElement(hit.line.id);
      const position = model.position(row);
      rows.push(
        <ListRow
          // Elements are used again for the rows that come into view.
          key={((row % MOST_ROWS) + MOST_ROWS) % MOST_ROWS}
          hit={hit}
          href={hit === undefined ? '' : hrefOf(hit.line.id)}
          top={(row - runway.low) * this.#rowHeight}
          selected={isSelected}
          place={position === null ? undefined : position + 1}
          size={size ?? -1}
        />,
      );
    }
    const isWhole = edges.start === runway.low && edges.end === runway.high;
    return (
      <div
        ref={this.#scroller}
        id="list"
        class={`rows live ${density}${isOld ? ' old' : ''}`}
        role="listbox"
        tabIndex={0}
        aria-label="Messages"
        aria-activedescendant={active}
        aria-busy={isOld || (rows.length === 0 && !isWhole)}
        style={{ '--row-px': `${this.#rowHeight}px` }}
        onScroll={this.#scrolled}
        onKeyDown={onKey}
        onClick={this.#clicked}
      >
        <div ref={this.#probe} class="row-probe" />
        <div class="runway" style={{ height: `${(runway.high - runway.low) * this.#rowHeight}px` }}>
          {rows}
        </div>
      </div>
    );
  }

  /** Finds out which rows are in view, where the list or its numbers have changed. */
  #settle(model: ListModel): void {
    if (model !== this.#model) {
      this.#leave?.();
      this.#leave = model.subscribe(() => this.forceUpdate());
      this.#model = model;
      this.#epoch = -1;
    }
    model.measure(this.#rowHeight);
    const { runway, epoch, top } = model;
    if (epoch !== this.#epoch) {
      this.#top = (top - runway.low) * this.#rowHeight;
      this.#mustScroll = true;
      this.#awaitRest();
    } else if (runway.low !== this.#low) {
      this.#top += (this.#low - runway.low) * this.#rowHeight;
      this.#mustScroll = true;
    }
    this.#epoch = epoch;
    this.#low = runway.low;
    const length = (runway.high - runway.low) * this.#rowHeight;
    this.#top = Math.max(0, Math.min(this.#top, length - this.#height));
    this.#findRows();
  }

  #findRows(): void {
    const { runway } = this.props.model;
    this.#visible = visibleRows(this.#top, this.#height, this.#rowHeight, runway);
    this.#rendered = renderedRows(this.#visible, runway);
  }

  /** After the document has the rows. */
  #shown(): void {
    const { current } = this.#scroller;
    // Setting it costs a layout.
    if (this.#mustScroll && current !== null && this.#top !== this.#scrolledTo) {
      current.scrollTop = this.#top;
      this.#scrolledTo = this.#top;
    }
    this.#mustScroll = false;
    if (this.#height > 0) this.#moved();
    this.#reportRest();
  }

  readonly #scrolled = (): void => {
    const { current } = this.#scroller;
    if (current === null || this.#mustScroll) return;
    this.#top = current.scrollTop;
    this.#scrolledTo = this.#top;
    const before = this.#rendered;
    this.#findRows();
    if (before.low !== this.#rendered.low || before.high !== this.#rendered.high)
      this.forceUpdate();
    else this.#moved();
    this.#awaitRest();
  };

  #awaitRest(): void {
    this.#isResting = false;
    clearTimeout(this.#rest);
    this.#rest = window.setTimeout(() => {
      this.#isResting = true;
      this.props.model.centre();
      this.#reportRest();
    }, REST_MS);
  }

  /** Reports rows that came to rest, once, as soon as it is known which ones they are. */
  #reportRest(): void {
    const { model, onRest } = this.props;
    if (!this.#isResting || model.at(this.#visible.low) === undefined) return;
    this.#isResting = false;
    onRest(this.#visible);
  }

  #moved(): void {
    const { model, onShown } = this.props;
    model.look(this.#visible);
    onShown(this.#visible);
  }

  #resized(entries: readonly ResizeObserverEntry[]): void {
    for (const { target, contentRect } of entries) {
      if (target === this.#probe.current) this.#wantedHeight = contentRect.height;
      else this.#height = contentRect.height;
    }
    const height = rowHeightFor(this.#wantedHeight, this.#height);
    if (height !== this.#rowHeight) {
      // The row at the top stays there.
      this.#top *= height / this.#rowHeight;
      this.#rowHeight = height;
      this.#mustScroll = true;
    }
    this.forceUpdate();
  }

  readonly #clicked = (event: MouseEvent): void => {
    // The keys are the listbox's own, and an element in it that had the focus may become another row.
    this.focus();
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    const row = event.target instanceof Element ? event.target.closest('[role=option]') : null;
    const { model, onOpen } = this.props;
    const id = row?.id.replace('row-', '');
    const found = id === undefined ? undefined : model.find(id);
    const hit = found === undefined ? undefined : model.at(found);
    if (!isPlain || hit === undefined) return;
    event.preventDefault();
    onOpen(hit.line.id);
  };
}
