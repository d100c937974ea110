const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const EQUALS = 0x3d;
const NOTHING = Buffer.alloc(0);

/** Decodes a streamed transfer encoding in linear time and memory. */
export interface TransferDecoder {
  some(chunk: Buffer): Buffer;
  /** Returns the remaining bytes. Must be called only once. */
  rest(): Buffer;
}

/**
 * Decodes quoted-printable (RFC 2045 section 6.7). Drops trailing blanks and soft line breaks, and keeps invalid
 * escapes. A carriage return ends a line even without a line feed, since other systems write such files. (libqp takes
 * quadratic time for blanks and needs the text as one string.)
 */
export class QuotedPrintable implements TransferDecoder {
  /** An equals sign or blank, then blanks and carriage returns. Their meaning depends on the next byte. */
  #pending: Buffer[] = [];
  /** An unfinished escape. */
  #escape: Buffer = NOTHING;

  some(chunk: Buffer): Buffer {
    if (this.#pending.length === 0 || chunk.some((byte) => !isBlank(byte) && byte !== CR))
      return this.#decode(chunk, false);
    this.#pending.push(Buffer.from(chunk));
    return NOTHING;
  }

  rest(): Buffer {
    return this.#decode(NOTHING, true);
  }

  /** Drops blanks at the ends of lines and soft line breaks, then decodes escapes, which may span a soft line break. */
  #decode(chunk: Buffer, final: boolean): Buffer {
    const bytes = this.#pending.length === 0 ? chunk : Buffer.concat([...this.#pending, chunk]);
    const out = Buffer.allocUnsafe(this.#escape.length + bytes.length);
    let length = this.#escape.copy(out);
    let at = 0;
    while (at < bytes.length) {
      const byte = bytes[at] ?? 0;
      if (byte !== EQUALS && !isBlank(byte)) {
        out[length++] = byte;
        at++;
        continue;
      }
      let next = byte === EQUALS ? at + 1 : at;
      while (isBlank(bytes[next])) next++;
      const isEnd = bytes[next] === CR || bytes[next] === LF;
      if (byte === EQUALS && isEnd) {
        while (bytes[next] === CR) next++;
        if (bytes[next] === LF || next === bytes.length) next++;
      }
      // At the end of the text, an equals sign is also a soft line break.
      if (next > bytes.length || (next === bytes.length && !isEnd)) break;
      if (isEnd) at = next;
      else if (byte === EQUALS) {
        out[length++] = byte;
        at++;
      } else while (at < next) out[length++] = bytes[at++] ?? 0;
    }
    this.#pending = final || at === bytes.length ? [] : [Buffer.from(bytes.subarray(at))];
    return this.#unescape(out.subarray(0, length), final);
  }

  /** Decodes escapes in place. */
  #unescape(bytes: Buffer, final: boolean): Buffer {
    this.#escape = NOTHING;
    let at = bytes.indexOf(EQUALS);
    if (at < 0) return bytes;
    let length = at;
    for (; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0;
      const high = byte === EQUALS ? hexDigit(bytes[at + 1] ?? 0) : -1;
      const low = high < 0 ? -1 : hexDigit(bytes[at + 2] ?? 0);
      const isCut = byte === EQUALS && at + (high < 0 ? 1 : 2) >= bytes.length;
      if (isCut && !final) {
        this.#escape = Buffer.from(bytes.subarray(at));
        break;
      }
      bytes[length++] = low < 0 ? byte : high * 16 + low;
      if (low >= 0) at += 2;
    }
    return bytes.subarray(0, length);
  }
}

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB;
}

