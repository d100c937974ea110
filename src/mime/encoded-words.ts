import libmime from 'libmime';
import { decodeText } from './charsets.ts';

/** The beginning of an encoded word: its charset, perhaps with a language, and its encoding. */
const OPENING = /=\?([^?\s]{1,100})\?([bq])\?/iy;
const CLOSING = '?=';

/**
 * Decodes the encoded words of a text (RFC 2047), whose charsets are treated as those of bodies are. The bytes of
 * neighbours in one charset are decoded together, because programs cut words within characters. What looks like an
 * encoded word and is none stays as it is. Takes linear time, and never throws.
 */
export function decodeWords(text: string): string {
  if (!text.includes('=?')) return text;
  let decoded = '';
  /** How far the text is decoded, and the words that end there. */
  let done = 0;
  let open: { charset: string; bytes: Buffer[]; base64: string } | null = null;
  const close = () => {
    if (open === null) return;
    decoded += decodeText(Buffer.concat([...open.bytes, base64Bytes(open.base64)]), open.charset);
    open = null;
  };
  for (let at = text.indexOf('=?'); at >= 0; ) {
    OPENING.lastIndex = at;
    const opening = OPENING.exec(text);
    const from = OPENING.lastIndex;
    const to = opening === null ? -1 : text.indexOf(CLOSING, from);
    if (opening === null || to < 0) {
      // Without an end behind it, no other word has one.
      at = opening === null ? text.indexOf('=?', at + 2) : -1;
      continue;
    }
    const [, charset = '', encoding = ''] = opening;
    const between = text.slice(done, at);
    if (open?.charset !== charset.toLowerCase() || between.trim() !== '') {
      const follows = open !== null && between.trim() === '';
      close();
      if (!follows) decoded += between;
      open = { charset: charset.toLowerCase(), bytes: [], base64: '' };
    }
    const content = text.slice(from, to);
    if (encoding.toLowerCase() === 'b') open.base64 += content;
    else {
      open.bytes.push(base64Bytes(open.base64), quotedBytes(content));
      open.base64 = '';
    }
    done = to + CLOSING.length;
    at = text.indexOf('=?', done);
  }
  close();
  return decoded + text.slice(done);
}

/** Bytes of base64 from one or more words, each of which may have its padding. */
function base64Bytes(text: string): Buffer {
  if (text === '') return NOTHING;
  return Buffer.concat(text.split(/=+/).map((padded) => Buffer.from(padded, 'base64')));
}

const NOTHING = Buffer.alloc(0);

/** Bytes of the `Q` encoding; what is not encoded, though it should be, is UTF-8. */
function quotedBytes(text: string): Buffer {
  const spaced = text.replace(/=\s+(?=[\da-f])/gi, '=').replace(/[_\s]/g, ' ');
  const bytes = Buffer.from(spaced);
  if (!spaced.includes('=')) return bytes;
  return Buffer.from(
    bytes
      .toString('latin1')
      .replace(/=([\da-f]{2})/gi, (_, hex: string) =>
        String.fromCharCode(Number.parseInt(hex, 16)),
      ),
    'latin1',
  );
}

/** libmime with these decoders, which it uses for the parameters of a header (RFC 2231). */
class Parameters extends libmime.Libmime {
  override decodeWords(text: string): string {
    return decodeWords(text);
  }

  override decodeWord(charset: string, encoding: string, text: string): string {
    const bytes = encoding.toUpperCase() === 'B' ? base64Bytes(text) : quotedBytes(text);
    return decodeText(bytes, charset);
  }
}

const parameters = new Parameters();

/** Returns a parameter of a header value such as Content-Disposition, decoded, or null where it has none. */
export function headerParameter(value: string, name: string): string | null {
  const found = parameters.parseHeaderValue(value).params[name];
  return found === undefined || found === '' ? null : decodeWords(found);
}
