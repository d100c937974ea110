import { closeSync, openSync, readSync } from 'node:fs';
import { serviceError } from '../../errors/service.ts';
import { parseHeaderDate } from '../message/header-date.ts';
import { receivedFromSource } from '../message/listing-record.ts';
import type { FileRange, SourceBlock } from '../store/source-block.ts';
import { readRange } from './file-block.ts';

const CHUNK_BYTES = 1 << 20;
const LF = 10;
const CR = 13;
const FROM_LINE = Buffer.from('From ');
const GREATER = 62;

/** Where the messages of an mbox lie, and how many of their lines carry a quoting `>` that comes off. */
interface MboxIndex {
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly quotedLines: readonly number[];
  /** Dates of the "From " lines, NaN where there is none. */
  readonly received: readonly number[];
}

/**
 * The messages of an mbox file. Read as mboxrd: one `>` comes off every line of `>`s followed by "From ",
 * which is right for mboxo files too, but for lines that were `>From ` before they were quoted.
 */
export class MboxBlock implements SourceBlock {
  readonly #path: string;
  readonly #index: MboxIndex;
  readonly #received: Float64Array;

  constructor(path: string) {
    this.#path = path;
    this.#index = readMboxIndex(path);
    this.#received = Float64Array.from(this.#index.received);
  }

  get count(): number {
    return this.#index.starts.length;
  }

  size(number: number): number {
    return this.#range(number).length - (this.#index.quotedLines[number] ?? 0);
  }

  read(number: number): Buffer {
    const bytes = readRange(this.#range(number), Number.POSITIVE_INFINITY, false);
    return (this.#index.quotedLines[number] ?? 0) > 0 ? unquoted(bytes) : bytes;
  }

  received(number: number): number {
    const known = this.#received[number] ?? 0;
    if (!Number.isNaN(known)) return known;
    const received = receivedFromSource(this.read(number));
    this.#received[number] = received;
    return received;
  }

  file(number: number): FileRange | null {
    return (this.#index.quotedLines[number] ?? 0) > 0 ? null : this.#range(number);
  }

  #range(number: number): FileRange {
    const start = this.#index.starts[number];
    const end = this.#index.ends[number];
    if (start === undefined || end === undefined) throw new RangeError(`no source ${number}`);
    return { path: this.#path, start, length: end - start };
  }
}

/**
 * Finds the messages of an mbox in one pass. A message begins at a "From " line at the start of the file or
 * behind an empty line; the empty line before the next one (or at the end of the file) belongs to the format.
 */
function readMboxIndex(path: string): MboxIndex {
  const starts: number[] = [];
  const ends: number[] = [];
  const quotedLines: number[] = [];
  const received: number[] = [];
  let afterEmpty = true;
  /** Offset of the empty line just passed. */
  let emptyAt = 0;
  let quoted = 0;
  let size = 0;
  const close = (end: number) => {
    if (starts.length === 0) return;
    ends.push(Math.max(end, starts.at(-1) ?? 0));
    quotedLines.push(quoted);
    quoted = 0;
  };
  for (const { line, offset, length } of lines(path)) {
    size = offset + length;
    if (afterEmpty && startsWith(line, FROM_LINE, 0)) {
      close(emptyAt);
      starts.push(size);
      received.push(parseHeaderDate(line.toString('latin1')) ?? Number.NaN);
      afterEmpty = false;
      // A "From " line with nothing behind it is an empty message.
      emptyAt = size;
      continue;
    }
    afterEmpty = line.length === 0 || (line.length === 1 && line[0] === CR);
    if (afterEmpty) emptyAt = offset;
    else if (line[0] === GREATER && isQuotedFrom(line)) quoted += 1;
  }
  close(afterEmpty ? emptyAt : size);
  return { starts, ends, quotedLines, received };
}

/** Lines without their LF; long ones are cut to their first 4096 bytes, which is all that is looked at. */
function* lines(
  path: string,
): Generator<{ readonly line: Buffer; readonly offset: number; readonly length: number }> {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw serviceError('sandbox-seed-unreadable', { path, reason }, error);
  }
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
      rest = unfinished.subarray(0, 4096);
      dropped += unfinished.length - rest.length;
    }
    if (rest.length + dropped > 0) {
      yield { line: rest, offset: restOffset, length: rest.length + dropped };
    }
  } finally {
    closeSync(fd);
  }
}

function startsWith(bytes: Buffer, prefix: Buffer, at: number): boolean {
  return (
    bytes.length >= at + prefix.length &&
    bytes.compare(prefix, 0, prefix.length, at, at + prefix.length) === 0
  );
}

function isQuotedFrom(line: Buffer): boolean {
  let at = 0;
  while (line[at] === GREATER) at += 1;
  return at > 0 && startsWith(line, FROM_LINE, at);
}

/** Takes one `>` off every quoted "From " line. */
function unquoted(bytes: Buffer): Buffer {
  const out = Buffer.allocUnsafe(bytes.length);
  let length = 0;
  let at = 0;
  while (at < bytes.length) {
    const lf = bytes.indexOf(LF, at);
    const stop = lf < 0 ? bytes.length : lf + 1;
    const line = bytes.subarray(at, stop);
    length += (isQuotedFrom(line) ? line.subarray(1) : line).copy(out, length);
    at = stop;
  }
  return out.subarray(0, length);
}
