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
/** What a page does within this time counts. Milliseconds. */
const LONGEST = 1_500;

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
  try {
    const left = [...opened];
    const printed = await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        const context = await browser.newContext();
        const signs = watch(context, `http://127.0.0.1:${port}`);
        for (let next = left.pop(); next !== undefined; next = left.pop())
          await openOne(context, `http://127.0.0.1:${port}/${next}`);
        return signs.ran;
      }),
    );
    return {
      opened,
      ran: new Set(printed.flat().flatMap((text) => numberIn(text) ?? [])),
      called: new Set(
        trap.asked
          .flatMap((line) => /\/(\d+)/.exec(line.replace(/.*?\d:\d+/, ''))?.[1] ?? [])
          .map(Number),
      ),
    };
  } finally {
    await browser.close();
    await trap.close();
    server.closeAllConnections();
    server.close();
  }
}

async function openOne(context: BrowserContext, url: string): Promise<void> {
  const page = await context.newPage();
  // One that leads elsewhere, or never ends, has done what it does.
  await page.goto(url, { timeout: LONGEST }).catch(() => {});
  await page.close();
}
