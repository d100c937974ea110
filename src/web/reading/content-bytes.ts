import { createHash } from 'node:crypto';
import type { Reader } from '../../engine/archive/reader.ts';
import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import type { BlobHash, MessageId } from '../../mail/words.ts';
import { sentenceOf } from '../../wording/sentence-of.ts';
import { attachmentDownload } from './downloads.ts';
import type { ReadingFor } from './reading-for.ts';

/** Bytes of an attachment, and of a message around it, that are read for a page. */
const MOST_BYTES = 8 * 1024 * 1024;
const MOST_SOURCE = 24 * 1024 * 1024;

/** What reading an attachment back gave. */
export type ContentRead =
  | { readonly state: 'whole'; readonly bytes: Buffer }
  /** The message's bytes are not what was stored. */
  | { readonly state: 'damaged'; readonly message: string; readonly hint: string | null }
  /** The bytes have another hash: the message ends before the attachment does, or is read otherwise than it was. */
  | { readonly state: 'other' }
  /** Too large for a page; of a message that cannot be parsed; or purged after the catalog was asked. */
  | { readonly state: 'large' | 'unreadable' | 'purged' };

/** An attachment of a message, and what is known of it. */
interface Wanted {
  readonly message: MessageId;
  readonly number: number;
  readonly hash: BlobHash;
  readonly size: number;
}

/**
 * Reads an attachment: by its own hash where the archive stores it apart, and else with all of its message. Either hash is
 * compared.
 */
export async function readContent(
  reader: Pick<Reader, 'sources'>,
  { message, number, hash, size }: Wanted,
  how: ReadingFor,
): Promise<ContentRead> {
  if (size > MOST_BYTES) return { state: 'large' };
  const sources = reader.sources();
  try {
    const stored = storedBytes(sources, hash);
    if (stored !== undefined) return { state: 'whole', bytes: stored };
    if (sources.sizeOf(message) > MOST_SOURCE) return { state: 'large' };
    const download = await attachmentDownload(reader, message, number, how);
    if (download === undefined) return { state: 'other' };
    const pieces: Uint8Array[] = [];
    let length = 0;
    try {
      for (let next = await download.bytes.next(); next.done !== true; ) {
        length += next.value.byteLength;
        // What the catalog says may be of another reading of the message.
        if (length > MOST_BYTES) return { state: 'large' };
        pieces.push(next.value);
        next = await download.bytes.next();
      }
    } finally {
      await download.stop();
    }
    const bytes = Buffer.concat(pieces, length);
    const found = createHash('sha256').update(bytes).digest('hex');
    return found === hash ? { state: 'whole', bytes } : { state: 'other' };
  } catch (error) {
    if (hasCode(error, 'mail-unreadable')) return { state: 'unreadable' };
    if (hasCode(error, 'bytes-purged')) return { state: 'purged' };
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return { state: 'damaged', ...sentenceOf(error) };
  }
}

/** Returns bytes that the archive stores apart; undefined for those that stand in the source of a message only. */
function storedBytes(sources: ReturnType<Reader['sources']>, hash: BlobHash): Buffer | undefined {
  try {
    return sources.readBlob(hash);
  } catch (error) {
    if (hasCode(error, 'bytes-unknown') || hasCode(error, 'bytes-purged')) return undefined;
    throw error;
  }
}
