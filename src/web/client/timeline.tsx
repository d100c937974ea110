import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TimelineUnit } from '../../catalog/timeline.ts';
import { count, counted, dayText, monthName, shortMonth } from '../../core/text.ts';
import type { ListBar, ListSort, ListTimeline } from '../mail-list.ts';
import type { RowSource, TimeRange, VisibleTimes } from './list-model.ts';

/** A month, week or day with messages, or a gap of any length between two of them. */
interface TimelineSlot {
  /** Milliseconds since the epoch, from `from` (inclusive) to `to` (exclusive). */
  readonly from: number;
  readonly to: number;
  readonly bar: ListBar | null;
  /** Messages received since the moment that the list shows. */
  readonly later: number;
  readonly before: number;
}

/** The timeline from top to bottom. Positions are fractions of its length, from 0 to 1. */
export type TimelineScale = ReturnType<typeof createScale>;

export function createScale({ bars, unit, messages }: ListTimeline, sort: ListSort) {
  const slots: TimelineSlot[] = [];
  let before = 0;
  for (const bar of sort === 'newest' ? bars.toReversed() : bars) {
    const { from, to, later = 0 } = bar;
    const above = slots.at(-1);
    const gap =
      sort === 'newest'
        ? { from: to, to: above?.from ?? to }
        : { from: above?.to ?? from, to: from };
    if (gap.from < gap.to) slots.push({ ...gap, bar: null, later: 0, before });
    slots.push({ from, to, bar: bar.messages > 0 ? bar : null, later, before });
    before += bar.messages;
  }
  const most = bars.reduce((found, { messages: m, later = 0 }) => Math.max(found, m + later), 0);
  return { sort, unit, slots, messages, most };
}

export function timeAt(scale: TimelineScale, position: number): number {
  const { slots, sort } = scale;
  const slot = slotAt(scale, position);
  if (slot === undefined) return 0;
  const part = clamp(position) * slots.length - slots.indexOf(slot);
  const { from, to } = slot;
  // A slot includes its last moment, but not the first of the next.
  const last = to - 1;
  return Math.round(sort === 'newest' ? last - part * (last - from) : from + part * (last - from));
}

export function slotAt({ slots }: TimelineScale, position: number): TimelineSlot | undefined {
  return slots[Math.min(slots.length - 1, Math.floor(clamp(position) * slots.length))];
}

export function positionOf({ slots, sort }: TimelineScale, time: number): number {
  const at = slots.findIndex(({ from, to }) => (sort === 'newest' ? from <= time : time < to));
  const slot = slots[at];
  if (slot === undefined) return slots.length === 0 ? 0 : 1;
  const last = slot.to - 1;
  const length = Math.max(1, last - slot.from);
  const part = clamp(sort === 'newest' ? (last - time) / length : (time - slot.from) / length);
  return (at + part) / slots.length;
}

/** Estimates the number of messages before a moment, in list order. */
export function messagesBefore(scale: TimelineScale, time: number): number {
  const { slots } = scale;
  const position = positionOf(scale, time);
  const slot = slotAt(scale, position);
  if (slot === undefined) return 0;
  const part = position * slots.length - slots.indexOf(slot);
  return Math.min(
    Math.max(0, scale.messages - 1),
    slot.before + Math.floor(part * (slot.bar?.messages ?? 0)),
  );
}

/** Returns the start of the bar `bars` bars away from a moment, in list order; null beyond the ends. */
export function stepBars(scale: TimelineScale, time: number, bars: number): number | null {
  const filled = scale.slots.filter(({ bar }) => bar !== null);
  const isNewest = scale.sort === 'newest';
  const index = filled.findIndex(({ from, to }) => (isNewest ? from <= time : time < to));
  const slot = filled[(index < 0 ? filled.length : index) + bars];
  if (slot === undefined) return null;
  return isNewest ? slot.to - 1 : slot.from;
}

/** Chooses the labels that fit: years, then months, then days. @param room minimum slots per label */
export function timelineLabels({ slots, unit }: TimelineScale, room: number) {
  const labels: { readonly text: string; readonly slot: number; readonly isYear: boolean }[] = [];
  const isFree = (slot: number) => labels.every((label) => Math.abs(label.slot - slot) >= room);
  // At most three letters each.
  const levels = [
    (date: Date) => `’${String(date.getFullYear()).slice(2)}`,
    (date: Date) => shortMonth(date.getMonth() + 1),
    ...(unit === 'day' ? [(date: Date) => String(date.getDate())] : []),
  ];
  for (const [level, textOf] of levels.entries()) {
    let previous = '';
    for (const [slot, { from, to, bar, later }] of slots.entries()) {
      if (bar === null && later === 0) continue;
      // The midpoint decides, since a week belongs to the month that has most of its days.
      const text = textOf(new Date((from + to) / 2));
      if (text !== previous && isFree(slot)) labels.push({ text, slot, isYear: level === 0 });
      previous = text;
    }
  }
  return labels.toSorted((a, b) => a.slot - b.slot);
}

