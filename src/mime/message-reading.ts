import type { ExtractedAttachment, UnparsedReason } from './extraction.ts';

/** A message for people to read. All of it is a stranger's text: print it through mail/terminal-safe.ts. */
export interface MessageReading {
  /** Why the message was not read to its end; null when it was. */
  readonly reason: UnparsedReason | null;
  /** All header fields in their order, names as spelled, values decoded and unfolded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly subject: string;
  readonly from: string;
  readonly to: string;
  readonly cc: string;
  readonly bcc: string;
  readonly messageId: string | null;
  /** All bodies as text, links in brackets. */
  readonly text: string;
  /** The HTML bodies as sent, decoded and joined; not sanitised. Null where there is none. */
  readonly html: string | null;
  readonly attachments: readonly ExtractedAttachment[];
  /** True when texts were longer than the ceilings. */
  readonly truncated: boolean;
}
