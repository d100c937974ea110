import { parseHeaderDate } from '../../mail/header-date.ts';
import type { ListedAttachment, Listing } from '../../mail/words.ts';
import { decodeAddresses, decodeHeader, readHeaderBlock } from './headers.ts';
import {
  isPlainBody,
  PART_FIELDS,
  type Part,
  type PartHeaders,
  partHeaders,
  partsOf,
  readParts,
} from './structure.ts';
import { decodedBody, decodedLength } from './transfer-encoding.ts';

/** What a listing says of a message and its raw source alone decides; it never changes. */
export type ImmutableRecord = Omit<Listing, 'uid' | 'date' | 'flags' | 'extra'>;

const LISTED_FIELDS: ReadonlySet<string> = new Set([
  'subject',
  'from',
  'to',
  'cc',
  'bcc',
  'message-id',
  'in-reply-to',
  ...PART_FIELDS,
]);

/** Reads a listing record from a raw source. Never throws on malformed mail: what cannot be determined is null or empty. */
export function readListingRecord(source: Buffer): ImmutableRecord {
  const { fields, bodyStart } = readHeaderBlock(source, 0, source.length, LISTED_FIELDS);
  const subject = fields.get('subject')?.[0];
  return {
    size: source.length,
    subject: subject === undefined ? null : decodeHeader(subject),
    from: decodeAddresses(fields.get('from'))[0] ?? null,
    to: decodeAddresses(fields.get('to')),
    cc: decodeAddresses(fields.get('cc')),
    bcc: decodeAddresses(fields.get('bcc')),
    messageId: identifier(fields.get('message-id')?.[0]),
    inReplyTo: identifier(fields.get('in-reply-to')?.[0]),
    attachments: listAttachments(source, partHeaders(fields), bodyStart),
  };
}

function listAttachments(
  source: Buffer,
  headers: PartHeaders,
  bodyStart: number,
): ListedAttachment[] {
  if (isPlainBody(headers)) return [];
  return readParts(source, headers, bodyStart, source.length)
    .filter(isAttachment)
    .map((part) => ({
      id: attachmentId(part),
      contentType: part.contentType,
      sizeBytes: decodedLength(source, part),
      inline: part.disposition === 'inline' || (part.disposition === '' && part.contentId !== null),
      filename: part.filename,
      contentId: part.contentId,
    }));
}

/** Every leaf but the texts a reader is shown as the message itself. */
export function isAttachment(part: Part): boolean {
  if (part.disposition === 'attachment' || part.filename !== null) return true;
  return part.contentType !== 'text/plain' && part.contentType !== 'text/html';
}

/** Opaque to clients; ours are section numbers behind a prefix, so that they are stable and need no table. */
function attachmentId(part: Part): string {
  return `part-${part.section}`;
}

/** The decoded bytes of the attachment with this id. */
export function readAttachment(source: Buffer, id: string): Buffer | null {
  const part = partsOf(source).find(
    (candidate) => isAttachment(candidate) && attachmentId(candidate) === id,
  );
  return part === undefined ? null : decodedBody(source, part);
}

/** Message-ID and In-Reply-To as they stand, angle brackets included. */
function identifier(raw: string | undefined): string | null {
  return raw === undefined || raw === '' ? null : decodeHeader(raw);
}

const DATE_FIELDS: ReadonlySet<string> = new Set(['date', 'received']);

/** What a source without any usable date is said to have been received at, so that listings are reproducible. */
export const UNDATED = Date.UTC(2000, 0, 1);

/**
 * Received date of a source that came without one: its Date header, else the topmost Received line, else a
 * fixed instant. Never the clock or a file's mtime.
 *
 * @param head the source, or as much of its beginning as holds the header
 */
export function receivedFromSource(head: Buffer): number {
  const { fields } = readHeaderBlock(head, 0, head.length, DATE_FIELDS);
  const date = parseHeaderDate(fields.get('date')?.[0] ?? '');
  if (date !== null) return date;
  const received = fields.get('received')?.[0] ?? '';
  return parseHeaderDate(received.slice(received.lastIndexOf(';') + 1)) ?? UNDATED;
}
