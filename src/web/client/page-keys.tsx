import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { MailRows } from '../mail-list.ts';
import { messageAddress, VIEWS } from '../pages/message-props.ts';
import type { Page } from '../pages/page.ts';
import { pageAddress } from '../query-text.ts';
import { goToRegion } from './focus.ts';
import { interpretKey, type KeyAction } from './keys.ts';
import { laterPart } from './later-part.tsx';
import { lettersEnabled } from './preferences.ts';
import { ask, backStep, useViewer, type Viewer } from './viewer.ts';

/** A handler that returns false passes the key on to parts registered earlier. */
type KeyHandlers = Partial<Record<KeyAction, () => unknown>>;

/** Milliseconds after which the first key of a sequence is dropped. */
const SEQUENCE_MS = 1_500;

const handlerStack: { current: KeyHandlers }[] = [];

export function useKeys(handlers: KeyHandlers): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  // Before paint, since a key may be pressed as soon as the part is visible.
  useLayoutEffect(() => {
    handlerStack.unshift(latest);
    return () => {
      handlerStack.splice(handlerStack.indexOf(latest), 1);
    };
  }, []);
}

function act(action: KeyAction): boolean {
  return handlerStack.some(({ current }) => {
    const handler = current[action];
    return handler !== undefined && handler() !== false;
  });
}

