import { createHash, hash as digest, type Hash } from 'node:crypto';
import type { BlobHash, MessageId } from '../core/types.ts';
import { type FileLayer, type LogFile, readFully } from './file-system.ts';
import {
  BLOB_BYTES,
  DECODED_CHUNK_BYTES,
  LineEncoder,
  type LineShape,
  type RecipePart,
  readMessagePayload,
  rebuildSource,
  recipeLine,
} from './payload.ts';

const LF = 10;
const CR = 13;
const PAD = 61;

/**
 * Minimum decoded size of a base64 run that becomes a blob. A smaller blob's catalog row would cost more than the blob
 * saves. Size of 5,708 sealed messages as a fraction of their 103 MB: 0.424 with no splitting, 0.347 from 8 KiB, 0.342
 * from 4 KiB, 0.3399 from 2 KiB, 0.3394 from 1 KiB, 0.3390 from 512 bytes with half as many blobs again.
 */
const MIN_DECODED_BYTES = 1024;

const IS_BASE64 = new Uint8Array(256);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') {
  IS_BASE64[character.charCodeAt(0)] = 1;
}

/** Distance between probes. Every run is longer than a step plus a probe, since 1,024 bytes are 1,368 characters. */
const STEP_BYTES = 1024;
const PROBE_BYTES = 64;
/** A run that starts this close to the end of a window may not have been probed. */
const UNPROBED_BYTES = 2048;

/**
 * Finds possible starts of runs: positions after an empty line and before a probe of only base64 and line endings. In
 * ordinary text, nearly every probe stops at a space. No byte is searched twice for empty lines, so even a source
 * crafted to look like base64 takes only linear time.
 */
class RunFinder {
  #probe = 0;
  #searched = 0;
  /** End of the last empty line found, or -1 if there is none or it has been returned. */
  #start: number;

  /** @param startsHere whether the window starts the source or follows an empty line */
  constructor(
    private readonly window: Buffer,
    startsHere: boolean,
  ) {
    this.#start = startsHere ? skipEmptyLines(window) : -1;
  }

