import { isUtf8 } from 'node:buffer';
import libmime from 'libmime';
import addressparser from 'nodemailer/lib/addressparser';
import type { Address } from '../../mail/words.ts';

/**
 * A header block read where it lies: names and unfolded values as Latin-1 text (one char per byte), so that
 * nothing is lost before a caller knows which values it wants decoded.
 */
export interface HeaderBlock {
  /** Raw values in order of appearance, by lower-case field name. Only the names asked for. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
  /** Offset of the first byte of the body; equals `end` where there is none. */
  readonly bodyStart: number;
}

const LF = 10;
const CR = 13;
const SPACE = 32;
const TAB = 9;
/** A header block longer than this is cut: nobody lists by what comes after 256 kB of headers. */
const HEADER_CEILING = 262_144;

/** Offset just behind the empty line that ends the header block starting at `start`, or `end`. */
export function headerEnd(source: Buffer, start: number, end: number): number {
  let line = start;
  while (line < end) {
    const first = source[line];
    if (first === LF) return line + 1;
    if (first === CR && line + 1 < end && source[line + 1] === LF) return line + 2;
    const lf = source.indexOf(LF, line);
    if (lf < 0 || lf >= end) return end;
    line = lf + 1;
  }
  return end;
}

/**
 * Reads the wanted fields of the header block at `start`. Lines that are no field (an mbox "From " line, torn
 * text) are passed over, never an error: mail comes in every shape.
 *
 * @param wanted lower-case field names
 */
export function readHeaderBlock(
  source: Buffer,
  start: number,
  end: number,
  wanted: ReadonlySet<string>,
): HeaderBlock {
  const bodyStart = headerEnd(source, start, end);
  const text = source.toString('latin1', start, Math.min(bodyStart, start + HEADER_CEILING));
  const fields = new Map<string, string[]>();
  let at = 0;
  while (at < text.length) {
    let stop = text.indexOf('\n', at);
    if (stop < 0) stop = text.length;
    const lineStart = at;
    // A field continues while the next line begins with white space (RFC 5322, 2.2.3).
    let next = stop + 1;
    while (next < text.length) {
      const first = text.charCodeAt(next);
      if (first !== SPACE && first !== TAB) break;
      stop = text.indexOf('\n', next);
      if (stop < 0) stop = text.length;
      next = stop + 1;
    }
    at = next;
    const colon = text.indexOf(':', lineStart);
    if (colon <= lineStart || colon > stop || colon - lineStart > 64) continue;
    const name = text.slice(lineStart, colon).trimEnd().toLowerCase();
    if (!wanted.has(name)) continue;
    const value = unfold(text.slice(colon + 1, stop));
    const known = fields.get(name);
    if (known === undefined) fields.set(name, [value]);
    else known.push(value);
  }
  return { fields, bodyStart };
}

function unfold(value: string): string {
  return value.includes('\n') ? value.replace(/\r?\n[ \t]*/g, ' ').trim() : value.trim();
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: bytes above ASCII are what is looked for
const NOT_ASCII = /[^\x00-\x7f]/;

/**
 * Raw header bytes (one char per byte) as text: encoded words decoded, and bytes above ASCII read as UTF-8
 * (RFC 6532) or, where they are none, as windows-1252, which is what such senders used.
 */
export function decodeHeader(raw: string): string {
  const text = decodeBytes(raw);
  if (!text.includes('=?')) return text;
  try {
    return libmime.decodeWords(text);
  } catch {
    // An unknown charset label: the encoded form is still something to show.
    return text;
  }
}

function decodeBytes(raw: string): string {
  if (!NOT_ASCII.test(raw)) return raw;
  const bytes = Buffer.from(raw, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : new TextDecoder('windows-1252').decode(bytes);
}

/** Addresses of one field's values, groups flattened. Names are decoded after the split: a decoded name may hold a comma. */
export function decodeAddresses(values: readonly string[] | undefined): Address[] {
  if (values === undefined) return [];
  const out: Address[] = [];
  for (const value of values) {
    const plain = SIMPLE_ADDRESS.exec(value);
    if (plain?.[2] !== undefined) {
      out.push({ name: plain[1] ?? '', address: plain[2] });
      continue;
    }
    for (const entry of addressparser(decodeBytes(value), { flatten: true })) {
      const address = entry.address ?? '';
      const name = entry.name ?? '';
      if (address === '' && name === '') continue;
      out.push({ name: decodeHeader(name), address });
    }
  }
  return out;
}

/** `Name <local@domain>` or a bare address with nothing to decode or unquote: most of all mail. */
const SIMPLE_ADDRESS =
  /^(?:([A-Za-z0-9][A-Za-z0-9 .'-]*[A-Za-z0-9.]) )?<?([A-Za-z0-9._+-]+@[A-Za-z0-9.-]+)>?$/;
