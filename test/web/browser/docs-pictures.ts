/**
 * Takes the screenshots of the documentation from the demo archive: `npm run screenshots [-- --data DIR]`. They go to
 * docs/images.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { launchChromium } from './chromium.ts';
import { settled } from './settled.ts';
import { WebProgram } from './web-program.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

interface Picture extends BrowserContextOptions {
  readonly address: string;
  /** What is done before the picture is taken. */
  readonly act?: (page: Page) => Promise<unknown>;
}

const openFirst = async (page: Page): Promise<void> => {
  await page.locator('#results [role=option], #results .row a').first().click();
  await page.waitForSelector('.read h1');
};

const wide = { width: 1440, height: 900 };
const phone = { width: 390, height: 844 };
const PICTURES: Readonly<Record<string, Picture>> = {
  mail: { address: '/mail', act: openFirst, viewport: wide },
  'mail-dark': {
    address: '/mail?q=has%3Aattachment',
    act: openFirst,
    viewport: wide,
    colorScheme: 'dark',
  },
  deleted: { address: '/mail?q=is%3Adeleted', act: openFirst, viewport: wide },
  health: { address: '/health', viewport: wide },
  phone: { address: '/mail', viewport: phone, deviceScaleFactor: 2 },
};

const { values } = parseArgs({
  options: { data: { type: 'string', default: `${root}.demo/data` } },
});
if (!existsSync(values.data))
  throw new Error(`${values.data} does not exist; "npm start" makes the demo archive`);
const folder = `${root}docs/images`;
mkdirSync(folder, { recursive: true });
const web = await WebProgram.start(values.data);
const browser = await launchChromium();
try {
  const first = await browser.newContext();
  await web.signIn(first);
  const storageState = await first.storageState();
  for (const [name, { address, act, ...options }] of Object.entries(PICTURES)) {
    const context = await browser.newContext({ locale: 'en-GB', ...options, storageState });
    const page = await context.newPage();
    await page.goto(web.url + address);
    await settled(page);
    await act?.(page);
    await settled(page);
    await page.screenshot({ path: `${folder}/${name}.png`, animations: 'disabled' });
    console.log(`docs/images/${name}.png`);
    await context.close();
  }
} finally {
  await browser.close();
  await web.stop();
}
