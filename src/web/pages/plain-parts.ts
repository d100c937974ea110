import { Conversation } from './conversation.tsx';
import { LaterPages } from './later-pages.tsx';
import { ListPages } from './mail-list.tsx';
import { MessagePane } from './message-pane.tsx';
import { MessageViews } from './message-views.tsx';
import type { PageParts } from './parts.ts';
import { Chips } from './plain-query.tsx';
import { Problem } from './problem.tsx';
import { QueryBox } from './query-box.tsx';
import { TimeBand } from './time-band.tsx';

/** The parts of a page as they are without a script; the browser's own come from src/web/client/. */
export const PLAIN_PARTS: PageParts = {
  QueryBox,
  Chips,
  Problem,
  List: ListPages,
  Conversation,
  Copy: () => null,
  TimeBand,
  isUnfolded: () => null,
  Later: LaterPages,
  Message: MessagePane,
  Views: MessageViews,
};
