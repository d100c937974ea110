/**
 * Takes the screenshots of the documentation: `npm run screenshots [-- NAME…]`, all of them or those named. It makes
 * an archive with a past for them, so that the same program draws the same pictures. They go to docs/images.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { palettePng } from './palette-png.ts';
import type { Shown } from './screens.ts';
import { settled, unchanging } from './settled.ts';
import { startSignedIn } from './signed-in.ts';

/** Messages of each mailbox. */
const MESSAGES = 1_000;

interface Picture extends BrowserContextOptions {
  readonly address: (shown: Shown) => string;
  /** What is done before the picture is taken. */
  readonly act?: (page: Page) => Promise<unknown>;
}

const openFirst = async (page: Page): Promise<void> => {
  await page.locator('#list [role=option]').first().click();
  await page.waitForSelector('.read h1');
};

const wide = { viewport: { width: 1440, height: 900 } };
const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const query = (text: string, more = '') => `/mail?q=${encodeURIComponent(text)}${more}`;

const PICTURES: Readonly<Record<string, Picture>> = {
  mail: { address: () => query('report'), act: openFirst, ...wide },
  'mail-dark': {
    address: () => query('has:attachment report'),
    act: openFirst,
    ...wide,
    colorScheme: 'dark',
  },
  deleted: {
    address: ({ deleted }) => query('is:deleted', `&m=${deleted}&view=history`),
    ...wide,
  },
  past: { address: ({ past }) => query(`asof:${past}`), ...wide },
  dashboard: { address: () => '/dashboard', ...wide },
  phone: { address: () => query('report'), ...phone },
  'phone-message': { address: () => query('report'), act: openFirst, ...phone },
};

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !(name in PICTURES));
if (unknown.length > 0) throw new Error(`No picture is called ${unknown.join(', ')}`);
const folder = fileURLToPath(new URL('../../../docs/images/', import.meta.url));
mkdirSync(folder, { recursive: true });
const { browser, web, storageState, shown, now, close } = await startSignedIn({
  zone: 'UTC',
  messages: MESSAGES,
});
try {
  for (const [name, { address, act, ...options }] of Object.entries(PICTURES)) {
    if (asked.length > 0 && !asked.includes(name)) continue;
    const zone = { locale: 'en-GB', timezoneId: 'UTC' };
    const context = await browser.newContext({ ...zone, ...options, storageState });
    // What tsx wraps around functions with a name, which run in the page here.
    await context.addInitScript('globalThis.__name = (target) => target');
    const page = await context.newPage();
    await page.clock.setFixedTime(now);
    await page.goto(web.url + address(shown));
    await settled(page);
    await act?.(page);
    await settled(page);
    await unchanging(page);
    const taken = await page.screenshot({ animations: 'disabled', caret: 'hide' });
    await context.close();
    const picture = await palettePng(browser, taken);
    writeFileSync(`${folder}${name}.png`, picture);
    console.log(`docs/images/${name}.png ${Math.ceil(picture.length / 1000)} kB`);
  }
} finally {
  await close();
}
