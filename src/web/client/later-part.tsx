import type { ComponentType, VNode } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';
import { clockText, dayText } from '../../core/text.ts';
import type { Page } from '../pages/page.ts';
import { spokenResults } from './focus.ts';

type Extras = typeof import('./live-pane.tsx');

let loaded: Extras | undefined;

/** Loads what hangs over a page. Rejects where the server cannot be reached, or has another version by now. */
export async function loadExtras(): Promise<void> {
  loaded ??= await import('./live-pane.tsx');
}

/**
 * Returns one of the extras. Unless they are loaded, they are when it is first shown, and nothing stands in its place until
 * then; where they cannot be loaded, the next time it is shown tries again.
 */
export function laterPart<Props extends object>(
  pick: (extras: Extras) => ComponentType<Props>,
): (props: Props) => VNode | null {
  return function Later(props) {
    const [, arrived] = useReducer<number, undefined>((count) => count + 1, 0);
    useEffect(() => {
      if (loaded === undefined)
        loadExtras().then(
          () => arrived(undefined),
          // Without a connection, the next thing that is asked for says so.
          () => undefined,
        );
    }, []);
    if (loaded === undefined) return null;
    const Part = pick(loaded);
    return <Part {...props} />;
  };
}

let content: Element | null = null;

/** Takes the content of a page that the server alone makes, before what stands around it is made anew. */
export function keepContent(root: Element): void {
  content = root.querySelector('main > .page');
  for (const time of content?.querySelectorAll('time') ?? []) inOwnZone(time);
}

/** A moment as `Moment`, `Clock` and `Ago` show it, in the zone of this browser. */
function inOwnZone(time: HTMLTimeElement): void {
  const ms = Date.parse(time.dateTime);
  const clock = time.querySelector('.clock');
  if (Number.isNaN(ms) || time.firstChild === null) return;
  // How long ago it was is the same in every zone; its title has the moment.
  if (time.title !== '') {
    time.title = new Date(ms).toLocaleString('en-GB');
    return;
  }
  if (time.firstChild !== clock) time.firstChild.textContent = dayText(ms);
  if (clock !== null) clock.textContent = clockText(ms);
}

/** What the server made, where it stood. */
export function Kept(): VNode {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (content !== null) place.current?.replaceChildren(content);
  }, []);
  return <div ref={place} class="kept" />;
}

/** Without a change for so long, results are spoken. Milliseconds. */
const REST_MS = 500;

/** The one region that speaks of results and errors, once typing rests. */
export function LiveResults({ page }: { readonly page: Page }): VNode {
  const [spoken, setSpoken] = useState('');
  const now = spokenResults(page);
  const { query } = page.frame;
  useEffect(() => {
    // What was shown when the page was opened is read with the page.
    const timer = setTimeout(() => setSpoken(now), REST_MS);
    return () => clearTimeout(timer);
  }, [now, query]);
  return (
    <p class="vh" role="status" aria-live="polite">
      {spoken}
    </p>
  );
}