  /** Returns the next possible start at or after `from`, or -1. Never returns the same start twice. */
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

function skipEmptyLines(window: Buffer): number {
  for (let at = 0; ; ) {
    if (window[at] === LF) at += 1;
    else if (window[at] === CR && window[at + 1] === LF) at += 2;
    else return at;
  }
}

interface FirstLine extends LineShape {
  readonly end: number;
}

/** Returns undefined if no run starts here, or `'more'` if the line continues in the next window. */
function firstLine(window: Buffer, start: number, final: boolean): FirstLine | 'more' | undefined {
  // Nearly every line of text fails within its first bytes: at a space, dash or colon.
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

/** The first piece of a run is small and later ones grow, so that a short run costs little. */
const FIRST_PIECE_BYTES = 8 * 1024;
const MAX_PIECE_BYTES = 1024 * 1024;

/**
 * Decodes a run up to its end or the end of the window.
 *
 * @param start first content byte of the first line to decode
 * @param known end of the content of the last line known to match the run's shape
 * @returns also the end of the last line's content, and whether the run is closed or may continue in the next window
 */
function decodeRun(window: Buffer, shape: LineShape, start: number, known: number, final: boolean) {
  const eol = shape.eol === 'crlf' ? 2 : 1;
  const pieces: Buffer[] = [];
  let length = 0;
  let line = start;
  let full = known;
  let end = Math.min(start, known);
  for (let size = FIRST_PIECE_BYTES; ; size = Math.min(size * 2, MAX_PIECE_BYTES)) {
    const limit = Math.min(window.length, full + Math.max(size, shape.lineLength + 2 * eol));
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

/** Returns the end of the full-length lines before `limit`. Checks only line endings, in one step per line. */
function fullLines(window: Buffer, from: number, shape: LineShape, limit: number) {
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

/** Returns the end of the last line, which can be shorter and padded, with any line ending. */
function lastLineEnd(window: Buffer, full: number, shape: LineShape): number {
  const crlf = shape.eol === 'crlf';
  if (crlf ? window[full] !== CR || window[full + 1] !== LF : window[full] !== LF) return full;
  const start = full + (crlf ? 2 : 1);
  const limit = Math.min(start + shape.lineLength, window.length);
  let end = start;
  while (end < limit && IS_BASE64[window[end] ?? 0] === 1) end += 1;
  for (let pads = 0; pads < 2 && end < limit && window[end] === PAD; pads += 1) end += 1;
  const next = window[end];
  const hasEol = end === window.length || next === LF || (next === CR && window[end + 1] === LF);
  return hasEol && (end - start) % 4 === 0 ? end : full;
}

interface Decoding {
  readonly bytes: Buffer;
  /** End of the last valid line's content, or `start` if no line is valid. */
  readonly end: number;
}

/**
 * Decodes the lines from `start` to `end`, up to the first that would not encode back to the same characters. A valid
 * line has only base64, padding only at the end, and no unused bits set to 1.
 */
function decodeLines(window: Buffer, start: number, end: number, shape: LineShape): Decoding {
  if (end <= start) return { bytes: Buffer.alloc(0), end: start };
  const bytes = Buffer.from(window.toString('latin1', start, end), 'base64');
  const pads = window[end - 1] !== PAD ? 0 : window[end - 2] !== PAD ? 1 : 2;
  const eol = shape.eol === 'crlf' ? 2 : 1;
  const breaks = Math.floor((end - start - 1) / (shape.lineLength + eol));
  const characters = end - start - breaks * eol;
  // Node's decoder skips invalid characters, which the length reveals, and accepts the URL-safe `-` and `_`.
  const isFull =
    bytes.length === (characters / 4) * 3 - pads &&
    !hasUrlSafe(window, start, end) &&
    (pads === 0 || isCanonicalTail(bytes, pads, window, end));
  return isFull ? { bytes, end } : decodeValidLines(window, start, end, shape);
}

function hasUrlSafe(window: Buffer, start: number, end: number): boolean {
  const lines = window.subarray(start, end);
  return lines.includes(0x2d) || lines.includes(0x5f);
}

/** Reports whether the unused bits before padding are 0. `ZWh=` decodes like `ZWg=` but would not encode back. */
function isCanonicalTail(bytes: Buffer, pads: number, window: Buffer, end: number): boolean {
  const tail = bytes.toString('base64', bytes.length - (3 - pads), bytes.length);
  return tail === window.toString('latin1', end - 4, end);
}

/** The slow path for runs that stop midway. Takes whole lines until one is invalid. */
function decodeValidLines(window: Buffer, start: number, end: number, shape: LineShape): Decoding {
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

/** Maximum number of literal bytes in a message's own record. Any other literals become blobs. */
const INLINE_LITERAL_BYTES = 1024 * 1024;

interface RecipeSink {
  /** Receives a blob, which may already be stored. Its bytes must not change afterwards. */
  blob(hash: BlobHash, bytes: Buffer): void;
  /** Receives every byte of the source in order, as rebuilt from the stored parts. */
  rebuilt?(bytes: Buffer): void;
}

/**
 * Builds the parts of a recipe from the pieces of a source. Keeps references to pieces until their part is complete.
 */
class RecipeBuilder {
  readonly #parts: RecipePart[] = [];
  readonly #inline: Buffer[] = [];
  #inlineBytes = 0;
  #literal: Buffer[] = [];
  #literalBytes = 0;
  #literalChunks: Chunker | undefined;
  #run: { readonly shape: LineShape; readonly chunks: Chunker } | undefined;

  constructor(private readonly sink: RecipeSink) {}

  literal(bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (this.#literalChunks === undefined) {
      this.#literal.push(bytes);
      this.#literalBytes += bytes.length;
      if (this.#inlineBytes + this.#literalBytes <= INLINE_LITERAL_BYTES) return;
      this.#literalChunks = new Chunker(BLOB_BYTES, this.sink, (chunk) => [chunk]);
      for (const piece of this.#literal) this.#literalChunks.push(piece);
      this.#literal = [];
      return;
    }
    this.#literalBytes += bytes.length;
    this.#literalChunks.push(bytes);
  }

  beginRun(shape: LineShape): void {
    this.#endLiteral();
    const encoder = new LineEncoder(shape);
    const encode = (chunk: Buffer) => encoder.pieces(chunk);
    this.#run = { shape, chunks: new Chunker(DECODED_CHUNK_BYTES, this.sink, encode) };
  }

  run(decoded: Buffer): void {
    this.#run?.chunks.push(decoded);
  }

  endRun(): void {
    if (this.#run === undefined) return;
    const { shape, chunks } = this.#run;
    const { length, hash, names } = chunks.end();
    this.#parts.push(
      names.length === 1
        ? ['b64', shape.lineLength, shape.eol, length, hash]
        : ['b64', shape.lineLength, shape.eol, length, hash, names],
    );
    this.#run = undefined;
  }

  finish(): { readonly parts: readonly RecipePart[]; readonly literal: readonly Buffer[] } {
    this.#endLiteral();
    return { parts: this.#parts, literal: this.#inline };
  }

  #endLiteral(): void {
    if (this.#literalBytes === 0) return;
    if (this.#literalChunks === undefined) {
      this.#parts.push(['raw', this.#literalBytes]);
      for (const piece of this.#literal) {
        this.#inline.push(piece);
        this.sink.rebuilt?.(piece);
      }
      this.#inlineBytes += this.#literalBytes;
      this.#literal = [];
    } else {
      const { length, hash, names } = this.#literalChunks.end();
      this.#parts.push(names.length === 1 ? ['blob', length, hash] : ['blob', length, hash, names]);
      this.#literalChunks = undefined;
    }
    this.#literalBytes = 0;
  }
}

class Chunker {
  readonly #names: BlobHash[] = [];
  #pieces: Buffer[] = [];
  #buffered = 0;
  #length = 0;
  #first: Buffer | undefined;
  #whole: Hash | undefined;

  constructor(
    private readonly size: number,
    private readonly sink: RecipeSink,
    private readonly asSource: (chunk: Buffer) => Iterable<Buffer>,
  ) {}

  push(bytes: Buffer): void {
    let from = 0;
    while (from < bytes.length) {
      const to = Math.min(bytes.length, from + this.size - this.#buffered);
      this.#pieces.push(bytes.subarray(from, to));
      this.#buffered += to - from;
      from = to;
      if (this.#buffered === this.size) this.#emit();
    }
  }

  end(): { readonly length: number; readonly hash: BlobHash; readonly names: readonly BlobHash[] } {
    if (this.#buffered > 0) this.#emit();
    const [only = digest('sha256', Buffer.alloc(0), 'hex')] = this.#names;
    return {
      length: this.#length,
      hash: this.#whole === undefined ? only : this.#whole.digest('hex'),
      names: this.#names,
    };
  }

  #emit(): void {
    const [only] = this.#pieces;
    const chunk =
      this.#pieces.length === 1 && only !== undefined ? only : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#buffered = 0;
    this.#length += chunk.length;
    const name = digest('sha256', chunk, 'hex');
    this.#names.push(name);
    // Most streams consist of one chunk, whose hash is that of the whole.
    if (this.#first === undefined) {
      this.#first = chunk;
    } else {
      this.#whole ??= createHash('sha256').update(this.#first);
      this.#whole.update(chunk);
    }
    this.sink.blob(name, chunk);
    if (this.sink.rebuilt === undefined) return;
    for (const piece of this.asSource(chunk)) this.sink.rebuilt(piece);
  }
}

/**
 * Splits a raw source in memory into its record's payload and the blobs that the payload refers to. Runs of base64
 * lines become decoded blobs; all other bytes stay literal. Ignores MIME, so nested, truncated or mislabelled messages
 * make no difference. Rebuilds the source to verify the result.
 */
export function splitSource(raw: Buffer, id: MessageId) {
  const decoded = splitInMemory(raw, id, true);
  // A safeguard that should never run: it makes a splitter bug cost space rather than a message.
  return rebuildsTo(decoded.payload, decoded.blobs, raw) ? decoded : splitInMemory(raw, id, false);
}

function splitInMemory(raw: Buffer, id: MessageId, decode: boolean) {
  const blobs = new Map<BlobHash, Buffer>();
  const builder = new RecipeBuilder({ blob: (hash, bytes) => blobs.set(hash, bytes) });
  new WindowSplitter(builder, decode ? raw.length : undefined, false).take(raw, true);
  return { payload: messagePayload(builder, id, raw.length), blobs };
}

function messagePayload(builder: RecipeBuilder, id: MessageId, size: number): Buffer {
  const { parts, literal } = builder.finish();
  const line = Buffer.from(recipeLine({ parts, sha256: id, size }), 'latin1');
  return Buffer.concat([line, ...literal]);
}

function rebuildsTo(payload: Buffer, blobs: ReadonlyMap<BlobHash, Buffer>, raw: Buffer): boolean {
  if (blobs.size === 0) return true;
  const message = readMessagePayload(payload);
  if (message === undefined) return false;
  const source = rebuildSource(message, (hash) => blobs.get(hash) ?? Buffer.alloc(0));
  return source.equals(raw);
}

export interface WindowSize {
  readonly bytes: number;
  /** How many bytes of a run the window must contain before the run is judged. Longer lines stay literal. */
  readonly judged: number;
}

const WINDOW: WindowSize = { bytes: 1024 * 1024, judged: 256 * 1024 };

interface FileSplitSink {
  blob(hash: BlobHash, bytes: Buffer): void;
  /** Waits until memory used by earlier blobs can be released. Called between windows. */
  drain(): Promise<void>;
}

/**
 * Splits a raw source in a file window by window, so memory use does not depend on its size. The result is the same as
 * from `splitSource`, except for lines over 256 KiB. If the rebuilt hash differs, stores the source undecoded.
 */
export async function splitSourceFile(
  files: FileLayer,
  path: string,
  sink: FileSplitSink,
  window: WindowSize = WINDOW,
) {
  const file = files.open(path, 'read');
  try {
    const decoded = await split(file, sink, window, true);
    return decoded.rebuilt === decoded.id ? decoded : await split(file, sink, window, false);
  } finally {
    file.close();
  }
}

async function split(
  file: LogFile,
  sink: FileSplitSink,
  { bytes, judged }: WindowSize,
  decode: boolean,
) {
  const sourceHash = createHash('sha256');
  const rebuilt = createHash('sha256');
  const builder = new RecipeBuilder({
    blob: (hash, blob) => sink.blob(hash, blob),
    rebuilt: (piece) => rebuilt.update(piece),
  });
  const size = file.size();
  const splitter = new WindowSplitter(builder, decode ? judged : undefined);
  const window = Buffer.allocUnsafe(Math.min(bytes, size));
  let read = 0;
  let carried = 0;
  while (read < size) {
    const got = readFully(file, window.subarray(carried), read);
    if (got === 0) throw new Error('the source became shorter while it was read');
    sourceHash.update(window.subarray(carried, carried + got));
    read += got;
    const filled = carried + got;
    const processed = splitter.take(window.subarray(0, filled), read >= size);
    window.copyWithin(0, processed, filled);
    carried = filled - processed;
    await sink.drain();
  }
  const id = sourceHash.digest('hex');
  const payload = messagePayload(builder, id, read);
  return { id, size: read, payload, rebuilt: rebuilt.digest('hex') };
}

/** Feeds the windows of a source to a builder. Undecided bytes are repeated in the next window. */
class WindowSplitter {
  /** The shape of a run that continues in the next window, which then starts with the run's next line ending. */
  #open: LineShape | undefined;
  #startsHere = true;

  /** @param judged see `WindowSize`; undefined to decode nothing */
  constructor(
    private readonly builder: RecipeBuilder,
    private readonly judged: number | undefined,
    private readonly reusesWindow = true,
  ) {}

  /** Processes a window (all of it, if final) and returns the number of bytes processed. */
  take(window: Buffer, final: boolean): number {
    let added = 0;
    if (this.#open !== undefined) {
      const run = decodeRun(window, this.#open, this.#open.eol === 'crlf' ? 2 : 1, 0, final);
      this.#addRun(this.#open, run);
      // If no line follows, the leading line ending belongs to the next literal.
      added = run.end;
      if (!run.closed) return added;
    }
    const finder = new RunFinder(window, this.#startsHere);
    this.#startsHere = false;
    while (this.judged !== undefined) {
      const start = finder.next(added);
      if (start === -1) break;
      if (!final && window.length - start < this.judged) {
        this.#literal(window, added, start);
        this.#startsHere = true;
        return start;
      }
      added = this.#tryRun(window, added, start, this.judged, final);
      if (this.#open !== undefined) return added;
    }
    const end = final ? window.length : Math.max(added, window.length - UNPROBED_BYTES);
    this.#literal(window, added, end);
    return end;
  }

  /** Adds the run at `start` and the literal bytes before it. Returns the run's end, or `added` if there is no run. */
  #tryRun(window: Buffer, added: number, start: number, maxLine: number, final: boolean): number {
    const first = firstLine(window, start, final);
    if (first === undefined || first === 'more' || first.lineLength > maxLine) return added;
    const run = decodeRun(window, first, start, first.end, final);
    if (run.length < MIN_DECODED_BYTES) return added;
    this.#literal(window, added, start);
    this.builder.beginRun(first);
    this.#addRun(first, run);
    return run.end;
  }

  #addRun(shape: LineShape, { pieces, closed }: ReturnType<typeof decodeRun>): void {
    for (const piece of pieces) this.builder.run(piece);
    this.#open = closed ? undefined : shape;
    if (closed) this.builder.endRun();
  }

  #literal(window: Buffer, from: number, to: number): void {
    if (to <= from) return;
    const literal = window.subarray(from, to);
    this.builder.literal(this.reusesWindow ? Buffer.from(literal) : literal);
  }
}
