import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { withoutChromium } from './chromium.ts';
import { type SignedIn, startSignedIn } from './signed-in.ts';

/** The least size of what a finger aims at, in pixels: as the design has it. */
const TARGET = 44;
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/** Looks again until it is so; a busy machine takes its time. */
const eventually = <T>(look: () => T) => expect.poll(look, { timeout: 30_000 });

let signedIn: SignedIn;
let page: Page;

/** Taps what a finger reaches: it is in the window, large enough, and nothing lies over it. */
async function tap(target: Locator): Promise<void> {
  await target.waitFor();
  const box = await target.boundingBox();
  expect(Math.round(box?.height ?? 0), await target.innerText()).toBeGreaterThanOrEqual(TARGET);
  await target.tap();
}

const path = () => new URL(page.url()).pathname;
const query = () => new URL(page.url()).searchParams.get('q') ?? '';
const still = () => page.waitForFunction(() => document.body.ariaBusy === 'false');

describe.skipIf(withoutChromium)('by touch alone, on a phone', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn();
  });
  afterAll(() => signedIn?.close());
  beforeEach(async () => {
    page = await signedIn.open('/mail', PHONE);
  });

  test('filters that are on come first, for the eye and for Tab, and keep the focus', async () => {
    /** What can be focused among the filters, in the order of Tab, and its place from the left. */
    const stops = () =>
      page
        .locator('.chips')
        .evaluate((chips) =>
          [...chips.querySelectorAll('button:not(.menu *), a')]
            .filter((stop) => stop.checkVisibility())
            .map((stop) => ({ name: stop.textContent, left: stop.getBoundingClientRect().left })),
        );
    for (const name of ['Unread', 'Has attachment']) {
      const chip = page.getByRole('button', { name, exact: true });
      await chip.focus();
      await page.keyboard.press('Enter');
      await eventually(() => chip.getAttribute('aria-pressed')).toBe('true');
      await still();
      expect(await chip.evaluate((button) => button === document.activeElement)).toBe(true);
      const found = await stops();
      const lefts = found.map(({ left }) => left);
      expect(lefts).toEqual(lefts.toSorted((a, b) => a - b));
      expect(found.slice(0, 2).map((stop) => stop.name)).toContain(name);
    }
    expect((await stops()).slice(0, 2).map(({ name }) => name)).toEqual([
      'Has attachment',
      'Unread',
    ]);
  });

  test('the drawer leads to a folder, its list to a message, and the way back to the list', async () => {
    const folder = page.locator('.side a', { hasText: 'Kept' }).first();
    expect(await folder.isVisible()).toBe(false);
    await tap(page.locator('label.drawer-button'));
    await tap(folder);
    await eventually(query).toContain('Kept');
    await still();
    // The drawer has closed behind it.
    await eventually(() => folder.isVisible()).toBe(false);
    const row = page.locator('[role=option]').nth(1);
    const subject = await row.locator('.subj').innerText();
    await tap(row);
    const head = page.locator('.read h1');
    await eventually(() => head.innerText()).toBe(subject);
    expect(await page.locator('.listcol').isVisible()).toBe(false);
    await tap(page.locator('.rtop .back'));
    await eventually(() => page.locator('.listcol').isVisible()).toBe(true);
    expect([path(), query().includes('Kept')]).toEqual(['/mail', true]);
    // As the button of the phone does.
    await page.goBack();
    await eventually(() => head.isVisible()).toBe(true);
  });

  test('the drawer closes by its button, and by a tap next to it', async () => {
    const drawer = page.locator('.side .drawer');
    await tap(page.locator('label.drawer-button'));
    await tap(page.locator('.drawer-close'));
    await eventually(() => drawer.isVisible()).toBe(false);
    await tap(page.locator('label.drawer-button'));
    await eventually(() => drawer.isVisible()).toBe(true);
    await page.touchscreen.tap(380, 420);
    await eventually(() => drawer.isVisible()).toBe(false);
  });

  test('the views of a message are a sheet', async () => {
    await tap(page.locator('[role=option]').first());
    const sheet = page.locator('.read .tabs');
    const button = page.locator('.views-button');
    for (const [name, view] of [
      ['Plain', 'plain'],
      ['HTML', 'html'],
      ['Headers', 'headers'],
      ['Source', 'source'],
      ['History', 'history'],
      ['Conversation', 'thread'],
    ] as const) {
      expect(await sheet.isVisible()).toBe(false);
      await tap(button);
      await tap(sheet.getByRole('link', { name, exact: true }));
      await page.waitForSelector(`.rbody.view-${view}`);
      await eventually(() => sheet.isVisible()).toBe(false);
      expect((await button.innerText()).trim()).toBe(name);
    }
    await tap(button);
    await eventually(() => sheet.isVisible()).toBe(true);
    await page.touchscreen.tap(195, 60);
    await eventually(() => sheet.isVisible()).toBe(false);
  });

  test('the band of time goes back by steps, and to now', async () => {
    await tap(page.locator('.bar a[href="#then"]'));
    const band = page.locator('.history-bar');
    await tap(band.getByRole('button', { name: 'previous change' }));
    await eventually(query).toContain('asof:');
    await still();
    const first = query();
    await tap(band.getByRole('button', { name: '− day' }));
    await eventually(query).not.toBe(first);
    await tap(band.getByRole('link', { name: 'Back to now' }));
    await eventually(query).toBe('');
    await eventually(() => band.isVisible()).toBe(false);
  });

  test('a code signs in', async () => {
    const { browser, web } = signedIn;
    const stranger = await browser.newContext(PHONE);
    const outside = await stranger.newPage();
    const [address = '', code = ''] = (await web.link()).split('#');
    await outside.goto(address);
    const field = outside.locator('#code');
    await tap(field);
    await outside.keyboard.insertText(code);
    await tap(outside.getByRole('button', { name: 'Sign in' }));
    await outside.waitForURL((url) => url.pathname === '/mail');
    await stranger.close();
  });

  test('what a query finds is saved as a file, and the query by a name', async () => {
    await tap(page.locator('.query'));
    for (const [typed, taken] of [
      ['ha', 'has:'],
      ['att', 'has:attachment '],
    ] as const) {
      await page.keyboard.insertText(typed);
      // Rows of what was typed before take no tap.
      await eventually(async () => {
        await tap(page.locator('.completions [role=option]').first());
        return await page.locator('#query').inputValue();
      }).toBe(taken);
    }
    await still();
    const save = page.locator('[data-act=save]');
    await save.scrollIntoViewIfNeeded();
    await tap(save);
    await page.getByLabel('Name of the saved search').and(page.locator(':focus')).waitFor();
    await page.keyboard.insertText('by-touch');
    await tap(page.locator('.query').getByRole('button', { name: 'Save' }));
    await page.locator('#query').waitFor();
    for (const [entry, found] of [
      ['All mail', ''],
      ['by-touch', '@by-touch'],
    ] as const) {
      await tap(page.locator('label.drawer-button'));
      await tap(page.locator('.side a', { hasText: entry }));
      await eventually(query).toBe(found);
      await still();
    }
    await tap(page.locator('.listhead').getByRole('link', { name: 'Export' }));
    await page.waitForURL((url) => url.pathname === '/export');
    const download = page.waitForEvent('download');
    await tap(page.getByRole('button', { name: /^Save/ }));
    expect((await download).suggestedFilename()).toMatch(/[.]zip$/);
  });

  test('the timeline moves the list', async () => {
    const first = await page.locator('[role=option]').first().innerText();
    const timeline = page.locator('.timeline');
    const box = await timeline.boundingBox();
    if (box === null) throw new Error('no timeline');
    await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height * 0.8);
    await eventually(() => page.locator('[role=option]').first().innerText()).not.toBe(first);
  });

  test('attachments are shown by kind, and saved', async () => {
    await tap(page.locator('.bottom a', { hasText: 'Attachments' }));
    await eventually(path).toBe('/files');
    await still();
    await tap(page.locator('.chips a', { hasText: 'PDF' }));
    await eventually(() => new URL(page.url()).searchParams.get('type')).toBe('pdf');
    await still();
    await tap(page.locator('.tile').first());
    await eventually(() => page.locator('.det h1').isVisible()).toBe(true);
    const download = page.waitForEvent('download');
    await tap(page.locator('.det').getByRole('link', { name: /^Save/ }));
    await download;
    await page.goBack();
    await eventually(() => page.locator('.tile').first().isVisible()).toBe(true);
  });

  test('the numbers of the dashboard lead to what they count', async () => {
    await tap(page.locator('.bottom a', { hasText: 'Dashboard' }));
    await eventually(path).toBe('/dashboard');
    await tap(page.locator('.seg a', { hasText: '90 days' }));
    await eventually(() => new URL(page.url()).searchParams.get('range')).toBe('90d');
    const ended = page.locator('.sum.e a');
    const counted = await ended.innerText();
    await tap(ended);
    await eventually(path).toBe('/mail');
    expect(query()).toContain('is:deleted');
    await eventually(() => page.locator('.listhead').innerText()).toContain(counted);
  });

  test('the four ways at the bottom lead to their pages', async () => {
    for (const [name, to] of [
      ['Attachments', '/files'],
      ['Dashboard', '/dashboard'],
      ['Health', '/health'],
      ['Mail', '/mail'],
    ] as const) {
      await tap(page.locator('.bottom a', { hasText: name }));
      await eventually(path).toBe(to);
      await still();
      const current = page.locator('.bottom [aria-current=page]');
      await eventually(async () => (await current.innerText()).trim()).toMatch(
        new RegExp(`^${name}`),
      );
    }
  });
});
