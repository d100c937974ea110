import type { Connection } from '../connection.ts';
import type { View } from './conditions.ts';
import { chooseDriver, type Drive } from './driver.ts';
import { type Direction, type Sql, walks } from './sql.ts';

/** By how much a stretch is longer than the one before: choosing costs as much as some hundred candidates. */
const GROWTH = 4;
const LONGEST = 64;

/** Walks what drives give as one, in order, every docid once. Close it when it is not drained. */
export function walkDrives(
  connection: Connection,
  drives: readonly Drive[],
  direction: Direction,
  view: View,
): Generator<number, void, undefined> {
  return mergedWalks(
    drives.map((drive) => stretches(connection, drive, direction, view)),
    direction,
  );
}

/** One stretch after the other, each by the side that is best there. */
function* stretches(
  connection: Connection,
  begun: Drive,
  direction: Direction,
  view: View,
): Generator<number, void, undefined> {
  let drive = begun;
  for (let grown = 1; ; grown = Math.min(LONGEST, grown * GROWTH)) {
    const { conjunct, driver, stretch } = drive;
    yield* merged(
      connection,
      walks({ ...conjunct, ...stretch }, driver, direction, view),
      direction,
    );
    const rest =
      direction === 'newest'
        ? { ...conjunct, high: stretch.low }
        : { ...conjunct, low: stretch.high };
    if (rest.low >= rest.high || (stretch.low <= conjunct.low && stretch.high >= conjunct.high))
      return;
    drive = chooseDriver(connection, rest, view, direction, grown * GROWTH);
    if (drive.conjunct.low >= drive.conjunct.high) return;
  }
}

/** Walks statements that each give docids in order as one. */
function merged(
  connection: Connection,
  statements: readonly Sql[],
  direction: Direction,
): Generator<number, void, undefined> {
  return mergedWalks(
    statements.map(({ sql, params }) => docidsOf(connection, sql, params)),
    direction,
  );
}

function* docidsOf(
  connection: Connection,
  sql: string,
  params: Sql['params'],
): Generator<number, void, undefined> {
  let last: number | undefined;
  for (const { docid } of connection.text<{ docid: number }>(sql, params)) {
    if (docid !== last) yield docid;
    last = docid;
  }
}

/** Each walk gives a docid once; several may give the same. */
function* mergedWalks(
  walks: readonly Generator<number, void, undefined>[],
  direction: Direction,
): Generator<number, void, undefined> {
  const [only] = walks;
  if (walks.length === 1 && only !== undefined) {
    yield* only;
    return;
  }
  const sign = direction === 'newest' ? 1 : -1;
  try {
    const heads = walks.flatMap((walk) => {
      const first = walk.next();
      return first.done === true ? [] : [{ walk, docid: first.value }];
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
      else chosen.docid = next.value;
    }
  } finally {
    for (const walk of walks) walk.return();
  }
}
