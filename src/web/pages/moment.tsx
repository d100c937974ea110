import type { VNode } from 'preact';

const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });

const WEEKDAY = new Intl.DateTimeFormat('en-GB', { weekday: 'short' });

/** Returns a weekday such as `Fri`, in the zone of this machine. */
export function weekdayText(ms: number): string {
  return WEEKDAY.format(ms);
}

/** Returns a day such as `20 Nov 2026`, in the zone of this machine. */
export function dayText(ms: number): string {
  return DAY.format(ms);
}

/** Returns a time of day such as ` 14:05`, in the zone of this machine. */
export function clockText(ms: number): string {
  return ` ${TIME.format(ms)}`;
}

/** A time of day alone, in the zone of this machine. */
export function Clock({ ms }: { readonly ms: number }): VNode {
  return (
    <time dateTime={new Date(ms).toISOString()}>
      <span class="clock">{clockText(ms)}</span>
    </time>
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
