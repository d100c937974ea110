import type { LineShape } from './base64-lines.ts';

const LF = 10;
const CR = 13;
const PAD = 61;

/**
 * A run of base64 lines shorter than this (decoded) stays as it is: with its row in the catalog, a blob of its own would
 * cost more than it saves. Measured sealed over 5,708 messages (103 MB raw), as a share of raw: nothing split 0.424, from
 * 8 KiB 0.347, 4 KiB 0.342, 2 KiB 0.3399, 1 KiB 0.3394, 512 bytes 0.3390 with half as many blobs again.
 */
export const MIN_DECODED_BYTES = 1024;

const IS_BASE64 = new Uint8Array(256);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') {
  IS_BASE64[character.charCodeAt(0)] = 1;
}

/**
 * Where a run may start: at the beginning, and after every empty line. Looks for empty lines with native searches, so
 * that text costs next to nothing.
 */
export class RunStarts {
  readonly #window: Buffer;
  #lf = -2;
  #crlf = -2;

  constructor(window: Buffer) {
    this.#window = window;
  }

  /** The first place that is not an empty line, at the beginning of the source or of a window after an empty line. */
  first(): number {
    let at = 0;
    for (;;) {
      if (this.#window[at] === LF) at += 1;
      else if (this.#window[at] === CR && this.#window[at + 1] === LF) at += 2;
      else return at;
    }
  }

  /** The first place at or after `from` that follows an empty line, or -1. */
  after(from: number): number {
    // Empty lines may share line ends with the one found last, hence two bytes back.
    const start = Math.max(0, from - 2);
    if (this.#lf !== -1 && this.#lf < start)
      this.#lf = this.#window.indexOf('\n\n', start, 'latin1');
    if (this.#crlf !== -1 && this.#crlf < start) {
      this.#crlf = this.#window.indexOf('\n\r\n', start, 'latin1');
    }
    if (this.#lf === -1) return this.#crlf === -1 ? -1 : this.#crlf + 3;
    return this.#crlf === -1 || this.#lf < this.#crlf ? this.#lf + 2 : this.#crlf + 3;
  }
}

export interface FirstLine extends LineShape {
  /** Where the line's content ends. */
  readonly end: number;
}

/**
 * Reads the line at `start` as the first of a run. Undefined when it cannot be one; `'more'` when the window ends before
 * the line does and is not the last.
 */
export function firstLine(
  window: Buffer,
  start: number,
  final: boolean,
): FirstLine | 'more' | undefined {
  // Nearly every line of text fails within its first bytes: there is a space, a dash, a colon.
  const probe = Math.min(start + 24, window.length);
  for (let i = start; i < probe; i += 1) {
    const byte = window[i] ?? 0;
    if (IS_BASE64[byte] === 1) continue;
    if (i === start || (byte !== CR && byte !== LF && byte !== PAD)) return undefined;
    break;
  }
  const lf = window.indexOf(LF, start);
  if (lf === -1 && !final) return 'more';
  const crlf = lf > start && window[lf - 1] === CR;
  const end = lf === -1 ? window.length : crlf ? lf - 1 : lf;
  const lineLength = end - start;
  if (lineLength === 0 || lineLength % 4 !== 0) return undefined;
  return { lineLength, eol: crlf ? 'crlf' : 'lf', end };
}

export interface Extent {
  /** Where the content of the last line of full length ends. */
  readonly full: number;
  /** Where the content of a shorter last line ends; equals `full` when there is none. */
  readonly end: number;
  /** False when the window ended first: the run may go on. */
  readonly closed: boolean;
}

/**
 * How far lines of the run's shape go on. Only line ends and lengths are looked at, one step a line.
 *
 * @param from where the content of the last line known to belong to the run ends
 */
export function extendRun(window: Buffer, from: number, shape: LineShape, final: boolean): Extent {
  const crlf = shape.eol === 'crlf';
  const eol = crlf ? 2 : 1;
  const step = shape.lineLength + eol;
  const length = window.length;
  let full = from;
  if (crlf) {
    while (
      full + step + 2 <= length &&
      window[full] === CR &&
      window[full + 1] === LF &&
      window[full + step] === CR &&
      window[full + step + 1] === LF
    ) {
      full += step;
    }
  } else {
    while (full + step < length && window[full] === LF && window[full + step] === LF) full += step;
  }
  if (full + step + eol > length && !final) return { full, end: full, closed: false };
  return { full, end: lastLineEnd(window, full, shape), closed: true };
}

/** The last line may be shorter, may have padding, and may be followed by anything that ends a line. */
function lastLineEnd(window: Buffer, full: number, shape: LineShape): number {
  const crlf = shape.eol === 'crlf';
  if (crlf ? window[full] !== CR || window[full + 1] !== LF : window[full] !== LF) return full;
  const start = full + (crlf ? 2 : 1);
  const limit = Math.min(start + shape.lineLength, window.length);
  let end = start;
  while (end < limit && IS_BASE64[window[end] ?? 0] === 1) end += 1;
  for (let pads = 0; pads < 2 && end < limit && window[end] === PAD; pads += 1) end += 1;
  const next = window[end];
  const ended = end === window.length || next === LF || (next === CR && window[end + 1] === LF);
  return ended && (end - start) % 4 === 0 ? end : full;
}

export interface Decoded {
  readonly bytes: Buffer;
  /** Where the valid part ends (the content of its last line); `start` when nothing is valid. */
  readonly end: number;
}

/**
 * Decodes the lines from `start` (the first content byte of a line) to `end` (the last of another). Everything up to the
 * returned end is base64 that encodes again to the very same characters: alphabet only, padding only at the very end and
 * its unused bits zero. What follows the first line that is not is left out.
 */
export function decodeLines(window: Buffer, start: number, end: number, shape: LineShape): Decoded {
  if (end <= start) return { bytes: Buffer.alloc(0), end: start };
  const bytes = Buffer.from(window.toString('latin1', start, end), 'base64');
  const pads = window[end - 1] !== PAD ? 0 : window[end - 2] !== PAD ? 1 : 2;
  const eol = shape.eol === 'crlf' ? 2 : 1;
  const breaks = Math.floor((end - start - 1) / (shape.lineLength + eol));
  const characters = end - start - breaks * eol;
  // Node's decoder skips what is not base64 and takes the URL-safe alphabet too, so every stray byte shows as a missing
  // one, but for `-` and `_`.
  const whole =
    bytes.length === (characters / 4) * 3 - pads &&
    !hasUrlSafe(window, start, end) &&
    (pads === 0 || isCanonicalTail(bytes, pads, window, end));
  return whole ? { bytes, end } : decodeValidLines(window, start, end, shape);
}

function hasUrlSafe(window: Buffer, start: number, end: number): boolean {
  const lines = window.subarray(start, end);
  return lines.includes(0x2d) || lines.includes(0x5f);
}

/** `ZWh=` decodes like `ZWg=`: the bits that padding leaves over must be zero, or the text would not come back. */
function isCanonicalTail(bytes: Buffer, pads: number, window: Buffer, end: number): boolean {
  const tail = bytes.toString('base64', bytes.length - (3 - pads), bytes.length);
  return tail === window.toString('latin1', end - 4, end);
}

/** The slow way, for runs that stop in the middle: takes whole lines for as long as each is valid by itself. */
function decodeValidLines(window: Buffer, start: number, end: number, shape: LineShape): Decoded {
  const step = shape.lineLength + (shape.eol === 'crlf' ? 2 : 1);
  let valid = start;
  for (let line = start; line < end; line += step) {
    const lineEnd = Math.min(line + shape.lineLength, end);
    const text = window.toString('latin1', line, lineEnd);
    const bytes = Buffer.from(text, 'base64');
    if (bytes.toString('base64', 0, bytes.length) !== text) break;
    valid = lineEnd;
    if (window[lineEnd - 1] === PAD) break;
  }
  if (valid === start) return { bytes: Buffer.alloc(0), end: start };
  return { bytes: Buffer.from(window.toString('latin1', start, valid), 'base64'), end: valid };
}
