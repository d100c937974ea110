import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { BrowserContextOptions } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withoutChromium } from './chromium.ts';
import { comparePictures } from './compare-pictures.ts';
import type { Shown } from './screens.ts';
import { settled, unchanging } from './settled.ts';
import { type SignedIn, startSignedIn } from './signed-in.ts';

/** The pictures were taken with this version and DejaVu 2.37; another one may draw letters and fields differently. */
const CHROMIUM = '156';
/** Of all pixels, so many may differ: fewer than one changed word takes. */
const TOLERANCE = 0.0002;
const MAX_BYTES = 100_000;
/** `MAILKEEP_PICTURES=write` takes them again instead of comparing. */
const WRITES = process.env.MAILKEEP_PICTURES === 'write';

interface Picture extends BrowserContextOptions {
  readonly address: (shown: Shown) => string;
  readonly open?: true;
}

// Small enough to be kept.
const wide = { viewport: { width: 1200, height: 720 }, deviceScaleFactor: 0.5 };
const PICTURES: Readonly<Record<string, Picture>> = {
  'sign-in': { address: () => '/enter', open: true, viewport: { width: 800, height: 640 } },
  mail: { address: ({ message }) => `/mail?m=${message}`, ...wide },
  'mail-dark': {
    address: ({ deleted }) => `/mail?q=is%3Adeleted&m=${deleted}`,
    ...wide,
    colorScheme: 'dark',
  },
  'mail-phone': { address: () => '/mail', viewport: { width: 390, height: 844 } },
  past: { address: ({ past }) => `/mail?q=${encodeURIComponent(`asof:${past}`)}`, ...wide },
  files: { address: () => '/files', ...wide },
  dashboard: {
    address: () => '/dashboard',
    ...wide,
    // Above the panel with the size of the disk, which need not be the same.
    viewport: { width: 1200, height: 560 },
    colorScheme: 'dark',
  },
};

let signedIn: SignedIn;

const fileOf = (name: string) => fileURLToPath(new URL(`pictures/${name}.png`, import.meta.url));
const kept = fileURLToPath(new URL('../../../node_modules/.cache/pictures/', import.meta.url));

describe.skipIf(withoutChromium)('a screen looks as it did', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn({ zone: 'UTC' });
  });
  afterAll(() => signedIn?.close());

  test.each(Object.entries(PICTURES))('%s', async (name, { address, open, ...options }) => {
    const { browser, storageState, web, shown } = signedIn;
    const [version = ''] = browser.version().split('.');
    if (version !== CHROMIUM) {
      console.warn(
        `not compared: the pictures are of Chromium ${CHROMIUM}, this is ${browser.version()}`,
      );
      return;
    }
    const signIn = open === true ? {} : { storageState };
    const own = await browser.newContext({
      timezoneId: 'UTC',
      locale: 'en-GB',
      ...options,
      ...signIn,
    });
    const page = await own.newPage();
    await page.clock.setFixedTime(signedIn.now);
    await page.goto(web.url + address(shown));
    await settled(page);
    await unchanging(page);
    const picture = await page.screenshot({ animations: 'disabled', caret: 'hide' });
    await own.close();
    if (WRITES) {
      expect(picture.length).toBeLessThanOrEqual(MAX_BYTES);
      writeFileSync(fileOf(name), picture);
      return;
    }
    const { share, text } = await comparePictures(browser, readFileSync(fileOf(name)), picture);
    if (share > TOLERANCE) {
      mkdirSync(kept, { recursive: true });
      writeFileSync(`${kept}${name}.png`, picture);
    }
    expect(share, `${text}; the picture is ${kept}${name}.png`).toBeLessThanOrEqual(TOLERANCE);
  });

  test('a change of one line of text is seen', async () => {
    const { browser } = signedIn;
    const page = await browser.newPage(wide);
    await page.setContent('<p>The archive adds up.</p>');
    const before = await page.screenshot();
    await page.setContent('<p>The archive does not add up.</p>');
    const { share } = await comparePictures(browser, before, await page.screenshot());
    expect((await comparePictures(browser, before, before)).share).toBe(0);
    expect(share).toBeGreaterThan(TOLERANCE);
    await page.close();
  });
});
