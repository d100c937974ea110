import { isUtf8 } from 'node:buffer';
import { cutText, decodeText } from './charsets.ts';
import { decodeWords } from './encoded-words.ts';

/** One header field: its value is unfolded and still encoded, one char a byte. */
export interface RawField {
  /** In lower case. */
  readonly name: string;
  /** The name as it is spelled in the source. */
  readonly label: string;
  readonly value: string;
}

export interface HeaderBlock {
  readonly fields: readonly RawField[];
  /** Where the body begins in the source; its length when the block does not end. */
  readonly end: number;
  /** True when the ceiling was reached before the block's empty line. */
  readonly cut: boolean;
}

/**
 * Reads the header block at the start of a source leniently: empty lines and an mbox "From " line before it
 * are skipped, lines that are no field are passed over, LF serves as well as CRLF, and a block that never
 * ends is read as far as `maxBytes`. Never throws. (RFC 5322 section 2.2.)
 */
export function readHeaderBlock(source: Buffer, maxBytes: number): HeaderBlock {
  const limit = Math.min(source.length, maxBytes);
  let start = 0;
  while (start < limit && (source[start] === 0x0a || source[start] === 0x0d)) start++;
  const end = headerEnd(source, start, limit);
  const text = source.toString('latin1', start, end);
  const fields: RawField[] = [];
  /** The lines of a field as far as they are read. */
  let open = '';
  let isOpen = false;
  const close = () => {
    const field = fieldOf(open);
    if (field !== null) fields.push(field);
  };
  for (let at = 0; at <= text.length; ) {
    const newline = text.indexOf('\n', at);
    const line = text.slice(at, newline < 0 ? text.length : lineEnd(text, at, newline));
    const isFirst = at === 0;
    at = newline < 0 ? text.length + 1 : newline + 1;
    if (isFirst && /^>?From /.test(line)) continue;
    if (isOpen && (line.startsWith(' ') || line.startsWith('\t'))) open += line;
    else {
      close();
      open = line;
      isOpen = true;
    }
  }
  close();
  return { fields, end, cut: end === maxBytes && source.length > maxBytes };
}

/** Where a line ends without carriage returns; an expression for them would try again from each of a run. */
function lineEnd(text: string, start: number, newline: number): number {
  let end = newline;
  while (end > start && text.charCodeAt(end - 1) === 0x0d) end--;
  return end;
}

/** Offset behind the empty line that ends the block, or the limit. */
function headerEnd(source: Buffer, start: number, limit: number): number {
  let at = start;
  while (at < limit) {
    const newline = source.indexOf(0x0a, at);
    if (newline < 0 || newline >= limit) return limit;
    let line = newline;
    while (line > at && source[line - 1] === 0x0d) line--;
    if (line === at) return newline + 1;
    at = newline + 1;
  }
  return limit;
}

function fieldOf(line: string): RawField | null {
  const colon = line.indexOf(':');
  if (colon <= 0) return null;
  const label = line.slice(0, colon).trim();
  if (label === '' || label.length > 256) return null;
  return { name: label.toLowerCase(), label, value: line.slice(colon + 1).trim() };
}

/**
 * The bytes of a raw value as Unicode; encoded words are left as they are, for the syntax around them. Raw
 * 8-bit text that is not UTF-8 is in the charset `hint` of the body, as old programs wrote it.
 */
export function rawText(value: string, hint: string | null): string {
  // Most headers are plain ASCII, and then the one-char-a-byte string is the text already.
  if (!/[\0\x80-\xff]/.test(value) && !value.includes('\x1b')) return value;
  const bytes = Buffer.from(value, 'latin1');
  return decodeText(bytes, isUtf8(bytes) ? null : hint);
}

/** The charset that the Content-Type of a header block names, or null. */
export function charsetHint(fields: readonly RawField[]): string | null {
  return charsetNamed(fields.find(({ name }) => name === 'content-type')?.value ?? '');
}

/** The charset in a Content-Type, however its parameters are written; or null. */
export function charsetNamed(contentType: string): string | null {
  return /charset\s{0,9}[=:]\s{0,9}["']?([\w.:-]{1,40})/i.exec(contentType)?.[1] ?? null;
}

/** A header's text for readers: raw 8-bit bytes decoded, then encoded words (RFC 2047). */
export function fieldText(value: string, maxChars: number, hint: string | null): string {
  return decodeWords(rawText(cutText(value, maxChars), hint));
}
