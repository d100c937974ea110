import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { mailkeep } from '../../cli/child.ts';
import { letter } from '../served.ts';
import { launchChromium, withoutChromium } from './chromium.ts';
import { settled } from './settled.ts';
import { WIDE } from './signed-in.ts';
import { WebProgram } from './web-program.ts';

const lines = (name: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${name} ${i + 1} of the report.`);

const MAILS = {
  long: letter('Long', [...lines('Line', 150), ...lines('> Quote', 150)].join('\r\n')),
  html: letter('Newsletter', '').replace(
    /Content-Type:[\s\S]*/,
    `Content-Type: text/html\r\n\r\n${lines('Paragraph', 200)
      .map((line) => `<p style="margin: 20px 0">${line}</p>`)
      .join('\r\n')}\r\n`,
  ),
  links: letter(
    'Links',
    [
      'Pay at https://paypal.com@evil.example:8443/login?a=1, today (see https://example.org/a_(b)).',
      'Or https://pаypal.com/ with a letter from elsewhere; <https://example.net/x>.',
      '> mailto:anna@example.org and javascript:alert(1)',
    ].join('\r\n'),
  ),
};

let web: WebProgram;
let browser: Browser;
let context: BrowserContext;

async function open(address: string): Promise<Page> {
  const page = await context.newPage();
  // Each page holds one of the few connections that a browser opens.
  onTestFinished(() => page.close());
  await page.goto(web.url + address);
  await settled(page);
  return page;
}

async function openMail(subject: string, more = ''): Promise<Page> {
  const page = await open(`/mail?q=subject:${subject}`);
  await page.locator('[role=option]').first().click();
  await page.locator('.read h1', { hasText: subject }).waitFor();
  if (more !== '') await page.goto(page.url() + more);
  await settled(page);
  return page;
}

/** Pages that the browser prints. */
async function printed(page: Page): Promise<number> {
  const pdf = await page.pdf({ format: 'A4' });
  return [...pdf.toString('latin1').matchAll(/\/Type \/Page\b/g)].length;
}

describe.skipIf(withoutChromium)('reading in a browser', () => {
  beforeAll(async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'reading-'));
    const data = path.join(folder, 'archive');
    const files = Object.entries(MAILS).map(([name, source]) => {
      const file = path.join(folder, `${name}.eml`);
      writeFileSync(file, source);
      return file;
    });
    const { code, stderr } = await mailkeep(['import', '--data', data, '--quiet', ...files]);
    expect([code, stderr]).toEqual([0, '']);
    web = await WebProgram.start(data);
    browser = await launchChromium();
    context = await browser.newContext({ viewport: WIDE });
    await web.signIn(context);
  });
  afterAll(async () => {
    await browser?.close();
    await web?.stop();
  });

  test('printing loses no line of a message, quotes included', async () => {
    const page = await openMail('Long');
    const id = new URL(page.url()).searchParams.get('m');
    // 300 lines of 20 pixels do not fit on five pages of A4.
    expect(await printed(page)).toBeGreaterThanOrEqual(6);
    await page.emulateMedia({ media: 'print' });
    const text = await page.evaluate(() => document.body.innerText);
    for (const line of ['Line 1 of', 'Line 150 of', 'Quote 1 of', 'Quote 150 of'])
      expect(text).toContain(line);
    for (const gone of ['.side', '.bar', '.chips', '.listcol', '.foot', '.tabs'])
      expect([gone, await page.locator(gone).first().isVisible()]).toEqual([gone, false]);
    await page.emulateMedia({ media: null });
    await page.evaluate(() => {
      window.print = () => void document.body.setAttribute('data-printed', '');
    });
    await page.getByRole('button', { name: 'Print' }).first().click();
    expect(await page.locator('body[data-printed]').count()).toBe(1);
    const alone = await open(`/m/${id}`);
    expect(await printed(alone)).toBeGreaterThanOrEqual(6);
    const plain = await open(`/m/${id}?view=plain`);
    expect(await printed(plain)).toBeGreaterThanOrEqual(6);
  });

  test('HTML is printed from a window of its own, at its full height', async () => {
    const page = await openMail('Newsletter', '&view=html');
    const popup = page.waitForEvent('popup');
    await page.getByRole('link', { name: 'Print' }).first().click();
    const own = await popup;
    await own.waitForLoadState();
    expect(await own.evaluate(() => self.origin)).toBe('null');
    expect(await printed(own)).toBeGreaterThanOrEqual(7);
    // The page around the frame prints the text instead of a part of the HTML.
    expect(await printed(page)).toBeGreaterThanOrEqual(4);
  });

  test('links in plain text lead to a page that shows the real host', async () => {
    const page = await openMail('Links');
    const links = page.locator('.msg .text a');
    expect(await links.allInnerTexts()).toEqual([
      'https://paypal.com@evil.example:8443/login?a=1',
      'https://example.org/a_(b)',
      'https://pаypal.com/',
      'https://example.net/x',
      'mailto:anna@example.org',
    ]);
    const follow = async (at: number): Promise<Page> => {
      const popup = page.waitForEvent('popup');
      await links.nth(at).click();
      const away = await popup;
      onTestFinished(() => away.close());
      await away.waitForLoadState();
      return away;
    };
    const tricked = await follow(0);
    expect(await tricked.locator('.address').innerText()).toBe(
      'https://paypal.com@evil.example:8443/login?a=1',
    );
    expect(await tricked.locator('.address strong').allInnerTexts()).toEqual(['evil.example']);
    expect(await tricked.locator('.problem').allInnerTexts()).toEqual([
      expect.stringContaining('paypal.com is not where the link leads'),
      expect.stringContaining('port 8443'),
    ]);
    const lookalike = await follow(2);
    expect(await lookalike.locator('.address strong').allInnerTexts()).toEqual([
      'xn--pypal-4ve.com',
    ]);
    expect(await lookalike.locator('.problem').innerText()).toContain('pаypal.com');
  });
});
