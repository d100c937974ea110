import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { BrowserContext } from 'playwright-core';
import { launchChromium, throughTrap } from './chromium.ts';
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
  const browser = await launchChromium({ proxy: throughTrap(trap, port) });
  const ran = new Set<number>();
  const called = new Set<number>();
  try {
    for (const longest of TURNS) {
      const left = opened.filter((number) => !ran.has(number) || !called.has(number));
      const printed = await Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          const context = await browser.newContext();
          const signs = watch(context, `http://127.0.0.1:${port}`);
          for (let next = left.pop(); next !== undefined; next = left.pop())
            await openOne(context, `http://127.0.0.1:${port}/${next}`, longest);
          await context.close();
          return signs.ran;
        }),
      );
      for (const text of printed.flat()) ran.add(numberIn(text) ?? 0);
      for (const line of trap.asked)
        called.add(Number(/\/(\d+)/.exec(line.replace(/.*?\d:\d+/, ''))?.[1] ?? 0));
      if (isEnough({ opened, ran, called })) break;
    }
    return { opened, ran, called };
  } finally {
    await browser.close();
    await trap.close();
    server.closeAllConnections();
    server.close();
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
