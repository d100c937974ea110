import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count } from '../../../wording/amounts.ts';
import type { ShownStretch, Stretch } from './shown-stretch.ts';
import {
  messagesBefore,
  positionOf,
  type SpineScale,
  slotAt,
  spineLabels,
  timeAt,
} from './spine-scale.ts';
import { DATE_WORDS, slotText, stretchText } from './spine-words.ts';

interface SpineProps {
  readonly scale: SpineScale;
  readonly stretch: ShownStretch;
  /** Rows before the first one in view, and rows in all, as far as they are known. */
  readonly position: number | null;
  readonly size: number | null;
  /** @param isGlance whether the next moment is about to follow */
  readonly onSeek: (time: number, isGlance: boolean) => void;
  readonly onStep: (bars: number) => void;
  readonly onEnd: (end: 'first' | 'last') => void;
}

/** Rows follow a drag after so long. Milliseconds. */
const FOLLOW_MS = 60;
/** Pixels that one word takes. */
const WORD_PX = 15;
/** Pixels of the smallest bracket. */
const BRACKET_PX = 8;
/** Pixels of a wheel for one bar. */
const WHEEL_PX = 60;
/** Bars that PageUp and PageDown pass. */
const PAGE_BARS = 12;

/** The scrollbar of the list: how many messages were received when, and what of them is in view. */
export function Spine(props: SpineProps): VNode {
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
    const place = (shown: Stretch): void => {
      const { current } = bracket;
      if (current === null || height === 0) return;
      const { style } = current;
      const top = positionOf(scale, shown.top) * height;
      const length = Math.max(BRACKET_PX, positionOf(scale, shown.bottom) * height - top);
      style.transform = `translateY(${Math.min(top, Math.max(0, height - length))}px)`;
      style.height = `${Math.min(length, height)}px`;
    };
    if (stretch.now !== null) place(stretch.now);
    // While it is dragged, the bracket is where the pointer is.
    return stretch.subscribe((shown) => {
      if (drag.current === null) place(shown);
    });
  }, [scale, stretch, height]);

  const seekTo = (clientY: number): void => {
    const { current } = drag;
    if (current === null) return;
    const position = Math.min(1, Math.max(0, (clientY - current.top) / current.height));
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
    const act = actionOf(event.key, props);
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
      class={sought === null ? 'spine' : 'spine dragged'}
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
          class="spine-label"
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

function actionOf(key: string, { onStep, onEnd }: SpineProps): (() => void) | undefined {
  switch (key) {
    case 'ArrowDown':
      return () => onStep(1);
    case 'ArrowUp':
      return () => onStep(-1);
    case 'PageDown':
      return () => onStep(PAGE_BARS);
    case 'PageUp':
      return () => onStep(-PAGE_BARS);
    case 'Home':
      return () => onEnd('first');
    case 'End':
      return () => onEnd('last');
    default:
      return undefined;
  }
}

/** Where the list is, in numbers and in words. */
function valueOfScroll({ scale, stretch, position, size }: SpineProps) {
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
 * The bars and the words along them: the same until the query or the height is another. A bar is as long as the root of
 * its number: months with few messages are seen next to one with thousands.
 */
function Bars({ scale, height }: { readonly scale: SpineScale; readonly height: number }): VNode {
  return useMemo(() => {
    const { slots, most } = scale;
    const labels =
      height === 0
        ? []
        : spineLabels(scale, DATE_WORDS, Math.ceil((WORD_PX * slots.length) / height));
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
