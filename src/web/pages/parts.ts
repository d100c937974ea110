import { type ComponentType, createContext } from 'preact';
import { Conversation, type ConversationProps } from './conversation.tsx';
import type { IconName } from './icons.tsx';
import { ListPages, type ListProps } from './mail-list.tsx';
import type { Frame, Here, LaterPage } from './page.ts';
import { Chips } from './plain-query.tsx';
import { Problem, type ProblemProps } from './problem.tsx';
import { QueryBox } from './query-box.tsx';
import { TimeBand } from './time-band.tsx';

export interface CopyProps {
  readonly text: string;
  readonly label: string;
  readonly icon: IconName;
  /** The text is an address of this server, without its name. */
  readonly isAddress?: boolean;
  /** Only the icon is shown; the label is for readers. */
  readonly isBrief?: boolean;
}

/** Parts of a page that do more where a script runs. */
export interface PageParts {
  readonly QueryBox: ComponentType<{ readonly frame: Frame; readonly here: Here }>;
  /** Filters that write the query. */
  readonly Chips: ComponentType<{ readonly frame: Frame }>;
  /** What is wrong with the query. */
  readonly Problem: ComponentType<ProblemProps>;
  readonly List: ComponentType<ListProps>;
  readonly Conversation: ComponentType<ConversationProps>;
  /** Nothing, without a script. */
  readonly Copy: ComponentType<CopyProps>;
  readonly TimeBand: ComponentType<{ readonly frame: Frame }>;
  /** Given by whoever shows pages: the server has all of them, a browser loads them. */
  readonly Later: ComponentType<{ readonly page: LaterPage }>;
}

/** As they are without a script; the browser's own come from src/web/client/. */
export const PLAIN_PARTS: PageParts = {
  QueryBox,
  Chips,
  Problem,
  List: ListPages,
  Conversation,
  Copy: () => null,
  TimeBand,
  Later: () => null,
};

export const Parts = createContext<PageParts>(PLAIN_PARTS);
