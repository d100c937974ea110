/**
 * Strict parser for IMAP responses (RFC 3501, RFC 9051). imapflow's own parser logs and drops what it cannot parse, so
 * that a folder or uid could go missing without an error.
 */

/** An atom or number is a string, a quoted string or literal is a Buffer, and NIL is null. */
export type Value = string | Buffer | null | readonly Value[];

interface ResponseCode {
  /** In upper case, such as `UIDVALIDITY`. */
  readonly name: string;
  /** Text after the name; empty if there is none. */
  readonly text: string;
}

export interface StatusResponse {
  /** `*` for untagged responses. */
  readonly tag: string;
  readonly status: 'OK' | 'NO' | 'BAD' | 'BYE' | 'PREAUTH';
  readonly code: ResponseCode | null;
  readonly text: string;
}

export interface DataResponse {
  /** In upper case, such as `FETCH`. */
  readonly name: string;
  /** The number before the name, such as a sequence number; null if there is none. */
  readonly number: number | null;
  readonly values: readonly Value[];
}

export type Response = StatusResponse | DataResponse | { readonly continuation: string };

/** A response that violates the grammar. The message describes the fault, without text from the server. */
export class MalformedResponse extends Error {}

const MAX_DEPTH = 32;
/** Largest uid, UIDVALIDITY and message count (RFC 9051, section 9: nz-number). */
export const MAX_UINT32 = 0xff_ff_ff_ff;

const TAB = 0x09;
const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const OPEN = 0x28;
const CLOSE = 0x29;
const BACKSLASH = 0x5c;
const CURLY = 0x7b;
const TILDE = 0x7e;

const STATUS = /^(OK|NO|BAD|BYE|PREAUTH)(?![^ \t])(?:[ \t]{1,9}\[([^\] ]{1,64})(?: ([^\]]*))?\])?/i;
const STATUS_INITIALS = Buffer.from('ONBPonbp');
/** Text kept from a status line, in characters. It is only searched for words such as "throttled". */
const MAX_TEXT = 1_000;

/**
 * Parses one response.
 *
 * @param line the response without its last line break; each `{n}` is followed by a line break, but not by the literal
 * @param literals the literals in order
 * @throws MalformedResponse
 */
export function parseResponse(line: Buffer, literals: readonly Buffer[]): Response {
  const end = line.indexOf(SPACE);
  const tag = line.toString('latin1', 0, end < 0 ? line.length : end);
  if (tag === '+') return { continuation: line.toString('utf8', end + 1, end + 1 + MAX_TEXT) };
  if (end < 0 || !/^(?:\*|[\x21-\x7e]{1,64})$/.test(tag)) {
    throw new MalformedResponse('a line without a tag');
  }
  const isLikelyStatus = tag !== '*' || STATUS_INITIALS.includes(line[end + 1] ?? 0);
  const start = isLikelyStatus ? line.toString('utf8', end + 1, end + 1 + MAX_STATUS) : '';
  const status = STATUS.exec(start);
  if (status !== null) {
    const [whole, word = '', name, text = ''] = status;
    return {
      tag,
      status: word.toUpperCase() as StatusResponse['status'],
      code: name === undefined ? null : { name: name.toUpperCase(), text },
      text: start.slice(whole.length, whole.length + MAX_TEXT).trim(),
    };
  }
  if (tag !== '*') throw new MalformedResponse('a tagged line without OK, NO or BAD');
  const parser = new Parser(line, end + 1, literals);
  const first = parser.word();
  if (!/^\d+$/.test(first)) {
    return { name: first.toUpperCase(), number: null, values: parser.rest() };
  }
  const number = uint32(first);
  if (number === null) throw new MalformedResponse('a number beyond 32 bits');
  return { name: parser.word().toUpperCase(), number, values: parser.rest() };
}

/** A status line is short, except for a response code with a list of keywords. */
const MAX_STATUS = 65_536;

/** A search answers with up to 50,000 uids. Lists take more memory than bytes. */
const MAX_VALUES = 200_000;
const MAX_LISTS = 20_000;

class Parser {
  #literal = 0;
  #count = 0;
  #lists = 0;

  constructor(
    private readonly line: Buffer,
    private at: number,
    private readonly literals: readonly Buffer[],
  ) {}

  word(): string {
    this.#skipSpaces();
    const word = this.#atom();
    if (!/^[A-Za-z0-9$._-]+$/.test(word)) throw new MalformedResponse('an unexpected character');
    return word;
  }

