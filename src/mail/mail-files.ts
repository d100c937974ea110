import { closeSync, fstatSync, readSync } from 'node:fs';
import { type FilePath, openRegularFile } from '../core/files.ts';

/**
 * Reads mbox files as found in practice. A message starts at a delimiter: a line consisting of "From ", a sender and a
 * date, with an empty line before it or header fields after it. Any other line that starts with "From " is text.
 * Content-Length (mboxcl, mboxcl2) is trusted if it leads exactly to a delimiter or to the end of the file. Otherwise
 * the file is mboxrd, which adds a `>` to every line that starts with zero or more `>` and "From ". This also reads
 * mboxo correctly, except for lines that originally started with `>From `.
 */

/** Position of a message in an mbox, without its delimiter and the closing empty line. */
export interface MboxRange {
  readonly start: number;
  readonly end: number;
  /** Number of lines quoted with `>`; 0 if a Content-Length makes quoting unnecessary. */
  readonly quotedLines: number;
  readonly date: string;
  /** False if the delimiter has no sender, which Thunderbird omits. */
  readonly hasSender: boolean;
  /** A lone CR ends lines only in files from old Macs. Programs on other systems do not quote after one. */
  readonly lineEnds: LineEnds;
}

export interface AmbiguousLine {
  readonly offset: number;
  readonly text: string;
  /** True for a delimiter, which belongs to no message. */
  readonly isDelimiter: boolean;
}

type LineEnds = 'lf' | 'cr';

const CHUNK_BYTES = 1 << 20;
const LINE_BYTES = 4096;
const DELIMITER_CHARS = 512;
const LF = 10;
const CR = 13;
const GREATER = 62;
const FROM = Buffer.from('From ');
const UTF8_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const NO_BYTES: Buffer = Buffer.alloc(0);

/** Finds the messages in an mbox in one scan, with constant memory. @throws system errors */
export function* mboxRanges(
  path: FilePath,
  {
    onStray = () => {},
    onDoubt = () => {},
    contentLengths = true,
  }: {
    /**
     * Called once if anything but empty lines and a BOM precedes the first delimiter. Those bytes belong to no message.
     */
    readonly onStray?: (bytes: number) => void;
    readonly onDoubt?: (line: AmbiguousLine) => void;
    /** If false, Content-Length is ignored. */
    readonly contentLengths?: boolean;
  } = {},
): Generator<MboxRange, void, undefined> {
  const lines = new Lines(path);
  let open: Omit<MboxRange, 'end' | 'quotedLines'> | undefined;
  let bodyEnd: number | undefined;
  let contentLength: number | undefined;
  let inHeader = false;
  let isQuoted = true;
  let quotedLines = 0;
  let afterEmpty = true;
  let emptyAt = 0;
  let size = 0;
  let isStray = false;
  const closeMessage = (end: number): MboxRange[] => {
    if (open === undefined) return [];
    const range = { ...open, end: bodyEnd ?? Math.max(end, open.start) };
    return [{ ...range, quotedLines: isQuoted ? quotedLines : 0 }];
  };
  try {
    for (let line = lines.next(); line !== undefined; line = lines.next()) {
      const { bytes, offset } = line;
      size = offset + line.length;
      const isWithin = bodyEnd !== undefined && offset < bodyEnd;
      if (bytes[0] === FROM[0] && startsWith(bytes, FROM, 0)) {
        const text = delimiterText(bytes);
        const end = lines.delimiterEnd(line, text.length);
        const isApart = afterEmpty || bodyEnd !== undefined;
        const context = open === undefined ? 'start' : isApart ? 'after-empty' : 'within';
        const { is, isDoubtful, sender, date } = classify(text, context, lines.peek(end.offset));
        const isDelimiter = is === 'delimiter' && !isWithin;
        if (isWithin) isQuoted = false;
        if (isWithin ? is === 'delimiter' && !isDoubtful : isDoubtful) {
          onDoubt({ offset, text, isDelimiter });
        }
        if (isDelimiter) {
          if (open === undefined && isStray) onStray(offset);
          yield* closeMessage(afterEmpty ? emptyAt : offset);
          size = end.offset;
          lines.continueAt(size, end.lineEnds);
          const hasSender = !/^-?\s*$/.test(sender);
          open = { start: size, date, hasSender, lineEnds: end.lineEnds };
          [bodyEnd, contentLength, inHeader, isQuoted, quotedLines] = [
            undefined,
            undefined,
            true,
            true,
            0,
          ];
          afterEmpty = false;
          // A delimiter without content is an empty message.
          emptyAt = size;
          continue;
        }
      }
      afterEmpty = isEmptyLine(bytes);
      if (afterEmpty) {
        emptyAt = offset;
        if (inHeader && contentLengths && contentLength !== undefined) {
          const end = size + contentLength;
          if (lines.isEndOfMessage(end)) bodyEnd = end;
        }
        inHeader = false;
      } else {
        isStray = true;
        if (!isWithin) bodyEnd = undefined;
        if (inHeader) contentLength ??= parseLength(bytes);
        if (bytes[0] === GREATER && isQuotedFrom(bytes)) quotedLines += 1;
      }
    }
    if (open === undefined && isStray) onStray(size);
    yield* closeMessage(afterEmpty ? emptyAt : size);
  } finally {
    lines.close();
  }
}

