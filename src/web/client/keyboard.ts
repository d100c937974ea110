import { useLayoutEffect, useRef } from 'preact/hooks';
import { type KeyAction, meaningOf } from './keys.ts';
import { lettersAct } from './preferences.ts';

/** What a part of a page does about keys. One that returns false leaves the key to a part that took it before. */
export type KeyHandlers = Partial<Record<KeyAction, () => unknown>>;

/** Without a second key for so long, the first one is forgotten. Milliseconds. */
const SEQUENCE_MS = 1_500;

/** The handlers of parts that are shown; the last one first. */
const taken: { current: KeyHandlers }[] = [];

/** Lets a part of the page act on keys while it is shown. */
export function useKeys(handlers: KeyHandlers): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  // A key may come as soon as the part is seen.
  useLayoutEffect(() => {
    taken.unshift(latest);
    return () => {
      taken.splice(taken.indexOf(latest), 1);
    };
  }, []);
}

/** Does what a key would do; for buttons that do the same. */
export function act(action: KeyAction): boolean {
  return taken.some(({ current }) => {
    const handler = current[action];
    return handler !== undefined && handler() !== false;
  });
}

/** Listens to keys from now on. */
export function listenToKeys(): void {
  let begun = '';
  let forget: number | undefined;
  document.addEventListener('keydown', (event) => {
    // A list, a field or a dialog has used it.
    if (event.defaultPrevented || event.isComposing || hasOpenDialog()) return;
    // The browser closes a menu by it: one step back, and no second one.
    if (event.key === 'Escape' && document.querySelector(':popover-open') !== null) return;
    const inField = isField(event.target);
    const meaning = meaningOf(event, { begun, inField, letters: lettersAct() });
    begun = meaning.begun;
    clearTimeout(forget);
    if (begun !== '')
      forget = window.setTimeout(() => {
        begun = '';
      }, SEQUENCE_MS);
    if (meaning.action === null) return;
    // Buttons, links and what unfolds have their own use for Enter; what scrolls has one for arrows.
    if (event.key === 'Enter' && isControl(event.target)) return;
    if (isArrow(event) && isScrolled(event.target)) return;
    if (act(meaning.action)) event.preventDefault();
  });
}

function isArrow({ key, altKey }: KeyboardEvent): boolean {
  return !altKey && (key === 'ArrowDown' || key === 'ArrowUp');
}

function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !/^(?:checkbox|radio|button)$/.test(target.type);
  return target.isContentEditable || /^(?:TEXTAREA|SELECT)$/.test(target.tagName);
}

function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a, button, summary, [role=slider]') !== null;
}

function isScrolled(target: EventTarget | null): boolean {
  return (
    target instanceof Element &&
    target.closest('.rbody, .page, .rail, .side, input, [role=slider], [role=scrollbar]') !== null
  );
}

function hasOpenDialog(): boolean {
  return document.querySelector('dialog[open]') !== null;
}
