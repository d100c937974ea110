import { type FlagSet, flagSet } from '../mail/words.ts';
import type { Connection } from './connection.ts';
import { query } from './query.ts';

export interface FlagSetRow {
  readonly id: number;
  readonly flags: FlagSet;
  /** See `flag-marks.ts`. */
  readonly marks: number;
}

const ALL = query()((db) =>
  db.selectFrom('flag_sets').select(['id', 'flags', 'marks']).orderBy('id'),
);

/** Every flag set ever seen: some dozens, since flags repeat. */
export function flagSetRows(connection: Connection): FlagSetRow[] {
  return connection
    .statement(ALL)
    .all({})
    .map(({ id, flags, marks }) => ({ id, flags: parse(flags), marks }));
}

function parse(text: string): FlagSet {
  const parsed: unknown = JSON.parse(text);
  return Array.isArray(parsed) ? flagSet(parsed.filter((flag) => typeof flag === 'string')) : [];
}