/** @param head the first bytes of a file */
export function startsLikeMbox(head: Buffer): boolean {
  let start = startsWith(head, UTF8_MARK, 0) ? UTF8_MARK.length : 0;
  while (head[start] === LF || head[start] === CR) start += 1;
  const line = head.subarray(start, start + LINE_BYTES);
  if (!startsWith(line, FROM, 0)) return false;
  const text = delimiterText(line);
  const next = trimLineEnd(line.toString('latin1', text.length));
  return classify(text, 'start', next).is === 'delimiter';
}

const ZONE = String.raw`(?:[+-]\d{2}:?\d{2}|[a-z]{1,5}(?:[+-]\d{1,2}(?::?\d{2})?)?)`;
const TIME = String.raw`\d{1,2}[:.]\d{2}(?:[:.]\d{2}(?:\.\d{1,9})?)?(?: ?[ap]m)?`;
const WORD = String.raw`[^\s\d,]{2,14}`;
/** ctime with the zone before or after the year, RFC 5322, and ISO 8601. */
const DATES = [
  String.raw`(?:${WORD},? +)?${WORD} +\d{1,2},? +${TIME}(?: +${ZONE}){0,2} +\d{2,4}(?: +${ZONE}){0,2}`,
  String.raw`(?:${WORD},? +)?\d{1,2}\.?[ -]+${WORD}[ -]+\d{2,4},? +${TIME}(?: +${ZONE}){0,2}`,
  String.raw`(?:${WORD},? +)?${WORD} +\d{1,2},? +\d{4},? +${TIME}(?: +${ZONE}){0,2}`,
  String.raw`\d{1,2}[/.]\d{1,2}[/.]\d{2,4},? +${TIME}(?: +${ZONE}){0,2}`,
  String.raw`(?:${WORD},? +)?\d{4}-\d{2}-\d{2}[t ] *${TIME} *${ZONE}?`,
].join('|');
const DELIMITER = new RegExp(
  String.raw`^From (.*?)(?<=[ \t])(${DATES})(?: +\([^()]*\))?(?: +remote from \S+)?[ \t]*$`,
  'i',
);
const FIELD = /^[!-9;-~]{1,76}[ \t]*:/;
const USUAL_FIELD =
  /^(?:from|to|cc|bcc|subject|date|received|message-id|return-path|reply-to|sender|delivered-to|mime-version|content-[a-z-]+|in-reply-to|references|status|list-[a-z-]+|dkim-[a-z-]+|arc-[a-z-]+|x-[!-9;-~]+)[ \t]*:/i;

interface Judgement {
  readonly is: 'delimiter' | 'text';
  readonly isDoubtful: boolean;
  readonly sender: string;
  readonly date: string;
}

