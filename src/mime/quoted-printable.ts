import { Transform, type TransformCallback } from 'node:stream';

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const EQUALS = 0x3d;

/**
 * Decodes quoted-printable (RFC 2045 section 6.7) as it comes, in time and memory linear in its input. The result is
 * that of libqp, whose expression for blanks at the end of a line takes quadratic time and whose input is one string:
 * blanks before a line's end are dropped, soft line breaks go, and what is no escape stays as it is.
 */
export class QuotedPrintableDecoder extends Transform {
  readonly #decoding = new Decoding();

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#hand(this.#decoding.some(chunk));
    done();
  }

  override _flush(done: TransformCallback): void {
    this.#hand(this.#decoding.rest());
    done();
  }

  #hand(bytes: Buffer): void {
    if (bytes.length > 0) this.push(bytes);
  }
}

/** Decodes quoted-printable that is there as a whole. */
export function decodeQuotedPrintable(text: Buffer): Buffer {
  const decoding = new Decoding();
  const bytes = decoding.some(text);
  const rest = decoding.rest();
  return rest.length === 0 ? bytes : Buffer.concat([bytes, rest]);
}

class Decoding {
  /** An equals sign that may begin a soft line break: what comes before the line's end decides. */
  #equals = false;
  /** A carriage return behind that equals sign. */
  #return = false;
  /** Blanks that go if the line ends behind them. */
  #blanks: Buffer[] = [];
  /** The beginning of an escape: an equals sign, and its first digit. */
  readonly #escape: number[] = [];
  #out = Buffer.alloc(0);
  #length = 0;

  some(chunk: Buffer): Buffer {
    this.#decode(chunk);
    return this.#taken();
  }

  rest(): Buffer {
    // Behind an equals sign, the end of the text is a soft line break as well.
    this.#room(8);
    this.#keepReturn();
    this.#release();
    return this.#taken();
  }

  #decode(chunk: Buffer): void {
    this.#room(chunk.length);
    let at = 0;
    while (at < chunk.length) {
      if (!this.#holds) at = this.#plain(chunk, at);
      const byte = chunk[at];
      if (byte === undefined) return;
      if (byte === SPACE || byte === TAB) {
        const start = at;
        while (chunk[at] === SPACE || chunk[at] === TAB) at++;
        this.#blanks.push(Buffer.from(chunk.subarray(start, at)));
        continue;
      }
      at++;
      if (byte !== LF) this.#keepReturn();
      if (byte === CR) {
        this.#blanks = [];
        if (this.#equals) this.#return = true;
        else this.#emit(CR);
      } else if (byte === LF) {
        this.#blanks = [];
        if (!this.#equals) this.#emit(LF);
        this.#equals = false;
        this.#return = false;
      } else {
        this.#keepBlanks();
        if (byte === EQUALS) this.#equals = true;
        else this.#emit(byte);
      }
    }
  }

  /** True while a decision hangs on bytes to come. */
  get #holds(): boolean {
    return this.#equals || this.#return || this.#blanks.length > 0 || this.#escape.length > 0;
  }

  /** Writes text and escapes as far as nothing has to be held back; returns where that ends. */
  #plain(chunk: Buffer, from: number): number {
    // Blanks held back from earlier pieces may have filled the room of this one.
    if (this.#out.length - this.#length < chunk.length - from) this.#room(chunk.length - from);
    const out = this.#out;
    let length = this.#length;
    let at = from;
    for (; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      if (byte === EQUALS) {
        const next = chunk[at + 1] ?? 0;
        const high = hexDigit(next);
        const low = hexDigit(chunk[at + 2] ?? 0);
        if (high >= 0 && low >= 0) {
          out[length++] = high * 16 + low;
          at += 2;
        } else if (next === LF) at += 1;
        else if (next === CR && chunk[at + 2] === LF) at += 2;
        else break;
      } else if (byte === SPACE || byte === TAB) {
        const start = at;
        while (chunk[at + 1] === SPACE || chunk[at + 1] === TAB) at++;
        const next = chunk[at + 1];
        if (next === undefined) {
          at = start;
          break;
        }
        if (next === CR || next === LF) continue;
        for (let blank = start; blank <= at; blank++) out[length++] = chunk[blank] ?? 0;
      } else out[length++] = byte;
    }
    this.#length = length;
    return at;
  }

  /** A lone carriage return ends no line for the equals sign before it. */
  #keepReturn(): void {
    if (!this.#return) return;
    this.#return = false;
    this.#equals = false;
    this.#emit(EQUALS);
    this.#emit(CR);
  }

  /** The line has not ended: what might have gone stays. */
  #keepBlanks(): void {
    if (this.#equals) this.#emit(EQUALS);
    this.#equals = false;
    for (const blanks of this.#blanks) for (const blank of blanks) this.#emit(blank);
    this.#blanks = [];
  }

  /** Takes a byte of the text without soft line breaks, and undoes escapes. */
  #emit(byte: number): void {
    const [, first] = this.#escape;
    const value = hexDigit(byte);
    if (this.#escape.length > 0 && value >= 0) {
      if (first === undefined) {
        this.#escape.push(byte);
        return;
      }
      this.#escape.length = 0;
      this.#write(hexDigit(first) * 16 + value);
      return;
    }
    this.#release();
    if (byte === EQUALS) this.#escape.push(byte);
    else this.#write(byte);
  }

  /** What began as an escape is none. */
  #release(): void {
    for (const byte of this.#escape) this.#write(byte);
    this.#escape.length = 0;
  }

  #write(byte: number): void {
    if (this.#length === this.#out.length) this.#room(this.#out.length);
    this.#out[this.#length++] = byte;
  }

  /** Room for as many bytes beyond those held back. */
  #room(bytes: number): void {
    const larger = Buffer.allocUnsafe(this.#length + bytes + 64);
    this.#out.copy(larger, 0, 0, this.#length);
    this.#out = larger;
  }

  #taken(): Buffer {
    const taken = this.#out.subarray(0, this.#length);
    this.#out = Buffer.alloc(0);
    this.#length = 0;
    return taken;
  }
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
