import type { Connection } from './connection.ts';
import { packUtf8, unpackUtf8 } from './packed-utf8.ts';
import { query } from './query.ts';

/** Text kept for snippets: of one message, bytes of UTF-8. What lies beyond is searchable, but shown by no snippet. */
export const TEXT_BYTES_PER_MESSAGE = 8 * 1024;

/**
 * Packs a message's text, cut to `TEXT_BYTES_PER_MESSAGE`; null for no text.
 *
 * Each text is packed by itself: twenty hits then cost twenty times 20 µs wherever they stand, and what is forgotten
 * goes with its row.
 */
export function packText(text: string): Buffer | null {
  const bytes = cut(Buffer.from(text, 'utf8'));
  return bytes.length === 0 ? null : packUtf8(bytes, LEVEL);
}

/**
 * The level of zstd. Texts of real mail shrink to 0.473 at 26 µs each; level 6 takes them to 0.464 at 43 µs, level 19 to
 * 0.459 at 300 µs.
 */
const LEVEL = 3;

const GET = query<{ docid: number }>()((db, p) =>
  db.selectFrom('texts').select('text').where('docid', '=', p.docid),
);

/** The beginning of a message's text: empty where there is none, or none yet. */
export function cachedText(connection: Connection, docid: number): string {
  const packed = connection.statement(GET).get({ docid })?.text ?? null;
  return unpackText(packed, connection.file);
}

/**
 * Unpacks what `packText` made.
 *
 * @throws `catalog-damaged` for what does not unpack or is longer; a rebuild stores it again
 */
export function unpackText(packed: Buffer | null, file: string): string {
  if (packed === null) return '';
  return unpackUtf8(packed, { maxBytes: TEXT_BYTES_PER_MESSAGE, file, reason: 'text' });
}

/** Cuts UTF-8 at the ceiling, on a character boundary. */
function cut(bytes: Buffer): Buffer {
  if (bytes.length <= TEXT_BYTES_PER_MESSAGE) return bytes;
  let end = TEXT_BYTES_PER_MESSAGE;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end);
}
