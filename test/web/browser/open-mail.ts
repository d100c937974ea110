import type { BrowserContext, Page } from 'playwright-core';
import { settled } from './settled.ts';
import type { Signs } from './watch.ts';

const VIEWS = ['thread', 'plain', 'html', 'headers', 'source', 'history'] as const;
type View = (typeof VIEWS)[number];

/** Something that must not be, with where it was found. */
export interface Finding {
  readonly at: string;
  readonly what: string;
}

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

  static async in(
    context: BrowserContext,
    url: string,
    signs: Signs,
    { scripted }: { readonly scripted: boolean },
  ): Promise<MailOpener> {
    return new MailOpener(url, await context.newPage(), signs, scripted);
  }

  /**
   * Opens a message. With scripts: in each view in place, in one of them as a page of its own, and its HTML by its own
   * address. Without: in three views.
   */
  async open(id: string, turn: number): Promise<void> {
    const own = VIEWS[turn % VIEWS.length] ?? 'thread';
    if (!this.scripted) {
      for (const view of new Set<View>(['thread', 'html', own]))
        await this.#load(addressOf(id, view));
      return;
    }
    await this.#load(`/mail?m=${id.slice(0, 16)}`);
    for (const view of VIEWS.slice(1)) await this.#follow(id, view);
    await this.#load(addressOf(id, own));
    await this.#load(`/m/${id}/html`);
  }

  /** Opens any address of the archive. */
  async visit(address: string): Promise<void> {
    await this.#load(address);
  }

  async #load(address: string): Promise<void> {
    const answer = await this.page.goto(`${this.url}${address}`);
    // A document that may run nothing runs no timer of ours either.
    const isFramed = address.endsWith('/html');
    if (this.scripted && !isFramed) await settled(this.page);
    await this.#look(address, isFramed && answer?.status() === 200);
  }

  /** Goes to a view as a click on a link does, without a page load. */
  async #follow(id: string, view: View): Promise<void> {
    const address = `/mail?m=${id.slice(0, 16)}&view=${view}`;
    await this.page.evaluate((href) => {
      const link = document.createElement('a');
      link.href = href;
      document.body.append(link);
      link.click();
      link.remove();
    }, address);
    await this.page.waitForSelector(`.view-${view}`);
    await settled(this.page);
    const shown = new URL(this.page.url());
    // The list notes the row at its top.
    shown.searchParams.delete('at');
    if (!shown.href.endsWith(address)) this.#add(address, `leads to ${shown.href}`);
    // The frame of the HTML loads behind the view.
    for (const frame of this.page.mainFrame().childFrames()) await frame.waitForURL(/\/html$/);
    await this.#look(`${address} in place`, false);
  }

  async #look(at: string, isFramed: boolean): Promise<void> {
    this.opened += 1;
    const { page, signs } = this;
    if (!page.url().startsWith(`${this.url}/`)) this.#add(at, `leads to ${page.url()}`);
    for (const frame of page.frames()) {
      const isMail = isFramed || frame !== page.mainFrame();
      for (const what of await frame.evaluate(isMail ? oddInMail : oddInPage))
        this.#add(at, `${isMail ? 'mail' : 'page'} holds ${what}`);
    }
    for (const [kind, list] of Object.entries(signs))
      for (const what of list.splice(0)) this.#add(at, `${kind}: ${what}`);
  }

  #add(at: string, what: string): void {
    this.findings.push({ at, what });
  }
}

function addressOf(id: string, view: View): string {
  return view === 'thread' ? `/m/${id}` : `/m/${id}?view=${view}`;
}

/** Returns what the framed HTML of a mail holds, as the browser has parsed it, that could run or load something. */
function oddInMail(): string[] {
  const loads = [
    'src',
    'srcset',
    'href',
    'xlink:href',
    'action',
    'formaction',
    'background',
    'poster',
    'data',
    'ping',
    'cite',
    'longdesc',
    'manifest',
    'srcdoc',
  ];
  const refused =
    'script,iframe,frame,frameset,object,embed,applet,base,form,input,button,select,textarea,svg,math,template,noscript,link,dialog,portal,video,audio,source,track,picture';
  const odd = [...document.querySelectorAll(refused)].map(({ outerHTML }) => outerHTML);
  // The first one is ours, and no other one could take anything of it back.
  const [policy, ...others] = document.querySelectorAll('meta[http-equiv]');
  if (policy?.getAttribute('content')?.startsWith("default-src 'none'; img-src data:;") !== true)
    odd.push('no policy of its own');
  for (const meta of others) odd.push(meta.outerHTML);
  if ('ran' in window) odd.push(`the mark of a script: ${String(window.ran)}`);
  for (const element of document.querySelectorAll('*')) {
    if (element.shadowRoot !== null) odd.push(`a shadow below ${element.localName}`);
    for (const { name, value } of element.attributes) {
      const isOwn = name === 'href' && /^\/away\?to=(?:https?|mailto)%3A/.test(value);
      const isAnchor = name === 'href' && value.startsWith('#');
      const isPicture = name === 'src' && /^data:image\/(?:png|jpeg|gif|webp|bmp)[;,]/.test(value);
      if (/^on/i.test(name) || (loads.includes(name) && !isOwn && !isAnchor && !isPicture))
        odd.push(`${element.localName} ${name}=${value}`);
    }
  }
  for (const sheet of document.styleSheets)
    for (const rule of sheet.cssRules)
      if (/url\(|@import|image-set\(/.test(rule.cssText)) odd.push(rule.cssText);
  for (const styled of document.querySelectorAll('[style]'))
    if (/url\(|image-set\(/.test(styled.getAttribute('style') ?? '')) odd.push(styled.outerHTML);
  return odd.map((text) => text.slice(0, 300));
}

/** Returns what a page of ours holds that no page of ours makes. */
function oddInPage(): string[] {
  const odd: string[] = 'ran' in window ? [`the mark of a script: ${String(window.ran)}`] : [];
  const frames = /^\/m\/[0-9a-f]+\/html$/;
  for (const element of document.querySelectorAll('*')) {
    const { localName } = element;
    for (const { name, value } of element.attributes) {
      if (/^on/i.test(name) || name === 'srcdoc') odd.push(`${localName} ${name}`);
      if (!/^(?:src|href|action|formaction|data|srcset|poster|xlink:href)$/.test(name)) continue;
      // What a sender wrote leads through the page that shows it.
      const isOwn = /^(?:\/(?!\/)|[#?])/.test(value) || value.startsWith(`${location.origin}/`);
      if (!isOwn && location.pathname !== '/away') odd.push(`${localName} ${name}=${value}`);
    }
    if (element instanceof HTMLIFrameElement) {
      const isConfined = !/allow-(?:scripts|same-origin|forms|top)/.test(element.sandbox.value);
      if (
        !element.hasAttribute('sandbox') ||
        !isConfined ||
        !frames.test(new URL(element.src).pathname)
      )
        odd.push(element.outerHTML);
    }
    if (element instanceof HTMLScriptElement) {
      const isOwn = element.src.startsWith(`${location.origin}/assets/`);
      if (!isOwn && element.type !== 'application/json') odd.push(element.outerHTML);
    }
    if (/^(?:object|embed|base|style|math|foreignobject)$/i.test(localName))
      odd.push(element.outerHTML);
  }
  return odd.map((text) => text.slice(0, 300));
}
