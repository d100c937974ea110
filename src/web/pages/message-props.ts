import type { AttachmentTextState } from '../../catalog/attachment-texts.ts';
import type { HistoryLine, LastSeen } from '../../catalog/messages.ts';
import type { HitCount, SearchHit } from '../../catalog/search.ts';
import type { Range } from '../../catalog/snippets.ts';
import type { MessageReading } from '../../mail/extraction.ts';
import type { AttachmentLine } from '../../mail/identity.ts';
import type { RemotePictures } from '../../mail/safe-page.ts';
import type { AttachmentNote, MessageFacts } from '../mail-pages.ts';
import type { FoundInSource, Hop } from '../message-view.ts';
import { pageAddress } from '../query-text.ts';

export const VIEWS = ['thread', 'plain', 'html', 'headers', 'source', 'history'] as const;
export type View = (typeof VIEWS)[number];

export const MOST_OF_THREAD = 200;

/** Messages of a conversation that are unfolded since the query finds them, besides the one that is opened. */
export const MOST_UNFOLDED = 3;

export interface OpenMessage {
  readonly id: string;
  /** Null where the bytes are not what was stored. */
  readonly facts: MessageFacts | null;
  readonly damage: Damage | null;
  readonly text: readonly TextPiece[];
  readonly texts: readonly Pick<AttachmentTextState, 'number' | 'status' | 'reason'>[];
  /** In how many messages attachments are, and where they have what the query looks for. */
  readonly notes: readonly AttachmentNote[];
  /** The commit with which the archive got it; null where that is not known. */
  readonly commit: number | null;
  /** When it was last known to be where it was found gone later. */
  readonly lastSeen: readonly LastSeen[];
}

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

export function ownHit({ all, at }: Conversation): SearchHit {
  const own = all[at];
  if (own === undefined) throw new RangeError('no message of its own');
  return own;
}

export function messageAddress(place: MessagePlace, id: string, view: View): string {
  const { page, query, sort, after } = place;
  // The first view has no name in addresses.
  const shown = view === 'thread' ? undefined : view;
  return page === 'mail'
    ? pageAddress('/mail', { q: query, sort, after, m: id.slice(0, 16), view: shown })
    : pageAddress(`/m/${id}`, { q: query, view: shown });
}

export function listAddress({ query, sort, after }: MessagePlace): string {
  return pageAddress('/mail', { q: query, sort, after });
}

/** What a frame with HTML of a message may do: open links in windows that are not confined, and nothing else. */
export const FRAME_SANDBOX = 'allow-popups allow-popups-to-escape-sandbox';

/** An attachment that is saved with others. */
export interface SavedFile extends Pick<AttachmentLine, 'number' | 'filename' | 'size'> {
  readonly id: string;
  readonly date: string | null;
}

interface AttachedFile extends AttachmentLine, SavedFile {}

/** Attachments that are saved as one file, and their bytes, at most. */
export const MOST_FILES = 500;
export const MOST_TOGETHER = 500_000_000;

/** Returns the attachments of messages that do not stand in their texts, in the order of the messages. */
export function attachedFiles(hits: readonly Pick<SearchHit, 'line'>[]): AttachedFile[] {
  return hits.flatMap(({ line: { attachments, id, date } }) =>
    (attachments ?? []).flatMap((file) => (file.inline ? [] : { ...file, id, date })),
  );
}

export function isTooMuch(files: readonly SavedFile[]): boolean {
  return files.length > MOST_FILES || bytesOf(files) > MOST_TOGETHER;
}

export function bytesOf(files: readonly Pick<SavedFile, 'size'>[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

/** A message as search lists it, with its conversation, oldest first. It stands in it itself. */
export interface Conversation {
  readonly all: readonly SearchHit[];
  readonly at: number;
  /** The ids of those in whose text or attachments the words of the query stand, besides itself. */
  readonly found: readonly string[];
}

/** Bytes of a source on one page. */
export const WINDOW_BYTES = 256 * 1024;

/** A stretch of a source, and how much there is in all. Bytes; the text is what UTF-8 makes of them. */
export interface SourceText {
  readonly from: number;
  readonly length: number;
  readonly size: number;
  readonly text: string;
  /** What was looked for, where it stands in the whole source, and in `text`; null where nothing was looked for. */
  readonly find:
    | (FoundInSource & { readonly text: string; readonly matches: readonly Range[] })
    | null;
  /** Where the match that is shown begins in `text`. */
  readonly current: number | null;
}

/** A piece of a message's text: as it is written, quoted, or its signature. */
export interface TextPiece {
  readonly kind: 'text' | 'quote' | 'signature';
  readonly lines: readonly string[];
  /** What the query matched in the lines, joined by line feeds. */
  readonly matches: readonly Range[];
}
