import type { Connection } from '../connection.ts';
import type { View } from './conditions.ts';
import type { Observed } from './formula.ts';

/** Messages of a stretch of time that are looked at to learn where they are: more are most of the archive. */
const LOOKED_AT = 20_000;

/** Which commits a stretch of time has, and where their messages are. */
export class ObservedCommits {
  constructor(
    private readonly connection: Connection,
    private readonly view: View,
  ) {}

  /**
   * Returns the commits from a time (included) up to another, milliseconds since the epoch, null for no end; undefined
   * where there is none.
   */
  between(from: number | null, to: number | null): Omit<Observed, 'what'> | undefined {
    const isWithin = [
      ...(from === null ? [] : [`time >= ${from}`]),
      ...(to === null ? [] : [`time < ${to}`]),
    ].join(' AND ');
    const [[low, high] = [null, null]] = this.connection.values<
      readonly [number | null, number | null]
    >(`SELECT min(number), max(number) FROM commits WHERE ${isWithin}`);
    if (low === null || high === null) return undefined;
    const except = this.connection.column<number>(
      `SELECT number FROM commits WHERE number > ${low} AND number < ${high} AND NOT (${isWithin})`,
      [],
    );
    return { low, high, except };
  }

  /**
   * Returns between which docids the messages are, from `low` (included) to `high` (excluded): mail of a day was mostly
   * received on that day. Null where they may be anywhere.
   */
  docidsOf({ what, low, high }: Observed): { readonly low: number; readonly high: number } | null {
    const { asOf, scope } = this.view;
    // What some mailboxes got later was stored before, and what was deleted then may be back.
    if (scope !== null || (what === 'deleted' && asOf !== null)) return null;
    const rows =
      what === 'added'
        ? `messages INDEXED BY messages_by_commit WHERE first_commit >= ${low} AND first_commit <= ${high}`
        : `places INDEXED BY places_by_end
           WHERE to_commit IS NOT NULL AND to_commit >= ${low} AND to_commit <= ${high}`;
    const [[first, last, count] = [null, null, 0]] = this.connection.values<
      readonly [number | null, number | null, number]
    >(
      `SELECT min(docid), max(docid), count(*) FROM (SELECT docid FROM ${rows} LIMIT ${LOOKED_AT + 1})`,
    );
    if (count > LOOKED_AT) return null;
    return first === null || last === null ? { low: 0, high: 0 } : { low: first, high: last + 1 };
  }
}
