import type { TargetedPointerEvent, VNode } from 'preact';
import { useRef } from 'preact/hooks';
import { dayText } from '../../wording/dates.ts';
import {
  columnPath,
  momentAfter,
  momentAt,
  shareOf,
  type TrackColumn,
  type TrackRange,
} from './track.ts';

interface TrackProps {
  readonly changes: TrackRange & { readonly columns: readonly TrackColumn[] };
  /** Milliseconds since the epoch. */
  readonly moment: number;
  readonly onMove: (moment: number) => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

/** Heights of what came, above the line, and of what ended, below it. */
const ABOVE = 34;
const BELOW = 12;
/** Dates below the track: as many as a narrow one has room for. */
const DATES = 3;

/** The track: linear from the first commit to now, with what came and what ended. */
export function Track({ changes, moment, onMove, onKeyDown }: TrackProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const { columns } = changes;
  const share = shareOf(moment, changes);
  const move = ({ clientX }: PointerEvent): void => {
    const { left = 0, width = 1 } = box.current?.getBoundingClientRect() ?? {};
    onMove(momentAfter((clientX - left) / width, changes));
  };
  const down = (event: TargetedPointerEvent<HTMLDivElement>): void => {
    if (event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    move(event);
  };
  const path = (numbers: readonly number[], height: number): string =>
    columnPath(numbers, { base: ABOVE, height });
  const came = path(
    columns.map((column) => column.came),
    ABOVE,
  );
  const gone = path(
    columns.map((column) => column.ended),
    -BELOW,
  );
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
        <path class="came later" d={came} />
        <path class="gone later" d={gone} />
        <svg width={Math.ceil(share * columns.length)} aria-hidden="true">
          <path class="came" d={came} />
          <path class="gone" d={gone} />
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
