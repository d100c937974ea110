import type { PageParts } from '../pages/parts.ts';
import { Copy } from './copy.tsx';
import { LiveChips } from './filter-chips.tsx';
import { LaterConversation, LiveLater, LiveMessage, LiveViews } from './later-pages.tsx';
import { MessageList } from './message-list.tsx';
import { isUnfolded } from './preferences.ts';
import { LiveQueryBox } from './query-box.tsx';
import { LiveTimeBand } from './time-band.tsx';

/** The parts of a page as they are where a script runs. */
export const LIVE_PARTS: PageParts = {
  QueryBox: LiveQueryBox,
  Chips: LiveChips,
  List: MessageList,
  Conversation: LaterConversation,
  Copy,
  TimeBand: LiveTimeBand,
  isUnfolded,
  Later: LiveLater,
  Message: LiveMessage,
  Views: LiveViews,
};
