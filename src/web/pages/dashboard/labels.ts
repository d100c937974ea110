import { dayText, type Period, timeText, type Unit } from '../../reading/dashboard/periods.ts';
import { pageAddress } from '../../reading/query-text.ts';
import type { Mark } from '../charts/plot.tsx';
import { labelled } from '../charts/scale.ts';

/** Labels of an axis of time at most, so that they fit on a narrow window too. */
const MOST_LABELS = 4;
/** The same of long ones: with a year or an hour. */
const MOST_LONG_LABELS = 3;

/** Returns the address of what a query finds. */
export function found(query: string): string {
  return pageAddress('/mail', { q: query });
}

/** Returns a query with a term behind it. */
export function joined(query: string, term: string): string {
  return `${query} ${term}`.trim();
}

/** Returns the labels below bars of time: years below months, else days, or hours. */
export function timeLabels(unit: Unit, periods: readonly Period[], zone: string): Mark[] {
  const count = periods.length;
  if (unit === 'month' && count > 24) return yearLabels(periods);
  const isLong = unit === 'hour' || unit === 'month';
  return labelled(count, isLong ? MOST_LONG_LABELS : MOST_LABELS).map((at) => {
    const from = periods[at]?.from ?? 0;
    const text =
      unit === 'hour'
        ? timeText(from, zone).replace(/ \d{4} /, ' ')
        : unit === 'month'
          ? shortYear(periods[at]?.label ?? '')
          : dayText(from, zone).replace(/ \d{4}$/, '');
    return { at: (at + 0.5) / count, text };
  });
}

/** Returns `Mar ’26` for `Mar 2026`: three of them fit below the narrowest chart. */
function shortYear(label: string): string {
  return label.replace(/ \d\d(\d\d)$/, ' ’$1');
}

function yearLabels(periods: readonly Period[]): Mark[] {
  const years = periods.flatMap(({ label }, at) =>
    label.startsWith('Jan ') ? [{ at: at / periods.length, text: label.slice(4) }] : [],
  );
  return labelled(years.length, MOST_LABELS + 2).flatMap((at) => years[at] ?? []);
}

const UNITS: Readonly<Record<Unit, string>> = {
  hour: 'an hour',
  day: 'a day',
  week: 'a week',
  month: 'a month',
};

/** Returns `a day` or the like. */
export function each(unit: Unit): string {
  return UNITS[unit];
}
