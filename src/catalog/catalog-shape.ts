import type { Locator } from '../archive/format/records.ts';
import type { PlaceLine } from '../mail/lines.ts';
import type { MailboxKey, MessageId } from '../mail/words.ts';
import type { AttachmentQueries } from './attachment-texts.ts';
import type { EndedQueries } from './ended.ts';
import type { FileQueries } from './files/files.ts';
import type { Reached } from './fold/batch.ts';
import type { FolderQueries } from './folders.ts';
import type { IndexQueries } from './indexing.ts';
import type { ListedPlace, ListFilter } from './list.ts';
import type { ListPositions } from './list-positions.ts';
import type { HistoryLine, LastSeen } from './message-history.ts';
import type { MessageQueries } from './messages.ts';
import type { OriginQueries } from './origin-places.ts';
import type { PlaceQueries } from './places.ts';
import type { QuarantineQueries } from './quarantine.ts';
import type { RelinkQueries } from './relinking.ts';
import type { Scope } from './scope.ts';
import type { CountRequest, SearchQueries } from './search/search.ts';
import type { ChartQueries } from './stats/charts.ts';
import type { StatsQueries } from './stats/stats.ts';
import type { Afterwards } from './timeline/afterwards.ts';
import type { ChangeQueries } from './timeline/changes.ts';
import type { Spine, SpineRequest } from './timeline/spine.ts';

/** What the archive holds in all. */
export interface Totals {
  /** Distinct messages, and the bytes of their raw sources. */
  readonly messages: number;
  readonly bytes: number;
  /** Messages not indexed yet, or due again. */
  readonly pending: number;
  readonly unparsed: number;
}

type ViewRequest = Pick<CountRequest, 'asOf' | 'scope'>;

/** The catalog for reading, on one connection. Close it when done. */
export interface Catalog extends SearchQueries {
  /** The commit it has reached; number 0 and an empty hash before the first. */
  reached(): Reached;
  /**
   * Changes with each commit of the archive and each row of its index: what is made of the catalog can be kept as long
   * as it stays. It shows changes of all mailboxes, so no answer shows it.
   */
  version(): number;
  /** Facts that name unknown places; non-zero only if the log is damaged. */
  orphans(): number;
  readonly folders: FolderQueries;
  readonly places: PlaceQueries;
  /** What the origin showed, by folder and uid. */
  readonly origin: OriginQueries;
  readonly messages: MessageQueries;
  readonly locator: Locator;
  readonly quarantine: QuarantineQueries;
  readonly ended: EndedQueries;
  readonly relinking: RelinkQueries;
  readonly index: IndexQueries;
  readonly attachments: AttachmentQueries;
  readonly files: FileQueries;
  readonly stats: StatsQueries;
  readonly charts: ChartQueries;
  /** When the messages that a query finds were received. */
  spine(request: SpineRequest, mayContinue: () => boolean): Spine;
  /** What came and ended, and when. */
  readonly changes: ChangeQueries;
  totals(): Totals;
  /** What stands for docids in addresses. */
  readonly positions: ListPositions;
  /** See `list.ts`: newest first; a read transaction is open until it is drained or returned. */
  list(filter: ListFilter): IterableIterator<PlaceLine>;
  /** The same places, with what names them in facts. */
  listPlaces(filter: ListFilter): IterableIterator<ListedPlace>;
  /** Runs reads that must agree with each other on one state of the catalog. */
  snapshot<T>(act: () => T): T;
  /** The commit in force at a time (milliseconds since the epoch), and when it was made; null before the first. */
  commitAt(time: number): { readonly number: number; readonly time: number } | null;
  /** Ids of the messages in a message's thread, the oldest first; itself alone before it is indexed. */
  threadOf(id: MessageId, scope?: Scope): MessageId[];
  /** See `conversationSizes`: as a request's moment and scope show them. */
  conversationSizes(docids: readonly number[], request: ViewRequest): ReadonlyMap<number, number>;
  /** See `afterwards`: what became of messages since a request's moment. */
  afterwards(docids: readonly number[], request: ViewRequest): ReadonlyMap<number, Afterwards>;
  /** Everything that happened to a message, oldest first; empty for an unknown message. */
  history(id: MessageId, scope?: Scope): HistoryLine[];
  /** See `lastSeen`: when a message was last known to be where it was found gone later. */
  lastSeen(id: MessageId, scope?: Scope): LastSeen[];
  /** What a reader of these mailboxes may know; mailboxes that the catalog does not have give nothing. */
  scopeOf(mailboxes: readonly MailboxKey[]): Scope;
  /** The same catalog for a reader of these mailboxes, as if there were no others. */
  within(mailboxes: readonly MailboxKey[]): Catalog;
  /** The messages of a scope whose id begins so: at most `limit`. */
  idsWithin(scope: Scope, prefix: string, limit: number): MessageId[];
  close(): void;
}
