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

/** Reads sources: a log here, or another machine that has one. Both methods throw what those of `LogReader` throw. */
export interface SourceReader {
  /** @param size bytes of the source */
  readMessage(id: MessageId, size: number): Buffer | Promise<Buffer>;
  streamMessage(id: MessageId, size: number): ReturnType<LogReader['streamMessage']>;
  /** Brings a large source here and proves it, where reading it a second time would bring it a second time. */
  readonly bring?: (id: MessageId, size: number) => Promise<Source>;
  /** Is told which sources will be read, a group at a time and one group ahead. */
  readonly expect?: (sources: readonly Expected[]) => void;
}

/** A source that will be read. */
export interface Expected {
  readonly id: MessageId;
  readonly size: number;
}

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
    const bytes = await wholeOf(reader, id, size);
    return { pieces: () => [bytes] };
  }
  if (provenFirst && reader.bring !== undefined) return reader.bring(id, size);
  if (provenFirst) {
    // Read for its hash, which the reader compares at the end.
    for await (const _ of reader.streamMessage(id, size));
  }
  return { pieces: () => reader.streamMessage(id, size) };
}

/** A stream waits for what is on another disk, where its reader can. */
async function wholeOf(reader: SourceReader, id: MessageId, size: number): Promise<Buffer> {
  try {
    return await reader.readMessage(id, size);
  } catch (error) {
    if (!hasCode(error, 'segment-elsewhere')) throw error;
    const pieces: Buffer[] = [];
    for await (const piece of reader.streamMessage(id, size)) pieces.push(piece);
    return Buffer.concat(pieces);
  }
}
