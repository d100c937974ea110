import { Component, createRef, type VNode } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { SearchHit } from '../../catalog/search.ts';
import { count } from '../../core/text.ts';
import { DOCIDS_PER_SECOND } from '../../mail/docid.ts';
import { Icon } from '../pages/elements.tsx';
import {
  EmptyList,
  ListHead,
  type ListProps,
  PendingNote,
  RowText,
  rowClasses,
} from '../pages/mail-page.tsx';
import { messageAddress } from '../pages/message-props.ts';
import { ONE_COLUMN } from './focus.ts';
import {
  ListModel,
  type ListQuery,
  MAX_ROWS,
  positionToShow,
  type RowRange,
  RowSource,
  renderedRows,
  rowHeightFor,
  VisibleTimes,
  visibleRows,
} from './list-model.ts';
import { useKeys } from './page-keys.tsx';
import { writePreference as prefer, readPreference as preferred } from './preferences.ts';
import { stepBars, TimelineBarStrip, useTimeline } from './timeline.tsx';
import { useViewer, useViewerState, type Viewer } from './viewer.ts';

/** Row heights: one line, two, or three with matches. */
const DENSITIES = ['compact', 'standard', 'roomy'] as const;
type Density = (typeof DENSITIES)[number];

interface ListRowProps {
  /** Undefined while it is loading. */
  readonly hit: SearchHit | undefined;
  readonly href: string;
  /** Distance from the top of the scroller, in pixels. */
  readonly top: number;
  readonly selected: boolean;
  /** Counted from 1; undefined while unknown. */
  readonly place: number | undefined;
  /** Total rows; -1 while unknown. */
  readonly size: number;
}

function rowElement(id: string): string {
  return `row-${id.slice(0, 16)}`;
}

