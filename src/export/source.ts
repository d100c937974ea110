import type { LogReader } from '../archive/read/log-reader.ts';
import { hasCode } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';

/** A larger source is never held in memory. */
const WHOLE_BYTES = 4 * 1024 * 1024;

/** The exact bytes of a message. */
export interface Source {
  /** The pieces, from the front; may be asked for again. */
  pieces(): AsyncIterable<Buffer> | Iterable<Buffer>;
}

export type SourceReader = Pick<LogReader, 'readMessage' | 'streamMessage'>;

/**
 * Opens the source of a message. With `provenFirst` every byte has been hashed before the first one is given, for
 * places from which nothing can be taken back; otherwise the end of a large source may still throw.
 *
 * @throws bytes-unknown, bytes-purged, message-damaged, blob-damaged
 */
export async function openSource(
  reader: SourceReader,
  id: MessageId,
  size: number,
  provenFirst: boolean,
): Promise<Source> {
  if (size <= WHOLE_BYTES) {
    const bytes = await wholeOf(reader, id);
    return { pieces: () => [bytes] };
  }
  if (provenFirst) {
    // Read for its hash, which the reader compares at the end.
    for await (const _ of reader.streamMessage(id));
  }
  return { pieces: () => reader.streamMessage(id) };
}

/** A stream waits for what is on another disk, where its reader can. */
async function wholeOf(reader: SourceReader, id: MessageId): Promise<Buffer> {
  try {
    return reader.readMessage(id);
  } catch (error) {
    if (!hasCode(error, 'segment-elsewhere')) throw error;
    const pieces: Buffer[] = [];
    for await (const piece of reader.streamMessage(id)) pieces.push(piece);
    return Buffer.concat(pieces);
  }
}
