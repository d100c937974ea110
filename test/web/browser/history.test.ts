import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { withoutChromium } from './chromium.ts';
import { moment, type SignedIn, startSignedIn } from './signed-in.ts';
import { WebProgram } from './web-program.ts';

let signedIn: SignedIn;

/** What a person sees of where they are. */
interface Place {
  readonly address: string;
  readonly title: string;
  readonly query: string;
  /** The message that is open, and in which view. */
  readonly message: string | null;
  readonly view: string | null;
}

async function placeOf(page: Page): Promise<Place> {
  return page.evaluate(() => ({
    address: location.pathname + location.search,
    title: document.title,
    query: document.querySelector<HTMLInputElement>('input[name=q]')?.value ?? '',
    message: document.querySelector('.read h1')?.textContent ?? null,
    view: document.querySelector('.read .tabs [aria-current=page]')?.textContent ?? null,
  }));
}

/** Waits until a page is at a place, with all that belongs to it. */
function expectPlace(page: Page, expected: Place): Promise<void> {
  return expect.poll(() => placeOf(page), { timeout: 15_000 }).toEqual(expected);
}

/** Waits until a page is where a step leads, and nothing is under way. */
async function arrived(page: Page, test: (place: Place) => boolean): Promise<Place> {
  await expect.poll(async () => test(await placeOf(page)), { timeout: 15_000 }).toBe(true);
  await page.waitForFunction(() => document.body.ariaBusy === 'false');
  return placeOf(page);
}

const folder = (page: Page, name: string) =>
  page.locator('nav a[href*="in%3A"]', { hasText: name }).first();
const row = (page: Page, number: number) =>
  page.locator('#results [role=option], #results .row a').nth(number);

