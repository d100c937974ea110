import libmime from 'libmime';
import { base64Bytes, decodeWordsBy, quotedBytes } from '../mail/encoded-words.ts';
import { decodeText } from './charsets.ts';

/** Decodes the encoded words of a text, whose charsets are treated as those of bodies are. */
export function decodeWords(text: string): string {
  return decodeWordsBy(text, decodeText);
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

/** A quoted parameter, with the rest that is not its own: another one follows, or the next semicolon. */
const QUOTED = /(=[ \t]{0,9}"(?:[^"\\]|\\.)*")(?:(?=[ \t]+[\w*-]+=)|[^;"]*)/g;

/** Returns a parameter of a header value such as Content-Disposition, decoded, or null where it has none. */
export function headerParameter(value: string, name: string): string | null {
  const found = parameters.parseHeaderValue(value.replace(QUOTED, '$1;')).params[name];
  return found === undefined || found === '' ? null : decodeWords(found);
}