export function clamp(part: number): number {
  return Number.isNaN(part) ? 0 : Math.min(1, Math.max(0, part));
}

function stretchText(unit: TimelineUnit, { from, to }: Pick<TimelineSlot, 'from' | 'to'>): string {
  switch (unit) {
    case 'month': {
      const date = new Date((from + to) / 2);
      return `${monthName(date.getMonth() + 1)} ${date.getFullYear()}`;
    }
    case 'week':
      return `Week of ${dayText(from)}`;
    case 'day':
      return dayText((from + to) / 2);
  }
}

export function slotText(unit: TimelineUnit, slot: TimelineSlot): string {
  const { bar, later } = slot;
  if (bar === null && later === 0) return 'No messages here';
  const since = later > 0 ? `, ${count(later)} since` : '';
  return `${stretchText(unit, slot)}, ${counted(bar?.messages ?? 0, 'message')}${since}`;
}

interface TimelineProps {
  readonly scale: TimelineScale;
  readonly stretch: VisibleTimes;
  /** Number of rows before the first one in view; null if unknown. */
  readonly position: number | null;
  readonly size: number | null;
  /** `isGlance`: another seek is about to follow. */
  readonly onSeek: (time: number, isGlance: boolean) => void;
  readonly onStep: (bars: number) => void;
  readonly onEnd: (end: 'first' | 'last') => void;
}

/** Milliseconds before the rows follow a drag. */
const FOLLOW_MS = 60;
const WORD_PX = 15;
const BRACKET_PX = 8;
/** Pixels of wheel movement per bar. */
const WHEEL_PX = 60;
const PAGE_BARS = 12;

