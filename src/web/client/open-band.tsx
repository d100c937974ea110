import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { dayText } from '../../wording/dates.ts';
import type { Frame } from '../pages/page.ts';
import { Band, Since } from '../pages/time-band.tsx';
import { asOf, asOfWord, namedMoment } from '../reading/query-text.ts';
import { useKeys } from './keyboard.ts';
import { Track } from './time-track.tsx';
import { changeThan, type TrackColumn, type TrackRange, trackMove } from './track.ts';
import { useViewer } from './viewer-context.ts';

/** What the archive saw come and end, from its first commit to now. */
interface Changes extends TrackRange {
  readonly columns: readonly TrackColumn[];
}

/** A commit that something came or ended with. */
interface Change {
  readonly time: number;
}

/** Columns of the track. */
const COLUMNS = 240;
/** Without another move for so long, list and tree follow. Milliseconds. */
const REST_MS = 120;
const DAY_MS = 86_400_000;

/** The band of time travel, open. */
export function OpenBand({ frame }: { readonly frame: Frame }): VNode {
  const viewer = useViewer();
  const { past, closing } = frame;
  const [changes, setChanges] = useState<Changes | null>(null);
  const [first, setFirst] = useState<number | null>(null);
  const [moving, setMoving] = useState<number | null>(null);
  const rest = useRef<number | undefined>(undefined);
  const opened = useRef(Date.now());
  useLayoutEffect(
    () => () => {
      clearTimeout(rest.current);
      // What had the focus goes with the band.
      if (document.activeElement?.closest('.band') != null)
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
      if (found != null) setFirst(namedMoment(found.time));
    });
    return () => asking.abort();
  }, [viewer, closing.commit]);
  // What was asked for is shown now; while it is an earlier moment, the last one is still on its way.
  useEffect(() => {
    const isNamed = (to: number): boolean =>
      asOfWord(viewer.address.searchParams.get('q') ?? '') === asOf('', to);
    setMoving((to) => {
      if (to === null || namedMoment(to) === past?.asOf) return null;
      return rest.current !== undefined || isNamed(to) ? to : null;
    });
  }, [past?.asOf, viewer]);
  const isNow = past === null && moving === null;
  const moment = moving ?? past?.asOf ?? opened.current;
  // Where presses have led, whether or not it is drawn already.
  const at = useRef(moment);
  at.current = moment;
  // Waits `atRest` milliseconds for another move before it asks.
  const goTo = (to: number, atRest = 0): void => {
    const isPast = to < opened.current;
    clearTimeout(rest.current);
    at.current = to;
    setMoving(isPast ? to : null);
    // The first step is the history's; the moments on the way are not.
    const replace = past !== null;
    rest.current = window.setTimeout(() => {
      rest.current = undefined;
      viewer.goTo(isPast ? to : null, { replace });
    }, atRest);
  };
  const steps = useRef(Promise.resolve());
  // One after the other: each begins where the one before has led.
  const step = (direction: 'previous' | 'next'): void => {
    steps.current = steps.current.then(async () => {
      const than = changeThan(at.current, direction);
      const found = await viewer.asked<Change | null>(`/api/changes/${direction}?than=${than}`);
      if (found != null) goTo(namedMoment(found.time));
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
  useKeys({
    previousChange: () => step('previous'),
    nextChange: () => step('next'),
  });
  return (
    <Band
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
      since={past === null ? <span>Drag on the track, or step.</span> : <Since frame={frame} />}
    >
      <button type="button" class="step" onClick={() => goTo(moment - DAY_MS)}>
        − day
      </button>
      <button type="button" class="step" disabled={isNow} onClick={() => goTo(moment + DAY_MS)}>
        + day
      </button>
      <button
        type="button"
        class="step"
        disabled={first !== null && namedMoment(moment) <= first}
        onClick={() => step('previous')}
      >
        previous change
      </button>
      <button type="button" class="step" disabled={isNow} onClick={() => step('next')}>
        next change
      </button>
      <DateField key={dayText(moment)} moment={moment} onChoose={goTo} />
    </Band>
  );
}

/** The address of the same page, and the same message, as of now. */
function nowAddress(address: URL): string {
  const to = new URL(address);
  const query = asOf(to.searchParams.get('q') ?? '', null);
  if (query === '') to.searchParams.delete('q');
  else to.searchParams.set('q', query);
  for (const place of ['after', 'at']) to.searchParams.delete(place);
  return to.pathname + to.search;
}

/** Any moment, typed. */
function DateField({
  moment,
  onChoose,
}: {
  readonly moment: number;
  readonly onChoose: (moment: number) => void;
}): VNode {
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
