/**
 * Where rows are. Each row has a number on a line without ends: the row that the list began with is 0, newer knowledge
 * never renumbers. The scroller holds a stretch of that line around what is shown, because browsers limit the height
 * of an element.
 */

/** Rows from `low` (included) to `high` (excluded). */
export interface RowRange {
  readonly low: number;
  readonly high: number;
}

/** The ends of the list, as far as they are known. */
export interface Edges {
  /** Number of the first row. */
  readonly start: number | null;
  /** Number behind the last row. */
  readonly end: number | null;
}

/** Rows in the document at a time, at most. */
export const MOST_ROWS = 60;
/** Rows that the scroller holds on each side of its anchor. */
export const REACH = 2_000;
/** Browsers cut elements at 17 to 33 million pixels. */
export const MOST_PIXELS = 8_000_000;
/** With fewer rows than this to an end of the scroller that is no end of the list, it is centred at rest. */
const NEAR = REACH / 2;
/** Rows in the document before and behind the visible ones. */
const SPARE = 6;

/** Returns the rows that the scroller holds around one. */
export function runwayAround(anchor: number, { start, end }: Edges, rowHeight: number): RowRange {
  const reach = Math.min(REACH, Math.floor(MOST_PIXELS / (2 * rowHeight)));
  const first = start ?? -Infinity;
  const behind = Math.max(first === -Infinity ? anchor : first, end ?? Infinity);
  const middle = Math.min(Math.max(anchor, first), behind);
  return { low: Math.max(first, middle - reach), high: Math.min(behind, middle + reach) };
}

/** Whether the scroller should be centred on a row once it rests. */
export function shouldCentre(shown: RowRange, runway: RowRange, { start, end }: Edges): boolean {
  const isNearTop = shown.low - runway.low < NEAR && runway.low !== start;
  const isNearEnd = runway.high - shown.high < NEAR && runway.high !== end;
  // Ends that were found meanwhile.
  const isBeyond =
    (start !== null && runway.low < start) ||
    (end !== null && runway.high > Math.max(end, start ?? end));
  return isNearTop || isNearEnd || isBeyond;
}

/** Returns how high a row is: so high that few enough of them fill the list, however tall the window is. */
export function rowHeightFor(wanted: number, viewport: number): number {
  // One row may be cut at the top and one at the bottom.
  return Math.max(1, wanted, Math.ceil(viewport / (MOST_ROWS - 2)));
}

/** Returns the rows that are at least partly visible. */
export function visibleRows(
  scrollTop: number,
  viewport: number,
  rowHeight: number,
  runway: RowRange,
): RowRange {
  const low = runway.low + Math.floor(scrollTop / rowHeight);
  const high = runway.low + Math.ceil((scrollTop + viewport) / rowHeight);
  return within({ low, high: Math.max(high, low + 1) }, runway);
}

/** Returns the rows to keep in the document: the visible ones and some around them. */
export function renderedRows(visible: RowRange, runway: RowRange): RowRange {
  const room = Math.max(0, MOST_ROWS - (visible.high - visible.low));
  const spare = Math.min(SPARE, Math.floor(room / 2));
  return within({ low: visible.low - spare, high: visible.high + spare }, runway);
}

/** Returns the scroller's position at which a row stands in view, moved as little as possible. */
export function positionToShow(
  row: number,
  scrollTop: number,
  viewport: number,
  rowHeight: number,
  runway: RowRange,
): number {
  const top = (row - runway.low) * rowHeight;
  if (top < scrollTop) return top;
  return top + rowHeight > scrollTop + viewport
    ? Math.max(0, top + rowHeight - viewport)
    : scrollTop;
}

function within(range: RowRange, { low, high }: RowRange): RowRange {
  const from = Math.min(Math.max(range.low, low), high);
  return { low: from, high: Math.min(Math.max(range.high, from), high) };
}