  rest(): readonly Value[] {
    const values = this.#values(0);
    if (this.at < this.line.length) throw new MalformedResponse('an unexpected parenthesis');
    if (this.#literal < this.literals.length) throw new MalformedResponse('an unexpected literal');
    return values;
  }

  #values(depth: number): readonly Value[] {
    if (depth > MAX_DEPTH) throw new MalformedResponse('too many nested lists');
    const values: Value[] = [];
    for (;;) {
      this.#skipSpaces();
      const byte = this.line[this.at];
      if (byte === undefined || byte === CLOSE) return values;
      this.#count += 1;
      if (this.#count > MAX_VALUES) throw new MalformedResponse('too many values');
      if (byte === OPEN) {
        this.at += 1;
        this.#lists += 1;
        if (this.#lists > MAX_LISTS) throw new MalformedResponse('too many lists');
        const list = this.#values(depth + 1);
        if (this.line[this.at] !== CLOSE) throw new MalformedResponse('an unclosed list');
        this.at += 1;
        values.push(list);
      } else if (byte === QUOTE) values.push(this.#quoted());
      else if (byte === CURLY || (byte === TILDE && this.line[this.at + 1] === CURLY)) {
        values.push(this.#nextLiteral());
      } else {
        const atom = this.#atom();
        values.push(atom.toUpperCase() === 'NIL' ? null : atom);
      }
    }
  }

  #skipSpaces(): void {
    while (this.line[this.at] === SPACE || this.line[this.at] === TAB) this.at += 1;
  }

  /** Accepts more than the grammar does, because keywords and folder names often contain forbidden characters. */
  #atom(): string {
    const start = this.at;
    for (;;) {
      const byte = this.line[this.at];
      if (byte === undefined || byte <= SPACE || byte === OPEN || byte === CLOSE) break;
      if (byte === QUOTE || byte === 0x7f) throw new MalformedResponse('a quote within an atom');
      this.at += 1;
    }
    const next = this.line[this.at];
    if (next !== undefined && next < SPACE && next !== TAB) {
      throw new MalformedResponse('a control character');
    }
    const atom = this.line.toString('utf8', start, this.at);
    if (next !== SPACE || !/^BODY\[[^\]]*$/i.test(atom)) return atom;
    // A section with a list of fields (RFC 9051: section-msgtext).
    const end = this.line.indexOf(']', this.at, 'latin1');
    if (end < 0) throw new MalformedResponse('an unclosed section');
    this.at = end + 1;
    return this.line.toString('utf8', start, this.at);
  }

  #quoted(): Buffer {
    let start = this.at + 1;
    const parts: Buffer[] = [];
    for (let at = start; ; at += 1) {
      const byte = this.line[at];
      if (byte === undefined) throw new MalformedResponse('an unclosed quoted string');
      if (byte === QUOTE) {
        this.at = at + 1;
        const last = this.line.subarray(start, at);
        return parts.length === 0 ? last : Buffer.concat([...parts, last]);
      }
      if (byte !== BACKSLASH) continue;
      parts.push(this.line.subarray(start, at));
      at += 1;
      start = at;
    }
  }

  #nextLiteral(): Buffer {
    const end = this.line.indexOf('}', this.at, 'latin1');
    const literal = this.literals[this.#literal];
    const announced = /^~?\{(\d{1,20})$/.exec(
      end < 0 ? '' : this.line.toString('latin1', this.at, Math.min(end, this.at + 32)),
    );
    const isAtLineEnd = this.line[end + 1] === CR ? this.line[end + 2] : this.line[end + 1];
    if (announced === null || isAtLineEnd !== 0x0a || literal?.length !== Number(announced[1])) {
      throw new MalformedResponse('a brace that announces no literal');
    }
    this.#literal += 1;
    this.at = end + (this.line[end + 1] === CR ? 3 : 2);
    return literal;
  }
}

/** Parses a number of 32 bits. Returns null for anything else. */
export function uint32(value: Value | undefined): number | null {
  if (typeof value !== 'string' || !/^\d{1,10}$/.test(value)) return null;
  const number = Number(value);
  return number <= MAX_UINT32 ? number : null;
}

/** Parses a decimal number of up to 63 bits (RFC 7162: mod-sequence-value) as a string without leading zeros. */
export function decimal(value: Value | undefined): string | null {
  if (typeof value !== 'string' || !/^\d{1,20}$/.test(value)) return null;
  return value.replace(/^0+(?=\d)/, '');
}

/** Returns the bytes of a string or atom (RFC 9051: astring), or null for NIL and lists. */
export function astring(value: Value | undefined): Buffer | null {
  if (typeof value === 'string') return Buffer.from(value, 'utf8');
  return Buffer.isBuffer(value) ? value : null;
}

export function isList(value: Value | undefined): value is readonly Value[] {
  return Array.isArray(value);
}

/**
 * Parses a set of uids such as `1:3,7` (RFC 9051: sequence-set) into ascending order.
 *
 * @param count the number of uids that the server announced
 * @throws MalformedResponse if the set has another number of uids, a duplicate, or a uid outside of `lo` to `hi`
 */
export function parseUidSet(text: string, count: number, lo: number, hi: number): Uint32Array {
  const uids = new Uint32Array(count);
  let found = 0;
  for (const part of text === '' ? [] : text.split(',')) {
    const [, a = '', b = a] = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(part) ?? [];
    const first = Math.min(Number(a), Number(b));
    const last = Math.max(Number(a), Number(b));
    if (a === '' || first < 1) throw new MalformedResponse('an invalid set of uids');
    if (first < lo || last > hi) throw new MalformedResponse('a uid that was not asked for');
    if (found + last - first + 1 > count) throw new MalformedResponse('more uids than it counts');
    for (let uid = first; uid <= last; uid += 1) uids[found++] = uid;
  }
  if (found !== count) throw new MalformedResponse('fewer uids than it counts');
  return sortedUids(uids);
}

/** @throws MalformedResponse for a duplicate */
export function sortedUids(uids: Uint32Array): Uint32Array {
  uids.sort();
  for (let i = 1; i < uids.length; i += 1) {
    if (uids[i] === uids[i - 1]) throw new MalformedResponse('the same uid twice');
  }
  return uids;
}

/** Formats ascending uids as a set with ranges. */
export function formatUidSet(uids: Iterable<number>): string {
  const parts: string[] = [];
  let first = -1;
  let last = -1;
  const flush = (): void => {
    if (first >= 0) parts.push(first === last ? `${first}` : `${first}:${last}`);
  };
  for (const uid of uids) {
    if (uid !== last + 1 || first < 0) {
      flush();
      first = uid;
    }
    last = uid;
  }
  flush();
  return parts.join(',');
}

/** Formats a quoted string. Folder names in modified UTF-7 contain no characters that would need a literal. */
export function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&')}"`;
}

/** Encodes a folder name in modified UTF-7 (RFC 3501, section 5.1.3). */
export function encodeMailbox(name: string): string {
  return name.replace(/&|[^\x20-\x7e]+/g, (run) => {
    if (run === '&') return '&-';
    const utf16 = Buffer.from(run, 'utf16le').swap16().toString('base64');
    return `&${utf16.replaceAll('=', '').replaceAll('/', ',')}-`;
  });
}

/** Decodes a folder name, or returns null if encoding the result would give another name. */
export function decodeMailbox(raw: Buffer): string | null {
  if (!raw.every((byte) => byte >= 0x20 && byte <= 0x7e)) return null;
  const text = raw.toString('latin1');
  const name = text.replace(/&([^&-]*)-/g, (_run, inner: string) => {
    if (inner === '') return '&';
    const bytes = Buffer.from(inner.replaceAll(',', '/'), 'base64');
    return bytes.length % 2 === 0 ? bytes.swap16().toString('utf16le') : '\ufffd';
  });
  return encodeMailbox(name) === text && !/\p{Surrogate}/u.test(name) ? name : null;
}

/** Returns the values by upper-case name of a list such as `(UID 5 FLAGS ())`. */
export function pairs(list: readonly Value[]): Map<string, Value> {
  if (list.length % 2 !== 0) throw new MalformedResponse('a name without a value');
  const items = new Map<string, Value>();
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i];
    if (typeof name !== 'string') throw new MalformedResponse('a value without a name');
    items.set(name.toUpperCase(), list[i + 1] ?? null);
  }
  return items;
}

