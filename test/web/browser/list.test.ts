import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep, workplace } from '../../cli/child.ts';
import { flipBit, letter } from '../served.ts';
import { withoutChromium } from './chromium.ts';
import { settled, unchanging } from './settled.ts';
import { moment, type SignedIn, startSignedIn, WIDE } from './signed-in.ts';
import { WebProgram } from './web-program.ts';

let signedIn: SignedIn;

/** The ids of all messages, newest first. */
const idsOf = (page: Page): Promise<string[]> =>
  page.evaluate(async () => {
    const ids: string[] = [];
    for (let after = ''; ; ) {
      const answer = await fetch(`/api/rows?limit=200${after}`);
      const { data } = await answer.json();
      for (const { line } of data.hits) ids.push(line.id);
      if (data.next === null) return ids;
      after = `&after=${data.next}`;
    }
  });

/** True if the selected row is in view. */
const isInList = (page: Page): Promise<boolean> =>
  page.evaluate(() => {
    const list = document.getElementById('list')?.getBoundingClientRect();
    const row = document.querySelector('[role=option][aria-selected=true]');
    const box = row?.getBoundingClientRect();
    if (list === undefined || box === undefined) return false;
    return box.top >= list.top - 1 && box.bottom <= list.bottom + 1;
  });

const subjects = (page: Page) => page.locator('[role=option] .subj').allInnerTexts();

