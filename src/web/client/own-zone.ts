import type { Page } from '../pages/page.ts';

/** Returns the address of the same page for a reader where days begin at another time; null where it is the right one. */
export function addressInOwnZone(page: Page, address: string): URL | null {
  const to = new URL(address);
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
  const zone = page.kind === 'still' ? page.zone : null;
  if (zone === null || zone === timeZone || to.searchParams.has('tz')) return null;
  to.searchParams.set('tz', timeZone);
  return to;
}
