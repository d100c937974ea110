import type { AttachmentTextState } from '../../catalog/attachment-texts.ts';
import type { HistoryLine, LastSeen } from '../../catalog/messages.ts';
import type { HitCount, SearchHit } from '../../catalog/search.ts';
import type { MessageReading } from '../../mail/extraction.ts';
import type { RemotePictures } from '../../mail/safe-page.ts';
import type { AttachmentNote } from '../mail-pages.ts';
import type { Conversation, SourceText, TextPiece } from '../message-shapes.ts';
import type { Hop } from '../message-view.ts';
import { pageAddress } from '../query-text.ts';

/** Ways to look at a message, in the order of their tabs. */
export const VIEWS = ['thread', 'plain', 'html', 'headers', 'source', 'history'] as const;
export type View = (typeof VIEWS)[number];

/** Messages of a conversation that are shown. */
export const MOST_OF_THREAD = 200;

/** Messages of a conversation that are unfolded since the query finds them, besides the one that is opened. */
export const MOST_UNFOLDED = 3;

/** A message that is unfolded in its conversation. */
export interface OpenMessage {
  readonly id: string;
  /** Null where the bytes are not what was stored. */
  readonly facts: MessageFacts | null;
  readonly damage: Damage | null;
  readonly text: readonly TextPiece[];
  /** What is known of the text of attachments. */
  readonly texts: readonly Pick<AttachmentTextState, 'number' | 'status' | 'reason'>[];
  /** In how many messages attachments are, and where they have what the query looks for. */
  readonly notes: readonly AttachmentNote[];
  /** The commit with which the archive got it; null where that is not known. */
  readonly commit: number | null;
  /** When it was last known to be where it was found gone later. */
  readonly lastSeen: readonly LastSeen[];
}

/** Mail around a message: a query, and how many it finds. */
export interface Near {
  readonly label: string;
  readonly query: string;
  readonly found: HitCount;
}

/** What the chosen view shows besides the message's head. */
export type ViewContent =
  /** `others` are unfolded with the message that is open, since the query finds them. */
  | { readonly view: 'thread'; readonly others: readonly OpenMessage[] }
  | { readonly view: 'plain' }
  | { readonly view: 'html'; readonly remote: RemotePictures | null; readonly isReadable: boolean }
  | {
      readonly view: 'headers';
      readonly fields: MessageReading['headers'];
      readonly hops: readonly Hop[];
    }
  | { readonly view: 'source'; readonly window: SourceText | null }
  | {
      readonly view: 'history';
      readonly lines: readonly HistoryLine[];
      /** The moment that the query names; milliseconds since the epoch. */
      readonly asOf: number | null;
    };

/** What was read of a message whose bytes had their hash. */
export interface MessageFacts
  extends Pick<
    MessageReading,
    'from' | 'to' | 'cc' | 'bcc' | 'reason' | 'encrypted' | 'truncated' | 'attachments'
  > {
  readonly hasHtml: boolean;
  /** The text is what the HTML says: the message has no other. */
  readonly onlyHtml: boolean;
}

/** Where a message is read: next to a list, or over the whole width. It decides where its links lead. */
export interface MessagePlace {
  readonly page: 'mail' | 'message';
  readonly query: string;
  readonly sort?: string | undefined;
  readonly after?: string | undefined;
}

/** Why a message cannot be shown: the sentence of the command line. */
export interface Damage {
  readonly message: string;
  readonly hint: string | null;
}

export interface MessageContent extends OpenMessage {
  readonly kind: 'message';
  readonly place: MessagePlace;
  readonly conversation: Conversation;
  readonly content: ViewContent;
  /** Only where it is shown over the whole width. */
  readonly near: readonly Near[];
  readonly dataDir: string;
}

/** What stands where a message would: none has the id, several have, or it was removed from the archive. */
export type NoMessage =
  | { readonly kind: 'none' }
  | { readonly kind: 'not-then' }
  | {
      readonly kind: 'several';
      readonly links: readonly { readonly id: string; readonly subject: string }[];
    }
  | {
      readonly kind: 'purged';
      readonly id: string;
      readonly reason: string;
      readonly time: string | null;
    };

/** The message that is open. */
export function ownHit({ all, at }: Conversation): SearchHit {
  const own = all[at];
  if (own === undefined) throw new RangeError('no message of its own');
  return own;
}

/** Returns the address of a message in the same place, in one of its views. */
export function messageAddress(place: MessagePlace, id: string, view: View): string {
  const { page, query, sort, after } = place;
  // The first view has no name in addresses.
  const shown = view === 'thread' ? undefined : view;
  return page === 'mail'
    ? pageAddress('/mail', { q: query, sort, after, m: id.slice(0, 16), view: shown })
    : pageAddress(`/m/${id}`, { q: query, view: shown });
}

/** Returns the address of the list that a message was opened from. */
export function listAddress({ query, sort, after }: MessagePlace): string {
  return pageAddress('/mail', { q: query, sort, after });
}

/** What a frame with HTML of a message may do: open links in windows that are not confined, and nothing else. */
export const FRAME_SANDBOX = 'allow-popups allow-popups-to-escape-sandbox';
