import type { SearchHit } from '../../catalog/search.ts';
import type { Range } from '../../catalog/snippets.ts';
import type { AttachmentLine } from '../../mail/identity.ts';
import type { MailPages, MessageReading } from '../mail-pages.ts';
import type { readConversation } from '../message-view.ts';
import { pageAddress } from '../query-text.ts';

export const VIEWS = ['thread', 'plain', 'html', 'headers', 'source', 'history'] as const;
export type View = (typeof VIEWS)[number];

export const MAX_OF_THREAD = 200;

/** Maximum matching messages to unfold in addition to the opened one. */
export const MAX_UNFOLDED = 3;

type Found = Awaited<ReturnType<MailPages['message']>>;
export type MessageContent = Extract<Found, { readonly kind: 'message' }>;
export type NoMessage = Exclude<Found, MessageContent>;
export type OpenMessage = Omit<
  Awaited<ReturnType<MessageReading['message']>>,
  'content' | 'opensAs'
>;
export type ViewContent = MessageContent['content'];

/** Layout of a message, next to a list or at full width. It determines where the message's links lead. */
export interface MessagePlace {
  readonly page: 'mail' | 'message';
  readonly query: string;
  readonly sort?: string | undefined;
  readonly after?: string | undefined;
}

export function openedHit({ all, at }: Conversation): SearchHit {
  const own = all[at];
  if (own === undefined) throw new RangeError('no message of its own');
  return own;
}

/** @param opensAs view of an address without one; `html` only if that is certain */
export function messageAddress(
  place: MessagePlace,
  id: string,
  view: View,
  opensAs: MessageContent['opensAs'] = 'thread',
): string {
  const { page, query, sort, after } = place;
  // HTML opens by itself only until the user chooses the text.
  const shown = view === 'thread' && opensAs === 'thread' ? undefined : view;
  return page === 'mail'
    ? pageAddress('/mail', { q: query, sort, after, m: id.slice(0, 16), view: shown })
    : pageAddress(`/m/${id}`, { q: query, view: shown });
}

export function listAddress({ query, sort, after }: MessagePlace): string {
  return pageAddress('/mail', { q: query, sort, after });
}

/** Lets a message's HTML do nothing but open links, in windows without these restrictions. */
export const FRAME_SANDBOX = 'allow-popups allow-popups-to-escape-sandbox';

export interface SavedFile extends Pick<AttachmentLine, 'number' | 'filename' | 'size'> {
  readonly id: string;
  readonly date: string | null;
}

interface AttachedFile extends AttachmentLine, SavedFile {}

/** Maximum number and total size in bytes of attachments saved as one file. */
export const MAX_FILES = 500;
export const MAX_TOGETHER = 500_000_000;

/** Returns the attachments that are not inline, in the order of the messages. */
export function attachedFiles(hits: readonly Pick<SearchHit, 'line'>[]): AttachedFile[] {
  return hits.flatMap(({ line: { attachments, id, date } }) =>
    (attachments ?? []).flatMap((file) => (file.inline ? [] : { ...file, id, date })),
  );
}

export function exceedsDownloadLimit(files: readonly SavedFile[]): boolean {
  return files.length > MAX_FILES || totalBytes(files) > MAX_TOGETHER;
}

export function totalBytes(files: readonly Pick<SavedFile, 'size'>[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

export type Conversation = NonNullable<ReturnType<typeof readConversation>>;

/** Source bytes per page. */
export const WINDOW_BYTES = 256 * 1024;

export interface TextPiece {
  readonly kind: 'text' | 'quote' | 'signature';
  readonly lines: readonly string[];
  /** Positions in the text of all lines, joined by line feeds. */
  readonly matches: readonly Range[];
  /** Positions of web and mail addresses that start with a scheme. */
  readonly links: readonly Range[];
}
