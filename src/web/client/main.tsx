/** Takes over the page that the server rendered, and follows links without reloading. */
import { render } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { Icon, Moment } from '../pages/elements.tsx';
import { PageView } from '../pages/mail-page.tsx';
import {
  type CopyProps,
  type Frame,
  type Page,
  type PageParts,
  Parts,
  pageClasses,
  pageTitle,
} from '../pages/page.ts';
import { addTerm, pageAddress, withAsOf } from '../query-text.ts';
import { LiveChips } from './filter-chips.tsx';
import { leaveDrawer, useFocusReturn } from './focus.ts';
import { keepContent, laterPart, loadLater, loadPane, OTHER_PAGES } from './later-part.tsx';
import { MessageList } from './message-list.tsx';
import { copyToClipboard, listenToKeys, PageKeys } from './page-keys.tsx';
import { isUnfolded, storeFolding, storeZone } from './preferences.ts';
import { LiveQueryBox } from './query-box.tsx';
import {
  CurrentViewer,
  isOwnPage,
  useViewer,
  useViewerState,
  Viewer,
  type ViewerState,
} from './viewer.ts';

/** Milliseconds between refreshes of the archive's state, because a sync run that finds nothing makes no commit. */
const STATE_MS = 60_000;

const OpenBand = laterPart((code) => code.OpenBand);

function LiveTimeBand({ frame }: { frame: Frame }) {
  const { isTimeOpen } = useViewerState();
  return frame.past !== null || isTimeOpen ? <OpenBand frame={frame} /> : null;
}

const LIVE_PARTS: PageParts = {
  QueryBox: LiveQueryBox,
  Chips: LiveChips,
  List: MessageList,
  Conversation: laterPart((code) => code.LiveConversation),
  Copy,
  PrintButton,
  TimeBand: LiveTimeBand,
  isUnfolded,
  pages: OTHER_PAGES,
  Message: laterPart((code) => code.MessagePane),
};

function App({ viewer }: { viewer: Viewer }) {
  return (
    <CurrentViewer.Provider value={viewer}>
      <Parts.Provider value={LIVE_PARTS}>
        <Window />
      </Parts.Provider>
    </CurrentViewer.Provider>
  );
}

function Window() {
  const { page, lost, failed, busy } = useViewerState();
  // In the same frame as the content.
  useLayoutEffect(() => {
    document.title = `${pageTitle(page)} · mailkeep`;
    document.body.className = pageClasses(page);
    document.body.ariaBusy = String(busy);
  });
  useFocusReturn(page);
  return (
    <>
      {lost !== null && <ProblemStrip lost={lost} />}
      {failed && <ProblemStrip lost={null} />}
      <PageKeys page={page} />
      <PageView page={page} />
    </>
  );
}

function ProblemStrip({ lost }: Pick<ViewerState, 'lost'>) {
  const viewer = useViewer();
  return (
    <div class="strip warn lost" role="status">
      <Icon name="alert" />
      {lost === null ? (
        <span>
          <strong>The server could not answer this request.</strong> What you see is still right.
          Its log says why.
        </span>
      ) : (
        <>
          <span>
            <strong>The connection to the archive is lost.</strong> What you see is from{' '}
            <Moment ms={lost.since} />. The next try follows by itself.
          </span>
          <button type="button" class="btn" onClick={() => viewer.retry()}>
            Try now
          </button>
        </>
      )}
    </div>
  );
}

/** How long a button confirms that copying succeeded, in milliseconds. */
const CONFIRMED_MS = 2_000;

function Copy({ text, label, icon, isAddress, isBrief }: CopyProps) {
  const [confirmation, setConfirmation] = useState('');
  useEffect(() => {
    if (confirmation === '') return undefined;
    const timer = setTimeout(() => setConfirmation(''), CONFIRMED_MS);
    return () => clearTimeout(timer);
  }, [confirmation]);
  const copy = async (): Promise<void> => {
    const whole = isAddress === true ? new URL(text, location.origin).href : text;
    setConfirmation((await copyToClipboard(whole)) ? 'Copied' : 'Not copied');
  };
  return (
    <button
      type="button"
      class={`btn quiet copy${isAddress === true ? ' copy-link' : ''}`}
      title={label}
      onClick={() => void copy()}
    >
      <Icon name={icon} />
      <span class={isBrief === true && confirmation === '' ? 'vh' : undefined} aria-live="polite">
        {confirmation === '' ? label : confirmation}
      </span>
    </button>
  );
}

function PrintButton() {
  return (
    <button type="button" class="btn quiet print" title="Print" onClick={() => print()}>
      <Icon name="print" />
      <span class="vh">Print</span>
    </button>
  );
}

function takeOver(root: HTMLElement, page: Page): void {
  const viewer = new Viewer(page, { ofPage: loadLater, ofMessage: loadPane });
  document.addEventListener('click', (event) => followInPlace(event, viewer));
  document.addEventListener('click', storeFolding);
  document.addEventListener('submit', (event) => sendInPlace(event, viewer));
  listenToKeys();
  // If the server refuses a picture, the text behind it shows through.
  document.addEventListener('error', hidePicture, { capture: true });
  // The server's page remains until the script can render the same content.
  void loadLater(page).then(() => {
    if (page.kind === 'still') keepContent(root);
    root.replaceChildren();
    followCommits((commit) => viewer.reached(commit));
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

/** Follows a link to one of our pages, unless the click opens another tab or has already been handled. */
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
  return pageAddress('/mail', { q: addTerm(query ?? '', withAsOf(folder ?? '', null)) });
}

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

/** Minimum milliseconds between reports, because a first sync commits every few seconds. */
const PAUSE_MS = 2_000;
/** Milliseconds before a refused stream is reopened. */
const REFUSED_MS = 30_000;

/** Reports new commits while the window is visible, because browsers allow few connections per server. */
function followCommits(onCommit: (commit: number) => void): void {
  let source: EventSource | undefined;
  let retry: number | undefined;
  let pause: number | undefined;
  let latest: number | undefined;
  const close = (): void => {
    clearTimeout(retry);
    source?.close();
    source = undefined;
  };
  const report = (commit: number): void => {
    if (pause !== undefined) {
      latest = commit;
      return;
    }
    onCommit(commit);
    pause = window.setTimeout(() => {
      pause = undefined;
      const waiting = latest;
      latest = undefined;
      if (waiting !== undefined) report(waiting);
    }, PAUSE_MS);
  };
  const follow = (): void => {
    if (document.visibilityState === 'hidden') {
      close();
      return;
    }
    if (source !== undefined) return;
    clearTimeout(retry);
    const stream = new EventSource('/api/events');
    source = stream;
    stream.addEventListener('commit', ({ data }) => report(Number(data)));
    stream.addEventListener('error', () => {
      // The browser reopens a broken stream, but not a refused one.
      if (stream.readyState !== EventSource.CLOSED || source !== stream) return;
      close();
      retry = window.setTimeout(follow, REFUSED_MS);
    });
  };
  document.addEventListener('visibilitychange', follow);
  addEventListener('pagehide', close);
  addEventListener('pageshow', follow);
  follow();
}

const root = document.getElementById('root');
const data = document.getElementById('page');
if (root !== null && data !== null) {
  const page: Page = JSON.parse(data.textContent ?? '');
  if (storeZone(page)) location.reload();
  else takeOver(root, page);
}
