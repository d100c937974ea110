import type { Page } from 'playwright-core';

/** Messages of an archive that screens show. */
export interface Shown {
  /** One with a conversation around it, in full. */
  readonly message: string;
  /** One that the service deleted. */
  readonly deleted: string;
  /** One with HTML and attachments. */
  readonly attached: string;
  /** A moment at which the archive held less; as in a query. */
  readonly past: string;
}

export interface Screen {
  readonly name: string;
  readonly address: (shown: Shown) => string;
  /** It is shown to whoever is not signed in. */
  readonly open?: true;
  /** It works without JavaScript. */
  readonly plain?: true;
  /** It can be reached in a wide window only, or in a narrow one. */
  readonly only?: 'wide' | 'narrow';
  /** What brings it up, where that is more than its address. */
  readonly act?: (page: Page) => Promise<unknown>;
  /** What stands there once all of it is drawn, where that comes after the page. */
  readonly until?: string;
}

const mail = (q: string) => `/mail?q=${encodeURIComponent(q)}`;

/** Every screen of the web interface: a new page is one more line. */
export const SCREENS: readonly Screen[] = [
  { name: 'sign-in', address: () => '/enter', open: true, plain: true },
  { name: 'mail', address: () => '/mail', plain: true },
  { name: 'a search', address: () => mail('report'), plain: true },
  { name: 'nothing found', address: () => mail('xyzzyplugh'), plain: true },
  { name: 'a wrong query', address: () => mail('in:nowhere is:nothing'), plain: true },
  { name: 'mail as it was', address: ({ past }) => mail(`asof:${past}`), plain: true },
  {
    name: 'a message next to the list',
    address: ({ message }) => `/mail?m=${message}`,
    plain: true,
  },
  { name: 'a message', address: ({ message }) => `/m/${message}`, plain: true },
  { name: 'a deleted message', address: ({ deleted }) => `/m/${deleted}`, plain: true },
  { name: 'a message with attachments', address: ({ attached }) => `/m/${attached}`, plain: true },
  { name: 'its plain text', address: ({ attached }) => `/m/${attached}?view=plain`, plain: true },
  { name: 'its HTML', address: ({ attached }) => `/m/${attached}?view=html`, plain: true },
  { name: 'its header', address: ({ attached }) => `/m/${attached}?view=headers`, plain: true },
  { name: 'its source', address: ({ attached }) => `/m/${attached}?view=source`, plain: true },
  { name: 'its history', address: ({ deleted }) => `/m/${deleted}?view=history`, plain: true },
  { name: 'no such message', address: () => '/m/0000000000', plain: true },
  {
    name: 'the band of time',
    address: () => '/mail',
    act: (page) => page.locator('a[href="#then"]').first().click(),
    until: 'input[type=datetime-local]',
    only: 'wide',
  },
  {
    name: 'the map of keys',
    address: () => '/mail',
    act: (page) => page.keyboard.press('?'),
    until: 'dialog.key-map',
  },
  {
    name: 'completions',
    address: () => '/mail',
    act: (page) => page.locator('#query').pressSequentially('report fro'),
    until: '.completions [role=option]',
  },
  ...['in', 'from', 'since'].map(
    (filter): Screen => ({
      name: `the menu of ${filter}:`,
      address: () => '/mail',
      act: (page) => page.locator(`[popovertarget=menu-${filter}]`).click(),
      until: `#menu-${filter} .choice`,
    }),
  ),
  {
    name: 'a search that is saved',
    address: () => mail('report'),
    act: (page) => page.keyboard.press('s'),
    until: '#saving',
  },
  {
    name: 'the drawer',
    address: () => '/mail',
    act: (page) => page.locator('label.drawer-button').click(),
    until: '.drawer',
    only: 'narrow',
  },
  {
    name: 'the views as a sheet',
    address: ({ message }) => `/m/${message}`,
    act: (page) => page.locator('.views-button').click(),
    until: '.read .tabs',
    only: 'narrow',
  },
  ...['', '/folders', '/runs', '/quarantine', '/held', '/verification', '/retention'].map(
    (tab): Screen => ({ name: `health${tab}`, address: () => `/health${tab}`, plain: true }),
  ),
  { name: 'attachments', address: () => '/files', plain: true },
  {
    name: 'an attachment',
    address: () => '/files',
    // Without a script there is nothing to wait for.
    act: async (page) => {
      await page.locator('.tile').first().click();
      await page.locator('.det h1').waitFor();
    },
  },
  { name: 'the dashboard', address: () => '/dashboard', plain: true },
  {
    name: 'the dashboard as tables',
    address: () => '/dashboard?range=30d',
    act: (page) =>
      page.evaluate(() => {
        for (const folded of document.querySelectorAll('details')) folded.open = true;
      }),
  },
  { name: 'an export', address: () => '/export?q=report', plain: true },
  { name: 'a look that no daemon makes', address: () => '/health?look=nobody', plain: true },
  { name: 'signed-in browsers', address: () => '/you', plain: true },
  {
    name: 'a link that leads away',
    address: () => '/away?to=https%3A%2F%2Fexample.org%2F',
    open: true,
    plain: true,
  },
  { name: 'nothing here', address: () => '/nowhere', plain: true },
];
