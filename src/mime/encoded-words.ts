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

/** A quoted parameter and the name of the next one, with no semicolon between them. */
const NO_SEMICOLON = /("(?:[^"\\]|\\.)*")(?=[ \t]+[\w*-]+=)/g;

/** Returns a parameter of a header value such as Content-Disposition, decoded, or null where it has none. */
export function headerParameter(value: string, name: string): string | null {
  const found = parameters.parseHeaderValue(value.replace(NO_SEMICOLON, '$1;')).params[name];
  return found === undefined || found === '' ? null : decodeWords(found);
}
