import type { AttachmentTextState } from '../../catalog/attachment-texts.ts';
import type { HistoryLine } from '../../catalog/message-history.ts';
import type { RemotePictures } from '../../mime/worker-protocol.ts';
import type { Conversation, ReadBack, SourceWindow, TextPiece } from '../reading/message-view.ts';

/** Ways to look at a message, in the order of their tabs. */
export const VIEWS = ['thread', 'plain', 'html', 'headers', 'source', 'history'] as const;
export type View = (typeof VIEWS)[number];

/** What the chosen view shows besides the message's head. */
export type ViewContent =
  | { readonly view: 'thread' | 'plain'; readonly text: readonly TextPiece[] }
  | { readonly view: 'html'; readonly remote: RemotePictures | null; readonly isReadable: boolean }
  | { readonly view: 'headers' }
  | { readonly view: 'source'; readonly window: SourceWindow | null }
  | { readonly view: 'history'; readonly lines: readonly HistoryLine[] };

export interface MessagePaneProps {
  readonly id: string;
  readonly conversation: Conversation;
  readonly read: ReadBack;
  readonly content: ViewContent;
  /** What is known of the text of attachments, by their numbers. */
  readonly texts: ReadonlyMap<number, Pick<AttachmentTextState, 'status' | 'reason'>>;
  /** Returns the address of this message in another view, or of another message in this place. */
  readonly address: (id: string, view: View) => string;
  /** Back to the list; null where the list stands next to it and fits. */
  readonly back: string;
  readonly dataDir: string;
}
