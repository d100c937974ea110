import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { DOCIDS_PER_SECOND } from '../../../mail/docid.ts';
import { type ListProps, Nothing, Pending } from '../../pages/mail-list.tsx';
import { pageAddress } from '../../reading/query-text.ts';
import { attachList, cycleDensity, showNewMail } from '../list-cursor.ts';
import { choose as prefer, chosen as preferred } from '../preferences.ts';
import type { Viewer } from '../viewer.ts';
import { useShown, useViewer } from '../viewer-context.ts';
import { densityFor, nextDensity } from './density.ts';
import { FollowingPane } from './following-pane.ts';
import { ListHead } from './list-head.tsx';
import { listKey } from './list-keys.ts';
import { ListModel } from './list-model.ts';
import { useNewMail } from './new-mail.ts';
import { type ListQuery, RowSource } from './row-source.ts';
import type { RowRange } from './row-window.ts';
import { RowsView } from './rows-view.tsx';
import { ShownStretch } from './shown-stretch.ts';
import { Spine } from './spine.tsx';
import { stepFrom } from './spine-scale.ts';
import { useSpine } from './use-spine.ts';

/** Digits of an id that addresses have. */
const ID_DIGITS = 16;
/** Pixels of a row before it was measured. */
const ROW_PX = 54;

/** What the list is of, and what is known of its rows. */
interface Listed {
  readonly of: ListQuery;
  readonly source: RowSource;
  readonly model: ListModel;
  readonly stretch: ShownStretch;
  /** Where the address wants it to begin. */
  readonly at: string | null;
  readonly newest: string | null | undefined;
}

