import { isUtf8 } from 'node:buffer';
import { domainToUnicode } from 'node:url';
import libmime from 'libmime';
import addressparser from 'nodemailer/lib/addressparser';
import { decodeText, truncateText } from './charsets.ts';
import type { MimeLimits } from './extraction.ts';
import { normalizeMessageId } from './identity.ts';
import { decodeBEncoding, decodeEncodedWords, decodeQEncoding } from './listed-text.ts';
import { lazy } from './normalise.ts';

export function decodeWords(text: string): string {
  return decodeEncodedWords(text, decodeText);
}

/** Overrides the methods that libmime calls to decode header parameters (RFC 2231). */
class Parameters extends libmime.Libmime {
  override decodeWords(text: string): string {
    return decodeWords(text);
  }

  override decodeWord(charset: string, encoding: string, text: string): string {
    const bytes = encoding.toUpperCase() === 'B' ? decodeBEncoding(text) : decodeQEncoding(text);
    return decodeText(bytes, charset);
  }
}

const parameters = new Parameters();

export function parseHeaderValue(value: string) {
  return parameters.parseHeaderValue(value);
}

/** Matches a quoted parameter and any stray text up to the next parameter or semicolon. */
const QUOTED = /(=[ \t]{0,9}"(?:[^"\\]|\\.)*")(?:(?=[ \t]+[\w*-]+=)|[^;"]*)/g;

export function headerParameter(value: string, name: string): string | null {
  const found = parameters.parseHeaderValue(value.replace(QUOTED, '$1;')).params[name];
  return found === undefined || found === '' ? null : decodeWords(found);
}

/** A header field. The value is unfolded but still encoded, with one character per byte. */
export interface RawField {
  /** The label in lower case. */
  readonly name: string;
  readonly label: string;
  readonly value: string;
}

export interface HeaderBlock {
  readonly fields: readonly RawField[];
  /** Offset of the body, or the source's length if the header block is unterminated. */
  readonly end: number;
  readonly cut: boolean;
}

/** Reads a message's header block (RFC 5322, 2.2) leniently, up to `maxBytes`. Never throws. See `walkHeader`. */
export function readHeaderBlock(source: Buffer, maxBytes: number): HeaderBlock {
  const limit = Math.min(source.length, maxBytes);
  const fields: RawField[] = [];
  const isWhole = source.length <= maxBytes;
  const start = messageStart(source);
  // Show even a damaged line if it has a name and a value.
  const end = walkHeader(source.subarray(0, limit), start, true, isWhole, (lines) => {
    const field = parseField(unfold(lines.toString('latin1')));
    if (field !== null) fields.push(field);
  });
  return { fields, end: end ?? limit, cut: end === null };
}

/** Fields that start a header even if an empty line precedes them. */
const KNOWN =
  /^(?:>?From |(?:from|to|cc|bcc|date|subject|sender|reply-to|return-path|received|message-id|mime-version|delivered-to|(?:content|x|list|dkim|arc|resent|authentication)-[\w-]+)[ \t]*:)/i;

/** Returns the offset of a message's header, after any byte order mark and empty lines. */
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
 * Walks through the header block of a message or part. The body starts after an empty line, or at a line that is
 * neither a field nor a continuation, such as a delimiter. Exceptions: skips an mbox "From " line, as well as damaged
 * lines and stray delimiters (leading or closing) if fields that describe the body follow.
 *
 * @param isRoot true for a message's header, which a delimiter cannot end before its Content-Type
 * @param isWhole false if the source continues
 * @param onField receives the lines of a valid or damaged field, with line endings
 * @returns the offset of the body, or null if it depends on bytes not yet read
 */
export function walkHeader(
  source: Buffer,
  from: number,
  isRoot: boolean,
  isWhole: boolean,
  onField: (lines: Buffer, isDamaged: boolean) => void,
): number | null {
  const lines = new Lines(source, from);
  let field = -1;
  /** Lines before this offset do not end the block, even if they are not fields. */
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
 * Returns where the fields resume after an invalid line: right after a "From " line, otherwise at a field that
 * describes the body. Returns the line itself if they do not resume, or null if the source ends first.
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
    // Two odd lines in a row count as text.
    const isOdd = !isField(source, at, lines.end);
    if (isOdd && wasOdd) return line;
    wasOdd = isOdd;
  }
  return null;
}

function isPostmark(source: Buffer, line: number): boolean {
  return /^>?From /.test(source.toString('latin1', line, line + 6));
}

/** Reports whether a line may be a delimiter. No field name starts with two dashes. */
function isDelimiter(source: Buffer, line: number): boolean {
  return source[line] === DASH && source[line + 1] === DASH;
}

