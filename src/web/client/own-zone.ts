import { useEffect } from 'preact/hooks';
import type { Page } from '../pages/page.ts';
import { useViewer } from './viewer-context.ts';

/** Asks for a dashboard again whose days do not begin at midnight where the reader is. */
export function useOwnZone(page: Page): void {
  const viewer = useViewer();
  const zone = page.kind === 'still' ? page.zone : null;
  useEffect(() => {
    const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
    const { address } = viewer;
    if (zone === null || zone === timeZone || address.searchParams.has('tz')) return;
    const to = new URL(address);
    to.searchParams.set('tz', timeZone);
    viewer.go(to.href, { replace: true });
  }, [zone]);
}
