import type { Connection } from './connection.ts';
import type { Direction, Sql } from './search-sql.ts';

/** Walks statements that each give docids in order as one, every docid once. Close it when it is not drained. */
export function* merged(
  connection: Connection,
  statements: readonly Sql[],
  direction: Direction,
): Generator<number, void, undefined> {
  const walks = statements.map(({ sql, params }) =>
    connection.text<{ docid: number }>(sql, params),
  );
  const sign = direction === 'newest' ? 1 : -1;
  try {
    const heads = walks.flatMap((walk) => {
      const first = walk.next();
      return first.done === true ? [] : [{ walk, docid: first.value.docid }];
    });
    let last: number | undefined;
    while (heads.length > 0) {
      let chosen = heads[0];
      for (const head of heads)
        if (chosen === undefined || sign * head.docid > sign * chosen.docid) chosen = head;
      if (chosen === undefined) return;
      if (chosen.docid !== last) {
        last = chosen.docid;
        yield last;
      }
      const next = chosen.walk.next();
      if (next.done === true) heads.splice(heads.indexOf(chosen), 1);
      else chosen.docid = next.value.docid;
    }
  } finally {
    for (const walk of walks) walk.return?.();
  }
}
