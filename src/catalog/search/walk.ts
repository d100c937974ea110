import type { Connection } from '../connection.ts';
import { filtersOf, type View } from './conditions.ts';
import { chooseDriver, type Drive } from './driver.ts';
import { hasStar } from './formula.ts';
import { type Direction, edgeOf, type Range, type Sql, walks } from './sql.ts';

/** By how much a stretch is longer than the one before: choosing costs as much as some hundred candidates. */
const GROWTH = 4;
const LONGEST = 64;

/** Ends walks when their time is over, and knows where they were then. */
export class Watch {
  /** What the walks have passed when they ended: the docid to continue after. Null where none was ended. */
  stoppedAt: number | null = null;

  constructor(private readonly mayContinue?: () => boolean) {}

  get isSet(): boolean {
    return this.mayContinue !== undefined;
  }

  /** @param docid the last one that a walk has passed, whether or not it was found */
  mayPass(docid: number, direction: Direction): boolean {
    if (this.stoppedAt === null && this.mayContinue?.() !== false) return true;
    // Of several walks, the one that came least far decides.
    if (this.stoppedAt === null || isBehind(this.stoppedAt, docid, direction))
      this.stoppedAt = docid;
    return false;
  }

  /** Whether a docid is behind where the walks ended: not all of them came there. */
  isBehind(docid: number, direction: Direction): boolean {
    return this.stoppedAt !== null && isBehind(docid, this.stoppedAt, direction);
  }
}

function isBehind(docid: number, other: number, direction: Direction): boolean {
  return direction === 'newest' ? docid < other : docid > other;
}

/** Walks what drives give as one, in order, every docid once. Close it when it is not drained. */
export function* walkDrives(
  connection: Connection,
  drives: readonly Drive[],
  direction: Direction,
  view: View,
  watch: Watch,
): Generator<number, void, undefined> {
  const walks = drives.map((drive) => stretches(connection, drive, direction, view, watch));
  for (const docid of mergedWalks(walks, direction)) {
    if (watch.isBehind(docid, direction)) return;
    yield docid;
  }
}

/** One stretch after the other, each by the side that is best there. */
function* stretches(
  connection: Connection,
  begun: Drive,
  direction: Direction,
  view: View,
  watch: Watch,
): Generator<number, void, undefined> {
  let drive = begun;
  for (let grown = 1; ; grown = Math.min(LONGEST, grown * GROWTH)) {
    const { conjunct, driver, stretch } = drive;
    const isLast = stretch.low <= conjunct.low && stretch.high >= conjunct.high;
    const whole = { low: stretch.low, high: stretch.high };
    const parts =
      isLast && watch.isSet && isCuttable(drive, view)
        ? cut(connection, whole, direction)
        : [whole];
    for (const part of parts) {
      yield* merged(
        connection,
        walks({ ...conjunct, ...part }, driver, direction, view),
        direction,
      );
      const passed = direction === 'newest' ? part.low : part.high - 1;
      const isEnd = direction === 'newest' ? part.low <= conjunct.low : part.high >= conjunct.high;
      if (!isEnd && !watch.mayPass(passed, direction)) return;
    }
    const rest =
      direction === 'newest'
        ? { ...conjunct, high: stretch.low }
        : { ...conjunct, low: stretch.high };
    if (isLast || rest.low >= rest.high) return;
    drive = chooseDriver(connection, rest, view, direction, grown * GROWTH);
    if (drive.conjunct.low >= drive.conjunct.high) return;
  }
}

/** Messages of a part of a long walk: asking each as of a time takes some 10 µs. */
const PART = 4_096;

/** Whether a walk may be cut: where each candidate is asked, and no lists of words with a star are merged for each part. */
function isCuttable({ conjunct }: Drive, view: View): boolean {
  const { has, lacks } = conjunct;
  return filtersOf(conjunct, view).length > 0 && ![...has, ...lacks].some(hasStar);
}

/** Cuts a range into parts of so many messages, in the order of a walk. */
function* cut(
  connection: Connection,
  { low, high }: Range,
  direction: Direction,
): Generator<Range, void, undefined> {
  for (let rest = { low, high }; ; ) {
    const { sql, params } = edgeOf(rest, direction, PART);
    const [edge] = connection.column<number>(sql, params);
    if (edge === undefined) {
      yield rest;
      return;
    }
    if (direction === 'newest') {
      yield { low: edge, high: rest.high };
      rest = { low: rest.low, high: edge };
    } else {
      yield { low: rest.low, high: edge + 1 };
      rest = { low: edge + 1, high: rest.high };
    }
    if (rest.low >= rest.high) return;
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