/** Reports whether a line is a closing delimiter, which no part follows, or consists of two dashes. */
function isClosing(source: Buffer, line: number, end: number): boolean {
  let last = end;
  while (source[last - 1] === SPACE || source[last - 1] === TAB) last--;
  return last >= line + 2 && source[last - 1] === DASH && source[last - 2] === DASH;
}

/** Reports whether a line has a name and a colon, with optional blanks between them. */
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
 * Finds the lines of a header block. A line ends with LF, CR LF or CR CR LF (from text mode on other systems). If a
 * lone CR ends the first line, it ends every line. Otherwise it ends only an empty line, or a line before a field or
 * delimiter.
 */
class Lines {
  end = 0;
  next = 0;
  #lf: number;
  /** The next run of carriage returns extends from `#cr` to `#run`. */
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

  /** Finds the end of a line. Returns false at the end of the source, which also ends a line. */
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
function unfold(lines: string): string {
  return lines.replace(/[\r\n]+/g, (_, at: number, all: string) => {
    const end = /[^\r\n]/g;
    end.lastIndex = at;
    const next = end.exec(all)?.[0] ?? ' ';
    return next === ' ' || next === '\t' ? '' : ' ';
  });
}

function parseField(line: string): RawField | null {
  const colon = line.indexOf(':');
  if (colon <= 0) return null;
  const label = line.slice(0, colon).trim();
  if (label === '' || label.length > 256) return null;
  return { name: label.toLowerCase(), label, value: line.slice(colon + 1).trim() };
}

/**
 * Decodes a raw value's bytes, but not its encoded words, since the syntax around them matters. Bytes that are not
 * UTF-8 are decoded in the body's charset (`hint`), which old programs also used for headers.
 */
export function rawText(value: string, hint: string | null): string {
  // Most headers are plain ASCII and need no decoding.
  if (!/[\0\x80-\xff]/.test(value) && !value.includes('\x1b')) return value;
  const bytes = Buffer.from(value, 'latin1');
  return decodeText(bytes, isUtf8(bytes) ? null : hint);
}

export function headerCharset(fields: readonly RawField[]): string | null {
  return contentTypeCharset(fields.find(({ name }) => name === 'content-type')?.value ?? '');
}

export function contentTypeCharset(contentType: string): string | null {
  return /charset\s{0,9}[=:]\s{0,9}["']?([\w.:-]{1,40})/i.exec(contentType)?.[1] ?? null;
}

/** Returns a header as readable text, decoding raw 8-bit bytes and then encoded words (RFC 2047). */
export function fieldText(value: string, maxChars: number, hint: string | null): string {
  return decodeWords(rawText(truncateText(value, maxChars), hint));
}

type ReadAddresses = (field: RawField) => readonly AddressEntry[];

/**
 * Returns all people in the named fields as one searchable line, `Name <address>, …`, in the order of `names`.
 * Internationalised domains appear in both spellings.
 */
function addressText(
  fields: readonly RawField[],
  names: readonly string[],
  read: ReadAddresses,
  maxChars: number,
): string {
  const seen = new Set<string>();
  let length = 0;
  for (const name of names) {
    for (const field of fields) {
      if (field.name !== name) continue;
      if (length >= maxChars) break;
      for (const { text } of read(field)) {
        length += text.length + 2;
        seen.add(text);
      }
    }
  }
  return truncateText([...seen].join(', '), maxChars);
}

interface AddressEntry {
  readonly text: string;
  /** Address in lower case; null if unusable. */
  readonly address: string | null;
}

function parseAddresses(text: string): AddressEntry[] {
  if (text === '') return [];
  return addressparser(text, { flatten: true })
    .map(({ name, address }) => {
      const readable = decodeWords(name).replace(/\s+/g, ' ').trim();
      const decoded = decodeWords(address).trim();
      const mailbox = withUnicodeDomain(decoded);
      const shown = readable === '' || readable === mailbox ? mailbox : `${readable} <${mailbox}>`;
      return { text: mailbox === '' ? readable : shown, address: usableAddress(decoded) };
    })
    .filter((entry) => entry.text !== '');
}

/** Longest address (RFC 5321 section 4.5.3.1). */
const ADDRESS_CHARS = 320;

function usableAddress(address: string): string | null {
  const lower = address.toLowerCase();
  return lower.length <= ADDRESS_CHARS && /^[^\s<>@]+@[^\s<>@]+$/.test(lower) ? lower : null;
}

const MAX_PEOPLE = 200;

function collectAddresses(
  fields: readonly RawField[],
  names: readonly string[],
  read: ReadAddresses,
): string[] {
  const found = new Set<string>();
  for (const field of fields) {
    if (!names.includes(field.name) || found.size >= MAX_PEOPLE) continue;
    for (const { address } of read(field)) if (address !== null) found.add(address);
  }
  return [...found].slice(0, MAX_PEOPLE);
}

function withUnicodeDomain(address: string): string {
  const at = address.lastIndexOf('@');
  if (at < 0 || !/(^|\.)xn--/i.test(address.slice(at + 1))) return address;
  const domain = domainToUnicode(address.slice(at + 1));
  return domain === '' ? address : `${address} ${address.slice(0, at + 1)}${domain}`;
}

export type HeaderFacts = Readonly<ReturnType<typeof readHeaderFacts>>;

const MAX_REFERENCES = 200;

/** Reads the searchable fields of a header block. Missing fields are empty or null. Never throws. */
export function readHeaderFacts(fields: readonly RawField[], limits: MimeLimits) {
  const hint = headerCharset(fields);
  const first = (name: string): string => {
    const field = fields.find((f) => f.name === name && f.value !== '');
    return field === undefined ? '' : fieldText(field.value, limits.fieldChars, hint);
  };
  const parsed = new Map<RawField, readonly AddressEntry[]>();
  const read = (field: RawField): readonly AddressEntry[] => {
    const text = () => rawText(truncateText(field.value, limits.fieldChars), hint);
    const entries = parsed.get(field) ?? parseAddresses(text());
    parsed.set(field, entries);
    return entries;
  };
  const addresses = (...names: string[]) => addressText(fields, names, read, limits.addressChars);
  const people = (...names: string[]) => collectAddresses(fields, names, read);
  const correspondents = lazy(() => new Set(people('from', 'to', 'cc', 'reply-to')));
  return {
    subject: first('subject').replace(/\s+/g, ' ').trim(),
    /** Names and addresses. To, Cc and Bcc are kept separate for the search operators. */
    from: addresses('from', 'sender', 'reply-to'),
    to: addresses('to'),
    cc: addresses('cc'),
    bcc: addresses('bcc'),
    deliveredTo: addresses('delivered-to', 'x-original-to'),
    /** Id in angle brackets (RFC 2919), or the whole text if there is no such id. */
    listId: parseListId(first('list-id')),
    /**
     * Message ids without angle brackets. `references` lists ancestors from References and In-Reply-To, oldest first.
     */
    messageId: messageIds(first('message-id'))[0] ?? null,
    references: threadReferences(first('references'), first('in-reply-to'), (id) =>
      correspondents().has(id.toLowerCase()),
    ),
    senders: people('from'),
    recipients: people('to', 'cc', 'bcc'),
  };
}

function parseListId(value: string): string | null {
  const text = value.replace(/\s+/g, ' ').trim();
  if (text === '') return null;
  const id = /<([^<>]{1,1000})>/.exec(text)?.[1]?.trim();
  return id === undefined || id === '' ? truncateText(text, 1000) : id;
}

/** Returns a message's ancestors in its thread, oldest first (RFC 5322 section 3.6.4). */
function threadReferences(
  field: string,
  inReplyTo: string,
  isAddress: (id: string) => boolean,
): string[] {
  const ids = new Set(messageIds(field));
  for (const id of parseInReplyTo(inReplyTo, isAddress)) ids.add(id);
  return [...ids].slice(-MAX_REFERENCES);
}

/**
 * Returns the ids in In-Reply-To. Old programs write prose with the original's id, name, address and date, such as
 * `<id@host> from Carol <carol@example.org> at "10:00"`. In prose, uses only the first id that is not an address (RFC
 * 5256 section 3).
 */
function parseInReplyTo(value: string, isAddress: (id: string) => boolean): string[] {
  const ids = bracketedIds(value).filter((id) => normalizeMessageId(id) !== null);
  if (ids.length === 0) return [];
  if (!/[^\s,;]/.test(value.replace(BRACKETED, ' '))) return ids.filter((id) => !isAddress(id));
  let position = 0;
  for (const match of value.matchAll(BRACKETED)) {
    const id = removeSpaces(match[1] ?? '');
    const before = value.slice(position, match.index);
    position = match.index + match[0].length;
    if (/^[^@]+@[^@]+$/.test(id) && !SENDER.test(before) && !isAddress(id)) return [id];
  }
  return [];
}

const SENDER = /\b(?:from|by|von|de)\s[^<>\d]{0,200}$/i;
const BRACKETED = /<([^<>]{1,998})>/g;

function removeSpaces(id: string): string {
  return id.replace(/\s+/g, '');
}

function bracketedIds(value: string): string[] {
  return [...value.matchAll(BRACKETED)].map((match) => removeSpaces(match[1] ?? ''));
}

/** Returns the message ids in a field. If none have angle brackets, accepts words without them. */
function messageIds(value: string): string[] {
  const ids = bracketedIds(value);
  const words = ids.length > 0 ? ids : value.split(/[\s,]+/).map((id) => id.replace(/^<|>$/g, ''));
  return words.filter((id) => normalizeMessageId(id) !== null && id.length <= 998);
}
