import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults, RunOptions } from 'axe-core';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withoutChromium } from './chromium.ts';
import { cutOff, type Fit } from './fit.ts';
import { SCREENS, type Screen } from './screens.ts';
import { settled } from './settled.ts';
import { type SignedIn, startSignedIn } from './signed-in.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** How a screen that is open is shown; media that are left out are as usual. */
interface Way extends NonNullable<Parameters<Page['emulateMedia']>[0]> {
  /** That of the window, if it is left out. */
  readonly viewport?: { readonly width: number; readonly height: number };
  /** Whether it is checked that the focus is seen. */
  readonly focus?: true;
}

/** A window in which each screen is opened once, and shown in several ways. */
interface Window extends BrowserContextOptions {
  /** By axe-core: what a window shows that another one does not. */
  readonly axe?: true;
  readonly ways: readonly Way[];
}

const USUAL: Way = {
  colorScheme: 'light',
  contrast: 'no-preference',
  forcedColors: 'none',
  reducedMotion: 'no-preference',
};
const wide = { width: 1440, height: 900 };
const medium = { width: 1280, height: 800 };
// Without transitions, so that no colour is still on its way.
const dark: Way = { colorScheme: 'dark', reducedMotion: 'reduce' };

const WINDOWS: Readonly<Record<string, Window>> = {
  'light, dark, with more contrast, and with forced colours': {
    viewport: wide,
    axe: true,
    ways: [
      { focus: true },
      dark,
      { viewport: medium, contrast: 'more', reducedMotion: 'reduce' },
      { viewport: medium, forcedColors: 'active', focus: true },
    ],
  },
  'on a phone, light and dark': {
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
    axe: true,
    ways: [{}, dark],
  },
  'in 320 pixels, and at 200 %': {
    viewport: { width: 320, height: 640 },
    deviceScaleFactor: 2,
    // What a window of 1,440 × 900 shows at 200 %.
    ways: [{}, { viewport: { width: 720, height: 450 } }],
  },
};

let signedIn: SignedIn;

async function open(page: Page, { address, act, until }: Screen): Promise<void> {
  await page.goto(signedIn.web.url + address(signedIn.shown));
  await settled(page);
  await act?.(page);
  if (until !== undefined) await page.waitForSelector(until);
}

async function show(page: Page, window: BrowserContextOptions, way: Way): Promise<void> {
  const { viewport = window.viewport, focus: _, ...media } = way;
  await page.emulateMedia({ ...USUAL, ...media });
  if (viewport == null || page.viewportSize()?.width === viewport.width) return;
  await page.setViewportSize(viewport);
  // Until all of it is laid out.
  await settled(page);
}

/** Opens each screen in one page of a context, and does something with each. */
async function eachScreen<T>(
  options: BrowserContextOptions,
  act: (page: Page, screen: Screen) => Promise<readonly T[]>,
): Promise<string[]> {
  const { browser, storageState } = signedIn;
  const own = await browser.newContext({ ...options, storageState });
  const nobody = await browser.newContext(options);
  try {
    const page = await own.newPage();
    const outside = await nobody.newPage();
    const wrong: string[] = [];
    const other = (options.viewport?.width ?? wide.width) < 1180 ? 'wide' : 'narrow';
    for (const screen of SCREENS) {
      if (screen.only === other) continue;
      const shown = screen.open === true ? outside : page;
      await show(shown, options, {});
      await open(shown, screen);
      for (const what of await act(shown, screen)) wrong.push(`${screen.name}: ${String(what)}`);
    }
    return wrong;
  } finally {
    await own.close();
    await nobody.close();
  }
}

