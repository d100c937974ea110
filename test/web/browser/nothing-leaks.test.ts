import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { jsonLines, mailkeep } from '../../cli/child.ts';
import { hostileArchive } from './archives.ts';
import { launchChromium, withoutChromium } from './chromium.ts';
import { type HostileMail, hostileMails } from './hostile/mails.ts';
import { type Finding, MailOpener } from './open-mail.ts';
import { TrapServer } from './trap-server.ts';
import { watch } from './watch.ts';
import { WebProgram } from './web-program.ts';

/** What is opened: so many of the hostile mails, all of them (`hostile`), or all of them and the real mail (`all`). */
const ASKED = process.env.MAILKEEP_WEB_MAILS ?? '24';
const corpus = process.env.MAILKEEP_CORPUS;
const listLine = z.looseObject({ id: z.string() });

let trap: TrapServer;
let mails: HostileMail[];
let web: WebProgram;
let browser: Browser;

describe.skipIf(withoutChromium)('mail in a browser', () => {
  beforeAll(async () => {
    trap = await TrapServer.start();
    mails = hostileMails(trap.url);
    const more = ASKED === 'all' ? corpus : undefined;
    web = await WebProgram.start(await hostileArchive(mails, more));
    // All that does not go to the archive goes to the trap, whatever its address.
    browser = await launchChromium({ proxy: through(trap, web.port) });
  }, 600_000);

  afterAll(async () => {
    await browser?.close();
    await web?.stop();
    await trap?.close();
  });

  test('there are enough hostile mails, and an unprotected page runs and loads what they hold', async () => {
    expect(mails.length).toBeGreaterThanOrEqual(300);
    const pages = mails.flatMap(({ html }) => (html === null ? [] : [html]));
    const server = createServer((request, response) => {
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end(pages[Number(request.url?.slice(1))] ?? '');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const open = await launchChromium({ proxy: through(trap, port) });
    let ran = 0;
    let called = 0;
    try {
      const context = await open.newContext();
      const signs = watch(context, `http://127.0.0.1:${port}`);
      const sample = pages.map((_, i) => i).filter((i) => i % 6 === 0);
      for (const i of sample) {
        const page = await context.newPage();
        const before = trap.asked.length;
        await page.goto(`http://127.0.0.1:${port}/${i}`, { waitUntil: 'commit' }).catch(() => {});
        await page.waitForLoadState('load', { timeout: 3_000 }).catch(() => {});
        await page.close();
        if (signs.ran.splice(0).length > 0) ran += 1;
        if (trap.asked.length > before) called += 1;
      }
      // A third of them at least: the rest need a click, or another browser.
      expect(ran).toBeGreaterThan(sample.length / 3);
      expect(called).toBeGreaterThan(sample.length / 4);
    } finally {
      await open.close();
      server.close();
      trap.asked.length = 0;
    }
  });

  test('whatever they hold, no view runs anything, and nothing is asked of another host', async () => {
    const ids = await chosen();
    const context = await browser.newContext();
    const signs = watch(context, web.url);
    const first = await web.signIn(context);
    await first.close();
    const plain = await browser.newContext({
      javaScriptEnabled: false,
      storageState: await context.storageState(),
    });
    const plainSigns = watch(plain, web.url);
    const openers = [
      await MailOpener.in(context, web.url, signs, { scripted: true }),
      await MailOpener.in(plain, web.url, plainSigns, { scripted: false }),
    ];
    const startedAt = performance.now();
    // One page with scripts and one without, at the same time.
    await Promise.all(
      openers.map(async (opener) => {
        for (const address of lists()) await opener.visit(address);
        for (const [i, id] of ids.entries()) await opener.open(id, i);
      }),
    );
    const opened = openers.reduce((sum, all) => sum + all.opened, 0);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
    console.log(
      `${ids.length} messages in ${opened} views: ${trap.asked.length} requests to others, ${seconds} s`,
    );
    expect(described(openers.flatMap(({ findings }) => findings))).toEqual([]);
    expect(trap.asked).toEqual([]);
    expect(opened).toBeGreaterThanOrEqual(ids.length * 10);
  }, 3_600_000);
});

/** The trap as a proxy for all but one port. The last rule that fits counts, and loopback has a rule of its own. */
function through(trap: TrapServer, port: number) {
  return { server: trap.url, bypass: `<-loopback>,127.0.0.1:${port}` };
}

/** Pages on which many messages, folders and names stand at once. */
function lists(): string[] {
  const queries = [
    '',
    'has:attachment',
    '"<script>alert(1)</script>"',
    'in:"><img src=x onerror=alert(1)>',
    'hostile OR script',
  ];
  const mail = queries.map((query) => `/mail?q=${encodeURIComponent(query)}`);
  return [
    ...mail,
    '/mail?sort=oldest',
    '/health',
    '/files',
    '/dashboard',
    '/you',
    '/away?to=javascript:alert(1)',
  ];
}

/** The messages to open, hostile ones first. */
async function chosen(): Promise<string[]> {
  const hostile = mails.map(({ source }) => createHash('sha256').update(source).digest('hex'));
  if (ASKED === 'all') {
    const listed = await mailkeep(['list', '--json', '--data', web.data]);
    const all = jsonLines(listed.stdout).map((line) => listLine.parse(line).id);
    return [...new Set([...hostile, ...all])];
  }
  const count = ASKED === 'hostile' ? hostile.length : Number(ASKED);
  const step = Math.max(1, hostile.length / count);
  return hostile.filter((_, i) => Math.floor(i / step) !== Math.floor((i - 1) / step));
}

/** What went wrong, each kind once, with the payload of the mail. */
function described(findings: readonly Finding[]): string[] {
  const payloads = new Map(
    mails.map(({ source, what }) => [
      createHash('sha256').update(source).digest('hex').slice(0, 16),
      what,
    ]),
  );
  return findings.map(({ at, what }) => {
    const id = /[0-9a-f]{16}/.exec(at)?.[0] ?? '';
    return `${at} (${payloads.get(id) ?? 'real mail'}): ${what}`;
  });
}
