import type { Page } from '../pages/page.ts';
import { THEME_COOKIE, themeCookie } from '../pages/theme.ts';

/**
 * What a browser remembers of how its reader likes the pages: theme, density, whether letters are keys, and which
 * mailboxes of the side are folded, by their order, since their names are the archive's. The theme is in a cookie: the
 * server puts it on the document.
 */
const LETTERS = 'letters';
const THEME = `${THEME_COOKIE}=`;

export interface Choices {
  readonly theme: 'system' | 'light' | 'dark';
  readonly density: 'auto' | 'compact' | 'standard' | 'roomy';
}

/** The first of each is that of whoever chose nothing. */
export const CHOICES: { readonly [N in keyof Choices]: readonly Choices[N][] } = {
  theme: ['system', 'light', 'dark'],
  density: ['auto', 'compact', 'standard', 'roomy'],
};

export function chosen<N extends keyof Choices>(name: N): Choices[N] {
  const stored = read(name);
  const known: readonly Choices[N][] = CHOICES[name];
  return known.find((value) => value === stored) ?? (known[0] as Choices[N]);
}

export function choose<N extends keyof Choices>(name: N, value: Choices[N]): void {
  const isDefault = value === CHOICES[name][0];
  write(name, isDefault ? null : value);
  if (isDefault) delete document.documentElement.dataset[name];
  else document.documentElement.dataset[name] = value;
  dispatchEvent(new Event('mailkeep-preference'));
}

/** Returns whether keys that are letters do something (WCAG 2.1.4). */
export function lettersAct(): boolean {
  return read(LETTERS) !== 'off';
}

export function setLetters(on: boolean): void {
  write(LETTERS, on ? null : 'off');
}

/** Returns whether a mailbox of the side was unfolded here; null where nobody has folded or unfolded it. */
export function isUnfolded(mailbox: string): boolean | null {
  const stored = read(`mailbox-${mailbox}`);
  return stored === null ? null : stored === 'open';
}

export function noteFolding({ target }: Event): void {
  if (!(target instanceof Element)) return;
  const details = target.closest('summary')?.parentElement;
  if (!(details instanceof HTMLDetailsElement) || details.dataset.fold === undefined) return;
  write(`mailbox-${details.dataset.fold}`, details.open ? 'closed' : 'open');
}

/** Storage may be switched off: then a choice holds as long as the page. */
const kept = new Map<string, string | null>();

function read(name: string): string | null {
  if (name === 'theme') {
    const pair = document.cookie.split('; ').find((one) => one.startsWith(THEME));
    return pair?.slice(THEME.length) ?? null;
  }
  try {
    return kept.get(name) ?? localStorage.getItem(name);
  } catch {
    return kept.get(name) ?? null;
  }
}

function write(name: string, value: string | null): void {
  if (name === 'theme') {
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing in older browsers
    document.cookie = themeCookie(value, location.protocol === 'https:');
    return;
  }
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    kept.set(name, value);
  }
}

/** Returns the address of the same page for a reader where days begin at another time; null where it is the right one. */
export function addressInOwnZone(page: Page, address: string): URL | null {
  const to = new URL(address);
  const zone = page.kind === 'still' ? page.zone : null;
  if (zone === null || to.searchParams.has('tz')) return null;
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  if (zone === timeZone) return null;
  to.searchParams.set('tz', timeZone);
  return to;
}