function classify(
  text: string,
  context: 'start' | 'after-empty' | 'within',
  next: string,
): Judgement {
  const match = text.length > DELIMITER_CHARS ? null : DELIMITER.exec(text);
  const [, sender = '', date = ''] = match ?? [];
  // Addresses with blanks are in quotes or angle brackets. Any other words make it a sentence.
  const isSender = /^\S*\s*$|@|^"/.test(sender);
  const isApart = context !== 'within';
  const hasField = FIELD.test(next) || next.startsWith('>From ');
  const judgement = (isDelimiter: boolean, isDoubtful: boolean): Judgement => {
    return { is: isDelimiter ? 'delimiter' : 'text', isDoubtful, sender, date };
  };
  if (date !== '') {
    if (hasField && isSender) return judgement(true, false);
    const hasNothing = /^(?:[\r\n]|From |$)/.test(next);
    return judgement(isApart && (isSender || hasField), !(isApart && isSender && hasNothing));
  }
  const hasUsualField = USUAL_FIELD.test(next);
  const tail = text.slice(FROM.length).trim();
  // Newer versions of Thunderbird write neither sender nor date.
  if (tail === '' || tail === '-') return judgement(isApart && hasUsualField, false);
  const [word = ''] = tail.split(/[ \t]/, 1);
  const isAddress = /^[^@]+@[^@]+$/.test(word) || word.toUpperCase() === 'MAILER-DAEMON';
  const isDelimiter = context === 'start' ? hasField : isApart && isAddress && hasUsualField;
  return judgement(isDelimiter, isDelimiter || (isApart && hasUsualField));
}

/** Cuts a line at its first CR, since a file from an old Mac can have more lines after it. */
function delimiterText(bytes: Buffer): string {
  const end = bytes.findIndex((byte) => byte === CR || byte === LF);
  return bytes.toString('latin1', 0, end < 0 ? bytes.length : end);
}

function isEmptyLine(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === CR);
}

function trimLineEnd(text: string): string {
  return text.replace(/^\r*\n|^\r/, '');
}

function parseLength(bytes: Buffer): number | undefined {
  const digits = /^content-length[ \t]*:[ \t]*(\d{1,15})[ \t\r]*$/i.exec(
    bytes.toString('latin1'),
  )?.[1];
  return digits === undefined ? undefined : Number(digits);
}

interface Line {
  /** Line without its line ending, cut to `LINE_BYTES`. Valid until the next line is read. */
  readonly bytes: Buffer;
  readonly offset: number;
  readonly length: number;
}

class Lines {
  readonly #fd: number;
  readonly #size: number;
  readonly #chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  #from = 0;
  #to = 0;
  #at = 0;
  #ends: LineEnds = 'lf';

  constructor(path: FilePath) {
    this.#fd = openRegularFile(path);
    this.#size = fstatSync(this.#fd).size;
  }

