/** Takes over the server's page: renders the same data, and follows links in place. */
import { render } from 'preact';
import type { Page } from '../pages/page.ts';
import { asOf, pageAddress, withTerm } from '../query-text.ts';
import { App } from './app.tsx';
import { leaveDrawer } from './focus.ts';
import { keepContent, loadLater, loadPane } from './later-part.tsx';
import { listenToKeys } from './page-keys.tsx';
import { addressInOwnZone, noteFolding } from './preferences.ts';
import { isOwnPage, Viewer } from './viewer.ts';

/** Interval for refreshing the archive's state: a sync run without news makes no commit. Milliseconds. */
const STATE_MS = 60_000;

const root = document.getElementById('root');
const data = document.getElementById('page');
if (root !== null && data !== null) {
  const page: Page = JSON.parse(data.textContent ?? '');
  const other = addressInOwnZone(page, location.href);
  if (other === null) takeOver(root, page);
  else location.replace(other);
}

function takeOver(root: HTMLElement, page: Page): void {
  const viewer = new Viewer(page, { ofPage: loadLater, ofMessage: loadPane });
  document.addEventListener('click', (event) => followInPlace(event, viewer));
  document.addEventListener('click', noteFolding);
  document.addEventListener('submit', (event) => sendInPlace(event, viewer));
  listenToKeys();
  // If the server does not show a picture, the text behind it takes its place.
  document.addEventListener('error', hidePicture, { capture: true });
  // The server's page stays until the script can show the same.
  void loadLater(page).then(() => {
    if (page.kind === 'still') keepContent(root);
    root.replaceChildren();
    new ArchiveEvents((commit) => viewer.reached(commit)).start();
    render(<App viewer={viewer} />, root);
    setInterval(() => {
      if (!document.hidden) void viewer.refreshFrame();
    }, STATE_MS);
    performance.mark('mailkeep-ready');
  });
}

function hidePicture({ target }: Event): void {
  if (target instanceof HTMLImageElement) target.hidden = true;
}

/** Follows a link to one of our pages in place, unless it opens elsewhere or the click was already handled. */
function followInPlace(event: MouseEvent, viewer: Viewer): void {
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!isPlain || event.defaultPrevented || link === null) return;
  // Alt-click on a folder adds it to the current query.
  if (event.altKey && !link.matches('.l2')) return;
  if (link.target !== '' || link.hasAttribute('download')) return;
  const to = new URL(link.href);
  if (link.getAttribute('href') === '#then') {
    event.preventDefault();
    viewer.toggleTime();
    return;
  }
  if (to.origin !== location.origin || to.hash !== '' || !isOwnPage(to)) return;
  event.preventDefault();
  viewer.go(event.altKey ? withFolderOf(to, viewer) : to.href);
  leaveDrawer();
}

function withFolderOf(to: URL, { address }: Viewer): string {
  const [folder, query] = [to, address].map(({ searchParams }) => searchParams.get('q') ?? '');
  return pageAddress('/mail', { q: withTerm(query ?? '', asOf(folder ?? '', null)) });
}

/** Submits a form for one of our pages in place, like a link. */
function sendInPlace(event: SubmitEvent, viewer: Viewer): void {
  const form = event.target;
  if (event.defaultPrevented || !(form instanceof HTMLFormElement) || form.method !== 'get') return;
  const to = new URL(form.action);
  if (to.origin !== location.origin || !isOwnPage(to)) return;
  event.preventDefault();
  for (const [name, value] of new FormData(form))
    if (typeof value === 'string') to.searchParams.set(name, value);
  viewer.go(to.href);
}

/** Minimum time between reports of new commits: a first sync has one every few seconds. Milliseconds. */
const PAUSE_MS = 2_000;
/** Delay before a refused stream is reopened. Milliseconds. */
const REFUSED_MS = 30_000;

/** Follows new commits while the window is visible: browsers allow few connections per server. */
class ArchiveEvents {
  #source: EventSource | undefined;
  #retry: number | undefined;
  #pause: number | undefined;
  /** Latest commit that arrived during a pause. */
  #latest: number | undefined;

  constructor(private readonly onCommit: (commit: number) => void) {}

  start(): void {
    document.addEventListener('visibilitychange', () => this.#follow());
    addEventListener('pagehide', () => this.#close());
    addEventListener('pageshow', () => this.#follow());
    this.#follow();
  }

  #follow(): void {
    if (document.visibilityState === 'hidden') this.#close();
    else if (this.#source === undefined) this.#open();
  }

  #open(): void {
    clearTimeout(this.#retry);
    const source = new EventSource('/api/events');
    this.#source = source;
    source.addEventListener('commit', ({ data }) => this.#heard(Number(data)));
    source.addEventListener('error', () => {
      // The browser reopens a broken stream, but not a refused one.
      if (source.readyState !== EventSource.CLOSED || this.#source !== source) return;
      this.#close();
      this.#retry = window.setTimeout(() => this.#follow(), REFUSED_MS);
    });
  }

  #close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
  }

  #heard(commit: number): void {
    if (this.#pause !== undefined) {
      this.#latest = commit;
      return;
    }
    this.onCommit(commit);
    this.#pause = window.setTimeout(() => {
      this.#pause = undefined;
      const latest = this.#latest;
      this.#latest = undefined;
      if (latest !== undefined) this.#heard(latest);
    }, PAUSE_MS);
  }
}
