import type { Boundary, ClosedSegment, Survey } from './survey.ts';

/** An object of the target, as a manifest lists it. */
export interface ObjectEntry {
  readonly name: string;
  /** Bytes as they are stored there. */
  readonly length: number;
  /** Of those bytes, hexadecimal. */
  readonly sha256: string;
}

/** One object that the next manifest needs: one that is there, or one to upload. */
export interface Piece<T> {
  readonly what: T;
  /** By which the object is recognised among others. */
  readonly mark: string;
  readonly there: ObjectEntry | undefined;
}

/** A range of bytes of generation 1 of the segment that is written to: whole batches. */
export interface TailRange {
  readonly segment: number;
  readonly from: number;
  readonly to: number;
  /** The commit that ends it. */
  readonly end: Boundary;
}

export interface CopyPlan {
  readonly segments: readonly Piece<ClosedSegment>[];
  readonly tail: readonly Piece<TailRange>[];
}

/** How a copy recognises its objects. */
export interface Marks {
  readonly segment: (segment: ClosedSegment) => string;
  readonly tail: (range: TailRange) => string;
}

/** Objects of the tail at the most. Ranges double in size, so a segment of 64 MiB has about ten. */
export const LONGEST_TAIL = 32;
/** What an object takes at least: a small range costs as much as one of this size. */
const PADDING = 64 * 1024;

/**
 * Decides what a copy has to upload. A segment that is there stays, whatever its generation here. New batches of the
 * open segment become one more object of its tail, joined with those before it while they are not much larger: so each
 * byte is uploaded a few times at the most until its segment is closed, and the tail stays short.
 *
 * @param known the objects that are there, by their mark
 */
export function planCopy(
  survey: Survey,
  known: ReadonlyMap<string, ObjectEntry>,
  marks: Marks,
): CopyPlan {
  const segments = survey.closed.map((what) => {
    const mark = marks.segment(what);
    return { what, mark, there: known.get(mark) };
  });
  const { open } = survey;
  const tail = open === undefined ? [] : planTail(open.segment, open.boundaries, known, marks);
  return { segments, tail };
}

function planTail(
  segment: number,
  boundaries: readonly Boundary[],
  known: ReadonlyMap<string, ObjectEntry>,
  marks: Marks,
): Piece<TailRange>[] {
  const last = boundaries.at(-1);
  if (last === undefined) return [];
  const kept: Piece<TailRange>[] = [];
  let from = 0;
  for (const end of boundaries) {
    const what = { segment, from, to: end.offset, end };
    const mark = marks.tail(what);
    const there = known.get(mark);
    if (there === undefined) continue;
    kept.push({ what, mark, there });
    from = end.offset;
  }
  if (from === last.offset) return kept;
  let size = last.offset - from;
  for (let before = kept.at(-1); before !== undefined; before = kept.at(-1)) {
    const bytes = before.what.to - before.what.from;
    const small = Math.max(bytes, PADDING) <= 2 * Math.max(size, PADDING);
    if (!small && kept.length < LONGEST_TAIL) break;
    kept.pop();
    size += bytes;
    from = before.what.from;
  }
  const what = { segment, from, to: last.offset, end: last };
  const mark = marks.tail(what);
  return [...kept, { what, mark, there: known.get(mark) }];
}
