import type { Part } from './structure.ts';

/** The bytes of a part with its transfer encoding taken off; an unknown encoding is handed out as it lies. */
export function decodedBody(source: Buffer, part: Part): Buffer {
  const body = source.subarray(part.start, part.end);
  switch (part.encoding) {
    case 'base64':
      return Buffer.from(body.toString('latin1'), 'base64');
    case 'quoted-printable':
      return decodeQuotedPrintable(body);
    default:
      return body;
  }
}

/** How long `decodedBody` would be, without decoding where that is not needed. */
export function decodedLength(source: Buffer, part: Part): number {
  return part.encoding === 'base64'
    ? base64Length(source, part.start, part.end)
    : decodedBody(source, part).length;
}

/** 1 for the bytes Node decodes as base64 (both alphabets), 2 for the `=` at which it stops. */
const BASE64_KINDS = new Uint8Array(256);
for (const byte of Buffer.from(
  'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_',
)) {
  BASE64_KINDS[byte] = 1;
}
BASE64_KINDS[61] = 2;

/** Length of `Buffer.from(text, 'base64')` for the text in a range of bytes. */
export function base64Length(bytes: Buffer, start: number, end: number): number {
  let digits = 0;
  for (let at = start; at < end; at += 1) {
    const kind = BASE64_KINDS[bytes[at] ?? 0];
    if (kind === 1) digits += 1;
    else if (kind === 2) break;
  }
  return Math.floor((digits * 6) / 8);
}

const LF = 10;
const CR = 13;
const EQUALS = 61;

/** RFC 2045, 6.7, leniently: what is no escape is itself, and white space before a line's end goes. */
export function decodeQuotedPrintable(body: Buffer): Buffer {
  const out = Buffer.allocUnsafe(body.length);
  let length = 0;
  /** Length of the output without the white space that may turn out to be trailing. */
  let solid = 0;
  for (let at = 0; at < body.length; at += 1) {
    const byte = body[at] ?? 0;
    if (byte === EQUALS) {
      const lineEnd = softBreakEnd(body, at + 1);
      if (lineEnd > 0) {
        at = lineEnd;
        solid = length;
        continue;
      }
      const value = hexPair(body[at + 1], body[at + 2]);
      if (value >= 0) {
        out[length++] = value;
        solid = length;
        at += 2;
        continue;
      }
    }
    if (byte === LF || byte === CR) length = solid;
    out[length++] = byte;
    if (byte !== 32 && byte !== 9) solid = length;
  }
  return out.subarray(0, length);
}

/** Index of the LF that ends a soft line break starting behind the `=`, or 0. */
function softBreakEnd(body: Buffer, from: number): number {
  let at = from;
  while (body[at] === 32 || body[at] === 9) at += 1;
  if (body[at] === CR) at += 1;
  return body[at] === LF ? at : 0;
}

function hexPair(high: number | undefined, low: number | undefined): number {
  const a = hexDigit(high);
  const b = hexDigit(low);
  return a < 0 || b < 0 ? -1 : a * 16 + b;
}

function hexDigit(code: number | undefined): number {
  if (code === undefined) return -1;
  if (code >= 48 && code <= 57) return code - 48;
  const upper = code & 0xdf;
  return upper >= 65 && upper <= 70 ? upper - 55 : -1;
}
