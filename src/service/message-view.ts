import { isUtf8 } from 'node:buffer';
import libmime from 'libmime';
import addressparser from 'nodemailer/lib/addressparser';
import type { Address, ListedAttachment, Listing } from '../core/types.ts';
import { parseHeaderDate } from '../mail/header-date.ts';

const LF = 10;
const CR = 13;
/** Longer header blocks are truncated, because listings need nothing after 256 kB. */
const HEADER_CEILING = 262_144;
/** A field continues while the next line starts with white space (RFC 5322, 2.2.3). */
const FIELD = /(?:^|\n)([^:\n]{1,64}):([^\n]*(?:\n[ \t][^\n]*)*)/g;

/** Returns the offset after the empty line that ends the header block at `start`, or `end` if there is none. */
export function headerEnd(source: Buffer, start: number, end: number): number {
  for (let line = start; line < end; ) {
    const next = source.indexOf(LF, line) + 1;
    if (next === 0 || next > end) return end;
    const length = next - line;
    if (length === 1 || (length === 2 && source[line] === CR)) return next;
    line = next;
  }
  return end;
}

/**
 * Reads selected fields of the header block at `start`. Skips lines that are not fields, such as an mbox "From " line.
 * Returns undecoded values as Latin-1 text (one char per byte), and the offset of the body, or `end` if there is no
 * body.
 *
 * @param names lower-case field names
 */
export function readHeaderBlock(
  source: Buffer,
  start: number,
  end: number,
  names: ReadonlySet<string>,
) {
  const bodyStart = headerEnd(source, start, end);
  const text = source.toString('latin1', start, Math.min(bodyStart, start + HEADER_CEILING));
  const fields = new Map<string, string[]>();
  for (const [, label = '', value = ''] of text.matchAll(FIELD)) {
    const name = label.trimEnd().toLowerCase();
    if (!names.has(name)) continue;
    const values = fields.get(name);
    if (values === undefined) fields.set(name, [unfold(value)]);
    else values.push(unfold(value));
  }
  return { fields, bodyStart };
}

