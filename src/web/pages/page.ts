import { type ComponentType, createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { dashboardPage } from '../dashboard.ts';
import type { FilesPages } from '../files.ts';
import type { MailPages } from '../mail-pages.ts';
import type { ConversationProps } from './conversation.tsx';
import type { IconName } from './elements.tsx';
import type { ListProps } from './mail-page.tsx';
import { type MessageContent, openedHit } from './message-props.ts';
import type { ProblemProps } from './query-box.tsx';
import type { Theme } from './theme.ts';

/** Data around the content of every page. */
export type Frame = ReturnType<MailPages['frame']>;

type MadePage =
  | MailPages['mail' | 'alone' | 'health' | 'export']
  | FilesPages['files']
  | typeof dashboardPage;

/** An archive page as plain data, which both the server and the browser render. */
export type Page = Awaited<ReturnType<MadePage>>['page'] | StillPage;

/** A page whose content only the server renders. The script takes over the frame around it. */
interface StillPage {
  readonly frame: Frame;
  readonly kind: 'still';
  readonly of: 'health' | 'dashboard' | 'export';
  readonly title: string;
}

/** The sidebar link that a page belongs to. */
export type PageKind = 'mail' | 'message' | 'health' | 'files' | 'dashboard';

export type PageOf<K extends Page['kind']> = Extract<Page, { readonly kind: K }>;

export interface CopyProps {
  readonly text: string;
  readonly label: string;
  readonly icon: IconName;
  /** True if the text is a path on this server, which is copied as a full address. */
  readonly isAddress?: boolean;
  /** Shows only the icon. */
  readonly isBrief?: boolean;
}

/** Components that a script replaces with more capable ones. */
export interface PageParts {
  readonly QueryBox: ComponentType<{ readonly frame: Frame; readonly here: PageKind }>;
  readonly Chips: ComponentType<{ readonly frame: Frame }>;
  /** A script shows the problem below the query box instead. */
  readonly Problem?: ComponentType<ProblemProps>;
  /** Makes the parser wait after the bar; not needed with a script. */
  readonly AfterBar?: ComponentType;
  readonly List: ComponentType<ListProps>;
  readonly Conversation: ComponentType<ConversationProps>;
  /** Renders nothing if there is no script. */
  readonly Copy: ComponentType<CopyProps>;
  /** Renders nothing if there is no script. */
  readonly PrintButton: ComponentType;
  readonly TimeBand: ComponentType<{ readonly frame: Frame }>;
  /** Returns whether the user has unfolded a sidebar mailbox; null if they have never changed it. */
  readonly isUnfolded: (mailbox: string) => boolean | null;
  /** Pages other than the mail list. A script loads their code when the first of them is opened. */
  readonly pages: {
    readonly [K in Exclude<Page['kind'], 'mail'>]: ComponentType<{ page: PageOf<K> }>;
  };
  readonly Message: ComponentType<MessageContent>;
}

/** Undefined for the system's theme. */
export const ChosenTheme = createContext<Theme | undefined>(undefined);

export const Parts = createContext<PageParts | null>(null);

export function useParts(): PageParts {
  const parts = useContext(Parts);
  if (parts === null) throw new TypeError('a page is made without its parts');
  return parts;
}

export function pageTitle(page: Page): string {
  switch (page.kind) {
    case 'mail':
      return listTitle(page.frame.query);
    case 'message':
      return openedHit(page.message.conversation).line.subject ?? '(no subject)';
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

export function listTitle(query: string): string {
  return query.trim() === '' ? 'All mail' : query;
}
