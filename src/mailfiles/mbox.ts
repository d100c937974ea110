import { closeSync, readSync } from 'node:fs';
import type { FilePath } from '../disk/byte-path.ts';
import { openRegularFile } from '../disk/regular-file.ts';

/**
 * The mboxrd form of mbox: a message begins with a "From " line at the start of the file or behind an empty line,
 * and a `>` was put before each line of it that is any number of `>`s followed by "From ". Reading an mboxo file
 * as mboxrd is right too, but for lines that were `>From ` before anybody quoted them.
 */

/** Where a message of an mbox lies: the bytes from `start` to `end`, "From " line and closing empty line left out. */
export interface MboxRange {
  readonly start: number;
  readonly end: number;
  /** Lines in it that carry a quoting `>`. */
  readonly quotedLines: number;
  /** The "From " line, cut to its first 4096 bytes. */
  readonly fromLine: string;
}

const CHUNK_BYTES = 1 << 20;
/** Only this many bytes of a long line are checked. */
const LINE_BYTES = 4096;
const LF = 10;
const CR = 13;
const GREATER = 62;
const FROM = Buffer.from('From ');

/**
 * Finds the messages of an mbox in one pass, one after the other; memory does not depend on its size. The empty
 * line before the next "From " line, or at the end of the file, belongs to the format.
 *
 * @param onStray hears, once, how many bytes lie before the first "From " line and so in no message; of empty lines
 *   it does not
 * @throws the system's error where the file cannot be read
 */
export function* mboxRanges(
  path: FilePath,
  onStray: (bytes: number) => void = () => {},
): Generator<MboxRange, void, undefined> {
  let open: { readonly start: number; readonly fromLine: string } | undefined;
  let afterEmpty = true;
  /** Offset of the empty line just passed. */
  let emptyAt = 0;
  let quotedLines = 0;
  let size = 0;
  let stray = false;
  for (const { line, offset, length } of lines(path)) {
    size = offset + length;
    if (afterEmpty && startsWith(line, FROM, 0)) {
      if (open === undefined && stray) onStray(offset);
      if (open !== undefined) yield { ...open, end: Math.max(emptyAt, open.start), quotedLines };
      open = { start: size, fromLine: line.toString('latin1') };
      quotedLines = 0;
      afterEmpty = false;
      // A "From " line with nothing behind it is an empty message.
      emptyAt = size;
      continue;
    }
    afterEmpty = line.length === 0 || (line.length === 1 && line[0] === CR);
    if (!afterEmpty) stray = true;
    if (afterEmpty) emptyAt = offset;
    else if (line[0] === GREATER && isQuotedFrom(line)) quotedLines += 1;
  }
  if (open === undefined) {
    if (stray) onStray(size);
    return;
  }
  yield { ...open, end: Math.max(afterEmpty ? emptyAt : size, open.start), quotedLines };
}

/** Lines without their LF; long ones are cut to their beginning. */
function* lines(
  path: FilePath,
): Generator<{ readonly line: Buffer; readonly offset: number; readonly length: number }> {
  const fd = openRegularFile(path);
  try {
    let position = 0;
    let rest: Buffer = Buffer.alloc(0);
    let restOffset = 0;
    /** Bytes of the unfinished line beyond what `rest` keeps of it. */
    let dropped = 0;
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (;;) {
      const count = readSync(fd, chunk, 0, CHUNK_BYTES, position);
      if (count === 0) break;
      position += count;
      let at = 0;
      for (;;) {
        const lf = chunk.subarray(0, count).indexOf(LF, at);
        if (lf < 0) break;
        const tail = chunk.subarray(at, lf);
        const line = rest.length === 0 ? tail : Buffer.concat([rest, tail]);
        const length = rest.length + dropped + tail.length + 1;
        yield { line, offset: restOffset, length };
        restOffset += length;
        rest = Buffer.alloc(0);
        dropped = 0;
        at = lf + 1;
      }
      const unfinished = Buffer.concat([rest, chunk.subarray(at, count)]);
      rest = unfinished.subarray(0, LINE_BYTES);
      dropped += unfinished.length - rest.length;
    }
    if (rest.length + dropped > 0) {
      yield { line: rest, offset: restOffset, length: rest.length + dropped };
    }
  } finally {
    closeSync(fd);
  }
}

/** Takes one `>` off every quoted "From " line of a whole message. */
export function unquoted(bytes: Buffer): Buffer {
  const lines = new LineQuotes(-1);
  return Buffer.concat([...lines.take(bytes), ...lines.end()]);
}

/** Puts a `>` before, or takes one off, the "From " lines of a message that comes in pieces. */
export class LineQuotes {
  /** The end of the last piece that may yet turn out to be in a "From " line: at most a `>` and letters of "From ". */
  #held = Buffer.alloc(0);
  #atLineStart = true;

  /** @param change 1 to quote, -1 to unquote */
  constructor(private readonly change: 1 | -1) {}

  /** The pieces that are settled now. They may be views of `piece`. */
  *take(piece: Buffer): Generator<Buffer, void, undefined> {
    let bytes = piece;
    if (this.#held.length > 0) {
      bytes = Buffer.concat([this.#held, piece]);
      this.#held = Buffer.alloc(0);
    }
    let yielded = 0;
    let at = 0;
    while (at < bytes.length) {
      if (this.#atLineStart) {
        const kind = lineKind(bytes, at);
        if (kind === 'undecided') {
          // It does not matter which `>` is put or taken: all but the one to take are settled, however many come.
          const letters = afterQuotes(bytes, at);
          const settled = this.change === 1 ? letters : Math.max(at, letters - 1);
          if (settled > yielded) yield bytes.subarray(yielded, settled);
          this.#held = Buffer.from(bytes.subarray(settled));
          return;
        }
        if (kind === 'from' && this.change === 1) {
          yield bytes.subarray(yielded, at);
          yield QUOTE;
          yielded = at;
        } else if (kind === 'from' && bytes[at] === GREATER) {
          yield bytes.subarray(yielded, at);
          yielded = at + 1;
        }
        this.#atLineStart = false;
      }
      const lf = bytes.indexOf(LF, at);
      if (lf < 0) break;
      at = lf + 1;
      this.#atLineStart = true;
    }
    if (bytes.length > yielded) yield bytes.subarray(yielded);
  }

  /** What was held back at the end of the message. */
  *end(): Generator<Buffer, void, undefined> {
    if (this.#held.length > 0) yield this.#held;
    this.#held = Buffer.alloc(0);
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