  close(): void {
    closeSync(this.#fd);
  }

  next(): Line | undefined {
    const offset = this.#at;
    let bytes: Buffer = NO_BYTES;
    for (;;) {
      if (this.#at >= this.#to && !this.#fill()) return this.#line(bytes, offset);
      const start = this.#at - this.#from;
      const filled = this.#chunk.subarray(0, this.#to - this.#from);
      const end = lineEndIn(filled, start, this.#ends);
      const piece = filled.subarray(start, end < 0 ? filled.length : end);
      const part = piece.subarray(0, LINE_BYTES - bytes.length);
      this.#at += piece.length;
      if (end < 0) {
        bytes = Buffer.concat([bytes, part]);
        continue;
      }
      this.#at += 1;
      bytes = bytes.length === 0 ? part : Buffer.concat([bytes, part]);
      if (filled[end] === CR) {
        const isLast = this.#at === this.#to;
        if (isLast) bytes = Buffer.from(bytes);
        if ((!isLast || this.#fill()) && this.#chunk[this.#at - this.#from] === LF) this.#at += 1;
      }
      return this.#line(bytes, offset);
    }
  }

  #line(bytes: Buffer, offset: number): Line | undefined {
    if (this.#at === offset) return undefined;
    // The file may start with a UTF-8 BOM.
    const isMarked = offset === 0 && startsWith(bytes, UTF8_MARK, 0);
    const text = isMarked ? bytes.subarray(UTF8_MARK.length) : bytes;
    return { bytes: text, offset, length: this.#at - offset };
  }

  /** Returns the end of a delimiter line, given its text's length, and the message's type of line ending. */
  delimiterEnd({ bytes, offset, length }: Line, text: number) {
    const tail = bytes.subarray(text);
    const isLone = tail.length > 0 && !isEmptyLine(tail);
    const mark = offset === 0 && this.peek(0, 3) === UTF8_MARK.toString('latin1') ? 3 : 0;
    if (isLone) return { offset: offset + mark + text + 1, lineEnds: 'cr' as const };
    const last = this.peek(offset + length - 1, 1);
    return { offset: offset + length, lineEnds: last === '\r' ? ('cr' as const) : ('lf' as const) };
  }

  /** Reports whether a message ends here: at the end of the file, or at a delimiter after at most one line ending. */
  isEndOfMessage(offset: number): boolean {
    if (offset >= this.#size) return offset === this.#size;
    const line = trimLineEnd(this.peek(offset, LINE_BYTES));
    if (line === '' || !line.startsWith('From ')) return line === '';
    const text = line.split(/[\r\n]/, 1)[0] ?? '';
    const next = trimLineEnd(line.slice(text.length));
    return classify(text, 'after-empty', next).is === 'delimiter';
  }

  /** Returns bytes at an offset as Latin-1. */
  peek(offset: number, length = 160): string {
    const end = Math.min(offset + length, this.#size);
    if (offset >= this.#from && end <= this.#to) {
      return this.#chunk.toString('latin1', offset - this.#from, end - this.#from);
    }
    const bytes = Buffer.alloc(Math.max(0, end - offset));
    const got = bytes.length === 0 ? 0 : readSync(this.#fd, bytes, 0, bytes.length, offset);
    return bytes.toString('latin1', 0, got);
  }

  continueAt(offset: number, ends: LineEnds): void {
    this.#ends = ends;
    this.#at = offset;
    if (offset < this.#from || offset > this.#to) [this.#from, this.#to] = [offset, offset];
  }

  #fill(): boolean {
    const got = readSync(this.#fd, this.#chunk, 0, CHUNK_BYTES, this.#at);
    this.#from = this.#at;
    this.#to = this.#at + got;
    return got > 0;
  }
}

function lineEndIn(bytes: Buffer, start: number, ends: LineEnds): number {
  if (ends === 'lf') return bytes.indexOf(LF, start);
  for (let at = start; at < bytes.length; at += 1) {
    if (bytes[at] === LF || bytes[at] === CR) return at;
  }
  return -1;
}

export function unquoteFromLines(bytes: Buffer, lineEnds: LineEnds = 'lf'): Buffer {
  const lines = new FromLineQuoter(-1, lineEnds);
  return Buffer.concat([...lines.take(bytes), ...lines.end()]);
}

/** Adds or removes a `>` on the "From " lines of a streamed message. */
export class FromLineQuoter {
  /** End of the last piece if it may be the start of a "From " line: at most a `>` and letters of "From ". */
  #pending = Buffer.alloc(0);
  #atLineStart = true;

  /** @param change 1 to quote, -1 to unquote */
  constructor(
    private readonly change: 1 | -1,
    private readonly lineEnds: LineEnds = 'lf',
  ) {}

  /** Yields the bytes that do not depend on later input. They may be views of `piece`. */
  *take(piece: Buffer): Generator<Buffer, void, undefined> {
    let bytes = piece;
    if (this.#pending.length > 0) {
      bytes = Buffer.concat([this.#pending, piece]);
      this.#pending = Buffer.alloc(0);
    }
    let start = 0;
    let at = 0;
    while (at < bytes.length) {
      if (this.#atLineStart) {
        const kind = lineKind(bytes, at);
        if (kind === 'undecided') {
          // All `>` are alike, so hold back only the one to remove.
          const letters = afterQuotes(bytes, at);
          const safeEnd = this.change === 1 ? letters : Math.max(at, letters - 1);
          if (safeEnd > start) yield bytes.subarray(start, safeEnd);
          this.#pending = Buffer.from(bytes.subarray(safeEnd));
          return;
        }
        if (kind === 'from' && this.change === 1) {
          yield bytes.subarray(start, at);
          yield QUOTE;
          start = at;
        } else if (kind === 'from' && bytes[at] === GREATER) {
          yield bytes.subarray(start, at);
          start = at + 1;
        }
        this.#atLineStart = false;
      }
      const end = lineEndIn(bytes, at, this.lineEnds);
      if (end < 0) break;
      at = end + 1;
      this.#atLineStart = true;
    }
    if (bytes.length > start) yield bytes.subarray(start);
  }

  *end(): Generator<Buffer, void, undefined> {
    if (this.#pending.length > 0) yield this.#pending;
    this.#pending = Buffer.alloc(0);
    this.#atLineStart = true;
  }
}

const QUOTE = Buffer.from('>');

function lineKind(bytes: Buffer, start: number): 'from' | 'other' | 'undecided' {
  let at = afterQuotes(bytes, start);
  for (const byte of FROM) {
    if (at >= bytes.length) return 'undecided';
    if (bytes[at] !== byte) return 'other';
    at += 1;
  }
  return 'from';
}

function afterQuotes(bytes: Buffer, start: number): number {
  let at = start;
  while (bytes[at] === GREATER) at += 1;
  return at;
}

function startsWith(bytes: Buffer, prefix: Buffer, at: number): boolean {
  return (
    bytes.length >= at + prefix.length &&
    bytes.compare(prefix, 0, prefix.length, at, at + prefix.length) === 0
  );
}

function isQuotedFrom(line: Buffer): boolean {
  const at = afterQuotes(line, 0);
  return at > 0 && startsWith(line, FROM, at);
}

/** Parses Maildir file names (cr.yp.to/proto/maildir.html) and Maildir++ folder names. */

/** Info letters and their flags, in the order required in file names. */
const LETTERS: readonly (readonly [letter: string, flag: string])[] = [
  ['D', '\\Draft'],
  ['F', '\\Flagged'],
  ['P', '$forwarded'],
  ['R', '\\Answered'],
  ['S', '\\Seen'],
  ['T', '\\Deleted'],
];

/**
 * Returns the flags in the info part of a file name.
 *
 * @param keywords meanings of lower-case letters in this Maildir
 */
export function flagsFromName(
  name: string,
  keywords: ReadonlyMap<string, string> = new Map(),
): string[] {
  const letters = new Set(/[:;!]2,([A-Za-z]*)$/.exec(name)?.[1]);
  return [...letters].flatMap(
    (letter) => LETTERS.find(([known]) => known === letter)?.[1] ?? keywords.get(letter) ?? [],
  );
}

/** Returns the info letters for flags, ignoring case. Keywords have no letter. */
export function flagLetters(flags: readonly string[]): string {
  const set = new Set(flags.map((flag) => flag.toLowerCase()));
  return LETTERS.filter(([, flag]) => set.has(flag.toLowerCase()))
    .map(([letter]) => letter)
    .join('');
}

export function uniquePart(name: string): string {
  return name.replace(/[:;!]2,[A-Za-z]*$/, '');
}

/** Returns the time at the start of a Maildir name in milliseconds, or NaN for other names. */
export function receivedFromName(name: string): number {
  const seconds = /^(\d{9,10})\./.exec(name)?.[1];
  return seconds === undefined ? Number.NaN : Number(seconds) * 1000;
}

/** Decodes modified UTF-7 (RFC 3501, 5.1.3), used in Maildir++ folder names. Leaves invalid text unchanged. */
export function decodeModifiedUtf7(name: string): string {
  return name.replace(/&([A-Za-z0-9+,]*)-/g, (match, encoded: string) => {
    if (encoded === '') return '&';
    const bytes = Buffer.from(encoded.replaceAll(',', '/'), 'base64');
    if (bytes.length === 0 || bytes.length % 2 !== 0) return match;
    return bytes.swap16().toString('utf16le');
  });
}

export function encodeModifiedUtf7(text: string): string {
  return text.replace(/&|[^\x20-\x7e]+/g, (run) => {
    if (run === '&') return '&-';
    const bytes = Buffer.from(run, 'utf16le').swap16();
    return `&${bytes.toString('base64').replace(/=+$/, '').replaceAll('/', ',')}-`;
  });
}
