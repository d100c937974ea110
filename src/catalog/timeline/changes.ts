import type { Connection } from '../connection.ts';
import { commitAt } from '../moments.ts';
import { foldersIn, type Scope } from '../scope.ts';

/** A stretch of the archive's own time, cut into equal columns. Milliseconds since the epoch. */
export interface ChangesRequest {
  readonly from: number;
  /** Included. */
  readonly to: number;
  readonly columns: number;
  readonly scope?: Scope | undefined;
}

/** Places that came, and that ended: a message that moved counts in both. */
export interface ChangeSums {
  readonly came: number;
  readonly ended: number;
}

export interface ChangeColumns {
  /** In the order of time. */
  readonly columns: readonly ChangeSums[];
  /** False where there was no time for the oldest of them, which are empty then. */
  readonly complete: boolean;
}

/** A commit that places came or ended with. */
export interface ChangedCommit extends ChangeSums {
  readonly commit: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
}

/** What the archive observed, and when. */
export interface ChangeQueries {
  /** The first commit and the last; undefined before the first. */
  span(): { readonly first: number; readonly last: number } | undefined;
  /** What came and ended in each column. `mayContinue` is asked after each. */
  columns(request: ChangesRequest, mayContinue: () => boolean): ChangeColumns;
  /** The first commit with changes after a time, or the last one before it. */
  next(time: number, scope?: Scope): ChangedCommit | undefined;
  previous(time: number, scope?: Scope): ChangedCommit | undefined;
  /** What came and ended after a time. */
  since(time: number, scope?: Scope): ChangeSums;
}

export function changeQueries(connection: Connection): ChangeQueries {
  const one = (sql: string, params: readonly unknown[]) => {
    const [row] = connection.text<ChangedCommit>(sql, params);
    return row;
  };
  const near = (condition: string, order: string, commit: number, scope: Scope | undefined) =>
    one(
      `SELECT c.commit_number AS "commit", t.time, sum(c.came) AS came, sum(c.ended) AS ended
       FROM commit_changes c CROSS JOIN commits t ON t.number = c.commit_number
       WHERE c.commit_number ${condition} ?${within(scope)}
       GROUP BY c.commit_number ORDER BY c.commit_number ${order} LIMIT 1`,
      [BigInt(commit)],
    );
  const between = (after: number, upTo: number, scope: Scope | undefined): ChangeSums => {
    const [sums] = connection.text<ChangeSums>(
      `SELECT coalesce(sum(c.came), 0) AS came, coalesce(sum(c.ended), 0) AS ended
       FROM commit_changes c WHERE c.commit_number > ? AND c.commit_number <= ?${within(scope)}`,
      [BigInt(after), BigInt(upTo)],
    );
    return sums ?? { came: 0, ended: 0 };
  };
  return {
    span() {
      const times = connection.column<number>(
        `SELECT time FROM (SELECT * FROM commits ORDER BY number LIMIT 1)
         UNION ALL SELECT time FROM (SELECT * FROM commits ORDER BY number DESC LIMIT 1)`,
        [],
      );
      const [first, last] = times;
      return first === undefined || last === undefined ? undefined : { first, last };
    },
    columns: ({ from, to, columns, scope }, mayContinue) =>
      connection.snapshot(() => {
        const found: ChangeSums[] = [];
        const begin = (column: number) => from + ((to - from + 1) * column) / columns;
        let upTo = commitAt(connection, to);
        // The newest first: where time is over, it is the past that is missing.
        for (let column = columns - 1; column >= 0; column -= 1) {
          const after = commitAt(connection, Math.ceil(begin(column)) - 1);
          found.push(after < upTo ? between(after, upTo, scope) : { came: 0, ended: 0 });
          upTo = Math.min(upTo, after);
          if (column > 0 && !mayContinue()) break;
        }
        const complete = found.length === columns;
        while (found.length < columns) found.push({ came: 0, ended: 0 });
        return { columns: found.reverse(), complete };
      }),
    next: (time, scope) => near('>', 'ASC', commitAt(connection, time), scope),
    previous: (time, scope) => near('<=', 'DESC', commitAt(connection, time - 1), scope),
    since: (time, scope) => between(commitAt(connection, time), Number.MAX_SAFE_INTEGER, scope),
  };
}

function within(scope: Scope | undefined): string {
  return scope === undefined ? '' : ` AND c.folder_id IN ${foldersIn(scope)}`;
}
