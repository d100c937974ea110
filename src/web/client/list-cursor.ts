/** What keys do to the list in the window, wherever they are pressed. */
interface ListCursor {
  /** Selects the row that is so many rows away, or the first or the last one; the reading pane follows. */
  select(to: number | 'first' | 'last'): void;
  /** Selects the row that is so many full windows away. */
  selectPage(windows: number): void;
  /** Opens the selected message; false where it is open already, or none is selected. */
  open(): boolean;
  /** Goes to the bar of the spine, a month, week or day, that is so many bars away. */
  seekBars(bars: number): void;
  cycleDensity(): void;
  /** Shows mail that came meanwhile. */
  showNew(): void;
}

let current: ListCursor | null = null;

/** Makes a list the one that keys move in; returns a function that ends that. */
export function attachList(list: ListCursor): () => void {
  current = list;
  return () => {
    if (current === list) current = null;
  };
}

/** Each of these returns whether there is a list that has used the key. */
function inList(act: (list: ListCursor) => unknown): boolean {
  return current !== null && act(current) !== false;
}

export const selectNext = (): boolean => inList((list) => list.select(1));
export const selectPrevious = (): boolean => inList((list) => list.select(-1));
export const selectFirst = (): boolean => inList((list) => list.select('first'));
export const selectLast = (): boolean => inList((list) => list.select('last'));
export const selectPage = (windows: number): boolean => inList((list) => list.selectPage(windows));
export const openSelected = (): boolean => inList((list) => list.open());
/** Goes to the next bar of the spine, in the order of the list. */
export const seekNextBar = (): boolean => inList((list) => list.seekBars(1));
export const seekPreviousBar = (): boolean => inList((list) => list.seekBars(-1));
export const cycleDensity = (): boolean => inList((list) => list.cycleDensity());
export const showNewMail = (): boolean => inList((list) => list.showNew());
