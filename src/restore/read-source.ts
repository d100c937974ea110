import type { LogReader } from '../archive/read/log-reader.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { PlannedMessage } from './plan.ts';

/** A larger source is read in pieces, and put together once. */
const WHOLE_BYTES = 4 * 1024 * 1024;

/** Returns the exact bytes of a message, or why they are not there. IMAP wants the length before the first byte. */
export async function readWhole(
  reader: Pick<LogReader, 'readMessage' | 'streamMessage'>,
  { id, size }: Pick<PlannedMessage, 'id' | 'size'>,
): Promise<Buffer | 'damaged' | 'purged'> {
  try {
    if (size <= WHOLE_BYTES) return reader.readMessage(id);
    const pieces: Buffer[] = [];
    for await (const piece of reader.streamMessage(id)) pieces.push(piece);
    return Buffer.concat(pieces);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    if (error.code === 'bytes-purged') return 'purged';
    if (error.code === 'bytes-unknown' || error.family === 'damage') return 'damaged';
    throw error;
  }
}
