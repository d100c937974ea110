import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import { query, type Row } from '../query.ts';

const COUNT = query<Row<'commit_changes'>>()((db, p) =>
  db
    .insertInto('commit_changes')
    .values(named(p, 'commit_number', 'folder_id', 'came', 'ended'))
    .onConflict((conflict) =>
      conflict.columns(['commit_number', 'folder_id']).doUpdateSet((eb) => ({
        came: eb('commit_changes.came', '+', p.came),
        ended: eb('commit_changes.ended', '+', p.ended),
      })),
    ),
);
const DROP_EMPTY = query<Pick<Row<'commit_changes'>, 'commit_number' | 'folder_id'>>()((db, p) =>
  db
    .deleteFrom('commit_changes')
    .where((eb) => eb.and(named(p, 'commit_number', 'folder_id')))
    .where('came', '=', (eb) => eb.lit(0))
    .where('ended', '=', (eb) => eb.lit(0)),
);
const PLACES = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('places')
    .select(['folder_id', 'first_commit as came', 'to_commit as ended'])
    .where('docid', '=', p.docid),
);
const SPANS = query<{ docid: number }>()((db, p) =>
  db
    .selectFrom('spans')
    .select(['folder_id', 'resumed as came', 'to_commit as ended'])
    .where('docid', '=', p.docid)
    .where('resumed', 'is not', null),
);

/** How many places each commit opened and ended in each folder, in the fold. */
export class FoldedChanges {
  readonly #counts = new Map<string, Row<'commit_changes'>>();

  constructor(private readonly connection: Connection) {}

  /** A place appeared, or came back. */
  came(commit: number, folder: number): void {
    this.#count(commit, folder, 1, 0);
  }

  ended(commit: number, folder: number): void {
    this.#count(commit, folder, 0, 1);
  }

  /** A place that appeared in this commit was removed. */
  removed(commit: number, folder: number): void {
    this.#count(commit, folder, -1, 0);
  }

  /** A place came back in the commit that ended it: no moment ever saw that. */
  stayed(commit: number, folder: number): void {
    this.#count(commit, folder, 0, -1);
  }

  /** The places of a message are about to be dropped. */
  dropped(docid: number): void {
    const places = this.connection.all(PLACES, { docid });
    for (const { folder_id: folder, came, ended } of [
      ...places,
      ...this.connection.all(SPANS, { docid }),
    ]) {
      if (came !== null) this.#count(came, folder, -1, 0);
      if (ended !== null) this.#count(ended, folder, 0, -1);
    }
  }

  /** Writes the counts of a batch. */
  finish(): void {
    for (const counted of this.#counts.values()) {
      if (counted.came === 0 && counted.ended === 0) continue;
      this.connection.run(COUNT, counted);
      if (counted.came < 0 || counted.ended < 0) this.connection.run(DROP_EMPTY, counted);
    }
    this.#counts.clear();
  }

  /** After a transaction that was undone. */
  forget(): void {
    this.#counts.clear();
  }

  #count(commit: number, folder: number, came: number, ended: number): void {
    const key = `${commit} ${folder}`;
    const known = this.#counts.get(key);
    if (known === undefined)
      this.#counts.set(key, { commit_number: commit, folder_id: folder, came, ended });
    else {
      known.came += came;
      known.ended += ended;
    }
  }
}
