import { useLayoutEffect } from 'preact/hooks';
import { Icon } from '../pages/icons.tsx';
import { PageView } from '../pages/mail-page.tsx';
import { type Frame, type PageParts, Parts, pageClasses, pageTitle } from '../pages/page.ts';
import { Moment } from '../pages/time-band.tsx';
import { Copy } from './copy.tsx';
import { LiveChips } from './filter-chips.tsx';
import { useFocusReturn } from './focus.ts';
import { LiveLater, laterPart } from './later-part.tsx';
import { MessageList } from './message-list.tsx';
import { PageKeys } from './page-keys.tsx';
import { isUnfolded } from './preferences.ts';
import { LiveQueryBox } from './query-box.tsx';
import { CurrentViewer, type Shown, useShown, useViewer, type Viewer } from './viewer.ts';

export function App({ viewer }: { viewer: Viewer }) {
  return (
    <CurrentViewer.Provider value={viewer}>
      <Parts.Provider value={LIVE_PARTS}>
        <Window />
      </Parts.Provider>
    </CurrentViewer.Provider>
  );
}

function Window() {
  const { page, lost, failed, busy } = useShown();
  // Together with the content, not a frame later.
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

function LostStrip({ lost }: Pick<Shown, 'lost'>) {
  const viewer = useViewer();
  if (lost === null) return null;
  return (
    <div class="strip warn lost" role="status">
      <Icon name="alert" />
      <span>
        <strong>The connection to the archive is lost.</strong> What you see is from{' '}
        <Moment ms={lost.since} />. The next try follows by itself.
      </span>
      <button type="button" class="btn" onClick={() => viewer.retry()}>
        Try now
      </button>
    </div>
  );
}

function RefusedStrip({ failed }: Pick<Shown, 'failed'>) {
  if (!failed) return null;
  return (
    <div class="strip warn lost" role="status">
      <Icon name="alert" />
      <span>
        <strong>The server could not answer this request.</strong> What you see is still right. Its
        log says why.
      </span>
    </div>
  );
}

const OpenBand = laterPart((code) => code.OpenBand);

function LiveTimeBand({ frame }: { frame: Frame }) {
  const { isTimeOpen } = useShown();
  return frame.past !== null || isTimeOpen ? <OpenBand frame={frame} /> : null;
}

const LIVE_PARTS: PageParts = {
  QueryBox: LiveQueryBox,
  Chips: LiveChips,
  List: MessageList,
  Conversation: laterPart((code) => code.LiveConversation),
  Copy,
  TimeBand: LiveTimeBand,
  isUnfolded,
  Later: LiveLater,
  Message: laterPart((code) => code.MessagePane),
};
