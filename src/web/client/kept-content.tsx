import type { VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { clockText, dayText } from '../../wording/dates.ts';

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