function unfold(value: string): string {
  return value.includes('\n') ? value.replace(/\r?\n[ \t]*/g, ' ').trim() : value.trim();
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches bytes above ASCII
const NOT_ASCII = /[^\x00-\x7f]/;

/** Decodes encoded words, and bytes above ASCII as UTF-8 (RFC 6532) or, for old senders, windows-1252. */
export function decodeHeader(raw: string): string {
  const text = decodeBytes(raw);
  if (!text.includes('=?')) return text;
  try {
    return libmime.decodeWords(text);
  } catch {
    // The charset label is unknown, so the encoded form is kept.
    return text;
  }
}

function decodeBytes(raw: string): string {
  if (!NOT_ASCII.test(raw)) return raw;
  const bytes = Buffer.from(raw, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : new TextDecoder('windows-1252').decode(bytes);
}

/** Returns a field's addresses without group names. Decodes names after splitting, because they may contain commas. */
function decodeAddresses(values: readonly string[] | undefined): Address[] {
  if (values === undefined) return [];
  const out: Address[] = [];
  for (const value of values) {
    const match = SIMPLE_ADDRESS.exec(value);
    if (match?.[2] !== undefined) {
      out.push({ name: match[1] ?? '', address: match[2] });
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

/** Fast path for `Name <local@domain>` and bare addresses with nothing to decode or unquote: the most common case. */
const SIMPLE_ADDRESS =
  /^(?:([A-Za-z0-9][A-Za-z0-9 .'-]*[A-Za-z0-9.]) )?<?([A-Za-z0-9._+-]+@[A-Za-z0-9.-]+)>?$/;

export interface Part {
  /** IMAP-style section number: `1`, `2.1`. */
  readonly section: string;
  /** Lower-case `type/subtype`. */
  readonly contentType: string;
  readonly charset: string | null;
  readonly encoding: string;
  readonly disposition: string;
  readonly filename: string | null;
  /** Without its angle brackets. */
  readonly contentId: string | null;
  readonly related: boolean;
  readonly start: number;
  readonly end: number;
}

/** Limits for one message's MIME tree. */
const MAX_DEPTH = 40;
const MAX_PARTS = 1000;

const PART_FIELDS: ReadonlySet<string> = new Set([
  'content-type',
  'content-transfer-encoding',
  'content-disposition',
  'content-id',
]);

type PartHeaders = Readonly<ReturnType<typeof partHeaders>>;

function partHeaders(fields: ReadonlyMap<string, readonly string[]>) {
  return {
    type: fields.get('content-type')?.[0],
    encoding: fields.get('content-transfer-encoding')?.[0],
    disposition: fields.get('content-disposition')?.[0],
    id: fields.get('content-id')?.[0],
  };
}

/** Reports whether a body cannot contain attachments: plain text or HTML without a name or disposition. */
function isPlainBody(headers: PartHeaders): boolean {
  return (
    headers.disposition === undefined &&
    (headers.type === undefined ||
      (/^text\/(?:plain|html)\s*(?:;|$)/i.test(headers.type) && !/name/i.test(headers.type)))
  );
}

/** Returns the leaves of the entity at `[start, end)`, in order. A damaged structure can hide some of them. */
function readParts(source: Buffer, headers: PartHeaders, bodyStart: number, end: number): Part[] {
  const parts: Part[] = [];
  walk(source, headers, bodyStart, end, '', 0, false, false, parts);
  return parts;
}

export function partsOf(source: Buffer): Part[] {
  const { fields, bodyStart } = readHeaderBlock(source, 0, source.length, PART_FIELDS);
  return readParts(source, partHeaders(fields), bodyStart, source.length);
}

function walk(
  source: Buffer,
  headers: PartHeaders,
  start: number,
  end: number,
  section: string,
  depth: number,
  inDigest: boolean,
  related: boolean,
  parts: Part[],
): void {
  if (parts.length >= MAX_PARTS) return;
  const type = parseStructured(headers.type);
  const fallback = inDigest ? 'message/rfc822' : 'text/plain';
  const mediaType = type.value.toLowerCase();
  const contentType = /^[^\s/]+\/[^\s/]+$/.test(mediaType) ? mediaType : fallback;
  const boundary = type.params.boundary;
  if (contentType.startsWith('multipart/') && boundary !== undefined && boundary !== '') {
    if (depth >= MAX_DEPTH) return;
    const digest = contentType === 'multipart/digest';
    const inRelated = related || contentType === 'multipart/related';
    let number = 0;
    for (const [childStart, childEnd] of bodyParts(source, boundary, start, end)) {
      number += 1;
      if (number > MAX_PARTS) return;
      const block = readHeaderBlock(source, childStart, childEnd, PART_FIELDS);
      const name = section === '' ? String(number) : `${section}.${number}`;
      const child = partHeaders(block.fields);
      walk(source, child, block.bodyStart, childEnd, name, depth + 1, digest, inRelated, parts);
    }
    return;
  }
  const disposition = parseStructured(headers.disposition);
  const filename = disposition.params.filename ?? type.params.name;
  parts.push({
    section: section === '' ? '1' : section,
    contentType,
    charset: type.params.charset ?? null,
    encoding: (headers.encoding ?? '').trim().toLowerCase(),
    disposition: disposition.value.toLowerCase(),
    filename: filename === undefined || filename === '' ? null : decodeHeader(filename),
    contentId: contentId(headers.id),
    related,
    start,
    end,
  });
}

function parseStructured(raw: string | undefined): {
  readonly value: string;
  readonly params: Readonly<Record<string, string>>;
} {
  if (raw === undefined) return { value: '', params: {} };
  const match = /^([\w.+-]+\/[\w.+-]+)\s*;?$/.exec(raw);
  if (match?.[1] !== undefined) return { value: match[1], params: {} };
  try {
    const { value, params } = libmime.parseHeaderValue(raw);
    return { value: value === false ? '' : value, params };
  } catch {
    return { value: raw.split(';', 1)[0]?.trim() ?? '', params: {} };
  }
}

function contentId(raw: string | undefined): string | null {
  const id = raw?.trim().replace(/^<|>$/g, '');
  return id === undefined || id === '' ? null : id;
}

/** Yields the ranges between boundary lines (RFC 2046, 5.1.1). An unclosed last part extends to its parent's end. */
function* bodyParts(
  source: Buffer,
  boundary: string,
  start: number,
  end: number,
): Generator<readonly [number, number]> {
  const needle = Buffer.from(`--${boundary}`, 'latin1');
  let partStart = -1;
  let at = start;
  while (at < end) {
    const index = source.indexOf(needle, at);
    if (index < 0 || index >= end) break;
    at = index + needle.length;
    if (index !== start && source[index - 1] !== 10) continue;
    const closing = source[at] === 45 && source[at + 1] === 45;
    let lineEnd = source.indexOf(10, at);
    if (lineEnd < 0 || lineEnd >= end) lineEnd = end - 1;
    if (!closing && source.toString('latin1', at, lineEnd).trim() !== '') continue;
    if (partStart >= 0) {
      // The line break before a boundary belongs to the boundary.
      let partEnd = index - 1;
      if (partEnd > partStart && source[partEnd - 1] === 13) partEnd -= 1;
      yield [partStart, Math.max(partStart, partEnd)];
    }
    if (closing) return;
    partStart = Math.min(lineEnd + 1, end);
    at = partStart;
  }
  if (partStart >= 0 && partStart < end) yield [partStart, end];
}

/** Returns a part's bytes without the transfer encoding. Bytes with an unknown encoding are returned as is. */
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

/** Matches a soft line break, trailing blanks or an escape. The lookbehind keeps the search for blanks linear. */
const QUOTED = /=[ \t]*\r?\n|(?<![ \t])[ \t]+(?=[\r\n])|=([\da-f]{2})/gi;

/** Decodes quoted-printable (RFC 2045, 6.7) leniently. Keeps invalid escapes and drops trailing blanks. */
export function decodeQuotedPrintable(body: Buffer): Buffer {
  const text = body
    .toString('latin1')
    .replace(QUOTED, (_, hex?: string) =>
      hex === undefined ? '' : String.fromCharCode(Number.parseInt(hex, 16)),
    );
  return Buffer.from(text, 'latin1');
}

/** The part of a listing that depends only on the raw source. */
export type ImmutableRecord = Omit<Listing, 'uid' | 'date' | 'flags' | 'extra'>;

const LISTED_FIELDS: ReadonlySet<string> = new Set([
  'subject',
  'from',
  'to',
  'cc',
  'bcc',
  'message-id',
  'in-reply-to',
  ...PART_FIELDS,
]);

/** Reads a listing record from a raw source. Never throws: fields missing from malformed mail are null or empty. */
export function readListingRecord(source: Buffer): ImmutableRecord {
  const { fields, bodyStart } = readHeaderBlock(source, 0, source.length, LISTED_FIELDS);
  const subject = fields.get('subject')?.[0];
  return {
    size: source.length,
    subject: subject === undefined ? null : decodeHeader(subject),
    from: decodeAddresses(fields.get('from'))[0] ?? null,
    to: decodeAddresses(fields.get('to')),
    cc: decodeAddresses(fields.get('cc')),
    bcc: decodeAddresses(fields.get('bcc')),
    messageId: identifier(fields.get('message-id')?.[0]),
    inReplyTo: identifier(fields.get('in-reply-to')?.[0]),
    attachments: listAttachments(source, partHeaders(fields), bodyStart),
  };
}

function listAttachments(
  source: Buffer,
  headers: PartHeaders,
  bodyStart: number,
): ListedAttachment[] {
  if (isPlainBody(headers)) return [];
  return readParts(source, headers, bodyStart, source.length)
    .filter(isAttachment)
    .map((part) => ({
      id: attachmentId(part),
      contentType: part.contentType,
      sizeBytes: decodedBody(source, part).length,
      inline: part.disposition === 'inline' || (part.disposition === '' && part.contentId !== null),
      filename: part.filename,
      contentId: part.contentId,
    }));
}

/** Returns true for every leaf except the text parts displayed as the message itself. */
export function isAttachment(part: Part): boolean {
  if (part.disposition === 'attachment' || part.filename !== null) return true;
  return part.contentType !== 'text/plain' && part.contentType !== 'text/html';
}

/** Opaque to clients. Ours are section numbers with a prefix, which are stable and need no table. */
function attachmentId(part: Part): string {
  return `part-${part.section}`;
}

export function readAttachment(source: Buffer, id: string): Buffer | null {
  const part = partsOf(source).find(
    (candidate) => isAttachment(candidate) && attachmentId(candidate) === id,
  );
  return part === undefined ? null : decodedBody(source, part);
}

/** Returns Message-ID or In-Reply-To unchanged, including the angle brackets. */
function identifier(raw: string | undefined): string | null {
  return raw === undefined || raw === '' ? null : decodeHeader(raw);
}

const DATE_FIELDS: ReadonlySet<string> = new Set(['date', 'received']);

/** Fixed received date for a source that has none, so that listings are reproducible. */
export const UNDATED = Date.UTC(2000, 0, 1);

/**
 * Returns the received date of a source from its Date header, else its topmost Received line, else a fixed time. Never
 * uses the clock or a file's mtime, so that listings are reproducible.
 *
 * @param head the source, or at least its header
 */
export function receivedFromSource(head: Buffer): number {
  const { fields } = readHeaderBlock(head, 0, head.length, DATE_FIELDS);
  const date = parseHeaderDate(fields.get('date')?.[0] ?? '');
  if (date !== null) return date;
  const received = fields.get('received')?.[0] ?? '';
  return parseHeaderDate(received.slice(received.lastIndexOf(';') + 1)) ?? UNDATED;
}

interface RenderedText {
  readonly text: string;
  readonly html: string;
}

/** Larger sources are truncated before rendering, so that a request cannot block the service. */
const RENDER_CEILING = 16 * 1024 * 1024;

/** Renders plain text and HTML. If one is missing, derives it from the other. Both are empty if there is no body. */
export async function renderText(source: Buffer): Promise<RenderedText> {
  // The bundled module has only a default export.
  const { simpleParser } = (await import('mailparser')).default;
  const mail = await simpleParser(source.subarray(0, RENDER_CEILING), {
    skipImageLinks: true,
    skipTextLinks: true,
  });
  const html = mail.html === false ? (mail.textAsHtml ?? '') : mail.html;
  return { text: mail.text ?? '', html };
}
