import type { ExtractedAttachment, UnparsedReason } from './extraction.ts';
import type { HeaderFacts } from './header-facts.ts';
import type { RemotePictures } from './remote-pictures.ts';

/** A message for people to read. All of it is a stranger's text: print it through mail/terminal-safe.ts. */
export interface MessageReading
  extends Pick<HeaderFacts, 'subject' | 'from' | 'to' | 'cc' | 'bcc' | 'messageId'> {
  /** Why the message was not read to its end; null when it was. */
  readonly reason: UnparsedReason | null;
  /** All header fields in their order, names as spelled, values decoded and unfolded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  /** How the text, or a part of the message, is encrypted: nothing here can read it. Null where nothing is. */
  readonly encrypted: 'S/MIME' | 'OpenPGP' | null;
  /** All bodies as text, links in brackets. */
  readonly text: string;
  /** The HTML bodies as sent, decoded and joined; not sanitised. Null where there is none. */
  readonly html: string | null;
  /** Pictures of other servers in it; null where nobody asked, or there is no HTML. */
  readonly remote: RemotePictures | null;
  /** Whether a body is plain text: without one, `text` is what the HTML says. */
  readonly hasPlain: boolean;
  readonly attachments: readonly ExtractedAttachment[];
  /** True when texts were longer than the ceilings. */
  readonly truncated: boolean;
}
