import { isUtf8 } from 'node:buffer';
import { domainToUnicode } from 'node:url';
import libmime from 'libmime';
import addressparser from 'nodemailer/lib/addressparser';
import { cutText, decodeText } from './charsets.ts';
import type { MimeLimits } from './extraction.ts';
import { usableId } from './identity.ts';
import { base64Bytes, decodeWordsBy, quotedBytes } from './listed-text.ts';

/** Decodes the encoded words of a text, with the charset rules of bodies. */
function decodeWords(text: string): string {
  return decodeWordsBy(text, decodeText);
}

/** libmime with our decoders, which it uses for header parameters (RFC 2231). */
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

/** A quoted parameter, with any excess text before the next parameter or semicolon. */
const QUOTED = /(=[ \t]{0,9}"(?:[^"\\]|\\.)*")(?:(?=[ \t]+[\w*-]+=)|[^;"]*)/g;

/** Returns a decoded parameter of a header value such as Content-Disposition, or null. */
export function headerParameter(value: string, name: string): string | null {
  const found = parameters.parseHeaderValue(value.replace(QUOTED, '$1;')).params[name];
  return found === undefined || found === '' ? null : decodeWords(found);
}

/** One header field: its value is unfolded but still encoded, one char per byte. */
export interface RawField {
  /** In lower case. */
  readonly name: string;
  readonly label: string;
  readonly value: string;
}

export interface HeaderBlock {
  readonly fields: readonly RawField[];
  /** Offset of the body in the source; the source's length if the block does not end. */
  readonly end: number;
  /** True if the limit was reached before the block's end. */
  readonly cut: boolean;
}

/** Reads a message's header block (RFC 5322, 2.2) leniently, up to `maxBytes`. Never throws. See `walkHeader`. */
export function readHeaderBlock(source: Buffer, maxBytes: number): HeaderBlock {
  const limit = Math.min(source.length, maxBytes);
  const fields: RawField[] = [];
  const isWhole = source.length <= maxBytes;
  const start = messageStart(source);
  // A damaged line is shown if it has a name and a value.
  const end = walkHeader(source.subarray(0, limit), start, true, isWhole, (lines) => {
    const field = fieldOf(unfolded(lines.toString('latin1')));
    if (field !== null) fields.push(field);
  });
  return { fields, end: end ?? limit, cut: end === null };
}

/** Names that start a header even after an empty line. */
const KNOWN =
  /^(?:>?From |(?:from|to|cc|bcc|date|subject|sender|reply-to|return-path|received|message-id|mime-version|delivered-to|(?:content|x|list|dkim|arc|resent|authentication)-[\w-]+)[ \t]*:)/i;

/** Returns where a message's header starts: after a byte order mark and empty lines. */
export function messageStart(source: Buffer): number {
  const marked = source[0] === 0xef && source[1] === 0xbb && source[2] === 0xbf ? 3 : 0;
  let at = marked;
  while (source[at] === LF || source[at] === CR) at++;
  return KNOWN.test(source.toString('latin1', at, at + 100)) ? at : marked;
}

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const DASH = 0x2d;
const COLON = 0x3a;

/**
 * Walks through the header block of a message or part. It ends at an empty line, or at a line that is neither field nor
 * continuation, such as a delimiter, with which the body starts. Exceptions: an mbox "From " line is skipped. So are
 * damaged lines and stray delimiters (at the start, or closing) before fields that describe the body.
 *
 * @param isRoot true for the header of a message: before its Content-Type, no delimiter ends it
 * @param isWhole false if the source continues
 * @param onField receives the lines of a field, or of a damaged one, with line ends
 * @returns where the body starts; null if that depends on further bytes
 */
