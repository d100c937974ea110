import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type BrowserContext, chromium, type LaunchOptions } from 'playwright-core';
import { launchKillable, throughTrap } from './chromium.ts';
import { hostileMails } from './hostile/mails.ts';
import { numberIn } from './hostile/payload.ts';
import { TrapServer } from './trap-server.ts';
import { watch } from './watch.ts';

/** Pages that are open at a time. */
const AT_ONCE = 4;
/**
 * How long pages get, in milliseconds. Those that did nothing are opened again for longer: a busy machine may take its
 * time, and a page that does nothing would take all of it.
 */
const TURNS = [1_500, 6_000, 24_000];
/** A browser that takes so many milliseconds longer hangs. */
const HANGS = 60_000;
/** Pages that may be lost with their browser: nothing protects it from them, and some make it hang or crash. */
const MAX_LOST = 12;

/** What payloads do in a page that protects nobody, by their numbers. */
export interface Unprotected {
  readonly opened: readonly number[];
  readonly ran: ReadonlySet<number>;
  /** Those that asked the trap for something. */
  readonly called: ReadonlySet<number>;
}

/** Opens one in `every` payloads of HTML as it is, with a trap of its own. */
export async function openUnprotected(every: number): Promise<Unprotected> {
  const trap = await TrapServer.start();
  const payloads = (await hostileMails(trap.url)).flatMap((mail) => mail.payloads);
  const opened = payloads
    .filter(({ html }) => html !== null)
    .filter((_, i) => i % every === 0)
    .map(({ number }) => number);
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end(payloads[Number(request.url?.slice(1))]?.html ?? '');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const ran = new Set<number>();
  const called = new Set<number>();
  const lost: number[] = [];
  try {
    for (const longest of TURNS) {
      const left = opened.filter((number) => !ran.has(number) || !called.has(number));
      while (left.length > 0) {
        const turn = await openAll(left, url, longest, { proxy: throughTrap(trap, port) });
        for (const text of turn.printed) ran.add(numberIn(text) ?? 0);
        lost.push(...turn.lost);
        if (turn.lost.length > 0) console.error(`the browser hangs or ends: ${turn.lost}`);
        if (lost.length > MAX_LOST) throw new Error(`browsers hang or end: ${lost}`);
      }
      for (const line of trap.asked)
        called.add(Number(/\/(\d+)/.exec(line.replace(/.*?\d:\d+/, ''))?.[1] ?? 0));
      if (isEnough({ opened, ran, called })) break;
    }
    return { opened, ran, called };
  } finally {
    await trap.close();
    server.closeAllConnections();
    server.close();
  }
}

/**
 * Opens pages in a browser of their own, and takes their numbers from the list. Stops when the browser hangs or ends.
 *
 * @returns what the pages printed, and the numbers of those at which the browser hung or ended
 */
async function openAll(
  numbers: number[],
  url: string,
  longest: number,
  options: LaunchOptions,
): Promise<{ readonly printed: readonly string[]; readonly lost: readonly number[] }> {
  const server = await launchKillable(options);
  const printed: string[] = [];
  const lost: number[] = [];
  try {
    const browser = await chromium.connect(server.wsEndpoint());
    const inTurn = async () => {
      const context = await browser.newContext();
      const signs = watch(context, url);
      for (;;) {
        const number = lost.length === 0 ? numbers.pop() : undefined;
        if (number === undefined) break;
        const open = openOne(context, `${url}/${number}`, longest).catch((error: unknown) => {
          // A browser that ends takes its pages with it, and may say that it is still connected at first.
          console.error(`page ${number}: ${error}`);
          lost.push(number);
        });
        if (!(await endsWithin(longest + HANGS, open))) lost.push(number);
      }
      printed.push(...signs.ran);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, inTurn));
    return { printed, lost };
  } finally {
    await server.kill();
  }
}

async function endsWithin(longest: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), longest);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A quarter of them ran, and a fifth asked: the rest need a click, another element, or another browser. */
export function isEnough({ opened, ran, called }: Unprotected): boolean {
  const share = (seen: ReadonlySet<number>): number =>
    opened.filter((number) => seen.has(number)).length / opened.length;
  return share(ran) > 1 / 4 && share(called) > 1 / 5;
}

async function openOne(context: BrowserContext, url: string, longest: number): Promise<void> {
  const page = await context.newPage();
  // One that leads elsewhere, or never ends, has done what it does.
  await page.goto(url, { timeout: longest }).catch(() => {});
  await page.close();
}
