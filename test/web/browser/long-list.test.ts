import { createWriteStream, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mailkeep } from '../../cli/child.ts';
import { launchChromium, withoutChromium } from './chromium.ts';
import { settled } from './settled.ts';
import { WebProgram } from './web-program.ts';

const MESSAGES = 50_000;
const FIRST = Date.UTC(2010, 0, 1, 12);
/** What a long list may cost, however long it is. */
const MAX_ROWS = 60;
const MAX_PIXELS = 8_000_000;

/** An mbox file of short messages, two hours apart. */
function* letters(): Generator<string> {
  for (let i = 0; i < MESSAGES; i += 1) {
    const date = new Date(FIRST + i * 7_200_000).toUTCString();
    const [weekday = '', day, month, year, time] = date.split(/[ ,]+/);
    yield `From nobody@example.org ${weekday} ${month} ${day} ${time} ${year}\n` +
      `Message-ID: <${i}@example.org>\nDate: ${date}\nFrom: Person ${i % 97} <p${i % 97}@example.org>\nTo: ada@example.org\n` +
      `Subject: Letter ${i}\n\nThis is letter ${i}.\n\n`;
  }
}

let browser: Browser;
let web: WebProgram;

describe.skipIf(withoutChromium)(`a list of ${MESSAGES.toLocaleString('en')} messages`, () => {
  beforeAll(async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'long-list-'));
    const mbox = path.join(folder, 'letters.mbox');
    await pipeline(Readable.from(letters()), createWriteStream(mbox));
    const data = path.join(folder, 'archive');
    const imported = await mailkeep(['import', '--data', data, '--quiet', mbox]);
    expect([imported.stderr, imported.code]).toEqual(['', 0]);
    web = await WebProgram.start(data);
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await web?.stop();
  });

  test('has few rows in the document, wherever it is, and each end is the end', async () => {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await web.signIn(context);
    await settled(page);
    await watchRows(page);
    expect(await page.locator('.listhead').innerText()).toContain('50,000 messages');
    expect(await subjects(page)).toContain(`Letter ${MESSAGES - 1}`);

    await page.mouse.move(500, 500);
    for (let i = 0; i < 40; i += 1) await page.mouse.wheel(0, 3_000);
    await page.locator('#list').focus();
    await page.keyboard.press('End');
    await expect.poll(() => subjects(page), { timeout: 30_000 }).toContain('Letter 0');
    await page.keyboard.press('Home');
    await expect
      .poll(() => subjects(page), { timeout: 30_000 })
      .toContain(`Letter ${MESSAGES - 1}`);

    const timeline = await page.locator('[role=scrollbar]').boundingBox();
    if (timeline === null) throw new Error('the list has no timeline');
    const x = timeline.x + timeline.width / 2;
    await page.mouse.move(x, timeline.y + 5);
    await page.mouse.down();
    for (let i = 1; i <= 40; i += 1)
      await page.mouse.move(x, timeline.y + (timeline.height * i) / 80);
    await page.mouse.up();
    await settled(page);
    // Half of the way down the line of time is half of the years back.
    await expect
      .poll(async () => (await numbers(page)).some((at) => at > 20_000 && at < 30_000), {
        timeout: 30_000,
      })
      .toBe(true);

    const { rows, pixels } = await page.evaluate(
      () => (window as unknown as { watched: { rows: number; pixels: number } }).watched,
    );
    expect(rows).toBeGreaterThan(10);
    expect(rows).toBeLessThanOrEqual(MAX_ROWS);
    expect(pixels).toBeGreaterThan(0);
    expect(pixels).toBeLessThanOrEqual(MAX_PIXELS);
    await context.close();
  });
});

/** Notes the most rows and the greatest height that the list ever has from now on, in `watched`. */
async function watchRows(page: Page): Promise<void> {
  await page.evaluate(() => {
    const watched = { rows: 0, pixels: 0 };
    const look = (): void => {
      watched.rows = Math.max(watched.rows, document.querySelectorAll('.row').length);
      const { scrollHeight = 0 } = document.querySelector('#list') ?? {};
      watched.pixels = Math.max(watched.pixels, scrollHeight);
    };
    Object.assign(window, { watched });
    look();
    new MutationObserver(look).observe(document.body, {
      childList: true,
      subtree: true,
      attributes: true,
    });
  });
}

async function subjects(page: Page): Promise<string[]> {
  const text = await page.locator('#list').innerText();
  return text.match(/Letter \d+/g) ?? [];
}

async function numbers(page: Page): Promise<number[]> {
  return (await subjects(page)).map((subject) => Number(subject.slice('Letter '.length)));
}
