import type { Page } from '../pages/page.ts';

/** Returns the address of the same page for a reader where days begin at another time; null where it is the right one. */
export function addressInOwnZone(page: Page, address: string): URL | null {
  const to = new URL(address);
  const zone = page.kind === 'still' ? page.zone : null;
  if (zone === null || to.searchParams.has('tz')) return null;
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  if (zone === timeZone) return null;
  to.searchParams.set('tz', timeZone);
  return to;
}