export function listenToKeys(): void {
  let prefix = '';
  let forget: number | undefined;
  document.addEventListener('keydown', (event) => {
    // A list, a field or a dialog has already handled the key.
    if (event.defaultPrevented || event.isComposing || hasOpenDialog()) return;
    // The browser closes a menu with Escape; the page must not also go back.
    if (event.key === 'Escape' && document.querySelector(':popover-open') !== null) return;
    const inField = isField(event.target);
    const meaning = interpretKey(event, { prefix, inField, letters: lettersEnabled() });
    prefix = meaning.prefix;
    clearTimeout(forget);
    if (prefix !== '')
      forget = window.setTimeout(() => {
        prefix = '';
      }, SEQUENCE_MS);
    if (meaning.action === null) return;
    // Controls handle Enter themselves, and scrolled elements handle arrows.
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

const KeyMap = laterPart((code) => code.KeyMap);
const MAP = '#keys';

/** Handles keys that work on every page. Parts shown later take precedence. */
export function PageKeys({ page }: { page: Page }) {
  const viewer = useViewer();
  const [isMap, setMap] = useState(location.hash === MAP);
  useEffect(() => {
    const follow = (): void => setMap(location.hash === MAP);
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  const query = page.frame.query;
  const go = (path: string, q = ''): void => viewer.go(pageAddress(path, { q }));
  useKeys({
    query: focusQuery,
    // A visible list handles these keys first.
    next: () => openNeighbour(viewer, 1),
    previous: () => openNeighbour(viewer, -1),
    time: () => viewer.toggleTime(),
    save: () => press('save'),
    export: () => press('export'),
    wide: () => openWide(viewer),
    back: () => goBack(viewer),
    nextHit: () => stepThrough(1),
    previousHit: () => stepThrough(-1),
    copyLink: () => copyLink(viewer),
    map: () => {
      location.hash = MAP;
    },
    nextRegion: () => goToRegion(1),
    previousRegion: () => goToRegion(-1),
    'go-mail': () => go('/mail'),
    'go-inbox': () => go('/mail', 'in:INBOX'),
    'go-attachments': () => go('/files', query),
    'go-dashboard': () => go('/dashboard'),
    'go-health': () => go('/health'),
    ...tabKeys(viewer),
  });
  if (!isMap) return null;
  return (
    <KeyMap
      onClose={() => {
        setMap(false);
        history.replaceState(null, '', viewer.address);
      }}
    />
  );
}

function press(action: 'save' | 'export'): boolean {
  const button = document.querySelector<HTMLElement>(`[data-act=${action}]`);
  button?.click();
  return button !== null;
}

/** Returns the message id in the address. The page may still show the previous message. */
function openId({ address: { pathname, searchParams } }: Viewer): string | null {
  return /^\/m\/([0-9a-f]+)$/.exec(pathname)?.[1] ?? searchParams.get('m');
}

function tabKeys(viewer: Viewer): KeyHandlers {
  return Object.fromEntries(
    VIEWS.map((view, i) => [
      `tab${i + 1}`,
      () => {
        if (openId(viewer) === null) return false;
        const to = new URL(viewer.address);
        for (const name of ['from', 'find', 'hit']) to.searchParams.delete(name);
        to.searchParams.set('view', view);
        viewer.go(to.href);
        return true;
      },
    ]),
  );
}

function focusQuery(): boolean {
  const field = document.querySelector<HTMLInputElement>('.searching input[name=q]');
  field?.focus();
  field?.select();
  return field !== null;
}

function openWide(viewer: Viewer): boolean {
  const { pathname, searchParams } = viewer.address;
  const id = searchParams.get('m');
  if (pathname !== '/mail' || id === null) return false;
  const [q, view] = ['q', 'view'].map((name) => searchParams.get(name) ?? undefined);
  viewer.go(pageAddress(`/m/${id}`, { q, view }));
  return true;
}

/** Goes back one step: closes an overlay, a message or a query, or leaves the past. Returns false if it cannot. */
function goBack(viewer: Viewer): boolean {
  const over = document.querySelector<HTMLInputElement>('input.toggle:checked');
  if (over !== null) {
    over.checked = false;
    over.focus();
    return true;
  }
  const to = backStep(viewer.address);
  if (to !== null) viewer.go(to);
  return to !== null;
}

/** Queues steps through a list, since each starts where the previous one ended. */
let stepping: Promise<unknown> = Promise.resolve();

function openNeighbour(viewer: Viewer, step: 1 | -1): boolean {
  if (openId(viewer) === null) return false;
  const follow = async (): Promise<void> => {
    const { address } = viewer;
    const id = openId(viewer);
    if (id === null) return;
    const isNewestFirst = address.searchParams.get('sort') !== 'oldest';
    const sort = isNewestFirst === step > 0 ? 'newest' : 'oldest';
    const q = address.searchParams.get('q') ?? '';
    const parameters = new URLSearchParams({ q, sort, after: id, limit: '1' });
    const rows = await ask<Partial<MailRows>>(`/api/rows?${parameters}`);
    const next = rows.hits?.[0]?.line.id;
    // The user may have opened something else since.
    if (next === undefined || openId(viewer) !== id) return;
    const page = address.pathname === '/mail' ? 'mail' : 'message';
    const place = { page, query: q, sort: isNewestFirst ? undefined : 'oldest' } as const;
    viewer.go(messageAddress(place, next, 'thread'), { replace: true });
  };
  // The next request reports a lost connection.
  stepping = stepping.then(follow).catch(() => undefined);
  return true;
}

/** Goes to the next match, or to the next part of a message without matches. */
function stepThrough(step: 1 | -1): boolean {
  const body = document.querySelector('.rbody, .gallery');
  if (body === null) return false;
  const marks = [...body.querySelectorAll<HTMLElement>(':is(.msg, .text, .source, .extract) mark')];
  const stops =
    marks.length > 0
      ? marks
      : [...body.querySelectorAll<HTMLElement>('.msg, .fold, summary, .tile')];
  if (stops.length === 0) return false;
  const isStop = (stop: HTMLElement): boolean =>
    stop.classList.contains('current') || stop === document.activeElement;
  const index = stops.findIndex(isStop);
  const to = stops.at(index < 0 ? (step > 0 ? 0 : -1) : (index + step) % stops.length);
  for (const stop of stops) stop.classList.remove('current');
  const details = to?.closest('details:not([open])');
  if (details instanceof HTMLDetailsElement && marks.length > 0) details.open = true;
  to?.classList.add('current');
  if (marks.length === 0) to?.focus({ preventScroll: true });
  to?.scrollIntoView({ block: marks.length > 0 ? 'center' : 'start' });
  return true;
}

function copyLink(viewer: Viewer): boolean {
  // The button shows that copying succeeded.
  const button = [...document.querySelectorAll<HTMLElement>('.copy-link')].find((one) =>
    one.checkVisibility(),
  );
  if (button !== undefined) button.click();
  else void copyToClipboard(viewer.address.href);
  return true;
}

export async function copyToClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
