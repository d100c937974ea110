import { isAscii, isUtf8 } from 'node:buffer';
import iconv from 'iconv-lite';
import libmime from 'libmime';
import libcharset from 'libmime/lib/charset.js';

/** Names that tell nothing beyond "bytes": what they label is UTF-8, or the Western charset of old mail. */
const UNTOLD =
  /^(?:|utf-?8|(?:us-?)?ascii|ansi_x3\.4-1968|unknown|unknown-8bit|x-unknown|8bit|7bit|binary|default|none)$/i;
/** Charsets that iconv-lite lacks and libmime brings. */
const JAPANESE = /^jis|^iso-?2022-?jp|^eucjp/i;
/** Characters of a charset's label that are read; real names have at most 45. */
const MAX_LABEL = 100;
/** A C1 control in text labelled ISO 8859-1 is really a character of windows-1252. */
const C1 = /[\u0080-\u009f]/;

/**
 * Text of bytes in whatever charset a mail says they are in. Nothing is dropped: what is not valid in the
 * charset becomes U+FFFD, an unknown or missing charset is read as UTF-8 when it is that, else as
 * windows-1252. NULs are removed, since text continues to SQLite and terminals.
 *
 * @param charset the label as found in the mail, or null where there is none
 */
export function decodeText(bytes: Buffer, charset: string | null): string {
  return withoutNul(decodeLabelled(bytes, charset));
}

/** True for a charset whose decoder builds arrays of numbers, tens of times larger than the bytes. */
export function isCostlyCharset(charset: string | null): boolean {
  return charset !== null && JAPANESE.test(charset.trim());
}

function decodeLabelled(bytes: Buffer, charset: string | null): string {
  const label = (charset ?? '')
    .trim()
    .slice(0, MAX_LABEL)
    .replace(/^["']+|["']+$/g, '');
  const marked = bomCharset(bytes);
  if (marked !== null) return iconv.decode(bytes, marked);
  if (UNTOLD.test(label)) return decodeUntold(bytes);
  const name = libmime.normalizeCharset(label);
  if (UNTOLD.test(name)) return decodeUntold(bytes);
  if (JAPANESE.test(name)) return libcharset.decode(bytes, name);
  if (!iconv.encodingExists(name)) return decodeUntold(bytes);
  if (/^iso-8859-1$/i.test(name)) return decodeLatin1(bytes);
  return iconv.decode(bytes, name);
}

/** A byte order mark outweighs any label. */
function bomCharset(bytes: Buffer): string | null {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8';
  // Two bytes alone are as likely the ÿþ of a broken label, so a UTF-16 mark needs a plausible first letter.
  if (bytes[0] === 0xff && bytes[1] === 0xfe && bytes[3] === 0) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff && bytes[2] === 0) return 'utf-16be';
  return null;
}

function decodeUntold(bytes: Buffer): string {
  if (isAscii(bytes)) return bytes.toString('latin1');
  const text = bytes.toString('utf8');
  if (isUtf8(bytes)) return text;
  // Damaged UTF-8 keeps its good characters; what is mostly invalid was never UTF-8.
  let bad = 0;
  let good = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0xfffd) bad++;
    else if (unit > 0x7f) good++;
  }
  return good > bad ? text : iconv.decode(bytes, 'windows-1252');
}

function decodeLatin1(bytes: Buffer): string {
  const text = bytes.toString('latin1');
  return C1.test(text) ? iconv.decode(bytes, 'windows-1252') : text;
}

/** Text without NUL characters. */
export function withoutNul(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '') : text;
}

/** The first `max` UTF-16 units of a text, never half of a surrogate pair. */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}
