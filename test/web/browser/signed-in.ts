import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import { z } from 'zod';
import { jsonLines, mailkeep } from '../../cli/child.ts';
import { type PastArchive, pastArchive } from './archives.ts';
import { launchChromium } from './chromium.ts';
import type { Shown } from './screens.ts';
import { settled } from './settled.ts';
import { WebProgram, type WebProgramOptions } from './web-program.ts';

export const WIDE = { width: 1440, height: 900 };

type Cookies = Exclude<BrowserContextOptions['storageState'], string | undefined>;

/** An archive with a past, served, and a browser that is signed in: what most test files start with. */
export interface SignedIn extends PastArchive {
  readonly web: WebProgram;
  readonly browser: Browser;
  /** What a context needs to be signed in. */
  readonly storageState: Cookies;
  readonly shown: Shown;
  /**
   * Returns a page that is signed in, for one test. Pages with the same options share a context, and so
   * its cache; traces of a test are cleared.
   */
  page(options?: BrowserContextOptions): Promise<Page>;
  /** The same, at an address that is drawn; in a wide window, unless the options have another one. */
  open(address: string, options?: BrowserContextOptions): Promise<Page>;
  close(): Promise<void>;
}

export interface SignedInOptions extends WebProgramOptions {
  /** Messages that the mailboxes begin with. */
  readonly messages?: number;
}

export async function startSignedIn({
  messages,
  ...options
}: SignedInOptions = {}): Promise<SignedIn> {
  const archive = await pastArchive(messages);
  const web = await WebProgram.start(archive.data, { now: archive.now, ...options });
  const browser = await launchChromium();
  const context = await browser.newContext();
  await web.signIn(context);
  const storageState = await context.storageState();
  await context.close();
  const contexts = new Map<string, Promise<BrowserContext>>();
  const pageWith = async (options: BrowserContextOptions = {}): Promise<Page> => {
    const key = JSON.stringify(options);
    const made = contexts.get(key) ?? browser.newContext({ storageState, ...options });
    contexts.set(key, made);
    const shared = await made;
    const page = await shared.newPage();
    onTestFinished(async () => {
      await clearLocalStorage(shared, page);
      await page.close();
      await shared.clearCookies();
      await shared.addCookies(storageState.cookies);
    });
    return page;
  };
  return {
    ...archive,
    web,
    browser,
    storageState,
    shown: await shownOf(archive),
    page: pageWith,
    open: async (address, options = {}) => {
      const page = await pageWith({ viewport: WIDE, ...options });
      await page.goto(web.url + address);
      if (options.javaScriptEnabled !== false) await settled(page);
      return page;
    },
    close: async () => {
      await browser.close();
      await web.stop();
    },
  };
}

/** Works while the page navigates too, which would destroy the context of a script. */
async function clearLocalStorage(context: BrowserContext, page: Page): Promise<void> {
  if (page.url() === 'about:blank') return;
  const session = await context.newCDPSession(page);
  const { origin } = new URL(page.url());
  await session.send('Storage.clearDataForOrigin', { origin, storageTypes: 'local_storage' });
}

const listLine = z.looseObject({ id: z.string() });

async function shownOf({ data, moments: [first = 0] }: PastArchive): Promise<Shown> {
  const one = async (query: string): Promise<string> => {
    const args = ['search', query, '--json', '--limit', '1', '--data', data];
    const { stdout, stderr } = await mailkeep(args);
    const [line] = jsonLines(stdout);
    if (line === undefined) throw new Error(`the archive has no ${query}: ${stderr}`);
    return listLine.parse(line).id.slice(0, 16);
  };
  const [message, deleted, attached] = await Promise.all([
    one('subject:re -is:deleted'),
    one('is:deleted'),
    one('has:attachment -is:deleted'),
  ]);
  return { message, deleted, attached, past: moment(first + 86_400_000) };
}

/** Returns a moment as a query writes it. */
export function moment(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}
