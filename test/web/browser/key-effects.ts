import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import type { KeyAction } from '../../../src/web/client/keys.ts';
import type { Shown } from './screens.ts';

/** What a key does, as a person sees it. */
export interface Effect {
  /** Where it is pressed. */
  readonly at: (shown: Shown) => string;
  /** What is pressed before. */
  readonly before?: readonly string[];
  /** What can be seen afterwards, and what it is before. Read in the page. */
  readonly seen: (page: Page) => Promise<unknown>;
  /** @param first what was seen before the keys; `shown` what the archive holds */
  readonly is: (first: unknown, shown: Shown) => unknown;
}

const list = () => '/mail';
export const open = ({ message }: Shown) => `/mail?m=${message}`;
const past = ({ past: moment }: Shown) => `/mail?q=${encodeURIComponent(`asof:${moment}`)}`;

export const place = (page: Page) =>
  page.evaluate(() => {
    const address = new URL(location.href);
    // The list notes the row at its top.
    address.searchParams.delete('at');
    // The zone of this browser, which the dashboard adds.
    address.searchParams.delete('tz');
    return address.pathname + address.search;
  });
export const count = (page: Page, selector: string) => page.locator(selector).count();
/** The place of the selected row; 0 for none. */
export const selected = (page: Page) =>
  page.evaluate(() =>
    Number(document.querySelector('[role=option][aria-selected=true]')?.ariaPosInSet ?? 0),
  );
const topOfList = (page: Page) =>
  page.evaluate(() => document.querySelector('[role=scrollbar]')?.ariaValueText ?? '');
export const view = (page: Page) =>
  page.evaluate(() => document.querySelector('.read .tabs [aria-current]')?.textContent ?? '');
/** Which of the stops in the message the keys are at, and how many there are. */
const stop = (page: Page) =>
  page.evaluate(() => {
    const stops = [...document.querySelectorAll('.rbody :is(.msg, .fold, summary)')];
    return stops.findIndex((one) => one.classList.contains('current')) === stops.length - 1
      ? 'last'
      : stops.findIndex((one) => one.classList.contains('current'));
  });
const moment = async (page: Page) =>
  Date.parse(/asof:(\S+)/.exec(decodeURIComponent(await place(page)))?.[1] ?? '');
/** The part of the page that has the focus. */
export const region = (page: Page) =>
  page.evaluate(() => {
    const parts =
      '.searching .history-bar .chips .listcol .timeline .read .page .rail .side .bottom .foot';
    const has = (part: string) =>
      document.querySelector(part)?.contains(document.activeElement) === true;
    // The timeline is in the column of the list.
    return parts.split(' ').findLast(has) ?? 'none';
  });

function tab(name: string, from: string): Effect {
  return {
    at: (shown) => `${open(shown)}${from}`,
    seen: view,
    is: () => name,
  };
}

function goes(to: string): Effect {
  return { at: () => '/mail?q=step', seen: place, is: () => to };
}

/** What each key does. A key that is added to the map without a line here is an error of types. */
export const EFFECTS: { readonly [A in KeyAction]: Effect } = {
  query: {
    at: list,
    seen: (page) => page.evaluate(() => document.activeElement?.id ?? ''),
    is: () => 'query',
  },
  next: { at: list, before: ['j'], seen: selected, is: () => 2 },
  previous: { at: list, before: ['j', 'j', 'j'], seen: selected, is: () => 2 },
  wide: { at: open, seen: place, is: (_, { message }) => `/m/${message}` },
  back: { at: open, seen: place, is: () => '/mail' },
  nextMonth: { at: list, seen: topOfList, is: (first) => expect.not.stringContaining(`${first}`) },
  previousMonth: { at: list, before: ['J'], seen: topOfList, is: (first) => first },
  density: {
    at: list,
    seen: (page) => page.evaluate(() => document.documentElement.dataset.density ?? 'auto'),
    is: () => expect.stringMatching(/^(?:compact|standard|roomy)$/),
  },
  save: {
    at: () => '/mail?q=step',
    seen: (page) => page.evaluate(() => document.activeElement?.ariaLabel ?? ''),
    is: () => 'Name of the saved search',
  },
  export: { at: () => '/mail?q=step', seen: place, is: () => '/export?q=step' },
  nextHit: { at: open, seen: stop, is: () => 0 },
  previousHit: { at: open, before: ['n'], seen: stop, is: () => 'last' },
  copyLink: {
    at: open,
    seen: (page) => page.evaluate(() => navigator.clipboard.readText()),
    is: (_, { message }) => expect.stringMatching(new RegExp(`^http.*m=${message}`)),
  },
  tab1: tab('Conversation', '&view=plain'),
  tab2: tab('Plain', ''),
  tab3: tab('HTML', ''),
  tab4: tab('Headers', ''),
  tab5: tab('Source', ''),
  tab6: tab('History', ''),
  time: { at: list, seen: (page) => count(page, '.history-bar'), is: () => 1 },
  previousChange: { at: past, seen: moment, is: earlier },
  nextChange: { at: past, seen: moment, is: later },
  'go-mail': goes('/mail'),
  'go-attachments': goes('/files?q=step'),
  'go-dashboard': goes('/dashboard'),
  'go-health': goes('/health'),
  'go-inbox': goes('/mail?q=in%3AINBOX'),
  nextRegion: { at: list, seen: region, is: () => '.searching' },
  previousRegion: { at: list, seen: region, is: () => '.foot' },
  map: { at: list, seen: (page) => count(page, 'dialog.key-map[open]'), is: () => 1 },
};

function earlier(first: unknown): unknown {
  return expect.toSatisfy((now) => Number(now) < Number(first));
}

function later(first: unknown): unknown {
  return expect.toSatisfy((now) => Number(now) > Number(first));
}
