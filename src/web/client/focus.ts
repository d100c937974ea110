import { useEffect, useRef } from 'preact/hooks';
import type { Page } from '../pages/page.ts';

/**
 * Keeps the focus somewhere when what had it is no longer shown: on a message that was opened, and on its row when it is
 * closed again. A focus that is still somewhere stays there.
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

/** Closes the drawer, or the sheet of views. */
function closeOverlays(): void {
  const open = document.querySelectorAll<HTMLInputElement>('input.toggle:checked');
  for (const toggle of open) toggle.checked = false;
}

/** Leaves the drawer after one of its links was followed: the page that it lies over gets the focus. */
export function leaveDrawer(): void {
  if (document.querySelector('#drawer:checked') === null) return;
  closeOverlays();
  document.getElementById('results')?.focus({ preventScroll: true });
}

/**
 * Moves the focus to what was found. Where nothing is, it stays. What was found on the way may be nothing, or be replaced, so
 * it is moved until the answer is there.
 */
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

/** The row of a message, or the list that has the focus for its rows. */
function rowOf(id: string): HTMLElement | null {
  return (
    document.querySelector<HTMLElement>('.listcol [role=listbox]') ??
    document.querySelector<HTMLElement>(`.row a[href*="m=${id.slice(0, 16)}"]`)
  );
}