export function decodeQuotedPrintable(text: Buffer): Buffer {
  const decoder = new QuotedPrintable();
  return Buffer.concat([decoder.some(text), decoder.rest()]);
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

const DIGIT = 1;
const BLANK = 2;
const BASE64 = new Uint8Array(256);
for (const sign of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
  BASE64[sign.charCodeAt(0)] = DIGIT;
for (const sign of '\r\n\t ') BASE64[sign.charCodeAt(0)] = BLANK;

/** How many bytes of a line to read when classifying it. */
const LINE_BYTES = 1024;
const HELD_BYTES = 64 * 1024;

/**
 * Decodes base64 (RFC 2045 section 6.8). Skips invalid characters, but not lines of prose. A line after the padding, or
 * a line of words rather than damage, is text appended later, such as a mailing-list footer. A body that starts with
 * prose was never encoded and is left unchanged.
 */
export class Base64 implements TransferDecoder {
  /** The unfinished last line. */
  #line: Buffer = NOTHING;
  /** Digits of an unfinished group of four. */
  #carry = '';
  #state: 'start' | 'digits' | 'padded' | 'text' | 'raw' = 'start';
  #wasPadded = false;
  #isWordless = true;
  /** First lines, which may be text before base64, or reveal that nothing is encoded. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** Decoded bytes before this offset have been checked for prose. */
  #judged = 0;
  #out: Buffer[] = [];

  /** @param behind receives text that follows the encoded bytes */
  constructor(private readonly behind: (text: Buffer) => void) {}

  some(chunk: Buffer): Buffer {
    const bytes = this.#line.length === 0 ? chunk : Buffer.concat([this.#line, chunk]);
    const end = endOfLines(bytes);
    this.#line = end === bytes.length ? NOTHING : Buffer.from(bytes.subarray(end));
    return this.#decode(bytes.subarray(0, end));
  }

  rest(): Buffer {
    const bytes = this.#decode(this.#line);
    const start = this.#state === 'start' && !this.#isWordless ? this.#held : [];
    return Buffer.concat([bytes, ...start, Buffer.from(this.#carry, 'base64')]);
  }

  #decode(bytes: Buffer): Buffer {
    this.#out = [];
    this.#judged = 0;
    for (let at = 0; at < bytes.length; ) {
      if (this.#state === 'digits') at = this.#digits(bytes, at);
      else if (this.#state === 'start' || this.#state === 'padded') at = this.#classify(bytes, at);
      else if (this.#state === 'text') at = this.#text(bytes, at);
      else {
        this.#out.push(bytes.subarray(at));
        at = bytes.length;
      }
    }
    const [only = NOTHING, more] = this.#out;
    return more === undefined ? only : Buffer.concat(this.#out);
  }

  /** Classifies the text by its next non-empty line. Returns where to continue. */
  #classify(bytes: Buffer, from: number): number {
    const isPadded = this.#state === 'padded';
    let at = from;
    while (BASE64[bytes[at] ?? 0] === BLANK || (isPadded && bytes[at] === EQUALS)) at++;
    if (at === bytes.length) {
      if (!isPadded) this.#hold(bytes.subarray(from));
      return at;
    }
    const line = lineAt(bytes, at);
    if (isPadded) this.#state = isMoreBase64(line) ? 'digits' : 'text';
    else if (this.#isWordless && mayBeBase64(line)) this.#state = 'digits';
    else if (isMoreBase64(line)) {
      for (const text of this.#held) this.behind(text);
      this.#state = 'digits';
    } else {
      const next = Math.min(nextLine(bytes, at), bytes.length);
      this.#isWordless = false;
      this.#hold(bytes.subarray(from, next));
      return next;
    }
    return at;
  }

  #hold(bytes: Buffer): void {
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    if (this.#heldBytes > HELD_BYTES) this.#release();
  }

  /** Writes everything unchanged, because nothing is encoded. */
  #release(): void {
    this.#state = 'raw';
    this.#out.push(...this.#held.splice(0));
  }

  /** Passes on lines of text. Returns where base64 resumes. */
  #text(bytes: Buffer, from: number): number {
    let at = from;
    while (at < bytes.length && (this.#wasPadded || !isMoreBase64(lineAt(bytes, at))))
      at = this.#wasPadded ? bytes.length : nextLine(bytes, at);
    this.behind(bytes.subarray(from, at));
    if (at < bytes.length) this.#state = 'digits';
    return at;
  }

  /** Decodes up to the padding or a line of prose. Returns where to continue. */
  #digits(bytes: Buffer, start: number): number {
    let from = start;
    let at = from;
    let digits = 0;
    for (; at < bytes.length; at++) {
      const kind = BASE64[bytes[at] ?? 0];
      if (kind === DIGIT) digits++;
      else if (kind !== BLANK) {
        if (bytes[at] === EQUALS) break;
        digits = Number.NaN;
        if (at < this.#judged) continue;
        const line = lineStart(bytes, at);
        const text = lineAt(bytes, Math.max(line, from));
        this.#judged = Math.max(line, from) + Math.max(text.length, 1);
        if (line < from || !isProse(text)) continue;
        this.#decodeDigits(bytes.subarray(from, line), Number.NaN);
        from = line;
        if (this.#carry !== '') continue;
        this.#state = 'text';
        return from;
      }
    }
    this.#decodeDigits(bytes.subarray(from, at), digits);
    if (bytes[at] === EQUALS && this.#isPadding(bytes[at + 1])) {
      this.#out.push(Buffer.from(this.#carry, 'base64'));
      this.#carry = '';
      this.#state = 'padded';
      this.#wasPadded = true;
    }
    return at + 1;
  }

  #isPadding(next: number | undefined): boolean {
    const isEnd = next === undefined || next === EQUALS || BASE64[next] === BLANK;
    return this.#carry.length === 3 || (this.#carry.length === 2 && isEnd);
  }

  /** @param digits number of base64 digits, or NaN if there are other bytes */
  #decodeDigits(bytes: Buffer, digits: number): void {
    if (bytes.length === 0) return;
    const text = bytes.toString('latin1');
    if (this.#carry === '' && digits % 4 === 0) {
      this.#out.push(Buffer.from(text, 'base64'));
      return;
    }
    const all = this.#carry + text.replace(/[^A-Za-z0-9+/]+/g, '');
    const end = all.length - (all.length % 4);
    if (end > 0) this.#out.push(Buffer.from(all.slice(0, end), 'base64'));
    this.#carry = all.slice(end);
  }
}

/** Returns false if a first line has words or markup, or a length that base64 cannot have. */
function mayBeBase64(line: string): boolean {
  const text = line.trim();
  return !/[ \t<]/.test(text) && !isProse(text) && (text.length % 4 !== 1 || text.length > 60);
}

/** Reports whether a line has three words, or three consecutive characters that are not base64. */
function isProse(line: string): boolean {
  return line.trim().split(/[ \t]+/).length > 2 || /[^\sA-Za-z0-9+/=]{3}/.test(line);
}

/** Reports whether base64 resumes at this line, since some programs encode in pieces. A short word does not count. */
function isMoreBase64(line: string): boolean {
  const text = line.trim();
  const isWhole = text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
  return isWhole && (text.endsWith('=') || text.length >= 20);
}

const BEGIN = /^begin [0-7]{3,4} +(\S.*)$/;

/** Finds uuencoded files (POSIX uuencode) in text: a "begin" line, data lines, and "end". */
export class Uuencoded {
  #rest: Buffer = NOTHING;
  #isInFile = false;

  constructor(
    private readonly parts: {
      /** Receives text outside the files. */
      text(bytes: Buffer): void;
      file(name: string): void;
      /** Receives bytes of the current file. */
      bytes(bytes: Buffer): void;
    },
  ) {}

  some(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const at = this.#read(bytes, endOfLines(bytes), false);
    this.#rest = at === bytes.length ? NOTHING : Buffer.from(bytes.subarray(at));
  }

  rest(): void {
    this.#read(this.#rest, this.#rest.length, true);
  }

  /** Returns the offset of the first byte that must wait. */
  #read(bytes: Buffer, end: number, final: boolean): number {
    let at = 0;
    while (at < end) {
      if (this.#isInFile) {
        at = this.#fileLine(bytes, at);
        continue;
      }
      const begin = beginLine(bytes, at, end);
      this.#pass(bytes.subarray(at, begin));
      if (begin === end) return end;
      const data = nextLine(bytes, begin);
      const name = BEGIN.exec(lineAt(bytes, begin).trim())?.[1];
      if (name !== undefined && data >= end && !final) return begin;
      this.#isInFile = name !== undefined && data < end && isUuLine(lineAt(bytes, data));
      if (this.#isInFile) this.parts.file(name ?? '');
      else this.#pass(bytes.subarray(begin, data));
      at = data;
    }
    return at;
  }

  #fileLine(bytes: Buffer, at: number): number {
    const line = lineAt(bytes, at).trim();
    const data = decodeUuLine(line);
    if (data === null) this.#isInFile = false;
    else if (data.length > 0) this.parts.bytes(data);
    return data === null && line !== 'end' ? at : nextLine(bytes, at);
  }

  #pass(bytes: Buffer): void {
    if (bytes.length > 0) this.parts.text(bytes);
  }
}

/** Returns the start of the next line that may be a "begin" line, or `end`. */
function beginLine(bytes: Buffer, from: number, end: number): number {
  for (let at = bytes.indexOf('begin ', from); ; at = bytes.indexOf('begin ', at + 1)) {
    if (at < 0 || at >= end) return end;
    if (at === from || bytes[at - 1] === LF || bytes[at - 1] === CR) return at;
  }
}

function isUuLine(line: string): boolean {
  return line.trim() !== '' && decodeUuLine(line.trim()) !== null;
}

/** Decodes a line that may have lost trailing blanks. Returns null if it is invalid. */
function decodeUuLine(line: string): Buffer | null {
  const length = (line.charCodeAt(0) - SPACE) & 0x3f;
  if (line === '') return NOTHING;
  if (/[^ -`]/.test(line) || line.length > 2 + 4 * Math.ceil(length / 3)) return null;
  const bytes = Buffer.alloc(Math.ceil(length / 3) * 3);
  for (let group = 0; group * 3 < length; group++) {
    let bits = 0;
    for (let sign = 0; sign < 4; sign++) {
      const code = line.charCodeAt(1 + group * 4 + sign);
      bits = bits * 64 + (Number.isNaN(code) ? 0 : (code - SPACE) & 0x3f);
    }
    bytes.writeUIntBE(bits, group * 3, 3);
  }
  return bytes.subarray(0, length);
}

/** Returns the start of the last line, or the end of the bytes if that line is too long to wait for. */
function endOfLines(bytes: Buffer): number {
  const start = Math.max(bytes.lastIndexOf(LF), bytes.lastIndexOf(CR)) + 1;
  return bytes.length - start > LINE_BYTES ? bytes.length : start;
}

/** Returns the start of the line containing a byte, or -1 if it is too far away. */
function lineStart(bytes: Buffer, at: number): number {
  const before = Math.max(0, at - LINE_BYTES);
  const window = bytes.subarray(before, at);
  const start = Math.max(window.lastIndexOf(LF), window.lastIndexOf(CR)) + 1;
  return start === 0 && before > 0 ? -1 : before + start;
}

function lineAt(bytes: Buffer, at: number): string {
  const text = bytes.toString('latin1', at, Math.min(bytes.length, at + LINE_BYTES));
  return text.slice(0, text.search(/[\r\n]|$/));
}

function nextLine(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== LF && bytes[at] !== CR) at++;
  if (bytes[at] === CR && bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3;
  return at + (bytes[at] === CR && bytes[at + 1] === LF ? 2 : 1);
}
