import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { KEY_MAP } from '../../../src/web/client/keys.ts';
import { withoutChromium } from './chromium.ts';
import { count, EFFECTS, open, place, region, selected, view } from './key-effects.ts';
import { settled, unchanging } from './settled.ts';
import { type SignedIn, startSignedIn } from './signed-in.ts';

/** Presses keys as the map writes them. */
async function press(page: Page, keys: string): Promise<void> {
  for (const key of keys.split(' ')) await page.keyboard.press(key.replace('Ctrl+', 'Control+'));
}

const BINDINGS = KEY_MAP.flatMap(({ bindings }) => bindings);
const KEYS = BINDINGS.flatMap(({ action, keys }) => keys.map((key) => [key, action] as const));

/** Looks again until it is so; a busy machine takes its time. */
const eventually = <T>(look: () => T) => expect.poll(look, { timeout: 30_000 });

let signedIn: SignedIn;
let page: Page;

async function go(address: string): Promise<void> {
  await page.goto(signedIn.web.url + address);
  await settled(page);
}

describe.skipIf(withoutChromium)('by the keyboard', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn();
  });
  afterAll(() => signedIn?.close());
  beforeEach(async () => {
    const viewport = { width: 1440, height: 900 };
    const permissions = ['clipboard-read', 'clipboard-write'];
    page = await signedIn.page({ viewport, permissions });
  });

  test('the map has every key that does something', () => {
    expect(BINDINGS.map(({ action }) => action).sort()).toEqual(Object.keys(EFFECTS).sort());
  });

  test('Escape closes a menu that is open, and nothing else', async () => {
    await go('/mail?q=step');
    const { href } = new URL(page.url());
    const chips = page.locator('.chips .says[popovertarget]');
    const isOpen = () => page.locator('.menu:popover-open').count();
    for (let i = 0; i < (await chips.count()); i += 1) {
      await chips.nth(i).click();
      await eventually(isOpen).toBe(1);
      await press(page, 'Escape');
      await eventually(isOpen).toBe(0);
      expect([page.url(), await page.locator('#query').inputValue()]).toEqual([href, 'step']);
    }
    await press(page, 'Escape');
    await eventually(() => page.locator('#query').inputValue()).toBe('');
  });

  test('Enter in the query box leads to what was found, where letters are keys again', async () => {
    await go('/mail');
    await press(page, '/');
    await page.keyboard.type('step');
    await press(page, 'Enter');
    await eventually(() => region(page)).toBe('.listcol');
    // Keys lead on from the list that is shown.
    const link = page.locator('a[href^="/files"]').first();
    await eventually(() => link.getAttribute('href')).toContain('q=step');
    await press(page, 'g a');
    await page.waitForURL((url) => url.pathname === '/files');
    expect(new URL(page.url()).searchParams.get('q')).toBe('step');
    // What cannot be understood is still to be typed.
    await press(page, '/');
    await page.keyboard.type(' in:nowhere');
    await page.locator('#query-problem').waitFor();
    await press(page, 'Enter');
    expect(await region(page)).toBe('.searching');
  });

  test('arrows belong to a menu that is open', async () => {
    await go('/mail');
    const before = await selected(page);
    const chips = page.locator('.chips .says[popovertarget]');
    const isWithin = () =>
      page.evaluate(() => document.activeElement?.closest('.menu:popover-open') !== null);
    expect(await chips.count()).toBeGreaterThan(2);
    for (let i = 0; i < (await chips.count()); i += 1) {
      await chips.nth(i).click();
      await eventually(isWithin).toBe(true);
      await press(page, 'ArrowDown');
      expect([await selected(page), await isWithin()]).toEqual([before, true]);
      await press(page, 'Escape');
      await eventually(isWithin).toBe(false);
    }
  });

  test('a key that comes at once with the timeline moves the list', async () => {
    await page.addInitScript(() => {
      const observer = new MutationObserver(() => {
        if (document.querySelector('[role=scrollbar][aria-valuetext]') === null) return;
        observer.disconnect();
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'J', bubbles: true }));
      });
      observer.observe(document, { childList: true, subtree: true });
    });
    await go('/mail');
    const now = () =>
      page.evaluate(() => document.querySelector('[role=scrollbar]')?.ariaValueNow ?? '1');
    await eventually(now).not.toBe('1');
  });

  test('a key that comes at once with a message moves on from there', async () => {
    // Both mailboxes have a message of each subject: the third one has another.
    await go('/mail?q=step');
    for (const row of [1, 2]) {
      await press(page, 'j');
      await eventually(() => selected(page)).toBe(row);
      await settled(page);
    }
    await page.waitForSelector('.read h1');
    const heading = () => page.locator('.read h1').first().textContent();
    const second = await heading();
    await page.evaluate(() => {
      const read = () => document.querySelector('.read h1')?.textContent;
      const before = read();
      const observer = new MutationObserver(() => {
        if (read() === before) return;
        observer.disconnect();
        Object.assign(window, { isPressed: true });
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'k', bubbles: true }));
      });
      observer.observe(document, { characterData: true, childList: true, subtree: true });
    });
    const isPressed = () => page.evaluate(() => 'isPressed' in window);
    // The message comes when keys rest: the next one leads somewhere at once.
    await page.route(/\/api\/message/, async (route) => {
      const since = await page.evaluate(() => performance.now());
      await page.waitForFunction((from) => performance.now() - from > 150, since);
      await route.continue();
    });
    await press(page, 'j');
    await eventually(isPressed).toBe(true);
    await eventually(heading).toBe(second);
    await unchanging(page);
    expect(await selected(page)).toBe(2);
  });

  test.each(KEYS)('%s: %s', async (key, action) => {
    const { at, before = [], seen, is } = EFFECTS[action];
    await go(at(signedIn.shown));
    if (action.endsWith('Month')) await page.waitForSelector('[role=scrollbar][aria-valuetext]');
    // The band of time has its keys from when its code has come.
    if (action.endsWith('Change')) await page.waitForSelector('.track[role=slider]');
    const first = await seen(page);
    for (const [i, other] of before.entries()) {
      await press(page, other);
      // Keys wait for nobody, but what they lead to is asked for.
      if (other === 'j') await eventually(() => selected(page)).toBe(i + 1);
      if (other === 'J') await eventually(() => seen(page)).not.toEqual(first);
      await page.waitForFunction(() => document.body.ariaBusy === 'false');
    }
    const expected = is(first, signedIn.shown);
    // It is not so already.
    expect(await seen(page)).not.toEqual(expected);
    await press(page, key);
    await eventually(() => seen(page)).toEqual(expected);
  });

  test('letters that are switched off do nothing; other keys go on', async () => {
    await go('/you');
    await page.getByLabel('Letters are keys').uncheck();
    await go(open(signedIn.shown));
    const before = await place(page);
    const isLetter = (key: string) => key.split(' ').every((one) => [...one].length === 1);
    for (const [key] of KEYS.filter(([one]) => isLetter(one))) await press(page, key);
    await press(page, 'F6');
    await eventually(() => region(page)).toBe('.searching');
    expect([await place(page), await view(page)]).toEqual([before, 'Conversation']);
    expect(await count(page, 'dialog[open], .history-bar, [aria-label^="Name of"]')).toBe(0);
    // In the field they are letters.
    await press(page, 'j');
    await eventually(() => page.locator('#query').inputValue()).toBe('j');
    await go('/you');
    expect(await page.getByLabel('Letters are keys').isChecked()).toBe(false);
    await page.getByLabel('Letters are keys').check();
    await go('/mail');
    await press(page, 'j');
    await eventually(() => selected(page)).toBe(1);
  });

  test('F6 goes through every part of the page, and Shift+F6 back', async () => {
    await go(open(signedIn.shown));
    await page.waitForSelector('[role=scrollbar]');
    const seen: string[] = [];
    for (let i = 0; i < 8; i += 1) {
      await press(page, 'F6');
      seen.push(await region(page));
    }
    const all = ['.searching', '.chips', '.listcol', '.timeline', '.read', '.side', '.foot'];
    expect(seen).toEqual([...all, '.searching']);
    await press(page, 'Shift+F6');
    expect(await region(page)).toBe('.foot');
    await go(`/m/${signedIn.shown.message}`);
    for (const part of ['.searching', '.read', '.rail', '.side', '.foot', '.searching']) {
      await press(page, 'F6');
      expect(await region(page)).toBe(part);
    }
  });

  test('the focus returns where it came from', async () => {
    const focused = () => page.evaluate(() => document.activeElement?.outerHTML.slice(0, 60));
    await go('/mail');
    // The map of keys.
    const link = page.locator('.side a[href="/health"]');
    await link.focus();
    const before = await focused();
    await press(page, '?');
    await page.waitForSelector('dialog[open]');
    await press(page, 'Escape');
    await eventually(focused).toBe(before);
    // The name of a saved search.
    await go('/mail?q=step');
    await press(page, 's');
    await page.waitForSelector('[aria-label="Name of the saved search"]');
    await press(page, 'Escape');
    await eventually(() => region(page)).toBe('.searching');
    // A message, where it covers the list.
    await page.setViewportSize({ width: 800, height: 900 });
    await go('/mail');
    await page.locator('#list').focus();
    await press(page, 'ArrowDown');
    await press(page, 'Enter');
    await eventually(() => region(page)).toBe('.read');
    await press(page, 'u');
    await eventually(() => page.evaluate(() => document.activeElement?.role ?? '')).toBe('listbox');
    expect(await selected(page)).toBe(1);
  });
});
