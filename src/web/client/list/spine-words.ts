import type { SpineUnit } from '../../../catalog/timeline/calendar.ts';
import { count, counted } from '../../../wording/amounts.ts';
import type { DateWords, SpineSlot } from './spine-scale.ts';

const formats = (options: Intl.DateTimeFormatOptions) => {
  const format = new Intl.DateTimeFormat('en-GB', options);
  return (time: number): string => format.format(time);
};
const month = formats({ month: 'long', year: 'numeric' });
const day = formats({ day: 'numeric', month: 'short', year: 'numeric' });
const shortMonth = formats({ month: 'short' });
const shortDay = formats({ day: 'numeric' });
const shortYear = formats({ year: '2-digit' });

/** Words along the spine. */
export const DATE_WORDS: DateWords = {
  year: (time) => `’${shortYear(time)}`,
  // Three letters: there is no room for `Sept`.
  month: (time) => shortMonth(time).slice(0, 3),
  day: shortDay,
};

/** Returns what a stretch of the spine is called: `March 2024`, `Week of 4 Mar 2024`, `4 Mar 2024`. */
export function stretchText(unit: SpineUnit, { from, to }: Pick<SpineSlot, 'from' | 'to'>): string {
  switch (unit) {
    case 'month':
      return month((from + to) / 2);
    case 'week':
      return `Week of ${day(from)}`;
    case 'day':
      return day((from + to) / 2);
  }
}

/** Returns what is said of a stretch while it is sought: its name, and how many messages it has. */
export function slotText(unit: SpineUnit, slot: SpineSlot): string {
  const { bar, later } = slot;
  if (bar === null && later === 0) return 'No messages here';
  const since = later > 0 ? `, ${count(later)} since` : '';
  return `${stretchText(unit, slot)}, ${counted(bar?.messages ?? 0, 'message')}${since}`;
}
