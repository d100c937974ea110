import type { Page } from 'playwright-core';

/** A machine that is busy takes its time; a page that never draws is a failure with a name. Milliseconds. */
const LONGEST = 30_000;

/**
 * Waits until a page shows what it asked the server for; at once where it has no script that asks.
 *
 * @throws Error where it does not come to rest
 */
export async function settled(page: Page): Promise<void> {
  for (;;) {
    try {
      await drawn(page);
      return;
    } catch (error) {
      // A dashboard asks for the zone of its browser: the document goes, and another one comes.
      if (!/Execution context was destroyed/.test(String(error))) throw error;
      await page.waitForLoadState();
    }
  }
}

function drawn(page: Page): Promise<void> {
  return page.evaluate(
    (longest) =>
      new Promise<void>((resolve, reject) => {
        const end = performance.now() + longest;
        const look = (): void => {
          // The script sets it with each change that it has drawn.
          const isDrawn = document.body.ariaBusy === 'false';
          if (isDrawn || document.getElementById('root') === null) setTimeout(resolve, 20);
          else if (performance.now() < end) setTimeout(look, 10);
          else reject(new Error(`${location.href} does not come to rest`));
        };
        look();
      }),
    LONGEST,
  );
}

/** Without a change of the document for so long, all of it is drawn. Milliseconds. */
const QUIET = 500;

/** Waits until nothing of a page changes any more: a line of time comes after its list, and its labels after its bars. */
export function unchanging(page: Page): Promise<void> {
  return page.evaluate(
    (quiet) =>
      new Promise<void>((resolve) => {
        let rest = setTimeout(resolve, quiet);
        new MutationObserver(() => {
          clearTimeout(rest);
          rest = setTimeout(resolve, quiet);
        }).observe(document, { attributes: true, childList: true, subtree: true });
      }),
    QUIET,
  );
}