describe.skipIf(withoutChromium)('the list in a browser', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn();
  });
  afterAll(() => signedIn?.close());

  test('in the past, rows say what became of their messages, and the timeline what came since', async () => {
    const [, second = 0] = signedIn.moments;
    const asOf = `asof:${moment(second + 86_400_000)}`;
    const page = await signedIn.open(`/mail?q=${encodeURIComponent(asOf)}`);
    await page.locator('.timeline .later').first().waitFor({ state: 'attached' });
    const since = page.locator('.history-bar a', { hasText: 'stored since' });
    expect(await since.getAttribute('href')).toContain('added%3A');
    // What was known and what was stored since is all that there is.
    const numberIn = (text: string) =>
      Number(/[\d,]+/.exec(text)?.[0].replaceAll(',', '') ?? Number.NaN);
    const known = numberIn(await page.locator('.history-bar a', { hasText: 'known' }).innerText());
    const all = await page.evaluate(async () => (await fetch('/api/counts?q=')).json());
    expect(all).toMatchObject({
      data: { all: { count: known + numberIn(await since.innerText()) } },
    });
    // The band takes its height from the list, and the end of the line of time can be reached.
    const timeline = page.locator('.timeline');
    const [box, foot] = [await timeline.boundingBox(), await page.locator('.foot').boundingBox()];
    if (box === null || foot === null) throw new Error('no timeline');
    expect(box.y + box.height).toBeLessThanOrEqual(foot.y + 1);
    await page.mouse.move(box.x + 20, box.y + box.height - 20);
    await page.mouse.down();
    await page.mouse.move(box.x + 20, box.y + box.height - 120, { steps: 4 });
    expect(await page.locator('.timeline-label').innerText()).toMatch(/message|No messages/);
    await page.mouse.up();
    await page.locator('.timeline-label').waitFor({ state: 'detached' });
    // Without a script, the rows of a page are there at once.
    const plain = `/mail?q=${encodeURIComponent(`in:INBOX -is:deleted ${asOf}`)}`;
    const rows = await signedIn.open(plain, { javaScriptEnabled: false });
    const tags = await rows.locator('.row .tag').allInnerTexts();
    expect(tags).toContain('now in INBOX.Kept');
    expect(tags.some((tag) => /^deleted\s/.test(tag))).toBe(true);
    // One that was deleted since has the hatch as well.
    expect(await rows.locator('.row.ended .tag.ended').count()).toBeGreaterThan(0);
    expect(await rows.locator('.row:not(.ended) .tag.ended').count()).toBe(0);
  });

  test('an opened link shows and selects its row, on any page of the list', async () => {
    const ids = await idsOf(await signedIn.open('/mail'));
    const small = { viewport: { width: 1440, height: 500 } };
    for (const at of [0, 12, 25, 70, ids.length - 1]) {
      const id = ids[at]?.slice(0, 16);
      const page = await signedIn.open(`/mail?m=${id}`, small);
      const row = page.locator('[role=option][aria-selected=true]');
      await row.waitFor();
      expect(await row.getAttribute('id')).toBe(`row-${id}`);
      await unchanging(page);
      expect([at, await isInList(page)]).toEqual([at, true]);
      // The first row in view is what the address names.
      const top = new URL(page.url()).searchParams.get('at');
      expect(at === 0 ? top : typeof top).toBe(at === 0 ? null : 'string');
      await page.reload();
      await settled(page);
      await unchanging(page);
      expect([at, await isInList(page)]).toEqual([at, true]);
    }
    // Without a script, the page of the list is the right one; a message that the query does not find moves nothing.
    const last = ids.at(-1)?.slice(0, 16);
    const plain = { javaScriptEnabled: false };
    const page = await signedIn.open(`/mail?m=${last}`, plain);
    expect(await page.locator(`.row a[href*="${last}"]`).count()).toBe(1);
    const other = await signedIn.open(`/mail?q=subject:step&m=${last}`, plain);
    expect(await other.locator('.row').count()).toBeGreaterThan(1);
    expect(await other.locator(`.row a[href*="${last}"]`).count()).toBe(0);
  });

  test('days and moments of a query are those that the browser shows', async () => {
    const own = { timezoneId: 'Pacific/Auckland' };
    const page = await signedIn.open('/mail?q=asof:2026-10-21T06:30', own);
    const band = page.locator('.history-bar');
    const field = band.locator('input[type=datetime-local]');
    await expect.poll(() => field.inputValue()).toBe('2026-10-21T06:30');
    expect(await band.innerText()).toContain('21 Oct 2026 06:30');
    expect(await page.locator('.bar').innerText()).toContain('21 Oct 2026 06:30');
    // Evening in Berlin, where the server is, and the next morning here.
    const received = await signedIn.open('/mail?q=date:2026-10-30', own);
    const days = await received.locator('[role=option] time').allInnerTexts();
    expect(days.length).toBeGreaterThan(0);
    expect(days.filter((day) => !day.startsWith('30 Oct 2026'))).toEqual([]);
    expect(await page.evaluate(() => performance.getEntriesByType('navigation').length)).toBe(1);
  });

  test('new mail is a number until it is asked for', async () => {
    const sandbox = await startSandbox({ seed: 3, mail: { messages: 40 } });
    onTestFinished(() => sandbox.close());
    const place = workplace(sandbox);
    const sync = async () => {
      const { code, stderr } = await mailkeep(['sync', '--quiet', '--config', place.config]);
      expect([code, stderr]).toEqual([0, '']);
    };
    await sync();
    const web = await WebProgram.start(place.data);
    const own = await signedIn.browser.newContext({ viewport: WIDE });
    onTestFinished(async () => {
      await own.close();
      await web.stop();
    });
    const page = await web.signIn(own);
    await settled(page);
    await page.locator('[role=option]').nth(2).click();
    await page.locator('.read h1').waitFor();
    await unchanging(page);
    const [before, address] = [await subjects(page), page.url()];
    const { store } = sandbox.service;
    const [mailbox] = store.mailboxes.values();
    if (mailbox === undefined) throw new Error('no mailbox');
    const inbox = store.folderFor(mailbox, 'INBOX');
    for (const name of ['One', 'Two'])
      store.add(inbox, Buffer.from(letter(`Fresh ${name}`, 'New here.')), Date.now(), []);
    await sync();
    const fresh = page.getByRole('button', { name: '2 new' });
    await fresh.waitFor();
    // Nothing else moves.
    expect([await subjects(page), page.url()]).toEqual([before, address]);
    await fresh.focus();
    await page.keyboard.press('Enter');
    await expect
      .poll(async () => (await subjects(page)).slice(0, 2).sort())
      .toEqual(['Fresh One', 'Fresh Two']);
    await fresh.waitFor({ state: 'detached' });
    // The message that is open stays.
    expect(page.url()).toBe(address);
    // The sidebar counts what the list has, now and after a reload.
    const numbers = async () => [
      await page.locator('.side a[href="/mail"] .n').innerText(),
      await page.locator('.listhead b').first().innerText(),
    ];
    for (const isReloaded of [false, true]) {
      if (isReloaded) await page.reload();
      await settled(page);
      await expect.poll(numbers).toEqual(['42', '42']);
    }
  });

  test('the sidebar counts again when a commit is reported a second time, since it was indexed', async () => {
    const page = await signedIn.page({ viewport: WIDE });
    await page.goto(`${signedIn.web.url}/mail`);
    await settled(page);
    const commit = await page.evaluate(async () => {
      const answer = await fetch('/api/frame?q=');
      return (await answer.json()).data.consistency.commit;
    });
    const report = `event: commit\ndata: ${commit}\n\n`;
    await page.route('**/api/events', (route) =>
      route.fulfill({ contentType: 'text/event-stream', body: report + report }),
    );
    const counted = page.waitForRequest(/\/api\/frame\?/);
    await page.reload();
    await counted;
  });

  test('Health says what pending deletions and damage are, in words', async () => {
    const sandbox = await startSandbox({ seed: 5, mail: { messages: 60 } });
    onTestFinished(() => sandbox.close());
    const { config, data } = workplace(sandbox);
    const run = async (...args: string[]) => (await mailkeep([...args, '--quiet'])).code;
    expect(await run('sync', '--config', config)).toBe(0);
    const { store } = sandbox.service;
    for (const mailbox of store.mailboxes.values()) {
      const inbox = store.folderFor(mailbox, 'INBOX');
      for (const { uid } of [...inbox.entries()]) store.remove(inbox, uid);
    }
    expect(await run('sync', '--config', config)).toBe(4);
    const web = await WebProgram.start(data);
    const own = await signedIn.browser.newContext({ viewport: WIDE });
    onTestFinished(async () => {
      await own.close();
      await web.stop();
    });
    const page = await web.signIn(own);
    const issues = async () => {
      await page.goto(`${web.url}/health`);
      await settled(page);
      return page.locator('#results').innerText();
    };
    const pending = await issues();
    expect(pending).toMatch(/: \d+ deletions awaiting confirmation/);
    expect(pending).toMatch(/a later sync must confirm the deletions/);
    expect(pending).not.toMatch(/not complete|brake|held by|more than the archive/);
    flipBit(data, 0.5);
    expect(await run('verify', '--data', data)).toBe(3);
    const damaged = await issues();
    expect(damaged).toMatch(/The (?:archive|index) is damaged: \d+ findings?/);
    expect(damaged).not.toMatch(/surplus|records:|\.seg|payload/);
    expect(damaged).not.toContain(data);
    await page.getByRole('link', { name: 'Review pending deletions' }).first().click();
    await page.waitForURL(/health\/held/);
  });

  test('attachments have the keys of messages', async () => {
    const permissions = ['clipboard-read', 'clipboard-write'];
    const page = await signedIn.open('/files', { permissions });
    const tiles = page.locator('.tile');
    const number = await tiles.count();
    expect(number).toBeGreaterThan(2);
    const focused = () =>
      page.evaluate(() =>
        [...document.querySelectorAll('.tile')].indexOf(document.activeElement as Element),
      );
    await page.keyboard.press('n');
    await page.keyboard.press('n');
    expect(await focused()).toBe(1);
    await page.keyboard.press('p');
    expect(await focused()).toBe(0);
    await page.keyboard.press('p');
    expect(await focused()).toBe(number - 1);
    await page.keyboard.press('Enter');
    await page.locator('.det h1').waitFor();
    await page.keyboard.press('y');
    await page.locator('.det .copy', { hasText: 'Copied' }).waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(page.url());
    await page.keyboard.press('e');
    await page.waitForURL((url) => url.pathname === '/export');
  });
});