/** The list's scrollbar. It shows when messages were received, and which are in view. */
export function TimelineBarStrip(props: TimelineProps) {
  const { scale, stretch, onSeek } = props;
  const root = useRef<HTMLDivElement>(null);
  const bracket = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(0);
  const [sought, setSought] = useState<number | null>(null);
  const drag = useRef<{ top: number; height: number; time: number } | null>(null);
  const timer = useRef<number | undefined>(undefined);
  const wheel = useRef(0);

  useEffect(() => {
    const observer = new ResizeObserver((entries) => {
      for (const { contentRect } of entries) setHeight(Math.round(contentRect.height));
    });
    if (root.current !== null) observer.observe(root.current);
    return () => {
      observer.disconnect();
      clearTimeout(timer.current);
    };
  }, []);

  useLayoutEffect(() => {
    const place = (shown: TimeRange): void => {
      const { current } = bracket;
      if (current === null || height === 0) return;
      const { style } = current;
      const top = positionOf(scale, shown.top) * height;
      const length = Math.max(BRACKET_PX, positionOf(scale, shown.bottom) * height - top);
      style.transform = `translateY(${Math.min(top, Math.max(0, height - length))}px)`;
      style.height = `${Math.min(length, height)}px`;
    };
    if (stretch.now !== null) place(stretch.now);
    // During a drag, the bracket follows the pointer.
    return stretch.subscribe((shown) => {
      if (drag.current === null) place(shown);
    });
  }, [scale, stretch, height]);

  const seekTo = (clientY: number): void => {
    const { current } = drag;
    if (current === null) return;
    const position = clamp((clientY - current.top) / current.height);
    current.time = timeAt(scale, position);
    setSought(position);
    if (bracket.current !== null)
      bracket.current.style.transform = `translateY(${Math.min(position * current.height, current.height - BRACKET_PX)}px)`;
    timer.current ??= window.setTimeout(follow, FOLLOW_MS);
  };
  const follow = (): void => {
    timer.current = undefined;
    if (drag.current !== null) onSeek(drag.current.time, true);
  };
  const press = (event: PointerEvent): void => {
    if (event.button !== 0 || root.current === null || scale.slots.length === 0) return;
    root.current.setPointerCapture(event.pointerId);
    const box = root.current.getBoundingClientRect();
    drag.current = { top: box.top, height: Math.max(1, box.height), time: 0 };
    seekTo(event.clientY);
  };
  const release = (): void => {
    clearTimeout(timer.current);
    timer.current = undefined;
    if (drag.current !== null) onSeek(drag.current.time, false);
    drag.current = null;
    setSought(null);
  };
  const turn = (event: WheelEvent): void => {
    wheel.current +=
      event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? event.deltaY : event.deltaY * 20;
    const bars = Math.trunc(wheel.current / WHEEL_PX);
    wheel.current -= bars * WHEEL_PX;
    if (bars !== 0) props.onStep(bars);
  };
  const pressKey = (event: KeyboardEvent): void => {
    const act = new Map([
      ['ArrowDown', () => props.onStep(1)],
      ['ArrowUp', () => props.onStep(-1)],
      ['PageDown', () => props.onStep(PAGE_BARS)],
      ['PageUp', () => props.onStep(-PAGE_BARS)],
      ['Home', () => props.onEnd('first')],
      ['End', () => props.onEnd('last')],
    ]).get(event.key);
    if (act === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  const slot = sought === null ? undefined : slotAt(scale, sought);
  const value = valueOfScroll(props);
  return (
    <div
      ref={root}
      class={sought === null ? 'timeline' : 'timeline dragged'}
      role="scrollbar"
      tabIndex={0}
      aria-controls="list"
      aria-orientation="vertical"
      aria-label="Time of receipt"
      aria-valuemin={1}
      aria-valuemax={value.most}
      aria-valuenow={value.now}
      aria-valuetext={value.text}
      onPointerDown={press}
      onPointerMove={(event) => seekTo(event.clientY)}
      onPointerUp={release}
      onPointerCancel={release}
      onWheel={turn}
      onKeyDown={pressKey}
    >
      <Bars scale={scale} height={height} />
      {scale.slots.length > 0 && <div ref={bracket} class="bracket" />}
      {sought !== null && slot !== undefined && (
        <div
          class="timeline-label"
          aria-hidden="true"
          style={{
            transform: `translateY(${Math.min(Math.max(0, sought * height - 14), Math.max(0, height - 28))}px)`,
          }}
        >
          {slotText(scale.unit, slot)}
        </div>
      )}
    </div>
  );
}

function valueOfScroll({ scale, stretch, position, size }: TimelineProps) {
  const { now: shown } = stretch;
  const all = size ?? scale.messages;
  const before = position ?? (shown === null ? 0 : messagesBefore(scale, shown.top));
  const slot = shown === null ? undefined : slotAt(scale, positionOf(scale, shown.top));
  const when = slot === undefined ? '' : `${stretchText(scale.unit, slot)}, `;
  const most = Math.max(all, 1);
  const now = Math.min(before + 1, most);
  const text = all === 0 ? 'No messages' : `${when}message ${count(now)} of ${count(all)}`;
  return { most, now, text };
}

/**
 * The bars and their labels, which change only with the query or the height. A bar's length is the square root of its
 * message count, so that a month with few messages remains visible next to one with thousands.
 */
function Bars({ scale, height }: { scale: TimelineScale; height: number }) {
  return useMemo(() => {
    const { slots, most } = scale;
    const labels =
      height === 0 ? [] : timelineLabels(scale, Math.ceil((WORD_PX * slots.length) / height));
    return (
      <>
        <svg
          viewBox={`0 0 100 ${Math.max(1, slots.length)}`}
          preserveAspectRatio="none"
          aria-hidden="true"
        >
          {slots.map(({ bar, later }, slot) => {
            const lengthOf = (messages: number) => Math.max(4, Math.sqrt(messages / most) * 100);
            const length = bar === null ? 0 : lengthOf(bar.messages);
            const ended = bar === null ? 0 : (length * (bar.ended ?? 0)) / bar.messages;
            const part = (name: string, x: number, width: number) =>
              width > 0 && <rect class={name} x={x} y={slot + 0.1} width={width} height="0.8" />;
            return (
              <>
                {part('kept', 0, length - ended)}
                {part('gone', length - ended, ended)}
                {later > 0 && part('later', 0, lengthOf((bar?.messages ?? 0) + later))}
              </>
            );
          })}
        </svg>
        {labels.map(({ text, slot, isYear }) => (
          <span
            key={slot}
            class={isYear ? 'year' : undefined}
            aria-hidden="true"
            style={{ top: `${(slot / slots.length) * 100}%` }}
          >
            {text}
          </span>
        ))}
      </>
    );
  }, [scale, height]);
}

/** Milliseconds before a timeline is requested, because the server may take a while to compute one. */
const REST_MS = 150;

/** Returns the timeline of a list, or the previous one while it loads; null if there is none. */
export function useTimeline(source: RowSource, sort: ListSort): TimelineScale | null {
  const [timeline, setTimeline] = useState<ListTimeline | null>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    const asking = new AbortController();
    const ask = async (): Promise<void> => {
      const found = await source.timeline(asking.signal);
      if (found !== undefined && !asking.signal.aborted) setTimeline(found);
    };
    const rest = window.setTimeout(() => void ask(), isFirst.current ? 0 : REST_MS);
    isFirst.current = false;
    return () => {
      clearTimeout(rest);
      asking.abort();
    };
  }, [source]);
  return useMemo(() => (timeline === null ? null : createScale(timeline, sort)), [timeline, sort]);
}