/** Returns an id of RFC 8474, which is sent in parentheses. */
export function objectId(value: Value | undefined): string | null {
  const [id] = isList(value) ? value : [];
  return typeof id === 'string' && /^[\w-]{1,255}$/.test(id) ? id : null;
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
const DATE_TIME = /^ ?(\d{1,2})-([A-Za-z]{3})-(\d{4}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)$/;

/** Parses an IMAP date-time (RFC 9051, section 9) into ISO 8601 in UTC. Returns null for an impossible date. */
export function parseDateTime(value: Value | undefined): string | null {
  const match = DATE_TIME.exec(astring(value)?.toString('latin1') ?? '');
  if (match === null) return null;
  const [, day, name = '', year, hour, minute, second, sign, zoneHours, zoneMinutes] = match;
  const month = MONTHS.findIndex((one) => one.toLowerCase() === name.toLowerCase());
  if (month < 0) return null;
  const local = Date.UTC(
    Number(year),
    month,
    Number(day),
    Number(hour),
    Number(minute),
    Number(second),
  );
  const offset = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000;
  const time = new Date(local + (sign === '-' ? offset : -offset));
  return Number.isNaN(time.getTime()) ? null : time.toISOString().replace('.000Z', 'Z');
}

/** Formats a date-time for APPEND (RFC 9051: date-time) in UTC, such as ` 1-Feb-1994 21:52:25 +0000`. */
export function formatDateTime(date: Date): string {
  const day = String(date.getUTCDate()).padStart(2);
  const time = date.toISOString().slice(11, 19);
  return `${day}-${MONTHS[date.getUTCMonth()]}-${date.getUTCFullYear()} ${time} +0000`;
}

/** Formats a day for SEARCH (RFC 9051: date), such as `1-Feb-1994`. @param day YYYY-MM-DD */
export function formatDay(day: string): string {
  const [year, month, date] = day.split('-').map(Number);
  return `${date}-${MONTHS[(month ?? 1) - 1]}-${year}`;
}
