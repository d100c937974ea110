import { wallTime } from '../../../search/dates.ts';
import { AS_OF } from '../../../search/operators.ts';
import type { ServedReader } from '../served-archive.ts';
import type { CompletionRequest, OfferedRow as Row } from './shapes.ts';

interface KnownPeriod {
  readonly key: string;
  readonly messages: number;
}

/** A year, or the beginning of one of its months. */
const MONTHS_OF = /^(\d{4})-?\d{0,2}$/;
const MOMENTS: readonly (readonly [string, string])[] = [
  ['yesterday', 'the end of yesterday'],
  ['1w', 'a week ago'],
  ['1mo', 'a month ago'],
  ['1y', 'a year ago'],
];

function row(insert: string, label: string, detail: string, count: number | null): Row {
  return { insert, label, detail, count, kind: 'date' };
}

/** Years and months that have messages, counted once a commit in the zone in which queries are read. */
export class KnownDates {
  #version = -1;
  readonly #periods = new Map<string, readonly KnownPeriod[]>();

  /** Returns today, this month, the last one, and each year; or the months of the year that is typed. */
  rows(
    reader: ServedReader,
    operator: string,
    typed: string,
    { now }: Pick<CompletionRequest, 'now'>,
  ): Row[] {
    const wanted = typed.toLowerCase();
    const month = (count: number): string => {
      const { year, month: current } = wallTime(now);
      return new Date(Date.UTC(year, current - 1 - count, 1)).toISOString().slice(0, 7);
    };
    if (operator === AS_OF)
      return MOMENTS.filter(([text]) => text.startsWith(wanted)).map(([text, detail]) =>
        row(text, text, detail, null),
      );
    const isDate = operator === 'date' || operator === 'on';
    const counted = (unit: 'year' | 'month', key: string): number | null => {
      const found = this.#known(reader, unit).find((period) => period.key === key);
      return isDate ? (found?.messages ?? 0) : null;
    };
    const [year] = MONTHS_OF.exec(wanted)?.slice(1) ?? [];
    const periods = this.#known(reader, year === undefined ? 'year' : 'month')
      .filter(({ key, messages }) => key.startsWith(wanted) && messages > 0)
      .toReversed()
      .map(({ key, messages }) => row(key, key, '', isDate ? messages : null));
    const near = [
      row('today', 'today', '', null),
      row(month(0), 'this month', month(0), counted('month', month(0))),
      row(month(1), 'last month', month(1), counted('month', month(1))),
    ].filter(({ label, insert }) => label.startsWith(wanted) || insert.startsWith(wanted));
    return year === undefined ? [...near, ...periods] : periods;
  }

  #known({ catalog }: ServedReader, unit: 'year' | 'month'): readonly KnownPeriod[] {
    const version = catalog.version();
    if (version !== this.#version) this.#periods.clear();
    this.#version = version;
    const known = this.#periods.get(unit) ?? catalog.stats.rows(unit, {});
    this.#periods.set(unit, known);
    return known;
  }
}
