import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { gzipSync } from 'node:zlib';
import { type Browser, chromium, type Page } from 'playwright-core';
import { z } from 'zod';
import { wordOf } from './synthetic-catalog.ts';
import { REAL_MAILBOX } from './web-archive.ts';
import { type FrameCosts, frameCosts } from './web-frames.ts';
import type { Workplace } from './workplace.ts';

/** What the web interface costs, in a browser on this machine. Times are milliseconds, one for each repetition. */
export interface WebSpeed {
  readonly messages: number;
  readonly scriptBytes: number;
  readonly mailScriptBytes: number;
  readonly styleBytes: number;
  readonly firstPaintMs: readonly number[];
  readonly readyMs: readonly number[];
  readonly keyMs: readonly number[];
  readonly openMs: readonly number[];
  readonly dashboardMs: readonly number[];
  readonly scrolling: FrameCosts;
  readonly dragging: FrameCosts;
  /** Most rows that stood in the document. */
  readonly rows: number;
  /** Resident memory of the server: before the first request, and the most after all of this. Bytes. */
  readonly idleBytes: number;
  readonly peakBytes: number;
}

const LOADS = 15;
const WORDS = 12;
const OPENED = 30;

const startedSchema = z.looseObject({ url: z.string(), signInUrl: z.string() });

/** Measures the served pages of an archive in Chromium. */
export async function measureWeb(
  work: Workplace,
  program: string,
  data: string,
  messages: number,
): Promise<WebSpeed> {
  const server = spawn(
    process.execPath,
    [program, 'web', '--data', data, '--listen', '127.0.0.1:0', '--json'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  work.adopt(server);
  const { url, signInUrl } = startedSchema.parse(JSON.parse(await firstLine(server)));
  const idleBytes = residentBytes(server);
  const browser = await chromium.launch({
    executablePath: process.env.MAILKEEP_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  });
  try {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    await page.goto(signInUrl);
    await page.waitForURL(/\/mail/);
    const cookies = await context.cookies();
    const loads = await coldLoads(browser, url, cookies);
    const keyMs = await keystrokes(page, url);
    await page.goto(`${url}/mail`);
    const scrolling = await frameCosts(page, () => scroll(page));
    const dragging = await frameCosts(page, () => drag(page));
    const openMs = await openings(page, url);
    const dashboardMs = await dashboards(page, url);
    return {
      messages,
      ...assetBytes(program),
      ...loads,
      keyMs,
      openMs,
      dashboardMs,
      scrolling,
      dragging,
      rows: Math.max(scrolling.rows, dragging.rows),
      idleBytes,
      peakBytes: residentBytes(server),
    };
  } finally {
    await browser.close();
    server.kill();
  }
}

async function firstLine(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new TypeError('the server has no output');
  for await (const line of createInterface({ input: child.stdout })) return line;
  throw new Error('the server ended before it was ready');
}

/** The most memory that the process had at a time. */
function residentBytes({ pid }: ChildProcess): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(?<kB>\d+) kB/m.exec(status)?.groups?.kB ?? Number.NaN) * 1024;
}

/** As the build made them; `app` and what it loads at once, and the first sheet, are what mail needs. */
function assetBytes(
  program: string,
): Pick<WebSpeed, 'scriptBytes' | 'mailScriptBytes' | 'styleBytes'> {
  const folder = join(program, '../web');
  const sizes = new Map(
    readdirSync(folder).map((name) => [
      name,
      gzipSync(readFileSync(join(folder, name)), { level: 9 }).length,
    ]),
  );
  const sum = (wanted: (name: string) => boolean): number =>
    [...sizes].reduce((all, [name, size]) => (wanted(name) ? all + size : all), 0);
  const app = [...sizes.keys()].find((name) => name.startsWith('app-')) ?? '';
  const atOnce = new Set([app]);
  for (const name of atOnce)
    for (const [, part = ''] of readFileSync(join(folder, name), 'utf8').matchAll(
      /from"\.\/(part-[A-Z0-9]+\.js)"/g,
    ))
      atOnce.add(part);
  return {
    scriptBytes: sum((name) => name.endsWith('.js')),
    mailScriptBytes: sum((name) => atOnce.has(name)),
    styleBytes: sum((name) => /^style-.*\.css$/.test(name)),
  };
}

