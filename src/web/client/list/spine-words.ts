import type { SpineUnit } from '../../../catalog/timeline/calendar.ts';
import { count, counted } from '../../../wording/amounts.ts';
import { dayText, monthName, shortMonth } from '../../../wording/dates.ts';
import type { DateWords, SpineSlot } from './spine-scale.ts';

/** Words along the spine. There is room for three letters. */
export const DATE_WORDS: DateWords = {
  year: (time) => `’${String(new Date(time).getFullYear()).slice(2)}`,
  month: (time) => shortMonth(new Date(time).getMonth() + 1),
  day: (time) => String(new Date(time).getDate()),
};

/** Returns what a stretch of the spine is called: `March 2024`, `Week of 4 Mar 2024`, `4 Mar 2024`. */
export function stretchText(unit: SpineUnit, { from, to }: Pick<SpineSlot, 'from' | 'to'>): string {
  switch (unit) {
    case 'month':
      return monthText((from + to) / 2);
    case 'week':
      return `Week of ${dayText(from)}`;
    case 'day':
      return dayText((from + to) / 2);
  }
}

function monthText(time: number): string {
  const date = new Date(time);
  return `${monthName(date.getMonth() + 1)} ${date.getFullYear()}`;
}

/** Returns what is said of a stretch while it is sought: its name, and how many messages it has. */
export function slotText(unit: SpineUnit, slot: SpineSlot): string {
  const { bar, later } = slot;
  if (bar === null && later === 0) return 'No messages here';
  const since = later > 0 ? `, ${count(later)} since` : '';
  return `${stretchText(unit, slot)}, ${counted(bar?.messages ?? 0, 'message')}${since}`;
}
