import type { VNode } from 'preact';
import { useLayoutEffect } from 'preact/hooks';
import { PageView } from '../pages/mail-page.tsx';
import { Parts, pageClasses, pageTitle } from '../pages/parts.ts';
import { useFocusReturn } from './focus.ts';
import { LIVE_PARTS } from './live-parts.ts';
import { PageKeys } from './page-keys.tsx';
import { LostStrip, RefusedStrip } from './problem-below.tsx';
import type { Viewer } from './viewer.ts';
import { CurrentViewer, useShown } from './viewer.ts';

export function App({ viewer }: { readonly viewer: Viewer }): VNode {
  return (
    <CurrentViewer.Provider value={viewer}>
      <Parts.Provider value={LIVE_PARTS}>
        <Window />
      </Parts.Provider>
    </CurrentViewer.Provider>
  );
}

function Window(): VNode {
  const { page, lost, failed, busy } = useShown();
  // With what it says, not a frame later.
  useLayoutEffect(() => {
    document.title = `${pageTitle(page)} · mailkeep`;
    document.body.className = pageClasses(page);
    document.body.ariaBusy = String(busy);
  });
  useFocusReturn(page);
  return (
    <>
      <LostStrip lost={lost} />
      <RefusedStrip failed={failed} />
      <PageKeys page={page} />
      <PageView page={page} />
    </>
  );
}
