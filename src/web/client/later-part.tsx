import type { ComponentType, VNode } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';
import { clockText, dayText } from '../../core/text.ts';
import type { Page, PageOf, PageParts } from '../pages/page.ts';
import { Shell } from '../pages/shell.tsx';
import { announcedResults } from './focus.ts';

type LaterCode = typeof import('./later.tsx');

let loaded: LaterCode | undefined;

/** Loads the code left out of the initial script. Rejects if the server is unreachable or has been updated. */
async function loadCode(): Promise<void> {
  loaded ??= await import('./later.tsx');
}

/** Loads code and styles for a message or the attachments page. Rejects like `loadCode`. */
export async function loadPane(): Promise<void> {
  await Promise.all([loadCode(), addLaterStyles()]);
}

/** Loads the code and styles that a page needs. Rejects like `loadCode`. */
export async function loadLater(page: Page): Promise<void> {
  const { kind } = page;
  if (kind !== 'still' && (kind !== 'mail' || page.message !== null)) await loadPane();
  // Otherwise, the history bar would disappear for a frame when the script takes over.
  if (page.frame.past !== null) await loadCode();
}

async function addLaterStyles(): Promise<void> {
  const named = document.querySelector<HTMLMetaElement>('meta[name=later-styles]');
  if (named === null) return;
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = named.content;
  await new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = reject;
    document.head.append(link);
  });
  named.remove();
}

/**
 * Returns a component whose code loads when it is first shown. Nothing is rendered until the code arrives. A failed
 * load is retried the next time the component is shown.
 */
export function laterPart<Props extends object>(
  pick: (code: LaterCode) => ComponentType<Props>,
): (props: Props) => VNode | null {
  return function Later(props) {
    const [, arrived] = useReducer<number, undefined>((count) => count + 1, 0);
    useEffect(() => {
      if (loaded === undefined)
        loadCode().then(
          () => arrived(undefined),
          // The next request reports a lost connection.
          () => undefined,
        );
    }, []);
    if (loaded === undefined) return null;
    const Part = pick(loaded);
    return <Part {...props} />;
  };
}

let content: Element | null = null;

/** Saves server-rendered content before the frame around it is re-rendered. */
export function keepContent(root: Element): void {
  content = root.querySelector('main > .page');
  for (const time of content?.querySelectorAll('time') ?? []) inOwnZone(time);
}

/** Converts a `Moment`, `Clock` or `Ago` to the browser's time zone. */
function inOwnZone(time: HTMLTimeElement): void {
  const ms = Date.parse(time.dateTime);
  const clock = time.querySelector('.clock');
  if (Number.isNaN(ms) || time.firstChild === null) return;
  // An elapsed time is the same in every zone. Its title shows the exact time.
  if (time.title !== '') {
    time.title = new Date(ms).toLocaleString('en-GB');
    return;
  }
  if (time.firstChild !== clock) time.firstChild.textContent = dayText(ms);
  if (clock !== null) clock.textContent = clockText(ms);
}

/** The frame of a page whose content the server has rendered. */
function StillPage({ page }: { page: PageOf<'still'> }) {
  return (
    <Shell frame={page.frame} here={page.of === 'export' ? 'mail' : page.of} isList>
      <Kept />
    </Shell>
  );
}

/** A script receives these pages as `StillPage`. */
const never = () => null;

export const OTHER_PAGES: PageParts['pages'] = {
  message: laterPart((code) => code.MessagePage),
  'no-message': laterPart((code) => code.NoMessagePage),
  files: laterPart((code) => code.FilesPage),
  still: StillPage,
  health: never,
  dashboard: never,
  export: never,
};

function Kept() {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (content !== null) place.current?.replaceChildren(content);
  }, []);
  return <div ref={place} class="kept" />;
}

/** Milliseconds before new results are announced. */
const REST_MS = 500;

/** The only live region: it announces results and errors once the user stops typing. */
export function LiveResults({ page }: { page: Page }) {
  const [spoken, setSpoken] = useState('');
  const now = announcedResults(page);
  const { query } = page.frame;
  useEffect(() => {
    // Screen readers read the initial results with the page.
    const timer = setTimeout(() => setSpoken(now), REST_MS);
    return () => clearTimeout(timer);
  }, [now, query]);
  return (
    <p class="vh" role="status" aria-live="polite">
      {spoken}
    </p>
  );
}