/** Re-renders only if a property changes. */
class ListRow extends Component<ListRowProps> {
  override shouldComponentUpdate(next: ListRowProps): boolean {
    const names = Object.keys(next) as (keyof ListRowProps)[];
    return names.some((name) => this.props[name] !== next[name]);
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
      // A link, so that it can be opened in another tab. The listbox handles the keys.
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

interface RowsViewProps {
  /** Points to the view while it is mounted. Replaces `ref`, which components receive as a plain property. */
  readonly handle: { current: RowsView | null };
  readonly model: ListModel;
  readonly density: Density;
  readonly selected: string | null;
  readonly isOld: boolean;
  readonly hrefOf: (id: string) => string;
  readonly onOpen: (id: string) => void;
  readonly onKey: (event: KeyboardEvent) => void;
  /** Called on every scroll frame. */
  readonly onShown: (visible: RowRange) => void;
  readonly onRest: (visible: RowRange) => void;
}

/** Scrolling is considered finished after this many milliseconds without movement. */
const ROWS_REST_MS = 300;
const NONE: RowRange = { low: 0, high: 0 };

/**
 * Renders only the visible rows of a list of any length. The scroll position is read once per frame, and sizes come
 * from an observer, so that nothing else forces a layout.
 */
class RowsView extends Component<RowsViewProps> {
  readonly #scroller = createRef<HTMLDivElement>();
  readonly #probe = createRef<HTMLDivElement>();
  #observer: ResizeObserver | undefined;
  #model: ListModel | undefined;
  #leave: (() => void) | undefined;
  #rest: number | undefined;
  /** True if scrolling has stopped, but this has not been reported yet. */
  #isResting = false;
  /** Pixels. */
  #top = 0;
  #height = 0;
  /** Row to show once the height is known. */
  #wanted: number | undefined;
  #rowHeight = 54;
  #wantedHeight = 54;
  /** Row numbers and row height on which the scroll position is based. */
  #epoch = -1;
  #low = 0;
  #mustScroll = true;
  #scrolledTo = 0;
  #visible = NONE;
  #rendered = NONE;

  get visible(): RowRange {
    return this.#visible;
  }

  get fitting(): number {
    return Math.max(1, Math.floor(this.#height / this.#rowHeight));
  }

  focus(): void {
    this.#scroller.current?.focus({ preventScroll: true });
  }

  show(row: number): void {
    if (this.#height === 0) {
      // Not measured yet.
      this.#wanted = row;
      return;
    }
    const { runway } = this.props.model;
    const top = positionToShow(row, this.#top, this.#height, this.#rowHeight, runway);
    if (top === this.#top) return;
    this.#top = top;
    this.#mustScroll = true;
    this.#reportVisible();
    this.forceUpdate();
  }

  override componentDidMount(): void {
    this.props.handle.current = this;
    this.#observer = new ResizeObserver((entries) => this.#resized(entries));
    for (const { current } of [this.#scroller, this.#probe])
      if (current !== null) this.#observer.observe(current);
    this.#onRendered();
  }

  override componentDidUpdate(): void {
    this.#onRendered();
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
          // Elements are reused for the rows that come into view.
          key={((row % MAX_ROWS) + MAX_ROWS) % MAX_ROWS}
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

  #onRendered(): void {
    const { current } = this.#scroller;
    // Setting it forces a layout.
    if (this.#mustScroll && current !== null && this.#top !== this.#scrolledTo) {
      current.scrollTop = this.#top;
      this.#scrolledTo = this.#top;
    }
    this.#mustScroll = false;
    if (this.#height > 0) this.#reportVisible();
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
    else this.#reportVisible();
    this.#awaitRest();
  };

  #awaitRest(): void {
    this.#isResting = false;
    clearTimeout(this.#rest);
    this.#rest = window.setTimeout(() => {
      this.#isResting = true;
      this.props.model.centre();
      this.#reportRest();
    }, ROWS_REST_MS);
  }

  /** Reports the rows at rest once, as soon as they have loaded. */
  #reportRest(): void {
    const { model, onRest } = this.props;
    if (!this.#isResting || model.at(this.#visible.low) === undefined) return;
    this.#isResting = false;
    onRest(this.#visible);
  }

  #reportVisible(): void {
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
      // The top row keeps its position.
      this.#top *= height / this.#rowHeight;
      this.#rowHeight = height;
      this.#mustScroll = true;
    }
    const wanted = this.#wanted;
    this.#wanted = undefined;
    this.forceUpdate();
    if (wanted !== undefined) this.show(wanted);
  }

  readonly #clicked = (event: MouseEvent): void => {
    // The listbox handles the keys; a focused element in it may be reused for another row.
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

/** Number of messages that have arrived since a list was loaded; with `isMore`, at least that many. */
type NewMail = Awaited<ReturnType<RowSource['newerThan']>>;

/** Milliseconds before a message opens while a key is held down. */
const KEY_REST_MS = 120;

/** Opens the messages of a list. The reading pane follows a selection made with the keyboard. */
class FollowingPane {
  #openId: string | undefined;
  #lastMove = -Infinity;
  #timer: number | undefined;

  constructor(private readonly viewer: Viewer) {}

  /** Reports whether this pane opened the message, rather than a link or the browser's history. */
  hasOpened(id: string): boolean {
    return this.#openId === id;
  }

  open(id: string, address: string, replaces: boolean): void {
    clearTimeout(this.#timer);
    this.#openId = id;
    this.viewer.go(address, { replace: replaces });
  }

  /** @param isOpen true if another message is open; this one then replaces its history entry */
  follow(id: string, address: string, isOpen: boolean): void {
    // In one column, messages open only on an explicit key press.
    if (!isOpen && matchMedia(ONE_COLUMN).matches) return;
    const now = performance.now();
    const isFast = now - this.#lastMove < KEY_REST_MS;
    this.#lastMove = now;
    clearTimeout(this.#timer);
    if (!isFast) {
      this.open(id, address, isOpen);
      return;
    }
    const place = this.#place();
    this.#timer = window.setTimeout(() => {
      // The user may have navigated elsewhere since.
      if (this.#place() === place) this.open(id, address, isOpen);
    }, KEY_REST_MS);
  }

  /** Returns the address without the list's top row, which changes during scrolling. */
  #place(): string {
    const place = new URL(this.viewer.address);
    place.searchParams.delete('at');
    return place.href;
  }
}

/**
 * Returns the mail that has arrived since a list was loaded; null if there is none.
 *
 * @param newest the list's newest message; null if the list was empty, undefined if it must be looked up
 * @param news number of updates reported by the server
 */
function useNewMail(source: RowSource, newest: string | null | undefined, news: number): NewMail {
  const [fresh, setFresh] = useState<NewMail>();
  const known = useRef<string | null | undefined>(newest);
  const made = useRef(news);
  useEffect(() => {
    setFresh(undefined);
    known.current = newest;
    made.current = news;
    if (newest !== undefined) return undefined;
    const asking = new AbortController();
    void source.newest(asking.signal).then((found) => {
      if (!asking.signal.aborted) known.current = found;
    });
    return () => asking.abort();
    // Later updates must not repeat the lookup.
  }, [source]);
  useEffect(() => {
    const { current } = known;
    if (news === made.current || current === undefined) return undefined;
    const asking = new AbortController();
    void source.newerThan(current, asking.signal).then((found) => {
      if (found !== undefined && found.count > 0 && !asking.signal.aborted) setFresh(found);
    });
    return () => asking.abort();
  }, [source, news]);
  return fresh;
}

const ID_DIGITS = 16;
/** Height of a row before it is measured, in pixels. */
const ROW_PX = 54;

export function MessageList(props: ListProps) {
  const { list, query, chosen, pending, after } = props;
  const viewer = useViewer();
  const { page, busy, news } = useViewerState();
  const { hits } = list;
  // Each response creates a list. An invalid query has none, so the last valid list is kept with its query.
  const listed = useMemo(() => createList(props, viewer), [hits]);
  const { of, source, model, stretch } = listed;
  const view = useRef<RowsView>(null);
  const [selected, setSelected] = useState<string | null>(null);
  // Key presses can arrive faster than renders.
  const cursor = useRef<string | null>(null);
  const [density, setDensity] = useState(() => preferred('density'));
  const [, setRested] = useState<RowRange | null>(null);
  const pane = useMemo(() => new FollowingPane(viewer), [viewer]);
  const scale = useTimeline(source, of.sort);
  const fresh = useNewMail(source, listed.newest, news);

  useEffect(() => () => model.close(), [model]);
  useEffect(() => model.count(list.all), [model, list.all]);
  useEffect(() => {
    const at = listed.at;
    const row = at === null ? undefined : model.find(at);
    if (row !== undefined) model.showAt(row);
    else if (at !== null) void model.seek({ kind: 'at', from: at });
  }, [listed]);
  useLayoutEffect(() => {
    // A row that the pane follows is already selected. A key pressed before the next frame continues from that row.
    if (chosen !== undefined && !pane.hasOpened(chosen)) choose(chosen);
  }, [chosen, model]);
  useEffect(() => {
    if (chosen === undefined || pane.hasOpened(chosen) || cursor.current !== chosen) return;
    const row = model.find(chosen);
    if (row !== undefined) view.current?.show(row);
  }, [chosen, model]);

  const hasWords = hits.some(
    ({ matches, attachmentMatches }) => matches.length > 0 || attachmentMatches.length > 0,
  );
  const automatic = hasWords ? 'roomy' : 'standard';
  const shownDensity = density === 'auto' ? automatic : density;
  const sort = of.sort === 'newest' ? undefined : of.sort;
  const hrefOf = (id: string): string =>
    messageAddress({ page: 'mail', query: of.query, sort, after }, id, 'thread');
  // The address of an opened message keeps the list's position.
  const addressOf = (id: string): string => {
    const at = viewer.address.searchParams.get('at');
    return at === null ? hrefOf(id) : `${hrefOf(id)}&at=${encodeURIComponent(at)}`;
  };

  const onShown = ({ low, high }: RowRange): void => {
    const first = model.at(low);
    const last = model.at(high - 1) ?? first;
    if (first !== undefined && last !== undefined)
      stretch.set({ top: receivedAt(first), bottom: receivedAt(last) });
  };
  const onRest = (visible: RowRange): void => {
    setRested(visible);
    const first = model.at(visible.low);
    const { searchParams } = viewer.address;
    // The query or order may have changed by now.
    if (!isCurrentList(viewer, of) || first === undefined) return;
    const isTop = model.position(visible.low) === 0;
    const place = isTop ? null : first.line.id.slice(0, ID_DIGITS);
    if (searchParams.get('at') !== place) viewer.note('at', place);
  };
  const choose = (id: string): void => {
    cursor.current = id;
    setSelected(id);
  };
  const onOpen = (id: string): void => {
    choose(id);
    pane.open(id, addressOf(id), false);
  };

  const selectRow = (row: number): void => {
    const { start, end } = model.edges;
    const target = Math.min(Math.max(row, start ?? row), (end ?? row + 1) - 1);
    const hit = model.at(target);
    if (hit === undefined) return;
    choose(hit.line.id);
    view.current?.show(target);
    // Otherwise an opened message would take the focus from the body, and the next arrow key would scroll it.
    if (document.activeElement === document.body) view.current?.focus();
    pane.follow(hit.line.id, addressOf(hit.line.id), chosen !== undefined);
  };
  const selectEnd = async (end: 'first' | 'last'): Promise<void> => {
    const rowAtEnd = (): number | null =>
      end === 'first' ? model.edges.start : model.edges.end && model.edges.end - 1;
    const row = rowAtEnd();
    if (row === null || model.at(row) === undefined) await model.seek({ kind: end });
    selectRow(rowAtEnd() ?? 0);
  };
  const select = (to: number): void => {
    const visible = view.current?.visible ?? { low: 0, high: 0 };
    const { current } = cursor;
    const now = current === null ? undefined : model.find(current);
    if (now !== undefined) selectRow(now + to);
    else selectRow(to > 0 ? visible.low : visible.high - 1);
  };
  const seekBars = (bars: number): void => {
    const time = stretch.now?.top;
    if (scale === null || time === undefined) return;
    // The next key press starts from the rows then in view.
    cursor.current = null;
    const to = stepBars(scale, time, bars);
    if (to !== null) void model.seek({ kind: 'time', time: to });
    else void model.seek({ kind: bars > 0 ? 'last' : 'first' });
  };
  const openSelected = (): boolean => {
    const { current } = cursor;
    if (current === null || current === chosen) return false;
    onOpen(current);
    return true;
  };
  const changeDensity = (): void => {
    const next = DENSITIES[(DENSITIES.indexOf(shownDensity) + 1) % DENSITIES.length] ?? 'standard';
    prefer('density', next);
    setDensity(next);
  };
  const keys = {
    next: () => select(1),
    previous: () => select(-1),
    nextMonth: () => seekBars(1),
    previousMonth: () => seekBars(-1),
    density: changeDensity,
  };
  useKeys(keys);
  const listKeys: Readonly<Record<string, () => unknown>> = {
    ArrowDown: keys.next,
    ArrowUp: keys.previous,
    Home: () => void selectEnd('first'),
    End: () => void selectEnd('last'),
    PageDown: () => select(view.current?.fitting ?? 1),
    PageUp: () => select(-(view.current?.fitting ?? 1)),
    Enter: openSelected,
    'Alt+ArrowDown': keys.nextMonth,
    'Alt+ArrowUp': keys.previousMonth,
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.defaultPrevented) return;
    const act = listKeys[event.altKey ? `Alt+${event.key}` : event.key];
    // The page handles keys that the list does not use.
    if (act === undefined || act() === false) return;
    event.preventDefault();
    event.stopPropagation();
  };

  // A list that starts in the middle may have earlier rows.
  const isNone = list.all?.complete === true && list.all.count === 0;
  const isNothing = hits.length === 0 && (listed.at === null || isNone);

  return (
    <>
      <ListHead
        {...of}
        query={list.searched ?? of.query}
        list={list}
        live={{
          fresh: fresh !== undefined && (
            <button type="button" class="btn fresh" onClick={() => void viewer.refreshList()}>
              {fresh.isMore && 'more than '}
              {count(fresh.count)} new
            </button>
          ),
          density: (
            <button
              type="button"
              class="btn quiet density"
              title={`Rows: ${shownDensity}`}
              aria-label={`Rows: ${shownDensity}. Change`}
              onClick={changeDensity}
            >
              <Icon name="lines" />
            </button>
          ),
        }}
      />
      <PendingNote messages={pending} />
      {isNothing ? (
        <EmptyList query={query} nothing={list.nothing} />
      ) : (
        <div class="listbody">
          <RowsView
            handle={view}
            model={model}
            density={shownDensity}
            selected={selected}
            isOld={(busy && !isCurrentList(viewer, of)) || page.frame.problem !== null}
            hrefOf={hrefOf}
            onOpen={onOpen}
            onKey={onKey}
            onShown={onShown}
            onRest={onRest}
          />
          {scale !== null && (
            <TimelineBarStrip
              scale={scale}
              stretch={stretch}
              position={model.position(view.current?.visible.low ?? 0)}
              size={model.size}
              onSeek={(time, isGlance) => void model.seek({ kind: 'time', time }, isGlance)}
              onStep={seekBars}
              onEnd={(end) => void model.seek({ kind: end })}
            />
          )}
        </div>
      )}
    </>
  );
}

/** Milliseconds before rows outside the view are fetched, because another key press may change the query. */
const REST_MS = 150;

function createList({ list, query, sort }: ListProps, viewer: Viewer) {
  const of = { query, sort };
  const { searched = query } = list;
  const source = new RowSource({ query: searched, sort }, (address, signal) =>
    viewer.asked(address, signal),
  );
  const at = viewer.address.searchParams.get('at');
  const { hits, next, previous } = list;
  const isFirst = previous === null;
  const model = new ListModel(source, { rows: hits, previous, next }, ROW_PX, REST_MS);
  const newest = isFirst && sort === 'newest' ? (hits[0]?.line.id ?? null) : undefined;
  return { of, source, model, stretch: new VisibleTimes(), at, newest };
}

/** When a message was received. Milliseconds since the epoch. */
function receivedAt({ docid }: { docid: number }): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

function isCurrentList(
  { address: { pathname, searchParams } }: Viewer,
  { query, sort }: ListQuery,
) {
  const wanted = searchParams.get('sort') === 'oldest' ? 'oldest' : 'newest';
  return pathname === '/mail' && (searchParams.get('q') ?? '') === query && wanted === sort;
}