/** The list of what a query finds: every row of it in one scroller, its scrollbar a line of time. */
export function MessageList(props: ListProps): VNode {
  const { list, query, chosen, pending, after } = props;
  const viewer = useViewer();
  const { page, busy, news } = useShown();
  const { hits } = list;
  // Another answer is another list. A query with an error has none: the last good one stays, and its query with it.
  const listed = useMemo(() => listedOf(props, viewer), [hits]);
  const { of, source, model, stretch } = listed;
  const view = useRef<RowsView>(null);
  const [selected, setSelected] = useState<string | null>(null);
  // Keys come faster than the page is made again.
  const cursor = useRef<string | null>(null);
  const [density, setDensity] = useState(() => preferred('density'));
  const [, setRested] = useState<RowRange | null>(null);
  const pane = useMemo(() => new FollowingPane(viewer), [viewer]);
  const scale = useSpine(source, of.sort);
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
    // A row that the pane follows is selected already. A key pressed before the next frame continues from that row.
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
  const shownDensity = densityFor(density, hasWords);
  const hrefOf = (id: string): string =>
    pageAddress('/mail', {
      q: of.query,
      sort: of.sort === 'newest' ? undefined : of.sort,
      after,
      m: id.slice(0, ID_DIGITS),
    });
  const addressOf = (id: string): string => withPlace(hrefOf(id), viewer);

  const onShown = ({ low, high }: RowRange): void => {
    const first = model.at(low);
    const last = model.at(high - 1) ?? first;
    if (first !== undefined && last !== undefined)
      stretch.set({ top: timeOf(first), bottom: timeOf(last) });
  };
  const onRest = (visible: RowRange): void => {
    setRested(visible);
    const first = model.at(visible.low);
    const { searchParams } = viewer.address;
    // Another query or order may be asked for by now, whose list begins where it begins.
    if (!isAsked(viewer, of) || first === undefined) return;
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
    const wanted = Math.min(Math.max(row, start ?? row), (end ?? row + 1) - 1);
    const hit = model.at(wanted);
    if (hit === undefined) return;
    choose(hit.line.id);
    view.current?.show(wanted);
    // A message that is opened next to the list would get a focus that is nowhere, and the next arrow would scroll it.
    if (document.activeElement === document.body) view.current?.focus();
    pane.follow(hit.line.id, addressOf(hit.line.id), chosen !== undefined);
  };
  const selectEnd = async (end: 'first' | 'last'): Promise<void> => {
    const { start, end: behind } = model.edges;
    const row = end === 'first' ? start : behind === null ? null : behind - 1;
    if (row === null || model.at(row) === undefined) await model.seek({ kind: end });
    const { start: first, end: last } = model.edges;
    selectRow(end === 'first' ? (first ?? 0) : (last ?? 1) - 1);
  };
  const select = (to: number | 'first' | 'last'): void => {
    if (typeof to === 'string') {
      void selectEnd(to);
      return;
    }
    const visible = view.current?.visible ?? { low: 0, high: 0 };
    const { current } = cursor;
    const now = current === null ? undefined : model.find(current);
    if (now !== undefined) selectRow(now + to);
    else selectRow(to > 0 ? visible.low : visible.high - 1);
  };
  const seekBars = (bars: number): void => {
    const time = stretch.now?.top;
    if (scale === null || time === undefined) return;
    // The next key selects among the rows that are shown then.
    cursor.current = null;
    const to = stepFrom(scale, time, bars);
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
    const next = nextDensity(shownDensity);
    prefer('density', next);
    setDensity(next);
  };
  const showNew = (): void => {
    if (fresh !== null) void viewer.refreshList();
  };
  // A key that comes as soon as the spine is seen finds the list that has it.
  useLayoutEffect(() =>
    attachList({
      select,
      selectPage: (windows) => select(windows * (view.current?.fitting ?? 1)),
      open: openSelected,
      seekBars,
      cycleDensity: changeDensity,
      showNew,
    }),
  );

  // Nothing may come from a place on, and all of it before.
  const isNone = list.all?.complete === true && list.all.count === 0;
  const isNothing = hits.length === 0 && (listed.at === null || isNone);

  return (
    <>
      <ListHead
        {...{ of, list, fresh }}
        density={shownDensity}
        onNew={showNewMail}
        onDensity={cycleDensity}
      />
      <Pending messages={pending} />
      {isNothing ? (
        <Nothing query={query} nothing={list.nothing} />
      ) : (
        <div class="listbody">
          <RowsView
            handle={view}
            model={model}
            density={shownDensity}
            selected={selected}
            isOld={isOld(viewer, of, busy) || page.frame.problem !== null}
            hrefOf={hrefOf}
            onOpen={onOpen}
            onKey={listKey}
            onShown={onShown}
            onRest={onRest}
          />
          {scale !== null && (
            <Spine
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

/** Where a query is typed, another key may follow: what is not in view yet waits so long. Milliseconds. */
const REST_MS = 150;

function listedOf({ list, query, sort, after }: ListProps, viewer: Viewer): Listed {
  const of = { query, sort };
  const source = new RowSource(of, (address, signal) => viewer.asked(address, signal));
  const at = viewer.address.searchParams.get('at');
  const { hits, next } = list;
  // A list that begins in its middle does not say what comes before.
  const isFirst = at === null && after === undefined;
  const previous = isFirst ? null : (hits[0]?.line.id ?? null);
  const model = new ListModel(source, { rows: hits, previous, next }, ROW_PX, REST_MS);
  const newest = isFirst && sort === 'newest' ? (hits[0]?.line.id ?? null) : undefined;
  return { of, source, model, stretch: new ShownStretch(), at, newest };
}

/** When a message was received. Milliseconds since the epoch. */
function timeOf({ docid }: { readonly docid: number }): number {
  return Math.floor(docid / DOCIDS_PER_SECOND) * 1000;
}

/** The place of the list in the address stays with a message that is opened. */
function withPlace(address: string, viewer: Viewer): string {
  const at = viewer.address.searchParams.get('at');
  return at === null ? address : `${address}&at=${encodeURIComponent(at)}`;
}

/** Whether the address asks for another list than the one that is shown. */
function isOld(viewer: Viewer, of: ListQuery, busy: boolean): boolean {
  return busy && !isAsked(viewer, of);
}

/** Whether the address asks for a list. */
function isAsked({ address: { pathname, searchParams } }: Viewer, { query, sort }: ListQuery) {
  const wanted = searchParams.get('sort') === 'oldest' ? 'oldest' : 'newest';
  return pathname === '/mail' && (searchParams.get('q') ?? '') === query && wanted === sort;
}
