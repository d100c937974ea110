import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import yauzl from 'yauzl';
import { startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep, start, workplace } from '../../cli/child.ts';
import { launchChromium, withoutChromium } from './chromium.ts';
import { packedProgram } from './packed-program.ts';

let data: string;
let browser: Browser;
let running: ReturnType<typeof start>;
let printed: string;

/** The archive that `npm start` makes, and the server as the README starts it. */
async function startDemo(): Promise<void> {
  const sandbox = await startSandbox({ seed: 1 });
  try {
    const place = workplace(sandbox);
    data = place.data;
    const { code, stderr } = await mailkeep(['sync', '--quiet', '--config', place.config]);
    expect([code, stderr]).toEqual([0, '']);
  } finally {
    await sandbox.close();
  }
  const env = { XDG_RUNTIME_DIR: mkdtempSync(path.join(tmpdir(), 'mk-run-')) };
  const args = ['web', '--data', data, '--listen', '127.0.0.1:0'];
  running = start(args, { env, program: await packedProgram() });
  printed = '';
  while (!/Sign in at \S+\n/.test(printed)) {
    const [piece] = await Promise.race([
      once(running.child.stdout, 'data'),
      running.ended.then(({ stderr }) => Promise.reject(new Error(stderr))),
    ]);
    printed += String(piece);
  }
}

const still = (page: Page) => page.waitForFunction(() => document.body.ariaBusy === 'false');

describe.skipIf(withoutChromium)('the five minutes of the README', () => {
  beforeAll(async () => {
    await startDemo();
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    running?.child.kill('SIGTERM');
    await running?.ended;
  });

  test('sign in by the link, search, read, see the history, and take the mail out, all by clicks', async () => {
    const page = await browser.newPage({ acceptDownloads: true });
    await page.goto(/Sign in at (\S+)/.exec(printed)?.[1] ?? '');
    await page.waitForURL((url) => url.pathname === '/mail');
    await still(page);
    // The link has worked once.
    expect(page.url()).not.toContain('#');

    await page.locator('#query').click();
    await page.keyboard.type('from:ruth photograph');
    const subject = 'The photograph is ready';
    const row = page.locator('[role=option]', { hasText: subject }).first();
    await row.waitFor();
    await row.click();
    const head = page.locator('.read h1');
    await expect.poll(() => head.textContent()).toBe(subject);
    expect(await page.locator('.read .msg').first().innerText()).toContain('Nobody has answered');
    const sender = await page.locator('.read').innerText();
    expect(sender).toContain('Ruth Carter');

    await page.locator('.tabs a', { hasText: 'History' }).click();
    await page.waitForSelector('.rbody.view-history');
    const history = await page.locator('.rbody').innerText();
    expect(history).toMatch(/received|appeared/i);
    expect(history).toContain('INBOX.Lists.gardening');

    await page.locator('[data-act=export]:visible').first().click();
    await page.getByRole('heading', { name: 'Export' }).waitFor();
    const save = page.getByRole('button', { name: /^Save [\d,]+ messages?$/ });
    const count = Number(/[\d,]+/.exec(await save.innerText())?.[0].replace(',', ''));
    expect(count).toBeGreaterThan(1);
    await page.getByText('zip', { exact: true }).click();
    const [download] = await Promise.all([page.waitForEvent('download'), save.click()]);
    expect(download.suggestedFilename()).toMatch(/^mailkeep .+ \d{4}-\d\d-\d\d commit \d+\.zip$/);
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'downloaded-')), 'mail.zip');
    await download.saveAs(file);
    await page.close();

    // The program checks each hash, and so do we: the file holds what the search finds.
    const { code } = await mailkeep(['verify', '--export', file]);
    expect(code).toBe(0);
    const query = ['search', 'from:ruth photograph', '--json', '--limit', '1000', '--data', data];
    const { stdout } = await mailkeep(query);
    const found = [...stdout.matchAll(/^\{"id":"([0-9a-f]{64})"/gm)].map(([, id]) => id);
    expect(await messagesIn(file)).toEqual(new Set(found));
    expect(found).toHaveLength(count);
  });
});

/** The ids of the messages in a zip. */
async function messagesIn(file: string): Promise<Set<string>> {
  const zip = await yauzl.openPromise(file);
  const ids = new Set<string>();
  for await (const entry of zip.eachEntry()) {
    if (!entry.fileName.endsWith('.eml')) continue;
    const bytes = await buffer(await zip.openReadStreamPromise(entry));
    ids.add(createHash('sha256').update(bytes).digest('hex'));
  }
  return ids;
}