/** Loads with nothing in the browser's memory, each in a context of its own. */
async function coldLoads(
  browser: Browser,
  url: string,
  cookies: Parameters<Awaited<ReturnType<Browser['newContext']>>['addCookies']>[0],
): Promise<Pick<WebSpeed, 'firstPaintMs' | 'readyMs'>> {
  const firstPaintMs: number[] = [];
  const readyMs: number[] = [];
  for (let i = 0; i < LOADS; i += 1) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    await context.addCookies(cookies);
    const page = await context.newPage();
    await page.goto(`${url}/mail`);
    await page.waitForFunction(
      () =>
        performance.getEntriesByName('first-contentful-paint').length > 0 &&
        performance.getEntriesByName('mailkeep-ready').length > 0,
    );
    const [paint = Number.NaN, ready = Number.NaN] = await page.evaluate(() =>
      ['first-contentful-paint', 'mailkeep-ready'].map(
        (name) => performance.getEntriesByName(name)[0]?.startTime,
      ),
    );
    firstPaintMs.push(paint);
    readyMs.push(ready);
    await context.close();
  }
  return { firstPaintMs, readyMs };
}

/** From a key until the rows that it finds are drawn, letter by letter. */
async function keystrokes(page: Page, url: string): Promise<number[]> {
  await page.goto(`${url}/mail`);
  const box = page.locator('input[name=q]');
  const taken: number[] = [];
  for (let i = 0; i < WORDS; i += 1) {
    await box.fill('');
    await settled(page);
    for (const letter of wordOf(10 + i * 37)) {
      await page.evaluate(startClock);
      await box.press(letter);
      taken.push(await page.evaluate(readClock));
    }
  }
  return taken;
}

/** In the page: notes the next key, and when the list stands after it. */
function startClock(): void {
  const clock = { started: Number.NaN, done: new Promise<number>(() => {}) };
  Object.assign(window, { benchClock: clock });
  clock.done = new Promise((resolve) => {
    document.addEventListener(
      'input',
      (event) => {
        clock.started = event.timeStamp;
        const watch = new MutationObserver(() => {
          if (document.body.ariaBusy !== 'false') return;
          watch.disconnect();
          requestAnimationFrame(() => resolve(performance.now() - clock.started));
        });
        watch.observe(document.body, { attributes: true, attributeFilter: ['aria-busy'] });
      },
      { once: true, capture: true },
    );
  });
}

function readClock(): Promise<number> {
  const { benchClock } = window as unknown as { benchClock: { done: Promise<number> } };
  return benchClock.done;
}

async function settled(page: Page): Promise<void> {
  await page.waitForFunction(() => document.body.ariaBusy !== 'true');
}

/** From a click on a row until the text of its message is drawn. */
async function openings(page: Page, url: string): Promise<number[]> {
  await page.goto(`${url}/mail?q=mailbox:${REAL_MAILBOX}`);
  const taken: number[] = [];
  for (let i = 0; i < OPENED; i += 1) {
    await page.locator('input[name=q]').blur();
    await page.keyboard.press('j');
    await settled(page);
    const before = await page.evaluate(() => performance.now());
    await page.keyboard.press('j');
    await page.waitForFunction(() => document.body.ariaBusy === 'false');
    taken.push((await page.evaluate(() => performance.now())) - before);
  }
  return taken;
}

async function dashboards(page: Page, url: string): Promise<number[]> {
  await page.goto(`${url}/mail`);
  const taken: number[] = [];
  for (let i = 0; i < LOADS; i += 1)
    taken.push(
      await page.evaluate(async () => {
        const before = performance.now();
        const answer = await fetch('/dashboard');
        if (!answer.ok) throw new Error(`the dashboard answered ${answer.status}`);
        await answer.text();
        return performance.now() - before;
      }),
    );
  return taken;
}

const STEPS = 120;

async function scroll(page: Page): Promise<void> {
  await page.mouse.move(400, 500);
  for (let i = 0; i < STEPS; i += 1) {
    await page.mouse.wheel(0, 900);
    await page.waitForTimeout(16);
  }
}

async function drag(page: Page): Promise<void> {
  const timeline = await page.locator('[role=scrollbar]').boundingBox();
  if (timeline === null) throw new Error('the list has no timeline');
  const x = timeline.x + timeline.width / 2;
  await page.mouse.move(x, timeline.y + 5);
  await page.mouse.down();
  for (let i = 1; i <= STEPS; i += 1) {
    await page.mouse.move(x, timeline.y + (timeline.height * i) / (STEPS + 2));
    await page.waitForTimeout(16);
  }
  await page.mouse.up();
}
