import type { VNode } from 'preact';
import { clockText, dayText } from '../../wording/dates.ts';

/** A time of day alone, in the zone of this machine. */
export function Clock({ ms }: { readonly ms: number }): VNode {
  return (
    <time dateTime={new Date(ms).toISOString()}>
      <span class="clock">{clockText(ms)}</span>
    </time>
  );
}

/** When a message was received; ISO 8601, or null for one without a date. */
export function Received({
  date,
  day = false,
}: {
  readonly date: string | null;
  readonly day?: boolean;
}): VNode {
  return date === null ? (
    <span class="when">no date</span>
  ) : (
    <Moment ms={Date.parse(date)} day={day} />
  );
}

/** A moment such as `20 Nov 2026 14:05` in the zone of this machine; `day` leaves the time out. */
export function Moment({
  ms,
  day = false,
}: {
  readonly ms: number;
  readonly day?: boolean;
}): VNode {
  return (
    <time dateTime={new Date(ms).toISOString()}>
      {dayText(ms)}
      {!day && <span class="clock">{clockText(ms)}</span>}
    </time>
  );
}
