import type { BrowserContext } from 'playwright-core';

/** Whatever scripts in hostile mails set and print; no page of ours has such numbers. */
export const MARK = 4_217_000;

/** Signs that something ran, or left for another host. */
export interface Signs {
  /** Requests to another host, also those that the browser refused to send. */
  readonly foreign: string[];
  /** Marks that scripts printed or showed. */
  readonly ran: string[];
  /** What else the console reported as an error, and errors of scripts. */
  readonly errors: string[];
  /** Windows that opened, and files that were saved. */
  readonly opened: string[];
}

/**
 * Watches all pages of a context, their frames included.
 *
 * @param own origin of the archive; null where every request to a host counts
 */
export function watch(context: BrowserContext, own: string | null): Signs {
  const signs: Signs = { foreign: [], ran: [], errors: [], opened: [] };
  const isMark = (text: string): boolean => /\b4217\d{3}\b/.test(text);
  context.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol === 'data:' || protocol === 'about:' || origin === own) return;
    signs.foreign.push(request.url());
  });
  context.on('console', (message) => {
    if (isMark(message.text()) && message.type() === 'log') signs.ran.push(message.text());
    // Pages about what is wrong, or not there.
    else if (
      /^Failed to load resource: the server responded with a status of 4/.test(message.text())
    )
      return;
    else if (message.type() === 'error' || message.type() === 'warning')
      signs.errors.push(`${message.text()} (${message.location().url})`);
  });
  context.on('dialog', (dialog) => {
    signs.ran.push(`dialog ${dialog.message()}`);
    void dialog.dismiss().catch(() => {});
  });
  context.on('weberror', (error) => {
    signs.errors.push(error.error().stack ?? error.error().message);
  });
  context.on('page', (page) => {
    page.on('popup', (popup) => signs.opened.push(popup.url()));
    page.on('download', (download) => signs.opened.push(download.url()));
  });
  return signs;
}