export function walkHeader(
  source: Buffer,
  from: number,
  isRoot: boolean,
  isWhole: boolean,
  onField: (lines: Buffer, isDamaged: boolean) => void,
): number | null {
  const lines = new Lines(source, from);
  /** Start of the open field. */
  let field = -1;
  /** Up to here, lines that are not fields do not end the block. */
  let certain = from;
  let isDamaged = false;
  let mayEnd = !isRoot;
  const close = (end: number) => {
    if (field >= 0) {
      mayEnd ||= TYPE_FIELD.test(source.toString('latin1', field, field + 40));
      onField(source.subarray(field, end), isDamaged);
    }
    field = -1;
    isDamaged = false;
  };
  for (let at = from; ; at = lines.next) {
    const isThere = lines.read(at);
    const isCut = !isWhole && (!isThere || lines.next === source.length);
    const first = source[at];
    const isContinued = (first === SPACE || first === TAB) && at > from;
    if (isCut) {
      if (!isContinued) close(at);
      if (isThere && !isContinued && isField(source, at, lines.end)) field = at;
      close(source.length);
      return null;
    }
    if (isContinued) continue;
    close(at);
    if (!isThere || lines.end === at) return lines.next;
    if (isField(source, at, lines.end)) field = at;
    else if (certain <= at) {
      const isOpening = isDelimiter(source, at) && !isClosing(source, at, lines.end);
      const isEnd = at > from && mayEnd && isOpening;
      const ahead = isEnd ? at : fieldAhead(source, lines, at);
      if (ahead === null && !isWhole) return null;
      if (ahead === null || ahead === at) return at;
      certain = ahead;
    }
    if (field < 0 && !isPostmark(source, at) && !isDelimiter(source, at)) {
      field = at;
      isDamaged = true;
    }
  }
}

const TYPE_FIELD = /^content-type[ \t]*:/i;
const MIME_FIELD = /^(?:mime-version|content-(?:type|transfer-encoding|disposition))[ \t]*:/i;

/**
 * Returns where a field starts after an invalid line: right after a "From " line, else where the body is described. The
 * line itself if there is none; null if the source ends before that is known.
 */
function fieldAhead(source: Buffer, { next, isMac }: Lines, line: number): number | null {
  const isStart = isPostmark(source, line);
  const lines = new Lines(source, next, isMac);
  let wasOdd = true;
  for (let at = next; lines.read(at); at = lines.next) {
    if (lines.end === at || isDelimiter(source, at)) return line;
    if (isStart) return isField(source, at, lines.end) ? at : line;
    if (MIME_FIELD.test(source.toString('latin1', at, Math.min(lines.end, at + 40)))) return at;
    if (source[at] === SPACE || source[at] === TAB) continue;
    // Two in a row are text.
    const isOdd = !isField(source, at, lines.end);
    if (isOdd && wasOdd) return line;
    wasOdd = isOdd;
  }
  return null;
}

function isPostmark(source: Buffer, line: number): boolean {
  return /^>?From /.test(source.toString('latin1', line, line + 6));
}

/** Returns whether a line may be a delimiter; field names do not start like that. */
function isDelimiter(source: Buffer, line: number): boolean {
  return source[line] === DASH && source[line + 1] === DASH;
}

/** Returns whether a delimiter is a closing one, after which no part can start, or only two dashes. */
function isClosing(source: Buffer, line: number, end: number): boolean {
  let last = end;
  while (source[last - 1] === SPACE || source[last - 1] === TAB) last--;
  return last >= line + 2 && source[last - 1] === DASH && source[last - 2] === DASH;
}

/** Returns whether a line starts with a name and a colon, with optional blanks between them. */
function isField(source: Buffer, start: number, end: number): boolean {
  let at = start;
  for (; at < end; at++) {
    const byte = source[at] ?? 0;
    if (byte <= SPACE || byte === COLON || byte > 0x7e) break;
  }
  if (at === start || isDelimiter(source, start)) return false;
  while (at < end && (source[at] === SPACE || source[at] === TAB)) at++;
  return at < end && source[at] === COLON;
}

