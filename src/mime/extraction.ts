import type { ThreadEnded } from '../errors/threads.ts';
import type { AttachmentLine } from '../mail/lines.ts';

/** Raised whenever the same source would give other text, so that indexes know what to extract again. */
export const EXTRACTOR_VERSION = 6;

/**
 * Why a message is unparsed: it took too long or too much memory, it nests too deep, has too many parts or too
 * long a header, the parser gave up on it, or its bytes in the archive are damaged.
 */
export type UnparsedReason =
  | 'timeout'
  | 'memory'
  | 'depth'
  | 'parts'
  | 'header'
  | 'malformed'
  | 'damaged';

/** Returns why a message or attachment is unreadable on which a thread ended: whatever is no limit is the parser's. */
export function reasonOfEnd({
  facts: { reason },
}: ThreadEnded): 'timeout' | 'memory' | 'malformed' {
  return reason === 'timeout' || reason === 'memory' ? reason : 'malformed';
}

export interface ExtractedAttachment extends AttachmentLine {
  readonly contentId: string | null;
}

/** An attachment with what tells its content from others. */
export interface HashedAttachment extends ExtractedAttachment {
  /**
   * See `AttachmentForm` in attachments.ts; null where it has no text of its own. That text is read apart from the
   * message: see attachments/.
   */
  readonly form: string | null;
  /** SHA-256 of its bytes; null where the message was cut before their end. */
  readonly hash: string | null;
}

/**
 * What can be searched in a message. All text is decoded Unicode, NUL-free, and cut at the room's ceilings
 * (`truncated` says so). A message that will not parse has status `unparsed`, a reason, and the headers as
 * far as they go.
 */
export interface Extraction {
  readonly status: 'parsed' | 'unparsed';
  readonly reason: UnparsedReason | null;
  readonly subject: string;
  /** Names and addresses of From, Sender and Reply-To. */
  readonly from: string;
  /** Names and addresses of To, Cc and Bcc, each apart, so that operators can tell them. */
  readonly to: string;
  readonly cc: string;
  readonly bcc: string;
  /** Addresses of Delivered-To and X-Original-To: whom a message reached, whatever its To says. */
  readonly deliveredTo: string;
  /**
   * Bodies: plain text, and what other forms of it say beyond that (see body-text.ts). Attached messages follow with
   * their subject, people and text.
   */
  readonly body: string;
  readonly attachments: readonly HashedAttachment[];
  /** The id of List-Id without angle brackets (RFC 2919), or its text where it has none. */
  readonly listId: string | null;
  /** Without angle brackets, as are `references`: ancestors from References and In-Reply-To, oldest first. */
  readonly messageId: string | null;
  readonly references: readonly string[];
  readonly truncated: boolean;
  /** Addresses of From, and those of To, Cc and Bcc: in lower case, each once. */
  readonly senders: readonly string[];
  readonly recipients: readonly string[];
}

/** What is known of a message of which not even the headers could be read. */
export function emptyExtraction(reason: UnparsedReason): Extraction {
  return {
    status: 'unparsed',
    reason,
    subject: '',
    from: '',
    to: '',
    cc: '',
    bcc: '',
    deliveredTo: '',
    body: '',
    attachments: [],
    listId: null,
    messageId: null,
    references: [],
    truncated: false,
    senders: [],
    recipients: [],
  };
}
