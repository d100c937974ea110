import type { FlagSet } from '../../mail/words.ts';
import type { Connection } from '../connection.ts';
import { flagMarks } from '../flag-marks.ts';
import { query } from '../query.ts';

const FIND = query<{ flags: string }>()((db, p) =>
  db.selectFrom('flag_sets').select(['id', 'marks']).where('flags', '=', p.flags),
);
const ADD = query<{ flags: string; marks: number }>()((db, p) =>
  db.insertInto('flag_sets').values({ flags: p.flags, marks: p.marks }),
);

export interface StoredFlagSet {
  readonly id: number;
  readonly marks: number;
}

/** Flag sets get numbers in the order in which the log first shows them, so that a rebuild gives the same. */
export class FlagSets {
  readonly #known = new Map<string, StoredFlagSet>();

  constructor(private readonly connection: Connection) {}

  of(flags: FlagSet): StoredFlagSet {
    const text = JSON.stringify(flags);
    let stored = this.#known.get(text);
    if (stored === undefined) {
      stored = this.connection.statement(FIND).get({ flags: text });
      if (stored === undefined) {
        const marks = flagMarks(flags);
        stored = {
          id: this.connection.statement(ADD).run({ flags: text, marks }).lastInsertRowid,
          marks,
        };
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