describe.skipIf(withoutChromium)('every screen', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn();
  });
  afterAll(() => signedIn?.close());

  test.each(Object.entries(WINDOWS))('fits and can be read: %s', async (_name, window) => {
    const { axe: checked, ways, ...options } = window;
    const wrong = await eachScreen(options, async (page) => {
      const found: string[] = [];
      // The driver adds the script, because a strict policy forbids pages to.
      if (checked === true) await page.evaluate(axe);
      for (const [at, way] of ways.entries()) {
        await show(page, window, way);
        found.push(...problemsOf(await page.evaluate(cutOff)));
        if (way.reducedMotion === 'reduce') found.push(...(await page.evaluate(moving)));
        if (checked !== true || way.viewport !== undefined) continue;
        found.push(...(await violations(page, at === 0 ? ALL : COLOURS)));
      }
      // Last: it moves the focus, and scrolls to it.
      const focused = ways.filter(({ focus }) => focus);
      if (focused.length > 0) found.push(...(await unmarkedFocus(page, window, focused)));
      return found;
    });
    expect(wrong).toEqual([]);
  });

  test('would be found wrong if it were', async () => {
    const page = await signedIn.browser.newPage({ viewport: { width: 320, height: 640 } });
    await page.setContent(
      '<!doctype html><p style="width:60px;overflow:hidden;white-space:nowrap">A long line of text</p>' +
        '<p style="color:#aaa">Grey</p><img src="data:,"><div style="width:900px">Wide</div>' +
        '<a href="/x" style="position:absolute;left:-900px">Away</a><i style="position:absolute;top:1900px">Below</i><a style="transition:all 1s">x</a>' +
        '<p style="width:20px;overflow-wrap:anywhere">2 messages of 2 people</p>' +
        '<style>:focus{outline:none}</style><input>',
    );
    await page.evaluate(axe);
    const all = (await violations(page, ALL)).join();
    for (const rule of ['image-alt', 'color-contrast']) expect(all).toContain(rule);
    const colours = await violations(page, COLOURS);
    expect(colours.map((one) => one.split(' ')[0])).toEqual(['color-contrast']);
    const fit = await page.evaluate(cutOff);
    expect(fit.width).toBeGreaterThan(fit.window);
    expect(fit.beyond).toBeGreaterThan(0);
    expect([fit.cut.length, fit.squeezed.length, fit.outside.length]).toEqual([1, 1, 1]);
    expect(await page.evaluate(moving)).toHaveLength(1);
    expect((await unmarkedFocus(page, {}, [{}])).join()).toContain('<input>');
    await page.close();
  });

  test('shows the same without a script', async () => {
    const { browser, storageState, web, shown } = signedIn;
    const scripted = await browser.newContext({ storageState });
    const plain = await browser.newContext({ storageState, javaScriptEnabled: false });
    const [with_, without] = [await scripted.newPage(), await plain.newPage()];
    for (const screen of SCREENS.filter(({ plain: works, open: all }) => works && !all)) {
      await open(with_, screen);
      await without.goto(web.url + screen.address(shown));
      const heading = (page: Page) => page.locator('h1').first().textContent();
      expect([screen.name, await heading(without)]).toEqual([screen.name, await heading(with_)]);
    }
    await scripted.close();
    await plain.close();
  });
});

const ALL: RunOptions = { rules: { 'target-size': { enabled: true } } };
/** The rules whose results depend on colours. */
const COLOURS: RunOptions = { runOnly: ['color-contrast', 'link-in-text-block'] };

/** Runs axe-core, which is in the page already. */
async function violations(page: Page, options: RunOptions): Promise<string[]> {
  const { violations: found }: AxeResults = await page.evaluate(
    (options) =>
      (globalThis as unknown as { axe: typeof import('axe-core') }).axe.run(document, {
        // Of what passes, fewer details are collected.
        resultTypes: ['violations'],
        ...options,
      }),
    options,
  );
  return found.flatMap(({ id, help, nodes }) =>
    nodes.slice(0, 3).map(({ html }) => `${id} (${help}): ${html.slice(0, 200)}`),
  );
}

function problemsOf({ width, window, beyond, cut, squeezed, outside }: Fit): string[] {
  return [
    ...(beyond > 0 ? [`scrolls ${beyond} pixels beyond its end`] : []),
    ...(width > window ? [`${width} pixels wide in a window of ${window}`] : []),
    ...cut.map((text) => `cut off: ${text}`),
    ...squeezed.map((text) => `squeezed: ${text}`),
    ...outside.map((text) => `out of reach: ${text}`),
  ];
}

/** Returns elements that take time to change their look. */
function moving(): string[] {
  return [...document.querySelectorAll('*')].flatMap((element) => {
    const { transitionDuration, animationName, animationDuration } = getComputedStyle(element);
    const takesTime = (text: string) =>
      text.split(',').some((part) => Number.parseFloat(part) > 0.001);
    const moves =
      takesTime(transitionDuration) || (animationName !== 'none' && takesTime(animationDuration));
    return moves ? [`moves: ${element.localName}.${element.className}`] : [];
  });
}

/** Goes through a screen with Tab, and returns what has the focus without a ring in one of the ways. */
async function unmarkedFocus(
  page: Page,
  window: BrowserContextOptions,
  ways: readonly Way[],
): Promise<string[]> {
  const found: string[] = [];
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  for (let i = 0; i < 12; i += 1) {
    await page.keyboard.press('Tab');
    for (const way of ways) {
      await show(page, window, way);
      const unmarked = await page.evaluate(withoutRing);
      if (unmarked !== null) found.push(`focus not shown: ${unmarked}`);
    }
  }
  return [...new Set(found)];
}

/** Returns the element that has the focus, if nothing around it shows so; runs in the browser. */
function withoutRing(): string | null {
  const element = document.activeElement;
  if (element === null || element === document.body || element.localName === 'iframe') return null;
  // The browser marks the button within a field of dates.
  if (element.matches('[type^=date]:not(:focus-visible)')) return null;
  // The ring may be around the field instead of the element itself.
  for (
    let at: Element | null = element;
    at !== null && at !== document.body;
    at = at.parentElement
  ) {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(at);
    if (outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 1) return null;
    if (at === element && boxShadow !== 'none') return null;
    if (at !== element && !at.matches(':focus-within')) break;
  }
  return element.outerHTML.slice(0, 160);
}
