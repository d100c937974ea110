import { type ComponentType, createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { FileGroup } from '../../core/types.ts';
import type { DashboardData } from '../dashboard.ts';
import type { Range } from '../dashboard-data.ts';
import type { DownloadFormat, ExportOffer } from '../exporting.ts';
import type { FileDetail, FilesList, FilesMessages } from '../files.ts';
import type { HealthContent } from '../health.ts';
import type { ArchiveState, PastSum, ServiceSum } from '../issues.ts';
import type { ListSort, MailList } from '../mail-list.ts';
import type { FolderTree } from '../side-tree.ts';
import type { QueryProblem } from '../understood-query.ts';
import type { ConversationProps } from './conversation.tsx';
import type { IconName } from './elements.tsx';
import type { ListProps } from './mail-page.tsx';
import { type MessageContent, type NoMessage, openedHit } from './message-props.ts';
import type { ProblemProps } from './query-box.tsx';

export interface Frame {
  /** The query exactly as typed. */
  readonly query: string;
  readonly problem: QueryProblem | null;
  readonly tree: FolderTree;
  readonly consistency: ServiceSum;
  /** Totals at the moment of `asof:`; null for now. */
  readonly past: PastSum | null;
  readonly issues: number;
  readonly state: ArchiveState;
}

export interface MailContent {
  /** Null for an invalid query. */
  readonly list: MailList | null;
  readonly sort: ListSort;
  /** Last message of the previous page, as given in the address. */
  readonly after: string | undefined;
  readonly message: MessageContent | null;
  readonly pending: number;
}

export interface DashboardContent {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** IANA name of the zone in which days start. */
  readonly zone: string;
  /** Zone in the address; null if missing or unknown. */
  readonly typedZone: string | null;
  readonly wrongZone: string | null;
  /** Null lets each chart choose a suitable range. */
  readonly range: Range | null;
  /** Prefix of every query on the page. */
  readonly base: string;
  readonly commit: { readonly number: number; readonly time: number | null };
  readonly mailboxes: readonly { readonly name: string; readonly query: string }[];
  /** Null for a query that filters by anything but mailboxes. */
  readonly data: DashboardData | null;
}

/** Pages whose content only the server renders. The script takes over the frame around it. */
export type StaticPageKind = 'health' | 'dashboard' | 'export';

/** An archive page as plain data, which both the server and the browser render. */
export type Page = { readonly frame: Frame } & (
  | ({ readonly kind: 'mail' } & MailContent)
  | { readonly kind: 'message'; readonly message: MessageContent }
  | { readonly kind: 'no-message'; readonly found: NoMessage }
  | ({ readonly kind: 'health' } & HealthContent)
  | ({ readonly kind: 'dashboard' } & DashboardContent)
  | {
      readonly kind: 'export';
      /** Null for an invalid query. */
      readonly offer: ExportOffer | null;
      readonly format: DownloadFormat;
      /** Code of the last refusal; null if there was none. */
      readonly refused: string | null;
    }
  | {
      readonly kind: 'files';
      /** Null for an invalid query. */
      readonly list: FilesList | null;
      /** Null for all. */
      readonly group: FileGroup | null;
      readonly inlinePictures: boolean;
      /** Query for the messages with these attachments; null without a list. */
      readonly messages: FilesMessages | null;
      readonly after: string | undefined;
      /** SHA-256 of the chosen attachment, in hexadecimal. */
      readonly chosen: string | null;
      /** Null if no attachment is chosen, or no message contains it. */
      readonly detail: FileDetail | null;
      readonly pending: number;
    }
  | {
      readonly kind: 'still';
      readonly of: StaticPageKind;
      readonly title: string;
      /** IANA name of the zone in which days start; null if the page counts no days. */
      readonly zone: string | null;
    }
);

/** The sidebar link that a page belongs to. */
export type PageKind = 'mail' | 'message' | 'health' | 'files' | 'dashboard';

/** Pages other than the mail list. Their code loads when the first of them is opened. */
export type LaterPage = Exclude<Page, { readonly kind: 'mail' }>;

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
  readonly TimeBand: ComponentType<{ readonly frame: Frame }>;
  /** Returns whether the user has unfolded a sidebar mailbox; null if they have never changed it. */
  readonly isUnfolded: (mailbox: string) => boolean | null;
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
