import type { Reader } from '../../engine/archive/reader.ts';
import type { MessageId } from '../../mail/words.ts';
import { inTurns } from './in-turns.ts';
import { type SourceText, WINDOW_BYTES } from './message-shapes.ts';
import { findInSource, rangesIn } from './source-find.ts';

/** Bytes of a part before the match for which it is shown. */
const LEAD_BYTES = 4 * 1024;

/** What is to be shown of a source: a part of it, or the part around a match. */
export interface SourceRequest {
  readonly from: number;
  /** What is looked for; empty for nothing. */
  readonly find: string;
  /** The byte at or after which the wanted match begins. */
  readonly hit: number;
}

/** Reads a stretch of a source, and the rest for its hash. @throws message-damaged, blob-damaged */
export async function sourceWindow(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  { from, find, hit }: SourceRequest,
  signal: AbortSignal,
): Promise<SourceText> {
  const found =
    find === '' ? null : await findInSource(reader, id, { text: find, from: hit }, signal);
  const at = found?.at ?? null;
  const start = at === null ? from : Math.max(0, at - LEAD_BYTES);
  const { bytes, size } = await stretch(reader, id, start, signal);
  const text = bytes.toString('utf8');
  return {
    from: start,
    length: bytes.length,
    size,
    text,
    find: found === null ? null : { ...found, text: find, matches: rangesIn(text, find) },
    // The same letters as in `text`, unless a sender wrote half a letter just there.
    current: at === null ? null : bytes.subarray(0, at - start).toString('utf8').length,
  };
}

async function stretch(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  from: number,
  signal: AbortSignal,
): Promise<{ readonly bytes: Buffer; readonly size: number }> {
  const pieces: Buffer[] = [];
  let at = 0;
  for await (const piece of inTurns(reader.sources().streamMessage(id), signal)) {
    const start = Math.max(0, from - at);
    const end = from + WINDOW_BYTES - at;
    if (start < piece.length && end > 0) pieces.push(Buffer.from(piece.subarray(start, end)));
    at += piece.length;
  }
  return { bytes: Buffer.concat(pieces), size: at };
}
