import { listTokens, mimeTokens, TOKEN_ATTACHMENT, TOKEN_INLINE } from '../search/fts-text.ts';
import { indexText } from '../search/normalise.ts';
import { packText } from '../search/packed-text.ts';
import { recipientToken, senderToken, withDomains } from '../search/people.ts';
import { type ThreadLinks, threadLinks } from '../search/thread-links.ts';
import type { Extraction, HashedAttachment, UnparsedReason } from './extraction.ts';

/**
 * What the index keeps of a message, ready to be written: the work that needs no database is done, so that it can be
 * done in a worker. Text is in the form of `indexText`.
 */
export interface IndexEntry {
  /** Why the message is unparsed; null when it was parsed. */
  readonly unparsed: UnparsedReason | null;
  /** Null where the message has none: what the origin listed stands in for it. */
  readonly subject: string | null;
  /** As `subject`. */
  readonly from: string | null;
  readonly to: string;
  readonly cc: string;
  readonly bcc: string;
  readonly deliveredTo: string;
  /** The longest of the texts: from a worker it comes as UTF-8, which costs no string. */
  readonly body: string | Buffer;
  /** Names of the attachments, a line each. */
  readonly attachmentNames: string;
  /** Words of the `meta` column but those of mailboxes, in order. */
  readonly tokens: readonly string[];
  /** The beginning of the body, see `packText`. */
  readonly packedText: Buffer | null;
  readonly attachments: readonly HashedAttachment[];
  readonly links: ThreadLinks;
  /** See `Extraction`. */
  readonly senders: readonly string[];
  readonly recipients: readonly string[];
}

/** Returns what the index keeps of an extraction. The same extraction always gives the same entry. */
export function indexEntry(extraction: Extraction): IndexEntry {
  const { status, reason, attachments, body } = extraction;
  return {
    unparsed: status === 'unparsed' ? (reason ?? 'malformed') : null,
    subject: extraction.subject === '' ? null : indexText(extraction.subject),
    from: extraction.from === '' ? null : indexText(extraction.from),
    to: indexText(extraction.to),
    cc: indexText(extraction.cc),
    bcc: indexText(extraction.bcc),
    deliveredTo: indexText(extraction.deliveredTo),
    body: indexText(body),
    attachmentNames: indexText(attachments.map(({ filename }) => filename ?? '').join('\n')),
    tokens: tokensOf(extraction),
    packedText: packText(body),
    attachments,
    links: threadLinks(extraction),
    senders: extraction.senders,
    recipients: extraction.recipients,
  };
}

function tokensOf({ attachments, listId, senders, recipients }: Extraction): string[] {
  const attached = attachments.filter((attachment) => !attachment.inline);
  const tokens = [
    ...(attached.length > 0 ? [TOKEN_ATTACHMENT] : []),
    ...(attached.length < attachments.length ? [TOKEN_INLINE] : []),
    ...attachments.flatMap((attachment) => mimeTokens(attachment.contentType)),
    ...withDomains(senders).map(senderToken),
    ...recipients.map(recipientToken),
  ];
  // The words of the List-Id stay in order and together: they are sought as a phrase.
  return [...new Set(tokens), ...(listId === null ? [] : listTokens(listId))];
}