describe.skipIf(withoutChromium)('in a browser', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn();
  });
  afterAll(() => signedIn?.close());

  test('back and forward lead through query, folder, message and view', async () => {
    const page = await signedIn.open('/mail');
    const places = [await arrived(page, ({ address }) => address === '/mail')];
    const step = async (act: Promise<unknown>, leads: (place: Place) => boolean) => {
      await act;
      places.push(await arrived(page, leads));
    };
    const box = page.locator('input[name=q]');
    await step(
      box.fill('step'),
      ({ address, title }) => /q=step/.test(address) && /step/.test(title),
    );
    await step(folder(page, 'Kept').click(), ({ query }) => query.includes('Kept'));
    await step(row(page, 0).click(), ({ message }) => message !== null);
    const first = places.at(-1)?.message ?? '';
    await step(row(page, 1).click(), ({ message }) => message !== null && message !== first);
    await step(
      page.locator('.tabs a', { hasText: 'Headers' }).click(),
      ({ view }) => view === 'Headers',
    );
    await step(
      page.locator('a[href="/health"]').first().click(),
      ({ address }) => address === '/health',
    );
    for (const place of places.slice(0, -1).reverse()) {
      await page.goBack();
      await expectPlace(page, place);
    }
    for (const place of places.slice(1)) {
      await page.goForward();
      await expectPlace(page, place);
    }
    // What can be seen can be sent as a link.
    for (const place of places) {
      await page.goto(signedIn.web.url + place.address);
      await expectPlace(page, place);
    }
  });

  test('each press leads to the change before, then to the next one, and ends at the first', async () => {
    const page = await signedIn.open('/mail');
    const known = z.object({ data: z.object({ time: z.number() }).nullable() });
    const moments: string[] = [];
    for (let than = 0; ; ) {
      const address = `/api/changes/next?than=${than}`;
      const { data } = known.parse(
        await page.evaluate(async (from) => (await fetch(from)).json(), address),
      );
      if (data === null) break;
      than = data.time;
      // Several changes of one second are one moment of a query.
      const text = moment(Math.floor(than / 1000) * 1000);
      if (text !== moments.at(-1)) moments.push(text);
    }
    expect(moments.length).toBeGreaterThan(2);
    await page.locator('.bar a[href="#then"]').click();
    const [previous, next] = ['previous', 'next'].map((name) =>
      page.getByRole('button', { name: `${name} change` }),
    );
    if (previous === undefined || next === undefined) throw new Error('no buttons');
    expect(await next.isDisabled()).toBe(true);
    const query = () => new URL(page.url()).searchParams.get('q');
    for (const text of moments.toReversed()) {
      await previous.click();
      await expect.poll(query, { timeout: 15_000 }).toBe(`asof:${text}`);
    }
    await expect.poll(() => previous.isDisabled(), { timeout: 15_000 }).toBe(true);
    for (const text of moments.slice(1)) {
      await next.click();
      await expect.poll(query, { timeout: 15_000 }).toBe(`asof:${text}`);
    }
    // As many presses as fit before the first answer.
    await page.goto(`${signedIn.web.url}/mail?q=asof:${moments.at(-1)}`);
    await previous.waitFor();
    await previous.dblclick();
    await expect.poll(query, { timeout: 15_000 }).toBe(`asof:${moments.at(-3)}`);
  });

  test('the way back to now keeps the message that is open', async () => {
    const { message, past } = signedIn.shown;
    const page = await signedIn.open(`/mail?m=${message}&view=headers&q=asof:${past}`);
    const then = await arrived(page, ({ message: open }) => open !== null);
    await page.getByRole('link', { name: 'Back to now' }).click();
    const now = await arrived(page, ({ query, message: open }) => query === '' && open !== null);
    expect(now).toMatchObject({ message: then.message, view: 'Headers' });
    expect(now.address).toContain(`/mail?m=${message}&view=headers`);
  });

  test('two tabs go their own ways', async () => {
    const [one, two] = [await signedIn.open('/mail'), await signedIn.open('/mail')];
    await folder(one, 'Kept').click();
    await two.locator('input[name=q]').fill('step');
    const inKept = await arrived(one, ({ query }) => query.includes('Kept'));
    const found = await arrived(two, ({ address }) => address.includes('q=step'));
    expect(await placeOf(one)).toEqual(inKept);
    await one.goBack();
    const back = await arrived(one, (at) => at.address === '/mail' && at.query === '');
    expect(back.query).toBe('');
    expect(await placeOf(two)).toEqual(found);
  });

  test('a session that another browser ends leads to the sign-in, with nothing of the mail', async () => {
    const { browser, web } = signedIn;
    const ended = await browser.newContext();
    const page = await web.signIn(ended, await web.link());
    await page.waitForFunction(() => document.body.ariaBusy === 'false');
    const you = await signedIn.open('/you');
    const end = you.getByRole('button', { name: 'End', exact: true });
    expect(await end.count()).toBe(1);
    await end.click();
    await you.waitForLoadState();
    await folder(page, 'Kept').click();
    await page.waitForURL((url) => url.pathname === '/enter');
    // The page before is not kept for the way back.
    await page.goBack();
    await page.waitForURL((url) => url.pathname === '/enter');
    await ended.close();
  });

  test('a signed-out tab shows no more in the other one', async () => {
    const { browser, web } = signedIn;
    const own = await browser.newContext();
    const page = await web.signIn(own, await web.link());
    await page.waitForFunction(() => document.body.ariaBusy === 'false');
    const you = await own.newPage();
    await you.goto(`${web.url}/you`);
    await you.getByRole('button', { name: 'Sign out' }).click();
    await you.waitForURL((url) => url.pathname === '/enter');
    await page.locator('input[name=q]').fill('step');
    await page.waitForURL((url) => url.pathname === '/enter');
    expect((await own.cookies()).filter(({ name }) => /session|mailkeep-\d+$/.test(name))).toEqual(
      [],
    );
    await own.close();
  });

  test('while the server is away, what is shown stays; once it is back, the page continues by itself', async () => {
    const archive = signedIn;
    const running: WebProgram[] = [];
    const serve = async (port = 0): Promise<WebProgram> => {
      const web = await WebProgram.start(archive.data, { port, now: archive.now });
      running.push(web);
      return web;
    };
    onTestFinished(async () => {
      for (const web of running) await web.stop();
    });
    const first = await serve();
    const { port } = first;
    const own = await archive.browser.newContext();
    const page = await first.signIn(own);
    await page.waitForFunction(() => document.body.ariaBusy === 'false');
    const rows = async (): Promise<string[]> =>
      (await page.locator('[role=option]').allInnerTexts()).slice(0, 5);
    const before = await rows();
    expect(before).toHaveLength(5);
    await first.stop();
    await folder(page, 'Kept').click();
    const strip = page.getByText('The connection to the archive is lost');
    await strip.waitFor();
    // Nothing that was there is gone.
    expect(await rows()).toEqual(before);
    const second = await serve(port);
    // The same browser is still signed in: its session outlives the server.
    await strip.waitFor({ state: 'detached', timeout: 60_000 });
    const place = await arrived(page, ({ query }) => query.includes('Kept'));
    expect(place.address).toContain('Kept');
    await second.stop();
    await page.locator('input[name=q]').fill('step');
    await strip.waitFor();
    await serve(port);
    await page.getByRole('button', { name: 'Try now' }).click();
    await strip.waitFor({ state: 'detached' });
    await own.close();
  });
});