/**
 * Finds the lines of a header block. A line ends with LF, CR LF, or the CR CR LF of files from other systems' text
 * modes. A lone CR ends lines if the first line ends with one; otherwise only an empty line, or before a field or a
 * delimiter.
 */
class Lines {
  /** End of the line's text, and start of the next line. */
  end = 0;
  next = 0;
  #lf: number;
  /** The next run of carriage returns. */
  #cr = -1;
  #run = -1;
  readonly isMac: boolean;

  constructor(
    private readonly source: Buffer,
    from: number,
    isMac?: boolean,
  ) {
    this.#lf = from - 1;
    this.#find(from);
    this.isMac = isMac ?? this.#run < this.#lf;
  }

  /** Returns false at the end of the source, which also ends a line. */
  read(at: number): boolean {
    const { source } = this;
    for (let from = at; ; from = this.#run) {
      this.#find(from);
      const cr = Math.max(this.#cr, from);
      if (cr >= this.#lf || this.#run === this.#lf) {
        this.end = Math.min(cr, this.#lf);
        this.next = Math.min(this.#lf + 1, source.length);
        break;
      }
      if (this.isMac || cr === at || this.#startsLine(cr + 1)) {
        this.end = cr;
        this.next = cr + 1;
        break;
      }
    }
    return at < source.length;
  }

  #find(from: number): void {
    const { source } = this;
    if (this.#lf < from) this.#lf = orEnd(source.indexOf(LF, from), source);
    if (this.#run > from) return;
    this.#cr = orEnd(source.indexOf(CR, from), source);
    this.#run = this.#cr;
    while (source[this.#run] === CR) this.#run++;
  }

  #startsLine(at: number): boolean {
    const { source } = this;
    const byte = source[at];
    if (byte === undefined || byte === CR || byte === SPACE || byte === TAB) return true;
    return isDelimiter(source, at) || isField(source, at, Math.min(source.length, at + 80));
  }
}

function orEnd(at: number, source: Buffer): number {
  return at < 0 ? source.length : at;
}
function unfolded(lines: string): string {
  return lines.replace(/[\r\n]+/g, (_, at: number, all: string) => {
    const end = /[^\r\n]/g;
    end.lastIndex = at;
    const next = end.exec(all)?.[0] ?? ' ';
    return next === ' ' || next === '\t' ? '' : ' ';
  });
}

function fieldOf(line: string): RawField | null {
  const colon = line.indexOf(':');
  if (colon <= 0) return null;
  const label = line.slice(0, colon).trim();
  if (label === '' || label.length > 256) return null;
  return { name: label.toLowerCase(), label, value: line.slice(colon + 1).trim() };
}

/**
 * Decodes the bytes of a raw value, but not encoded words, because the syntax around them matters. Raw 8-bit text that
 * is not UTF-8 uses the body's charset `hint`, as old programs did.
 */
export function rawText(value: string, hint: string | null): string {
  // Fast path: most headers are plain ASCII, which needs no decoding.
  if (!/[\0\x80-\xff]/.test(value) && !value.includes('\x1b')) return value;
  const bytes = Buffer.from(value, 'latin1');
  return decodeText(bytes, isUtf8(bytes) ? null : hint);
}

/** Returns the charset in the Content-Type of a header block, or null. */
export function charsetHint(fields: readonly RawField[]): string | null {
  return charsetNamed(fields.find(({ name }) => name === 'content-type')?.value ?? '');
}

/** Returns the charset in a Content-Type with any parameter syntax, or null. */
export function charsetNamed(contentType: string): string | null {
  return /charset\s{0,9}[=:]\s{0,9}["']?([\w.:-]{1,40})/i.exec(contentType)?.[1] ?? null;
}

/** Returns a header's text for readers: decodes raw 8-bit bytes, then encoded words (RFC 2047). */
export function fieldText(value: string, maxChars: number, hint: string | null): string {
  return decodeWords(rawText(cutText(value, maxChars), hint));
}

/**
 * Returns the people of all fields with these names as one searchable line: `Name <address>, …`, ordered by name list,
 * then by position. Raw 8-bit text uses the charset `hint`. An internationalized domain appears in both spellings.
 */
function addressText(
  fields: readonly RawField[],
  names: readonly string[],
  hint: string | null,
  limits: { readonly fieldChars: number; readonly addressChars: number },
): string {
  const seen = new Set<string>();
  let length = 0;
  for (const name of names) {
    for (const field of fields) {
      if (field.name !== name) continue;
      if (length >= limits.addressChars) break;
      for (const { text } of addressesOf(cutText(field.value, limits.fieldChars), hint)) {
        length += text.length + 2;
        seen.add(text);
      }
    }
  }
  return cutText([...seen].join(', '), limits.addressChars);
}

interface AddressEntry {
  /** `Name <address>`, or only one of them. */
  readonly text: string;
  /** In lower case; null without a usable address. */
  readonly address: string | null;
}

/** Cached recent address fields: a mailbox has few correspondents, and its owner is in most messages. */
const recent = new Map<string, readonly AddressEntry[]>();
const RECENT_FIELDS = 1000;
const RECENT_CHARS = 256;

function addressesOf(value: string, hint: string | null): readonly AddressEntry[] {
  const text = rawText(value, hint);
  if (text.length > RECENT_CHARS) return parseAddresses(text);
  const known = recent.get(text);
  if (known !== undefined) return known;
  if (recent.size >= RECENT_FIELDS) recent.clear();
  // A substring would keep the whole header block in memory.
  const copy = Buffer.from(text, 'utf16le').toString('utf16le');
  const addresses = parseAddresses(copy);
  recent.set(copy, addresses);
  return addresses;
}

function parseAddresses(text: string): AddressEntry[] {
  if (text === '') return [];
  return addressparser(text, { flatten: true })
    .map(({ name, address }) => {
      const readable = decodeWords(name).replace(/\s+/g, ' ').trim();
      const decoded = decodeWords(address).trim();
      const mailbox = withUnicodeDomain(decoded);
      const shown = readable === '' || readable === mailbox ? mailbox : `${readable} <${mailbox}>`;
      return { text: mailbox === '' ? readable : shown, address: usable(decoded) };
    })
    .filter((entry) => entry.text !== '');
}

/** Maximum length of an address (RFC 5321 section 4.5.3.1). */
const ADDRESS_CHARS = 320;

function usable(address: string): string | null {
  const lower = address.toLowerCase();
  return lower.length <= ADDRESS_CHARS && /^[^\s<>@]+@[^\s<>@]+$/.test(lower) ? lower : null;
}

/** Only the first people of a message count: recipient lists may be endless. */
const MAX_PEOPLE = 200;

function peopleIn(
  fields: readonly RawField[],
  names: readonly string[],
  hint: string | null,
  fieldChars: number,
): string[] {
  const found = new Set<string>();
  for (const field of fields) {
    if (!names.includes(field.name) || found.size >= MAX_PEOPLE) continue;
    for (const { address } of addressesOf(cutText(field.value, fieldChars), hint))
      if (address !== null) found.add(address);
  }
  return [...found].slice(0, MAX_PEOPLE);
}

function withUnicodeDomain(address: string): string {
  const at = address.lastIndexOf('@');
  if (at < 0 || !/(^|\.)xn--/i.test(address.slice(at + 1))) return address;
  const domain = domainToUnicode(address.slice(at + 1));
  return domain === '' ? address : `${address} ${address.slice(0, at + 1)}${domain}`;
}

export type HeaderFacts = Readonly<ReturnType<typeof headerFacts>>;

/** Beyond this, only the newest references of a very long thread count. */
const MAX_REFERENCES = 200;

/** Reads the searchable fields of a header block; missing ones are empty or null. Never throws. */
export function headerFacts(fields: readonly RawField[], limits: MimeLimits) {
  const hint = charsetHint(fields);
  const first = (name: string): string => {
    const field = fields.find((f) => f.name === name && f.value !== '');
    return field === undefined ? '' : fieldText(field.value, limits.fieldChars, hint);
  };
  const addresses = (...names: string[]) => addressText(fields, names, hint, limits);
  const people = (...names: string[]) => peopleIn(fields, names, hint, limits.fieldChars);
  return {
    subject: first('subject').replace(/\s+/g, ' ').trim(),
    /** Names and addresses. To, Cc and Bcc are separate, for search operators. */
    from: addresses('from', 'sender', 'reply-to'),
    to: addresses('to'),
    cc: addresses('cc'),
    bcc: addresses('bcc'),
    /** Actual recipients, independent of To. */
    deliveredTo: addresses('delivered-to', 'x-original-to'),
    /** The id in List-Id without angle brackets (RFC 2919), or its text without one. */
    listId: listIdOf(first('list-id')),
    /** Without angle brackets, like `references`: ancestors from References and In-Reply-To, oldest first. */
    messageId: messageIds(first('message-id'))[0] ?? null,
    references: references(first('references'), first('in-reply-to'), (id) =>
      people('from', 'to', 'cc', 'reply-to').includes(id.toLowerCase()),
    ),
    /** Addresses of From, and of To, Cc and Bcc: in lower case, without duplicates. */
    senders: people('from'),
    recipients: people('to', 'cc', 'bcc'),
  };
}

/** Returns `friends.example.org` for `Friends <friends.example.org>` (RFC 2919), else the text. */
function listIdOf(value: string): string | null {
  const text = value.replace(/\s+/g, ' ').trim();
  if (text === '') return null;
  const id = /<([^<>]{1,1000})>/.exec(text)?.[1]?.trim();
  return id === undefined || id === '' ? cutText(text, 1000) : id;
}

/** Returns thread ancestors, oldest first: References, plus In-Reply-To (RFC 5322 section 3.6.4). */
function references(
  field: string,
  inReplyTo: string,
  isAddress: (id: string) => boolean,
): string[] {
  const ids = new Set(messageIds(field));
  for (const id of repliedTo(inReplyTo, isAddress)) ids.add(id);
  return [...ids].slice(-MAX_REFERENCES);
}

/**
 * Returns the ids in In-Reply-To. Old programs wrote prose around an id, with the original's name, address and date:
 * `<id@host> from Carol <carol@example.org> at "10:00"`. In prose, only the first id that is not an address counts (RFC
 * 5256 section 3).
 */
function repliedTo(value: string, isAddress: (id: string) => boolean): string[] {
  const ids = bracketed(value).filter((id) => usableId(id) !== null);
  if (ids.length === 0) return [];
  if (!/[^\s,;]/.test(value.replace(BRACKETED, ' '))) return ids.filter((id) => !isAddress(id));
  let done = 0;
  for (const match of value.matchAll(BRACKETED)) {
    const id = withoutSpaces(match[1] ?? '');
    const before = value.slice(done, match.index);
    done = match.index + match[0].length;
    if (/^[^@]+@[^@]+$/.test(id) && !SENDER.test(before) && !isAddress(id)) return [id];
  }
  return [];
}

/** Words that end with a person's name, which an address follows. */
const SENDER = /\b(?:from|by|von|de)\s[^<>\d]{0,200}$/i;
const BRACKETED = /<([^<>]{1,998})>/g;

function withoutSpaces(id: string): string {
  return id.replace(/\s+/g, '');
}

function bracketed(value: string): string[] {
  return [...value.matchAll(BRACKETED)].map((match) => withoutSpaces(match[1] ?? ''));
}

/** Returns the message ids in a field, without angle brackets; plain words count only if no id has brackets. */
function messageIds(value: string): string[] {
  const ids = bracketed(value);
  const found = ids.length > 0 ? ids : value.split(/[\s,]+/).map((id) => id.replace(/^<|>$/g, ''));
  return found.filter((id) => usableId(id) !== null && id.length <= 998);
}
