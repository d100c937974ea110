import { useEffect, useRef, useState } from 'preact/hooks';
import { counted } from '../../core/text.ts';
import type { Page } from '../pages/page.ts';

/**
 * Moves the focus when the focused element disappears: to the opened message, or back to its row once it is closed. A
 * visible element keeps the focus.
 */
export function useFocusReturn(page: Page): void {
  const message = page.kind === 'mail' || page.kind === 'message' ? page.message : null;
  const id = message?.id ?? null;
  const before = useRef(id);
  useEffect(() => {
    const left = before.current;
    before.current = id;
    closeOverlays();
    if (left === id || hasFocus()) return;
    if (id !== null) document.querySelector<HTMLElement>('.rbody')?.focus({ preventScroll: true });
    else if (left !== null) rowOf(left)?.focus({ preventScroll: true });
  }, [id, page.kind, message?.content.view]);
}

function closeOverlays(): void {
  const open = document.querySelectorAll<HTMLInputElement>('input.toggle:checked');
  for (const toggle of open) toggle.checked = false;
}

/** Closes the drawer after a click on one of its links, and focuses the page. */
export function leaveDrawer(): void {
  if (document.querySelector('#drawer:checked') === null) return;
  closeOverlays();
  document.getElementById('results')?.focus({ preventScroll: true });
}

/** Focuses the results on every frame until the response arrives, because it may replace them. */
export function focusResults(): void {
  document.querySelector<HTMLElement>('.listcol [role=listbox], .tiles-of')?.focus();
  if (document.body.ariaBusy === 'true') requestAnimationFrame(focusResults);
}

function hasFocus(): boolean {
  const { activeElement } = document;
  return (
    activeElement !== null && activeElement !== document.body && activeElement.checkVisibility()
  );
}

function rowOf(id: string): HTMLElement | null {
  return (
    document.querySelector<HTMLElement>('.listcol [role=listbox]') ??
    document.querySelector<HTMLElement>(`.row a[href*="m=${id.slice(0, 16)}"]`)
  );
}

/** Page regions that F6 cycles through. The first visible match in each gets the focus. */
const REGIONS: readonly (readonly [part: string, focus: string])[] = [
  ['.searching', 'input'],
  ['.history-bar', '[role=slider], a, button'],
  ['.chips', 'a, button'],
  ['.listcol', '[role=listbox], .rows a[aria-current], .rows a, a'],
  ['.timeline', '[role=scrollbar]'],
  ['.read', '.rbody, a'],
  ['.page', 'a, button, input'],
  ['.rail', 'a'],
  ['.side', 'a[aria-current], a'],
  ['.bottom', 'a[aria-current], a'],
  ['.foot', 'a'],
];

export function goToRegion(step: 1 | -1): boolean {
  const shown = REGIONS.flatMap(([part, focus]) => {
    const region = document.querySelector(part);
    if (region === null) return [];
    // The timeline itself takes the focus.
    const within = region.matches(focus) ? [region] : [...region.querySelectorAll(focus)];
    const target = within.find(isShown);
    return target instanceof HTMLElement ? [{ region, target }] : [];
  });
  // The last match is the innermost: the timeline is inside the list's column, and listed after it.
  const index = shown.findLastIndex(({ region }) => region.contains(document.activeElement));
  const next = index < 0 ? (step > 0 ? 0 : -1) : (index + step) % shown.length;
  const to = shown.at(next);
  to?.target.focus();
  return to !== undefined;
}

function isShown(element: Element): boolean {
  return element.checkVisibility({ visibilityProperty: true });
}

/** Returns the text that screen readers announce, or an empty string. */
export function announcedResults(page: Page): string {
  if (page.kind !== 'mail') return '';
  const { frame, list } = page;
  if (frame.problem !== null) {
    const { message, suggestion, hint } = frame.problem;
    const advice = suggestion === null ? hint : `Did you mean ${suggestion.text}?`;
    return advice === null ? message : `${message} ${advice}`;
  }
  const all = list?.all ?? null;
  if (all === null) return '';
  if (all.count === 0) return 'Nothing found.';
  const total = `${all.complete ? '' : 'more than '}${counted(all.count, 'message')}`;
  const ended = list?.ended ?? 0;
  return ended > 0 ? `${total}, ${counted(ended, 'deleted message')}.` : `${total}.`;
}

/** Up to this width, list and message share one column. Must match narrow.css. */
export const ONE_COLUMN = '(max-width: 900px)';

export function useOneColumn(): boolean {
  const [is, set] = useState(() => matchMedia(ONE_COLUMN).matches);
  useEffect(() => {
    const width = matchMedia(ONE_COLUMN);
    const changed = (): void => set(width.matches);
    changed();
    width.addEventListener('change', changed);
    return () => width.removeEventListener('change', changed);
  }, []);
  return is;
}
