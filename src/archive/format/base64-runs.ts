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
 * A run is looked for at every so many bytes only. It is longer than a step and a probe, so none is stepped over:
 * 1,024 bytes are 1,368 characters, line ends apart.
 */
const STEP_BYTES = 1024;
const PROBE_BYTES = 64;
/** Bytes at the end of a window in which a run may begin that no probe has met. */
export const UNPROBED_BYTES = 2048;

/**
 * Finds where runs may start: behind an empty line, with nothing but base64 and line ends at a probe further on. Text
 * costs next to nothing, since nearly every probe of it ends at a space; and no byte is searched for empty lines twice,
 * so a source that is made to look like base64 costs no more than its length.
 */
export class RunFinder {
  #probe = 0;
  /** Empty lines before this are known. */
  #searched = 0;
  /** Behind the last empty line known; -1 when there is none, or when it was handed out. */
  #start: number;

  /** @param startsHere whether the window begins behind an empty line, or the source with it */
  constructor(
    private readonly window: Buffer,
    startsHere: boolean,
  ) {
    this.#start = startsHere ? behindEmptyLines(window) : -1;
  }

  /** The next possible start at or after `from`, which lies behind those handed out before; -1 when there is none. */
  next(from: number): number {
    const window = this.window;
    for (
      let at = Math.max(this.#probe, from);
      at + PROBE_BYTES <= window.length;
      at += STEP_BYTES
    ) {
      if (!isBase64(window, at, at + PROBE_BYTES)) continue;
      this.#search(Math.max(0, this.#searched - 2), at);
      const start = this.#start;
      this.#start = -1;
      this.#probe = at + STEP_BYTES;
      if (start >= from) return start;
    }
    this.#probe = window.length;
    return -1;
  }

  #search(from: number, to: number): void {
    if (to <= this.#searched) return;
    const stretch = this.window.subarray(from, to);
    const lf = stretch.lastIndexOf('\n\n', undefined, 'latin1');
    const crlf = stretch.lastIndexOf('\n\r\n', undefined, 'latin1');
    this.#searched = to;
    if (lf === -1 && crlf === -1) return;
    this.#start = from + Math.max(lf === -1 ? 0 : lf + 2, crlf === -1 ? 0 : crlf + 3);
  }
}

function isBase64(window: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const byte = window[at] ?? 0;
    if (IS_BASE64[byte] !== 1 && byte !== LF && byte !== CR) return false;
  }
  return true;
}

function behindEmptyLines(window: Buffer): number {
  for (let at = 0; ; ) {
    if (window[at] === LF) at += 1;
    else if (window[at] === CR && window[at + 1] === LF) at += 2;
    else return at;
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

/** What was read of a run. */
export interface ReadRun {
  /** The decoded bytes, in order. */
  readonly pieces: readonly Buffer[];
  /** Their number. */
  readonly length: number;
  /** Where the content of the last line ends. */
  readonly end: number;
  /** False when the window ended first: the run may go on. */
  readonly closed: boolean;
}

/** A run is decoded in growing pieces, so that one which soon stops costs little. */
const FIRST_PIECE_BYTES = 8 * 1024;
const LARGEST_PIECE_BYTES = 1024 * 1024;

/** Reads the run whose first line begins at `start`. */
export function readRun(window: Buffer, start: number, first: FirstLine, final: boolean): ReadRun {
  return decodeRun(window, first, start, first.end, final);
}

/** Reads on in a run that the window before this one left open: the window begins at the line end behind its last line. */
export function continueRun(window: Buffer, shape: LineShape, final: boolean): ReadRun {
  return decodeRun(window, shape, shape.eol === 'crlf' ? 2 : 1, 0, final);
}

/**
 * @param start where the content of the first line that is not decoded yet begins
 * @param known where the content of the last line ends that is known to have the run's shape
 */
function decodeRun(
  window: Buffer,
  shape: LineShape,
  start: number,
  known: number,
  final: boolean,
): ReadRun {
  const eol = shape.eol === 'crlf' ? 2 : 1;
  const pieces: Buffer[] = [];
  let length = 0;
  let line = start;
  let full = known;
  let end = Math.min(start, known);
  for (let reach = FIRST_PIECE_BYTES; ; reach = Math.min(reach * 2, LARGEST_PIECE_BYTES)) {
    const limit = Math.min(window.length, full + Math.max(reach, shape.lineLength + 2 * eol));
    const atEnd = limit === window.length;
    const lines = fullLines(window, full, shape, limit);
    const closed = lines.stopped || (atEnd && final);
    full = closed ? lastLineEnd(window, lines.full, shape) : lines.full;
    if (full > line) {
      const decoded = decodeLines(window, line, full, shape);
      if (decoded.bytes.length > 0) {
        pieces.push(decoded.bytes);
        length += decoded.bytes.length;
        end = decoded.end;
      }
      if (decoded.end < full || window[full - 1] === PAD)
        return { pieces, length, end, closed: true };
      line = full + eol;
    }
    if (closed || atEnd) return { pieces, length, end, closed };
  }
}

/** Returns how far lines of full length continue before `limit`. Checks only line ends, in one step per line. */
function fullLines(
  window: Buffer,
  from: number,
  shape: LineShape,
  limit: number,
): { readonly full: number; readonly stopped: boolean } {
  const crlf = shape.eol === 'crlf';
  const eol = crlf ? 2 : 1;
  const step = shape.lineLength + eol;
  const last = limit - step - eol;
  let full = from;
  if (crlf) {
    while (
      full <= last &&
      window[full] === CR &&
      window[full + 1] === LF &&
      window[full + step] === CR &&
      window[full + step + 1] === LF
    ) {
      full += step;
    }
  } else {
    while (full <= last && window[full] === LF && window[full + step] === LF) full += step;
  }
  return { full, stopped: full <= last };
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

interface Decoded {
  readonly bytes: Buffer;
  /** Where the valid part ends (the content of its last line); `start` when nothing is valid. */
  readonly end: number;
}

/**
 * Decodes the lines from `start` (the first content byte of a line) to `end` (the last of another). Everything up to the
 * returned end is base64 that encodes again to the very same characters: alphabet only, padding only at the very end and
 * its unused bits zero. What follows the first line that is not is left out.
 */
function decodeLines(window: Buffer, start: number, end: number, shape: LineShape): Decoded {
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
