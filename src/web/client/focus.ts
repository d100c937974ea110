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
    const overlay = document.querySelectorAll<HTMLInputElement>('input.toggle:checked');
    for (const toggle of overlay) toggle.checked = false;
    if (left === id || hasFocus()) return;
    if (id !== null) document.querySelector<HTMLElement>('.rbody')?.focus({ preventScroll: true });
    else if (left !== null) rowOf(left)?.focus({ preventScroll: true });
  }, [id, page.kind, message?.content.view]);
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
