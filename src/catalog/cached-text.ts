import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { catalogError } from '../errors/catalog.ts';
import type { Connection } from './connection.ts';
import { query } from './query.ts';

/** Text kept for snippets: of one message, bytes of UTF-8. What lies beyond is searchable, but shown by no snippet. */
export const TEXT_BYTES_PER_MESSAGE = 8 * 1024;

/**
 * A message's text, packed by itself: twenty hits then cost twenty times 20 µs wherever they stand, and what is
 * forgotten goes with its row. Brotli at level 5 knows the common words of several languages by heart, so that
 * even short texts pack well. The catalog is derived and read by this program alone, so it need not be what
 * every runtime reads in thirty years; the log is.
 */
export function packText(text: string): Buffer | null {
  const bytes = cut(Buffer.from(text, 'utf8'));
  if (bytes.length === 0) return null;
  return brotliCompressSync(bytes, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 5,
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      [constants.BROTLI_PARAM_LGWIN]: 14,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  });
}

const GET = query<{ docid: number }>()((db, p) =>
  db.selectFrom('texts').select('text').where('docid', '=', p.docid),
);

/** The beginning of a message's text: empty where there is none, or none yet. */
export function cachedText(connection: Connection, docid: number): string {
  const packed = connection.statement(GET).get({ docid })?.text ?? null;
  return unpackText(packed, connection.file);
}

/**
 * Unpacks what `packText` made. A larger text was not written by us.
 *
 * @throws `catalog-damaged` for what does not unpack: a rebuild makes it anew
 */
export function unpackText(packed: Buffer | null, file: string): string {
  if (packed === null) return '';
  try {
    return brotliDecompressSync(packed, {
      maxOutputLength: TEXT_BYTES_PER_MESSAGE,
      chunkSize: Math.min(TEXT_BYTES_PER_MESSAGE + 1, LEAST_CHUNK + packed.length * USUAL_RATIO),
    }).toString('utf8');
  } catch (error) {
    throw catalogError('catalog-damaged', { file, reason: 'text' }, error);
  }
}

/**
 * Most texts pack to more than a quarter of their bytes: then unpacking takes one step, and no more memory than the
 * text, which the collector would have to follow up on.
 */
const USUAL_RATIO = 4;
const LEAST_CHUNK = 256;

/** Cuts UTF-8 at the ceiling, on a character boundary. */
function cut(bytes: Buffer): Buffer {
  if (bytes.length <= TEXT_BYTES_PER_MESSAGE) return bytes;
  let end = TEXT_BYTES_PER_MESSAGE;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end);
}
