import type { TargetedPointerEvent } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { dayText } from '../../core/text.ts';
import type { Frame } from '../pages/page.ts';
import { ChangesSince, HistoryBarFrame } from '../pages/shell.tsx';
import { asOfTermText, wholeSecond, withAsOf } from '../query-text.ts';
import { useKeys } from './page-keys.tsx';
import { clamp } from './timeline.tsx';
import { useViewer } from './viewer.ts';

/** From the first commit to now. Milliseconds since the epoch. */
interface TrackRange {
  readonly from: number;
  readonly to: number;
}

interface Changes extends TrackRange {
  readonly columns: readonly { readonly came: number; readonly ended: number }[];
}

export function trackFraction(moment: number, { from, to }: TrackRange): number {
  return to <= from ? 1 : clamp((moment - from) / (to - from));
}

export function momentAt(share: number, { from, to }: TrackRange): number {
  return Math.round(from + clamp(share) * (to - from));
}

/** Returns when the column at a fraction of the track ends: by then, all changes in its bar have happened. */
export function momentAfter(share: number, changes: Changes): number {
  const { length } = changes.columns;
  return momentAt(Math.ceil(share * length) / length, changes);
}

/**
 * Returns a path of rectangles, one unit of width per column. Heights are scaled by square root, so that a busy day
 * does not dwarf the others.
 */
export function columnPath(
  counts: readonly number[],
  { base, height }: { base: number; height: number },
): string {
  const most = Math.max(1, ...counts);
  return counts
    .map((count, column) => {
      if (count === 0) return '';
      const barHeight = Math.max(1, Math.sqrt(count / most) * Math.abs(height)) * Math.sign(height);
      return `M${column} ${base}h.8v${(-barHeight).toFixed(1)}h-.8z`;
    })
    .join('');
}

/** Returns the second at which to start searching for the previous or next change. */
function searchBound(moment: number, direction: 'previous' | 'next'): number {
  return direction === 'next' ? wholeSecond(moment) : Math.floor(moment / 1000) * 1000;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

type TrackMove =
  | { readonly kind: 'change'; readonly direction: 'previous' | 'next' }
  | { readonly kind: 'by'; readonly ms: number }
  | { readonly kind: 'first' | 'now' };

export function trackMove(key: string, shift: boolean): TrackMove | undefined {
  switch (key) {
    case 'ArrowLeft':
    case 'ArrowDown':
      return shift ? { kind: 'by', ms: -HOUR_MS } : { kind: 'change', direction: 'previous' };
    case 'ArrowRight':
    case 'ArrowUp':
      return shift ? { kind: 'by', ms: HOUR_MS } : { kind: 'change', direction: 'next' };
    case 'PageDown':
      return { kind: 'by', ms: -DAY_MS };
    case 'PageUp':
      return { kind: 'by', ms: DAY_MS };
    case 'Home':
      return { kind: 'first' };
    case 'End':
      return { kind: 'now' };
    default:
      return undefined;
  }
}

interface TrackProps {
  readonly changes: Changes;
  /** Milliseconds since the epoch. */
  readonly moment: number;
  readonly onMove: (moment: number) => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

/** Heights of the arrivals above the line and the deletions below it. */
const ABOVE = 34;
const BELOW = 12;
/** Maximum number of dates that fit below a narrow track. */
const DATES = 3;

function Track({ changes, moment, onMove, onKeyDown }: TrackProps) {
  const box = useRef<HTMLDivElement>(null);
  const { columns } = changes;
  const share = trackFraction(moment, changes);
  const move = ({ clientX }: PointerEvent): void => {
    const { left = 0, width = 1 } = box.current?.getBoundingClientRect() ?? {};
    onMove(momentAfter((clientX - left) / width, changes));
  };
  const down = (event: TargetedPointerEvent<HTMLDivElement>): void => {
    if (event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    move(event);
  };
  const path = (of: 'came' | 'ended', height: number): string =>
    columnPath(
      columns.map((column) => column[of]),
      { base: ABOVE, height },
    );
  const [arrivals, deletions] = [path('came', ABOVE), path('ended', -BELOW)];
  const text = `${dayText(moment)} ${new Date(moment).toLocaleTimeString()}`;
  return (
    <div
      ref={box}
      class="track"
      role="slider"
      tabIndex={0}
      aria-label="Moment"
      aria-valuemin={changes.from}
      aria-valuemax={changes.to}
      aria-valuenow={moment}
      aria-valuetext={text}
      onPointerDown={down}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) move(event);
      }}
      onKeyDown={onKeyDown}
    >
      <svg
        viewBox={`0 0 ${columns.length} ${ABOVE + BELOW}`}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        <path class="came later" d={arrivals} />
        <path class="gone later" d={deletions} />
        <svg width={Math.ceil(share * columns.length)} aria-hidden="true">
          <path class="came" d={arrivals} />
          <path class="gone" d={deletions} />
        </svg>
        <path class="line" d={`M0 ${ABOVE}h${columns.length}`} vector-effect="non-scaling-stroke" />
        <path
          class="knob-line"
          d={`M${share * columns.length} 0v${ABOVE + BELOW}`}
          vector-effect="non-scaling-stroke"
        />
      </svg>
      <svg class="knobs" aria-hidden="true">
        <circle class="knob" cx={`${share * 100}%`} cy="50%" r="7" />
      </svg>
      <div class="dates" aria-hidden="true">
        {Array.from({ length: DATES }, (_, i) => (
          <span key={i}>
            {i === DATES - 1 ? 'now' : dayText(momentAt(i / (DATES - 1), changes))}
          </span>
        ))}
      </div>
    </div>
  );
}

