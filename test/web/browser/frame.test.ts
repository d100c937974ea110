import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { withoutChromium } from './chromium.ts';
import { settled } from './settled.ts';
import { type SignedIn, startSignedIn, WIDE } from './signed-in.ts';

const PHONE = { width: 390, height: 844 };

let signedIn: SignedIn;

const open: SignedIn['open'] = (...at) => signedIn.open(...at);

/** A parameter of the address. */
const parameter = (page: Page, name: string) => new URL(page.url()).searchParams.get(name);

/** Waits as long as a timer of the page may run, of which nothing else is seen. Milliseconds. */
const afterTimer = (page: Page, ms: number) =>
  page.evaluate((wait) => new Promise((resolve) => setTimeout(resolve, wait)), ms);

describe.skipIf(withoutChromium)('the frame', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn();
  });
  afterAll(() => signedIn?.close());

  test('a folder is asked for instead, and with Alt as well', async () => {
    const page = await open('/mail?q=step');
    const kept = page.locator('.side .l2', { hasText: 'Kept' }).first();
    await kept.click({ modifiers: ['Alt'] });
    await expect.poll(() => parameter(page, 'q')).toMatch(/^step mailbox:\S+ in:INBOX\.Kept$/);
    await expect.poll(() => page.locator('#query').inputValue()).toMatch(/^step mailbox:/);
    await kept.click();
    await expect.poll(() => parameter(page, 'q')).toMatch(/^mailbox:\S+ in:INBOX\.Kept$/);
    // The moment of both is the same one.
    const then = await open(`/mail?q=${encodeURIComponent(`step asof:${signedIn.shown.past}`)}`);
    await then
      .locator('.side .l2', { hasText: 'INBOX' })
      .first()
      .click({ modifiers: ['Alt'] });
    await expect.poll(() => parameter(then, 'q')).toMatch(/^step asof:\S+ mailbox:\S+ in:INBOX$/);
  });

  test('a theme that was chosen is there before any script', async () => {
    const { browser, web, storageState } = signedIn;
    const context = await browser.newContext({ storageState });
    onTestFinished(() => context.close());
    const page = await context.newPage();
    const schemes: string[] = [];
    for (const theme of ['Dark', 'As the system', 'Light']) {
      await page.goto(`${web.url}/you`);
      await page.getByLabel(theme, { exact: true }).check();
      const state = await context.storageState();
      const plain = await browser.newContext({ storageState: state, javaScriptEnabled: false });
      onTestFinished(() => plain.close());
      const other = await plain.newPage();
      await other.goto(`${web.url}/mail`);
      const root = other.locator('html');
      schemes.push(await root.evaluate((html) => getComputedStyle(html).colorScheme));
      await page.reload();
      expect(await page.getByLabel(theme, { exact: true }).isChecked()).toBe(true);
    }
    expect(schemes).toEqual(['dark', 'light dark', 'light']);
  });

  test('folded mailboxes stay folded, by keys as by the mouse', async () => {
    const page = await open('/mail');
    const inbox = page.locator('.mailbox .l2', { hasText: 'INBOX' });
    const summary = page.locator('[data-fold] > summary');
    expect(await inbox.first().isVisible()).toBe(true);
    await summary.first().click({ position: { x: 10, y: 12 } });
    await inbox.first().waitFor({ state: 'hidden' });
    await summary.nth(1).focus();
    await page.keyboard.press('Enter');
    // Another page, and the same one made again.
    await page.locator('.side a[href="/health"]').click();
    await page.waitForURL(/health/);
    await settled(page);
    expect(await page.locator('[data-fold][open]').count()).toBe(0);
    await page.reload();
    await settled(page);
    expect(await page.locator('[data-fold][open]').count()).toBe(0);
    await summary.first().click({ position: { x: 10, y: 12 } });
    await page.reload();
    await settled(page);
    expect(await page.locator('[data-fold][open]').count()).toBe(1);
    // The name next to it is a link.
    await page.locator('.mailbox a.strong').first().click();
    await expect.poll(() => parameter(page, 'q')).toMatch(/^mailbox:/);
    expect(await page.locator('[data-fold][open]').count()).toBe(1);
  });

  test.each([true, false])(
    'a look is asked for, with a script and without: %s',
    async (scripted) => {
      for (const viewport of [WIDE, PHONE]) {
        const page = await open('/health', { javaScriptEnabled: scripted, viewport });
        await page.getByRole('button', { name: 'Check for new mail' }).click();
        await page.getByText('No daemon runs for this archive.').waitFor();
        expect(new URL(page.url()).search).toBe('?look=nobody');
      }
    },
  );

  test('the way to the past is in reach in every window', async () => {
    for (const width of [320, 390, 900, 901, 1180, 1440]) {
      const page = await open('/mail', { viewport: { width, height: 844 } });
      const link = page.getByRole('link', { name: 'History' });
      const box = await link.boundingBox();
      expect([width, (box?.width ?? 0) >= 24]).toEqual([width, true]);
      expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(width);
      await link.click();
      await page.locator('.history-bar input[type=datetime-local]').waitFor();
    }
    const plain = await open('/mail?q=step', { javaScriptEnabled: false, viewport: PHONE });
    const week = plain.getByRole('link', { name: 'a week ago' });
    expect(await week.isVisible()).toBe(false);
    await plain.getByRole('link', { name: 'History' }).click();
    await week.click();
    expect(parameter(plain, 'q')).toMatch(/^step asof:/);
    expect(await plain.getByText('As it was on').isVisible()).toBe(true);
  });

  test('the band of a page of the past stands in every frame while the script takes over', async () => {
    const { web, shown } = signedIn;
    const page = await signedIn.page({ viewport: WIDE });
    await page.addInitScript({
      content: `
        window.heights = [];
        (function look() {
          const main = document.querySelector('#results');
          if (main !== null) heights.push(main.querySelector('.history-bar')?.clientHeight ?? 0);
          requestAnimationFrame(look);
        })();
      `,
    });
    await page.goto(`${web.url}/mail?q=${encodeURIComponent(`asof:${shown.past}`)}`);
    await page.locator('.history-bar input[type=datetime-local]').waitFor();
    await page.locator('.track .dates').waitFor();
    const heights = z.array(z.number()).parse(await page.evaluate('heights'));
    expect(heights.length).toBeGreaterThan(2);
    expect(Math.min(...heights)).toBeGreaterThan(0);
    // The track has its place before it is drawn.
    expect(Math.max(...heights) - Math.min(...heights)).toBeLessThanOrEqual(2);
  });

  test('the band closes with the past, however soon that is left', async () => {
    const page = await open('/mail');
    // What stands around the list never comes.
    await page.route('**/api/frame?*', () => undefined);
    await page.locator('.bar a[href="#then"]').click();
    const band = page.locator('.history-bar');
    await band.getByRole('button', { name: 'previous change' }).click();
    await expect.poll(() => parameter(page, 'q')).toContain('asof:');
    await band.getByRole('link', { name: 'Back to now' }).click();
    await expect.poll(() => parameter(page, 'q')).toBeNull();
    await band.waitFor({ state: 'hidden' });
  });

  test.each([WIDE, PHONE])(
    'what goes when it is pressed leaves the focus to a chip: %o',
    async (viewport) => {
      const { past } = signedIn.shown;
      const gone: readonly (readonly [query: string, pressed: string])[] = [
        [`step asof:${past}`, '.chip.past'],
        [`asof:${past}`, '.history-bar .now a'],
        ['larger:1', '.chip[aria-pressed=true]'],
        ['in:INBOX', '.chip .off'],
      ];
      for (const [query, pressed] of gone) {
        const page = await open(`/mail?q=${encodeURIComponent(query)}`, { viewport });
        if (query.includes('asof:')) await page.locator('.track .dates').waitFor();
        await page.locator(pressed).first().focus();
        await page.keyboard.press('Enter');
        await expect.poll(() => parameter(page, 'q')).not.toBe(query);
        await page.locator(pressed).first().waitFor({ state: 'detached' });
        await settled(page);
        expect(await page.locator('.chips button:focus').count(), pressed).toBe(1);
      }
      const page = await open('/mail', { viewport });
      await page.keyboard.press('t');
      const forward = page
        .locator('.history-bar')
        .getByRole('button', { name: /[+] day|next change/ });
      await forward.first().waitFor();
      expect(await forward.count()).toBe(2);
      for (const button of await forward.all()) expect(await button.isDisabled()).toBe(true);
    },
  );

  test('who may read some mailboxes is not offered to save a search', async () => {
    const all = await open('/mail?q=step');
    expect(await all.locator('[data-act=save]').count()).toBe(1);
    const { browser, web } = signedIn;
    const context = await browser.newContext({ viewport: WIDE });
    onTestFinished(() => context.close());
    const page = await web.signIn(context, await web.link('ada@example.org'));
    await page.goto(`${web.url}/mail?q=step`);
    await settled(page);
    expect(await page.locator('[data-act=export]').count()).toBe(1);
    expect(await page.locator('[data-act=save]').count()).toBe(0);
    await page.locator('#list').focus();
    await page.keyboard.press('s');
    expect(await page.locator('#query').count()).toBe(1);
  });

  test('the query box follows the way back at once, whenever the answer comes', async () => {
    const page = await open('/mail?q=step');
    await page.locator('.side .l2', { hasText: 'Kept' }).first().click();
    await expect.poll(() => page.locator('#query').inputValue()).toMatch(/Kept/);
    await settled(page);
    const { promise: held, resolve: answer } = Promise.withResolvers<void>();
    await page.route('**/api/**', async (route) => {
      await held;
      await route.continue();
    });
    await page.goBack();
    await expect.poll(() => page.locator('#query').inputValue(), { timeout: 2_000 }).toBe('step');
    answer();
    await settled(page);
    expect(await page.locator('#query').inputValue()).toBe('step');
  });

  test('the line of time is asked for once the keys rest', async () => {
    const { browser, storageState, web } = signedIn;
    // Its clock is that of all pages of a context.
    const context = await browser.newContext({ storageState, viewport: WIDE });
    onTestFinished(() => context.close());
    const page = await context.newPage();
    await page.clock.install();
    const asked: string[] = [];
    page.on('request', (request) => {
      if (request.url().includes('/api/timeline'))
        asked.push(new URL(request.url()).searchParams.get('q') ?? '');
    });
    await page.goto(`${web.url}/mail`);
    await page.clock.runFor(1_000);
    await expect.poll(() => asked).toEqual(['']);
    // From here on, its clock goes only as far as it is told to.
    await page.clock.pauseAt(await page.evaluate(() => Date.now() + 1_000));
    for (const letter of 'step') {
      const rows = page.waitForResponse(/api\/rows/);
      await page.locator('input[name=q]').press(letter);
      await (await rows).finished();
      // What the last key asked for is off only once the rows of this one are there.
      await expect.poll(() => page.evaluate(() => document.body.ariaBusy)).toBe('false');
      await page.clock.runFor(100);
    }
    expect(asked).toEqual(['']);
    await page.clock.runFor(200);
    await expect.poll(() => asked).toEqual(['', 'step*']);
  });

  test('the word at the caret is a prefix until Enter or a blank', async () => {
    const page = await open('/mail');
    const box = page.locator('#query');
    const rows = page.locator('[role=option][id^=row]');
    await box.pressSequentially('ste');
    await expect.poll(() => page.locator('.listhead').innerText()).toMatch(/^\d+ messages/);
    const shown = await rows.count();
    expect(shown).toBeGreaterThan(0);
    const marked = (await page.locator('.row mark').allInnerTexts()).map((text) =>
      text.toLowerCase(),
    );
    expect(marked).toContain('step');
    for (const text of marked) expect(text).toMatch(/^ste/);
    expect([parameter(page, 'q'), await box.inputValue()]).toEqual(['ste', 'ste']);
    const exported = await page.locator('.chips [data-act=export]').getAttribute('href');
    expect(exported).toBe('/export?q=ste*');
    // An opened message keeps the list, and what is marked.
    await rows.first().click();
    await page.locator('.msg mark').first().waitFor();
    expect([parameter(page, 'q'), await rows.count()]).toEqual(['ste', shown]);
    await box.press('Enter');
    await page.getByRole('heading', { name: 'Nothing found' }).waitFor();
    expect([parameter(page, 'q'), await box.inputValue()]).toEqual(['ste', 'ste']);
    // A blank ends the word as well, and what follows the caret stays as it is.
    await box.fill('step');
    await box.press('Home');
    await box.pressSequentially('rep ');
    await page.getByRole('heading', { name: 'Nothing found' }).waitFor();
    expect(parameter(page, 'q')).toBe('rep step');
  });

  test('a problem of a query is shown at its place while a word before it is typed', async () => {
    const page = await open('/mail');
    const box = page.locator('#query');
    await box.fill(' is:unred');
    await box.press('Home');
    await box.pressSequentially('step');
    await page.locator('#query-problem').waitFor();
    expect(await page.locator('.wave').allInnerTexts()).toEqual(['unred']);
  });

  test('nothing found says so, also from a place in the list on', async () => {
    const page = await open(`/mail?q=xyzzyplugh&at=${signedIn.shown.message}`);
    await page.getByRole('heading', { name: 'Nothing found' }).waitFor();
  });

  test('another order begins at its beginning, however soon after a scroll', async () => {
    const page = await open('/mail');
    const { promise: held, resolve: answer } = Promise.withResolvers<void>();
    await page.route(/\/api\/rows\?.*sort=oldest/, async (route) => {
      await held;
      await route.continue();
    });
    await page.locator('#list').evaluate((list) => list.scrollBy(0, 600));
    await page.locator('.listhead a', { hasText: 'Newest first' }).click();
    // The scroll comes to rest while the old list is still there.
    await afterTimer(page, 450);
    expect([parameter(page, 'sort'), parameter(page, 'at')]).toEqual(['oldest', null]);
    answer();
    await settled(page);
    expect(parameter(page, 'at')).toBeNull();
    expect(await page.locator('#list').evaluate((list) => list.scrollTop)).toBe(0);
  });

  test('a message that a held key was about to open stays closed after Esc', async () => {
    const page = await open('/mail');
    await page.locator('#list').focus();
    await page.keyboard.press('j');
    await expect.poll(() => parameter(page, 'm')).not.toBeNull();
    await settled(page);
    // As a key does that is held down: all in one turn, and Esc before the keys rest.
    await page.evaluate(() => {
      const list = document.getElementById('list');
      for (const key of ['j', 'j', 'j', 'Escape'])
        list?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    });
    await expect.poll(() => parameter(page, 'm')).toBeNull();
    await afterTimer(page, 300);
    expect(parameter(page, 'm')).toBeNull();
  });
});
