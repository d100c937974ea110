import { type FlagSet, flagSet } from '../mail/words.ts';
import { named } from './bound-sql.ts';
import type { Connection } from './connection.ts';
import { flagMarks } from './flag-marks.ts';
import { query, type Row } from './query.ts';

export interface FlagSetRow {
  readonly id: number;
  readonly flags: FlagSet;
  /** Bits of `MARK`. */
  readonly marks: number;
}

const ALL = query()((db) =>
  db.selectFrom('flag_sets').select(['id', 'flags', 'marks']).orderBy('id'),
);

/** Every flag set ever seen: some dozens, since flags repeat. */
export function flagSetRows(connection: Connection): FlagSetRow[] {
  return connection
    .all(ALL, {})
    .map(({ id, flags, marks }) => ({ id, flags: parse(flags), marks }));
}

function parse(text: string): FlagSet {
  const parsed: unknown = JSON.parse(text);
  return Array.isArray(parsed) ? flagSet(parsed.filter((flag) => typeof flag === 'string')) : [];
}

const FIND = query<{ flags: string }>()((db, p) =>
  db.selectFrom('flag_sets').select(['id', 'marks']).where('flags', '=', p.flags),
);
const ADD = query<Omit<Row<'flag_sets'>, 'id'>>()((db, p) =>
  db.insertInto('flag_sets').values(named(p, 'flags', 'marks')),
);

export type StoredFlagSet = Pick<FlagSetRow, 'id' | 'marks'>;

/** Flag sets get numbers in the order in which the log first shows them, so that a rebuild gives the same. */
export class FlagSets {
  readonly #known = new Map<string, StoredFlagSet>();

  constructor(private readonly connection: Connection) {}

  of(flags: FlagSet): StoredFlagSet {
    const text = JSON.stringify(flags);
    let stored = this.#known.get(text);
    if (stored === undefined) {
      stored = this.connection.get(FIND, { flags: text });
      if (stored === undefined) {
        const marks = flagMarks(flags);
        stored = { id: this.connection.run(ADD, { flags: text, marks }).lastInsertRowid, marks };
      }
      this.#known.set(text, stored);
    }
    return stored;
  }

  /** After a transaction that was undone: its numbers do not exist. */
  forget(): void {
    this.#known.clear();
  }
}
