import iconv from 'iconv-lite';

/** Text in a charset a mail says it is in. Characters the charset lacks become `?`. */
export function encodeText(text: string, charset: string): Buffer {
  switch (charset) {
    case 'us-ascii':
      // biome-ignore lint/suspicious/noControlCharactersInRegex: everything above ASCII is replaced
      return Buffer.from(text.replace(/[^\x00-\x7f]/g, '?'), 'latin1');
    case 'iso-2022-jp':
      return encodeIso2022Jp(text);
    default:
      return iconv.encode(text, charset);
  }
}

const TO_JIS = Buffer.from('\x1b$B', 'latin1');
const TO_ASCII = Buffer.from('\x1b(B', 'latin1');

/** ISO-2022-JP (RFC 1468) out of EUC-JP: the same two-byte codes without their high bits, between escapes. */
function encodeIso2022Jp(text: string): Buffer {
  const euc = iconv.encode(text, 'euc-jp');
  const pieces: Buffer[] = [];
  let at = 0;
  while (at < euc.length) {
    const wide = (euc[at] ?? 0) >= 0x80;
    let stop = at;
    while (stop < euc.length && (euc[stop] ?? 0) >= 0x80 === wide) stop += 1;
    const run = euc.subarray(at, stop);
    if (wide) pieces.push(TO_JIS, Buffer.from(run.map((byte) => byte & 0x7f)), TO_ASCII);
    else pieces.push(run);
    at = stop;
  }
  return Buffer.concat(pieces);
}

/**
 * A header value: plain where it is ASCII, else RFC 2047 encoded words in the charset, folded between words.
 * Short runs of characters make one word each, so that no character is split.
 */
export function encodeHeaderValue(text: string, charset: string): string {
  if (/^[\x20-\x7e]*$/.test(text)) return text;
  const label = charset === 'us-ascii' ? 'utf-8' : charset;
  const words: string[] = [];
  let run = '';
  for (const character of text) {
    if (encodeText(run + character, label).length > 36) {
      words.push(run);
      run = '';
    }
    run += character;
  }
  words.push(run);
  return words
    .map((word) => `=?${label}?B?${encodeText(word, label).toString('base64')}?=`)
    .join('\r\n ');
}

/** Base64 in lines of 76 characters, each ended by CRLF. */
export function base64Lines(bytes: Buffer): string {
  return bytes.toString('base64').replace(/.{1,76}/g, '$&\r\n');
}

const HEX = '0123456789ABCDEF';

/** Quoted-printable (RFC 2045, 6.7) of bytes whose lines end with CRLF. */
export function quotedPrintable(bytes: Buffer): string {
  let out = '';
  let column = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === 13 && bytes[at + 1] === 10) {
      out += '\r\n';
      column = 0;
      at += 1;
      continue;
    }
    const endsLine = bytes[at + 1] === 13 || at + 1 === bytes.length;
    const plain = (byte > 32 && byte < 127 && byte !== 61) || (byte === 32 && !endsLine);
    const width = plain ? 1 : 3;
    if (column + width > 75) {
      out += '=\r\n';
      column = 0;
    }
    out += plain ? String.fromCharCode(byte) : `=${HEX[byte >> 4]}${HEX[byte & 15]}`;
    column += width;
  }
  return out;
}
