import { namedMoment } from '../reading/query-text.ts';

/** Where on the track of the time band a moment stands. Moments are milliseconds since the epoch. */
export interface TrackRange {
  /** The first commit: before it nothing was observed. */
  readonly from: number;
  readonly to: number;
}

/** What came and what ended while a column of the track lasted. */
export interface TrackColumn {
  readonly came: number;
  readonly ended: number;
}

/** Returns the share of the track, 0 to 1, that lies before a moment. */
export function shareOf(moment: number, { from, to }: TrackRange): number {
  return to <= from ? 1 : Math.min(1, Math.max(0, (moment - from) / (to - from)));
}

export function momentAt(share: number, { from, to }: TrackRange): number {
  return Math.round(from + Math.min(1, Math.max(0, share)) * (to - from));
}

/** Returns the end of the column at a share of the track: what the bar there counts has happened by then. */
export function momentAfter(
  share: number,
  track: TrackRange & { readonly columns: readonly TrackColumn[] },
): number {
  const { length } = track.columns;
  return momentAt(Math.ceil(share * length) / length, track);
}

/** Columns as a path of rectangles in a box as wide as there are columns; heights are roots, so that one day's flood hides no other. */
export function columnPath(
  counts: readonly number[],
  { base, height }: { readonly base: number; readonly height: number },
): string {
  const most = Math.max(1, ...counts);
  return counts
    .map((count, column) => {
      if (count === 0) return '';
      const tall = Math.max(1, Math.sqrt(count / most) * Math.abs(height)) * Math.sign(height);
      return `M${column} ${base}h.8v${(-tall).toFixed(1)}h-.8z`;
    })
    .join('');
}

/** Returns than when a change is looked for: one of an earlier second than a moment, or of a later one. */
export function changeThan(moment: number, direction: 'previous' | 'next'): number {
  return direction === 'next' ? namedMoment(moment) : Math.floor(moment / 1000) * 1000;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** What a key does on the track: to the next change, by a time, or to an end. */
export type TrackMove =
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
