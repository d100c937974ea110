import { type ComponentType, createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { ConversationProps } from './conversation.tsx';
import type { IconName } from './icons.tsx';
import type { ListProps } from './mail-list.tsx';
import { type MessageContent, ownHit } from './message-props.ts';
import type { Frame, Here, LaterPage, Page } from './page.ts';
import type { ProblemProps } from './query-box.tsx';

export interface CopyProps {
  readonly text: string;
  readonly label: string;
  readonly icon: IconName;
  /** The text is a path on this server. */
  readonly isAddress?: boolean;
  /** Only the icon is visible; the label is for screen readers. */
  readonly isBrief?: boolean;
}

/** Parts of a page that do more with a script. */
export interface PageParts {
  readonly QueryBox: ComponentType<{ readonly frame: Frame; readonly here: Here }>;
  readonly Chips: ComponentType<{ readonly frame: Frame }>;
  /** The error in the query; a script shows it below the query box. */
  readonly Problem?: ComponentType<ProblemProps>;
  /** Makes the parser wait after the bar; a script does not need it. */
  readonly AfterBar?: ComponentType;
  readonly List: ComponentType<ListProps>;
  readonly Conversation: ComponentType<ConversationProps>;
  /** Renders nothing without a script. */
  readonly Copy: ComponentType<CopyProps>;
  readonly TimeBand: ComponentType<{ readonly frame: Frame }>;
  /** Whether this browser has unfolded a mailbox of the sidebar; null if never changed. */
  readonly isUnfolded: (mailbox: string) => boolean | null;
  /** The server has all of these parts; a browser loads them. */
  readonly Later: ComponentType<{ readonly page: LaterPage }>;
  readonly Message: ComponentType<MessageContent>;
}

export const Parts = createContext<PageParts | null>(null);

export function useParts(): PageParts {
  const parts = useContext(Parts);
  if (parts === null) throw new TypeError('a page is made without its parts');
  return parts;
}

export function pageTitle(page: Page): string {
  switch (page.kind) {
    case 'mail':
      return titleOf(page.frame.query);
    case 'message':
      return ownHit(page.message.conversation).line.subject ?? '(no subject)';
    case 'no-message':
      return 'No such message';
    case 'health':
      return page.shown.tab === 'overview' ? 'Health' : `Health: ${page.shown.tab}`;
    case 'dashboard':
      return 'Dashboard';
    case 'export':
      return 'Export';
    case 'still':
      return page.title;
    case 'files':
      return page.frame.query.trim() === '' ? 'Attachments' : `Attachments: ${page.frame.query}`;
  }
}

/** Returns the classes of the body, on which styles depend. */
export function pageClasses(page: Page): string {
  const isRead =
    page.kind === 'message' ||
    (page.kind === 'mail' && page.message !== null) ||
    (page.kind === 'files' && page.chosen !== null);
  return [
    `at-${page.kind === 'still' ? page.of : page.kind}`,
    ...(page.frame.past === null ? [] : ['in-past']),
    ...(isRead ? ['has-message'] : []),
  ].join(' ');
}

export function titleOf(query: string): string {
  return query.trim() === '' ? 'All mail' : query;
}
