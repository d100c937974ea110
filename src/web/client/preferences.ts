import type { Page } from '../pages/page.ts';
import { THEME_COOKIE, themeCookie, ZONE_COOKIE, zoneCookie } from '../pages/theme.ts';

/**
 * Preferences stored in the browser: theme, density, letter keys, and folded mailboxes. Mailboxes are stored by
 * position, because their names are archive content. The theme is in a cookie, so that the server can apply it to the
 * document.
 */
const LETTERS = 'letters';
const THEME = `${THEME_COOKIE}=`;

export interface Choices {
  readonly theme: 'system' | 'light' | 'dark';
  readonly density: 'auto' | 'compact' | 'standard' | 'roomy';
}

/** The first value of each is the default. */
export const CHOICES: { readonly [N in keyof Choices]: readonly Choices[N][] } = {
  theme: ['system', 'light', 'dark'],
  density: ['auto', 'compact', 'standard', 'roomy'],
};

export function readPreference<N extends keyof Choices>(name: N): Choices[N] {
  const stored = read(name);
  const options: readonly Choices[N][] = CHOICES[name];
  return options.find((value) => value === stored) ?? (options[0] as Choices[N]);
}

export function writePreference<N extends keyof Choices>(name: N, value: Choices[N]): void {
  const isDefault = value === CHOICES[name][0];
  write(name, isDefault ? null : value);
  if (isDefault) delete document.documentElement.dataset[name];
  else document.documentElement.dataset[name] = value;
  dispatchEvent(new Event('mailkeep-preference'));
}

/** Returns whether single letters are shortcuts, which users must be able to turn off (WCAG 2.1.4). */
export function lettersEnabled(): boolean {
  return read(LETTERS) !== 'off';
}

export function setLetterKeys(on: boolean): void {
  write(LETTERS, on ? null : 'off');
}

/** Returns null if the user has never folded or unfolded the mailbox. */
export function isUnfolded(mailbox: string): boolean | null {
  const stored = read(`mailbox-${mailbox}`);
  return stored === null ? null : stored === 'open';
}

export function storeFolding({ target }: Event): void {
  if (!(target instanceof Element)) return;
  const details = target.closest('summary')?.parentElement;
  if (!(details instanceof HTMLDetailsElement) || details.dataset.fold === undefined) return;
  write(`mailbox-${details.dataset.fold}`, details.open ? 'closed' : 'open');
}

/** Choices made while storage is disabled. They last as long as the page. */
const memory = new Map<string, string | null>();

function read(name: string): string | null {
  if (name === 'theme') {
    const pair = document.cookie.split('; ').find((one) => one.startsWith(THEME));
    return pair?.slice(THEME.length) ?? null;
  }
  try {
    return memory.get(name) ?? localStorage.getItem(name);
  } catch {
    return memory.get(name) ?? null;
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
    memory.set(name, value);
  }
}

/** Stores the browser's time zone. @returns false if the page is already in it, or the server cannot learn it */
export function storeZone({ frame }: Page): boolean {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const isStored = () => document.cookie.split('; ').includes(`${ZONE_COOKIE}=${timeZone}`);
  if (frame.zone === timeZone || isStored()) return false;
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing in older browsers
  document.cookie = zoneCookie(timeZone, location.protocol === 'https:');
  return isStored();
}
