import type { BrowserContext, Frame, Page } from 'playwright-core';
import { oddInMail, oddInPage } from './odd.ts';
import { settled } from './settled.ts';
import type { Signs } from './watch.ts';

const VIEWS = ['thread', 'plain', 'html', 'headers', 'source', 'history'] as const;
type View = (typeof VIEWS)[number];

/** Something that must not be, with where it was found. */
export interface Finding {
  readonly at: string;
  readonly what: string;
}

/** A message to open, with texts that views of it must show. */
export interface Opened {
  readonly id: string;
  readonly signs: readonly { readonly view: string; readonly text: string }[];
  /** A query that finds its attachments, to be opened as well; null for none. */
  readonly files: string | null;
}

/** One in so many messages is opened by the address of a view of its own as well. */
const LOADED = 5;
/** The same without scripts. */
const PLAIN = 3;
/** Milliseconds; a view that is not drawn by then is a failure with a name. */
const LONGEST = 60_000;

/** Opens messages in every view, in one page, and records what must not be. */
export class MailOpener {
  readonly findings: Finding[] = [];
  /** Pages, views and frames that were shown. */
  opened = 0;

  private constructor(
    private readonly url: string,
    private readonly page: Page,
    private readonly signs: Signs,
    private readonly scripted: boolean,
  ) {}

  /** @param scripted whether the script of the pages runs in the context */
  static async in(
    context: BrowserContext,
    url: string,
    signs: Signs,
    { scripted }: { readonly scripted: boolean },
  ): Promise<MailOpener> {
    return new MailOpener(url, await context.newPage(), signs, scripted);
  }

  /**
   * Opens a message. With scripts: in each view in place; one in five also by the address of a view, and of its HTML.
   * Without: its HTML by its own address; one in three by the address of a view.
   */
  async open(message: Opened, turn: number): Promise<void> {
    const { id } = message;
    const viewOf = (every: number): View =>
      VIEWS[Math.floor(turn / every) % VIEWS.length] ?? 'thread';
    if (!this.scripted) {
      if (turn % PLAIN === 0) await this.#load(addressOf(id, viewOf(PLAIN)));
      await this.#loadMail(id);
      return;
    }
    if (new URL(this.page.url()).pathname !== '/mail') await this.#load('/mail?sort=oldest');
    for (const view of VIEWS) await this.#follow(message, view);
    if (message.files !== null) await this.#files(message, message.files);
    if (turn % LOADED !== 0) return;
    await this.#load(addressOf(id, viewOf(LOADED)));
    await this.#loadMail(id);
  }

  /** Opens any address of the archive. */
  async visit(address: string): Promise<void> {
    await this.#load(address);
  }

  /** Opens the attachments of a message, each next to the others. */
  async #files({ signs }: Opened, query: string): Promise<void> {
    const list = `/files?q=${encodeURIComponent(query)}`;
    await this.#load(list);
    const links = await this.page
      .locator('a.tile')
      .evaluateAll((tiles) => tiles.map((tile) => tile.getAttribute('href') ?? ''));
    if (links.length === 0) this.#add(list, 'has no attachments');
    let text = '';
    for (const link of links) {
      await this.#load(link);
      text += await this.page.locator('.det').innerText();
    }
    for (const sign of signs)
      if (sign.view === 'files' && !text.includes(sign.text)) this.#add(list, `no "${sign.text}"`);
  }

  async #load(address: string): Promise<void> {
    await this.page.goto(`${this.url}${address}`);
    // A page of numbers loads once more when it has learnt the time zone of its reader.
    if (this.scripted)
      await settled(this.page).catch(async (error: unknown) => {
        if (!/context was destroyed/.test(String(error))) throw error;
        await this.page.waitForLoadState();
        await settled(this.page);
      });
    this.#look(address, await this.page.evaluate(oddInPage, []), 'page');
    await this.#lookIntoFrames(address, []);
  }

  /** Opens the HTML of a message as a page, which it is not for readers: nothing but its own policy confines it then. */
  async #loadMail(id: string): Promise<void> {
    const address = `/m/${id}/html`;
    const answer = await this.page.goto(`${this.url}${address}`);
    if (answer?.status() === 200)
      this.#look(address, await this.page.evaluate(oddInMail, []), 'mail');
    else this.#look(address, await this.page.evaluate(oddInPage, []), 'page');
  }

  /** Goes to a view as a click on a link does, without a page load, and looks once it is drawn. */
  async #follow({ id, signs }: Opened, view: View): Promise<void> {
    const short = id.slice(0, 16);
    const address = `/mail?sort=oldest&m=${short}&view=${view}`;
    const texts = (of: string) => signs.filter((sign) => sign.view === of).map(({ text }) => text);
    await this.page.evaluate(follow, { address, view, longest: LONGEST });
    const shown = new URL(this.page.url());
    // The list notes the row at its top.
    shown.searchParams.delete('at');
    if (!shown.href.endsWith(address)) this.#add(address, `leads to ${shown.href}`);
    const found = await this.page.evaluate(oddInPage, view === 'html' ? [] : texts(view));
    this.#look(`${address} in place`, found, 'page');
    if (view === 'html') await this.#lookIntoFrames(`${address} in place`, texts('html'));
  }

  async #lookIntoFrames(at: string, texts: readonly string[]): Promise<void> {
    const frames = this.page.frames().filter((frame) => frame !== this.page.mainFrame());
    if (frames.length === 0 && texts.length > 0) this.#add(at, 'shows no HTML');
    for (const frame of frames) {
      await framed(frame);
      this.#look(at, await frame.evaluate(oddInMail, texts), 'mail');
    }
  }

  #look(at: string, found: readonly string[], what: 'mail' | 'page'): void {
    this.opened += 1;
    if (!this.page.url().startsWith(`${this.url}/`)) this.#add(at, `leads to ${this.page.url()}`);
    for (const odd of found) this.#add(at, `${what} holds ${odd}`);
    for (const [kind, list] of Object.entries(this.signs))
      for (const sign of list.splice(0)) this.#add(at, `${kind}: ${sign}`);
  }

  #add(at: string, what: string): void {
    this.findings.push({ at, what });
  }
}

function addressOf(id: string, view: View): string {
  return `/m/${id}?view=${view}`;
}

/** Waits until a frame has its mail: one without scripts tells nobody when. */
async function framed(frame: Frame): Promise<void> {
  if (!frame.url().endsWith('/html')) await frame.waitForURL(/\/html$/);
  else await frame.waitForLoadState('load');
}

/** Follows a link of the page, and waits until its view is drawn. Views come in an order in which each is another one. */
function follow({
  address,
  view,
  longest,
}: {
  readonly address: string;
  readonly view: string;
  readonly longest: number;
}): Promise<void> {
  const link = document.createElement('a');
  link.href = address;
  document.body.append(link);
  link.click();
  link.remove();
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${address} is not drawn`)), longest);
    const drawn = new MutationObserver(look);
    function look(): void {
      const isShown = document.querySelector(`.rbody.view-${view}`) !== null;
      if (!isShown || document.body.ariaBusy !== 'false') return;
      clearTimeout(late);
      drawn.disconnect();
      resolve();
    }
    drawn.observe(document, { attributes: true, childList: true, subtree: true });
    look();
  });
}
