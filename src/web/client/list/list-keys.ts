import {
  openSelected,
  seekNextBar,
  seekPreviousBar,
  selectFirst,
  selectLast,
  selectNext,
  selectPage,
  selectPrevious,
} from '../list-cursor.ts';

const KEYS: Readonly<Record<string, () => boolean>> = {
  ArrowDown: selectNext,
  ArrowUp: selectPrevious,
  Home: selectFirst,
  End: selectLast,
  PageDown: () => selectPage(1),
  PageUp: () => selectPage(-1),
  Enter: openSelected,
  'Alt+ArrowDown': seekNextBar,
  'Alt+ArrowUp': seekPreviousBar,
};

/** Does what a key means where the list has the focus. */
export function listKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  const act = KEYS[event.altKey ? `Alt+${event.key}` : event.key];
  // What the list has no use for is a key of the page.
  if (act === undefined || !act()) return;
  event.preventDefault();
  event.stopPropagation();
}
