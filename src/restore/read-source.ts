import type { LogReader } from '../archive/read/log-reader.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { HEADER_END, type SentForm, sentForm, withCrlf } from './content.ts';
import type { PlannedMessage } from './plan.ts';

/** A larger source is read in pieces, twice where it is sent: IMAP wants the length before the first byte. */
const WHOLE_BYTES = 4 * 1024 * 1024;
/** Bytes of a header that are kept of a source that is read in pieces. */
const HEAD_BYTES = 1024 * 1024;
const CR = 0x0d;

type SourceReader = Pick<LogReader, 'readMessage' | 'streamMessage'>;

/** Returns a message as it is sent, once its bytes are proven by their hash, or why they are not there. */
export async function readForm(
  reader: SourceReader,
  { id, size }: Pick<PlannedMessage, 'id' | 'size'>,
): Promise<SentForm | 'damaged' | 'purged'> {
  try {
    if (size <= WHOLE_BYTES) return sentForm(reader.readMessage(id));
    return await formInPieces(() => reader.streamMessage(id));
  } catch (error) {
    const why = whyUnreadable(error);
    if (why === undefined) throw error;
    return why;
  }
}

/** Returns why an archive does not have the bytes of a message; undefined for any other error. */
export function whyUnreadable(error: unknown): 'damaged' | 'purged' | undefined {
  if (!(error instanceof MailkeepError)) return undefined;
  if (error.code === 'bytes-purged') return 'purged';
  return error.code === 'bytes-unknown' || error.family === 'damage' ? 'damaged' : undefined;
}

async function formInPieces(source: () => AsyncIterable<Buffer>): Promise<SentForm> {
  const header = new Header();
  let [size, endings, nul] = [0, false, false];
  const noteEndings = (): void => {
    endings = true;
  };
  for await (const piece of inCrlf(source(), noteEndings)) {
    size += piece.length;
    nul ||= piece.includes(0);
    header.add(piece);
  }
  return { content: () => inCrlf(source()), size, endings, nul, ...header.found() };
}

async function* inCrlf(
  source: AsyncIterable<Buffer>,
  onChange?: () => void,
): AsyncGenerator<Buffer, void, undefined> {
  let isAfterCr = false;
  for await (const piece of source) {
    if (piece.length === 0) continue;
    const sent = withCrlf(piece, isAfterCr);
    if (sent !== piece) onChange?.();
    yield sent;
    isAfterCr = piece.at(-1) === CR;
  }
}

/** Finds the header of a message in its pieces. */
class Header {
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  #size = 0;
  #isOver = false;
  #isWide = false;
  /** The last bytes of the pieces so far: what ends the header may begin in them. */
  #tail: Buffer = Buffer.alloc(0);

  add(piece: Buffer): void {
    if (this.#isOver) return;
    const before = this.#tail.length;
    const joined = Buffer.concat([this.#tail, piece]);
    const end = joined.indexOf(HEADER_END);
    // The end of its last line belongs to it.
    const part = end < 0 ? joined : joined.subarray(0, end + 2);
    this.#isOver = end >= 0;
    this.#size += part.length - before;
    this.#isWide ||= part.some((byte) => byte > 127);
    const kept = Buffer.from(part.subarray(before, before + HEAD_BYTES - this.#keptBytes));
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
    this.#tail = Buffer.from(joined.subarray(1 - HEADER_END.length));
  }

  found(): Pick<SentForm, 'header' | 'head' | 'wideHeader'> {
    const head = Buffer.concat(this.#kept).subarray(0, this.#size);
    return { header: this.#size, head, wideHeader: this.#isWide };
  }
}
