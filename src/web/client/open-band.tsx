import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { dayText } from '../pages/moment.tsx';
import type { Frame } from '../pages/page.ts';
import { Band, Since } from '../pages/time-band.tsx';
import { asOf, pageAddress } from '../reading/query-text.ts';
import { useKeys } from './keyboard.ts';
import { Track } from './time-track.tsx';
import { type TrackColumn, type TrackRange, trackMove } from './track.ts';
import { useViewer } from './viewer-context.ts';

/** What the archive saw come and end, from its first commit to now. */
interface Changes extends TrackRange {
  readonly columns: readonly TrackColumn[];
}

/** Columns of the track. */
const COLUMNS = 240;
/** Without another move for so long, list and tree follow. Milliseconds. */
const REST_MS = 120;
const DAY_MS = 86_400_000;

/** The band of time travel, open. */
export function OpenBand({ frame }: { readonly frame: Frame }): VNode {
  const viewer = useViewer();
  const { past, query, closing } = frame;
  const [changes, setChanges] = useState<Changes | null>(null);
  const [moving, setMoving] = useState<number | null>(null);
  const rest = useRef<number | undefined>(undefined);
  const opened = useRef(Date.now());
  useEffect(() => () => clearTimeout(rest.current), []);
  useEffect(() => {
    const asking = new AbortController();
    void viewer.asked<Changes>(`/api/changes?columns=${COLUMNS}`, asking.signal).then((found) => {
      if (found !== undefined) setChanges(found);
    });
    return () => asking.abort();
  }, [viewer, closing.commit]);
  // What was asked for is shown now.
  useEffect(() => setMoving(null), [past?.asOf]);
  const moment = moving ?? past?.asOf ?? opened.current;
  const goTo = (to: number, { atRest = 0 }: { readonly atRest?: number } = {}): void => {
    const isPast = to < opened.current;
    clearTimeout(rest.current);
    setMoving(isPast ? to : null);
    // The first step is the history's; the moments on the way are not.
    const replace = past !== null;
    rest.current = window.setTimeout(() => viewer.goTo(isPast ? to : null, { replace }), atRest);
  };
  const step = async (direction: 'previous' | 'next'): Promise<void> => {
    const than = encodeURIComponent(new Date(moment).toISOString());
    const found = await viewer.asked<{ readonly time: number } | null>(
      `/api/changes/${direction}?than=${than}`,
    );
    if (found != null) goTo(found.time);
    else if (found === null && direction === 'next') viewer.goTo(null);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const move = trackMove(event.key, event.shiftKey);
    if (move === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (move.kind === 'change') void step(move.direction);
    else if (move.kind === 'by') goTo(moment + move.ms, { atRest: REST_MS });
    else if (move.kind === 'first') goTo(changes?.from ?? moment);
    else {
      clearTimeout(rest.current);
      viewer.goTo(null);
    }
  };
  useKeys({
    previousChange: () => void step('previous'),
    nextChange: () => void step('next'),
  });
  return (
    <Band
      moment={moment}
      back={pageAddress('/mail', { q: asOf(query, null) })}
      track={
        changes === null ? (
          <div class="track" />
        ) : (
          <Track
            changes={changes}
            moment={moment}
            onMove={(to) => goTo(to, { atRest: REST_MS })}
            onKeyDown={onKeyDown}
          />
        )
      }
      since={
        past === null ? (
          <span>Drag on the track, or step to a change.</span>
        ) : (
          <Since frame={frame} />
        )
      }
    >
      <button type="button" class="step" onClick={() => goTo(moment - DAY_MS)}>
        − day
      </button>
      <button type="button" class="step" onClick={() => goTo(moment + DAY_MS)}>
        + day
      </button>
      <button type="button" class="step" onClick={() => void step('previous')}>
        previous change
      </button>
      <button type="button" class="step" onClick={() => void step('next')}>
        next change
      </button>
      <DateField key={dayText(moment)} moment={moment} onChoose={goTo} />
    </Band>
  );
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
