import type { FileGroup } from '../../catalog/file-group-names.ts';
import type { DashboardData } from '../dashboard.ts';
import type { Range } from '../dashboard-data.ts';
import type { DownloadFormat, ExportOffer } from '../exporting.ts';
import type { FileDetail, FilesList, FilesMessages } from '../files.ts';
import type { HealthContent } from '../health.ts';
import type { ArchiveState, ClosingSum, PastSum } from '../issues.ts';
import type { ListSort, MailList } from '../mail-list.ts';
import type { SideTree } from '../side-tree.ts';
import type { QueryProblem } from '../understood-query.ts';
import type { MessageContent, NoMessage } from './message-props.ts';

export interface Frame {
  /** What stands in the query box, byte for byte. */
  readonly query: string;
  readonly problem: QueryProblem | null;
  readonly tree: SideTree;
  readonly closing: ClosingSum;
  /** The moment of `asof:`; null for now. */
  readonly past: PastSum | null;
  readonly matters: number;
  readonly state: ArchiveState;
}

export interface MailContent {
  /** Null where the query cannot be understood. */
  readonly list: MailList | null;
  readonly sort: ListSort;
  /** The last message of the page before, as it stands in the address. */
  readonly after: string | undefined;
  readonly message: MessageContent | null;
  readonly pending: number;
}

interface ExportContent {
  /** Null where the query cannot be understood. */
  readonly offer: ExportOffer | null;
  readonly format: DownloadFormat;
  /** Why the last try was refused: a code. */
  readonly refused: string | null;
}

interface FilesContent {
  /** Null where the query cannot be understood. */
  readonly list: FilesList | null;
  /** The group that is listed; null for all. */
  readonly group: FileGroup | null;
  /** Pictures in the text of messages are listed as well. */
  readonly inlinePictures: boolean;
  /** The query for the messages that have what is listed, and what it finds; null without a list. */
  readonly messages: FilesMessages | null;
  /** Where the page begins, as it stands in the address. */
  readonly after: string | undefined;
  /** The SHA-256 that the address names, in hex. */
  readonly chosen: string | null;
  /** What is shown of it; null where none is chosen, or no message has it. */
  readonly detail: FileDetail | null;
  readonly pending: number;
}

export interface DashboardContent {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** IANA name of the zone in which days begin. */
  readonly zone: string;
  /** The zone in the address; null where it names none, or one that nobody knows. */
  readonly typedZone: string | null;
  /** A zone in the address that nobody knows. */
  readonly wrongZone: string | null;
  /** Null: each chart shows the time that suits it. */
  readonly range: Range | null;
  /** What every query of the page begins with. */
  readonly base: string;
  readonly commit: { readonly number: number; readonly time: number | null };
  readonly mailboxes: readonly { readonly name: string; readonly query: string }[];
  /** Null where the query asks for more than mailboxes. */
  readonly data: DashboardData | null;
}

/** Pages whose content the server alone makes: the script takes over what stands around it. */
export type StillKind = 'health' | 'dashboard' | 'export';

interface StillContent {
  readonly of: StillKind;
  readonly title: string;
  /** IANA name of the zone in which days begin; null where no days are counted. */
  readonly zone: string | null;
}

/** A page of the archive as plain data: the server and the browser make the same page of it. */
export type Page = { readonly frame: Frame } & (
  | ({ readonly kind: 'mail' } & MailContent)
  | { readonly kind: 'message'; readonly message: MessageContent }
  | { readonly kind: 'no-message'; readonly found: NoMessage }
  | ({ readonly kind: 'health' } & HealthContent)
  | ({ readonly kind: 'dashboard' } & DashboardContent)
  | ({ readonly kind: 'export' } & ExportContent)
  | ({ readonly kind: 'files' } & FilesContent)
  | ({ readonly kind: 'still' } & StillContent)
);

/** Where a page stands among the links of the side. */
export type Here = 'mail' | 'message' | 'health' | 'files' | 'dashboard';

/** All pages but the list of mail: their code is loaded when the first of them is opened. */
export type LaterPage = Exclude<Page, { readonly kind: 'mail' }>;

export type PageOf<K extends Page['kind']> = Extract<Page, { readonly kind: K }>;