interface Change {
  readonly time: number;
}

const COLUMNS = 240;
/** Idle milliseconds before the list and the sidebar follow. */
const REST_MS = 120;

export function LiveHistoryBar({ frame }: { frame: Frame }) {
  const viewer = useViewer();
  const { past, consistency } = frame;
  const [changes, setChanges] = useState<Changes | null>(null);
  const [first, setFirst] = useState<number | null>(null);
  const [moving, setMoving] = useState<number | null>(null);
  const rest = useRef<number | undefined>(undefined);
  const opened = useRef(Date.now());
  useLayoutEffect(
    () => () => {
      clearTimeout(rest.current);
      // The focused element may disappear with the bar.
      if (document.activeElement?.closest('.history-bar') != null)
        document.querySelector<HTMLElement>('.chips button')?.focus();
    },
    [],
  );
  useEffect(() => {
    const asking = new AbortController();
    void viewer.asked<Changes>(`/api/changes?columns=${COLUMNS}`, asking.signal).then((found) => {
      if (found !== undefined) setChanges(found);
    });
    void viewer.asked<Change | null>('/api/changes/next?than=0', asking.signal).then((found) => {
      if (found != null) setFirst(wholeSecond(found.time));
    });
    return () => asking.abort();
  }, [viewer, consistency.commit]);
  // Drops the pending moment once the page shows it, but keeps one that is still loading.
  useEffect(() => {
    const isNamed = (to: number): boolean =>
      asOfTermText(viewer.address.searchParams.get('q') ?? '') === withAsOf('', to);
    setMoving((to) => {
      if (to === null || wholeSecond(to) === past?.asOf) return null;
      return rest.current !== undefined || isNamed(to) ? to : null;
    });
  }, [past?.asOf, viewer]);
  const isNow = past === null && moving === null;
  const moment = moving ?? past?.asOf ?? opened.current;
  // The latest chosen moment, which may not have been drawn yet.
  const at = useRef(moment);
  at.current = moment;
  // Waits `atRest` milliseconds for another move before sending the request.
  const goTo = (to: number, atRest = 0): void => {
    const isPast = to < opened.current;
    clearTimeout(rest.current);
    at.current = to;
    setMoving(isPast ? to : null);
    // Only the first step into the past adds a history entry.
    const replace = past !== null;
    rest.current = window.setTimeout(() => {
      rest.current = undefined;
      viewer.goTo(isPast ? to : null, { replace });
    }, atRest);
  };
  const steps = useRef(Promise.resolve());
  // Steps run one at a time, since each starts where the previous one ended.
  const step = (direction: 'previous' | 'next'): void => {
    steps.current = steps.current.then(async () => {
      const than = searchBound(at.current, direction);
      const found = await viewer.asked<Change | null>(`/api/changes/${direction}?than=${than}`);
      if (found != null) goTo(wholeSecond(found.time));
      else if (found === null && direction === 'next') viewer.goTo(null);
    });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const move = trackMove(event.key, event.shiftKey);
    if (move === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (move.kind === 'change') step(move.direction);
    else if (move.kind === 'by') goTo(moment + move.ms, REST_MS);
    else if (move.kind === 'first') goTo(changes?.from ?? moment);
    else {
      clearTimeout(rest.current);
      viewer.goTo(null);
    }
  };
  useKeys({ previousChange: () => step('previous'), nextChange: () => step('next') });
  const button = (text: string, act: () => void, isDisabled = false) => (
    <button type="button" class="step" disabled={isDisabled} onClick={act}>
      {text}
    </button>
  );
  return (
    <HistoryBarFrame
      moment={moment}
      back={nowAddress(viewer.address)}
      track={
        changes === null ? (
          <div class="track" />
        ) : (
          <Track
            changes={changes}
            moment={moment}
            onMove={(to) => goTo(to, REST_MS)}
            onKeyDown={onKeyDown}
          />
        )
      }
      since={
        past === null ? <span>Drag on the track, or step.</span> : <ChangesSince frame={frame} />
      }
    >
      {button('− day', () => goTo(moment - DAY_MS))}
      {button('+ day', () => goTo(moment + DAY_MS), isNow)}
      {button(
        'previous change',
        () => step('previous'),
        first !== null && wholeSecond(moment) <= first,
      )}
      {button('next change', () => step('next'), isNow)}
      <DateField key={dayText(moment)} moment={moment} onChoose={goTo} />
    </HistoryBarFrame>
  );
}

function nowAddress(address: URL): string {
  const to = new URL(address);
  const query = withAsOf(to.searchParams.get('q') ?? '', null);
  if (query === '') to.searchParams.delete('q');
  else to.searchParams.set('q', query);
  for (const place of ['after', 'at']) to.searchParams.delete(place);
  return to.pathname + to.search;
}

function DateField({ moment, onChoose }: { moment: number; onChoose: (moment: number) => void }) {
  const local = new Date(moment - new Date(moment).getTimezoneOffset() * 60_000);
  return (
    <label class="step">
      <span class="vh">Any moment</span>
      <input
        type="datetime-local"
        value={local.toISOString().slice(0, 16)}
        onChange={(event) => {
          const chosen = new Date(event.currentTarget.value).getTime();
          if (!Number.isNaN(chosen)) onChoose(chosen);
        }}
      />
    </label>
  );
}
