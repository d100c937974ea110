import type { APIRequestContext } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { jsonLines, mailkeep } from '../../cli/child.ts';
import { withoutChromium } from './chromium.ts';
import { settled } from './settled.ts';
import { moment, type SignedIn, startSignedIn } from './signed-in.ts';
import { WebProgram } from './web-program.ts';

/** The zone of the server, and that of the browser, which need not be the same. */
const ZONES = [
  ['Europe/Berlin', 'Pacific/Kiritimati'],
  ['America/St_Johns', 'Europe/Berlin'],
  ['Pacific/Auckland', 'America/Los_Angeles'],
] as const;

/** A link that shows a number, and the query that it leads to. */
interface Counted {
  readonly href: string;
  readonly number: number;
  readonly text: string;
}

let signedIn: SignedIn;

describe.skipIf(withoutChromium)('each number that is a link is what the link finds', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn();
  });
  afterAll(() => signedIn?.close());

  test.each(ZONES)('server in %s, browser in %s', async (zone, timezoneId) => {
    const { data, now, browser, moments } = signedIn;
    const web = await WebProgram.start(data, { now, zone });
    onTestFinished(async () => {
      await web.stop();
    });
    const own = await browser.newContext({ timezoneId });
    const page = await web.signIn(own);
    const seen = new Map<string, Counted>();
    for (const address of starts(moments)) {
      await page.goto(web.url + address);
      await settled(page);
      // Folded parts have numbers as well.
      await page.evaluate(() => {
        for (const folded of document.querySelectorAll('details')) folded.open = true;
      });
      const found = await page.evaluate(countedLinks);
      expect([address, found.length]).not.toEqual([address, 0]);
      for (const counted of found) seen.set(`${counted.href} ${counted.number}`, counted);
    }
    const wrong: string[] = [];
    for (const { href, number, text } of seen.values()) {
      const counts = await followedCount(own.request, href);
      if (counts !== number)
        wrong.push(`${decodeURIComponent(href)} "${text}": ${number}, finds ${counts}`);
    }
    expect(wrong).toEqual([]);
    // Folders, deleted mail and all mail, now and at three moments.
    expect(seen.size).toBeGreaterThan(400);
    // What is unread in each folder is a link of its own.
    const unread = [...seen.values()].filter(({ href }) => /in%3A.*is%3Aunread/.test(href));
    expect(unread.length).toBeGreaterThan(4);
    await own.close();
  });

  test('and all mail is what the command line lists', async () => {
    const { browser, storageState, web, data, moments } = signedIn;
    const own = await browser.newContext({ storageState });
    const { request } = own;
    const ids = async (...args: string[]): Promise<number> => {
      const { stdout } = await mailkeep(['list', '--json', '--data', data, ...args]);
      return new Set(jsonLines(stdout).map((line) => (line as { id: string }).id)).size;
    };
    const all = (await ids()) + (await ids('--deleted'));
    expect(await followedCount(request, `${web.url}/mail`)).toBeGreaterThan(0);
    for (const [i, at] of moments.entries()) {
      const then = moment(at + 3_600_000);
      const open = await ids('--as-of', then);
      const href = `${web.url}/mail?q=${encodeURIComponent(`-is:deleted asof:${then}`)}`;
      expect([i, await followedCount(request, href)]).toEqual([i, open]);
    }
    expect(all).toBeGreaterThan(0);
    await own.close();
  });
});

/** Pages from which numbers are followed: each now, and the mail at moments between what happened. */
function starts(moments: readonly number[]): string[] {
  const then = moments.map(
    (at) => `/mail?q=${encodeURIComponent(`asof:${moment(at + 86_400_000)}`)}`,
  );
  const tabs = ['', '/folders', '/runs', '/quarantine', '/held', '/verification', '/retention'];
  const files = ['', '?inline=1', '?type=documents', `?q=${encodeURIComponent('in:INBOX')}`];
  return [
    ...['/mail', '/mail?q=is%3Aunread', ...then],
    ...tabs.map((tab) => `/health${tab}`),
    ...['/dashboard', '/dashboard?range=30d', '/dashboard?q=mailbox%3Aada%40example.org'],
    ...files.map((query) => `/files${query}`),
    ...then.map((address) => address.replace('/mail', '/files')),
  ];
}

/** Returns the links to queries that show a number; runs in the browser. */
function countedLinks(): Counted[] {
  return [...document.querySelectorAll<HTMLAnchorElement>('a[href]')].flatMap((link) => {
    const href = new URL(link.getAttribute('href') ?? '', location.href);
    if (href.origin !== location.origin || !['/mail', '/files'].includes(href.pathname)) return [];
    // A row of the list leads to its message, a tile to its attachment, and a month to a part of the list.
    if (['m', 'a', 'after'].some((name) => href.searchParams.has(name))) return [];
    // What senders wrote and moments have digits of their own.
    const copy = link.cloneNode(true) as Element;
    for (const other of copy.querySelectorAll('bdi, time, .vh, title, [aria-hidden]'))
      other.remove();
    const text = copy.textContent ?? '';
    const numbers = text.match(/\d[\d,]*/g) ?? [];
    return numbers.length === 1
      ? [{ href: href.href, number: Number(numbers[0].replaceAll(',', '')), text: text.trim() }]
      : [];
  });
}

/** Follows a link as a browser without a script does, and returns how many messages the page says that it finds. */
async function followedCount(request: APIRequestContext, href: string): Promise<number | string> {
  const html = await (await request.get(href)).text();
  const at = html.search(/class="(?:listhead|nothing|number)[ "]/);
  const text = html.slice(html.indexOf('>', at) + 1, at + 2_000).replaceAll(/<[^>]*>/g, ' ');
  const found = /(more than\s+)?([\d,]+)\s+(?:messages?|attachments?)\b/.exec(text);
  if (at < 0 || found === null || found[1] !== undefined) return text.slice(0, 80);
  return Number(found[2]?.replaceAll(',', ''));
}
