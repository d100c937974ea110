import { createHash } from 'node:crypto';
import type { BlobHash, MessageId } from '../../mail/words.ts';
import { type FileLayer, type LogFile, readFully } from '../files/file-layer.ts';
import type { LineShape } from '../format/base64-lines.ts';
import {
  continueRun,
  firstLine,
  MIN_DECODED_BYTES,
  type ReadRun,
  RunFinder,
  readRun,
  UNPROBED_BYTES,
} from '../format/base64-runs.ts';
import { readMessagePayload, rebuild, recipeLine } from '../format/recipe.ts';
import { RecipeBuilder } from './recipe-builder.ts';

/** A message as it will be stored: the payload of its record, and the blobs that the payload refers to. */
interface SplitSource {
  readonly payload: Buffer;
  readonly blobs: ReadonlyMap<BlobHash, Buffer>;
}

/**
 * Splits a raw source in memory: runs of base64 lines are decoded into blobs, the rest stays literal. It ignores
 * MIME: nested, truncated or mislabelled messages make no difference. The result has been read back, rebuilt and
 * compared with the source byte for byte.
 */
export function splitSource(raw: Buffer, id: MessageId): SplitSource {
  const blobs = new Map<BlobHash, Buffer>();
  const builder = new RecipeBuilder({ blob: (hash, bytes) => blobs.set(hash, bytes) });
  const runs = addRuns(raw, builder);
  const payload = messagePayload(builder, id, raw.length);
  if (runs === 0 && blobs.size === 0) return { payload, blobs };
  return givesBack(payload, blobs, raw) ? { payload, blobs } : keepLiteral(raw, id);
}

/** Puts the record's payload together from what a builder has gathered. */
function messagePayload(builder: RecipeBuilder, id: MessageId, size: number): Buffer {
  const { parts, literal } = builder.finish();
  const line = Buffer.from(recipeLine({ parts, sha256: id, size }), 'latin1');
  return Buffer.concat([line, ...literal]);
}

function addRuns(raw: Buffer, builder: RecipeBuilder): number {
  const finder = new RunFinder(raw, true);
  let runs = 0;
  let added = 0;
  for (let start = finder.next(0); start !== -1; start = finder.next(added)) {
    const first = firstLine(raw, start, true);
    if (first === undefined || first === 'more') continue;
    const run = readRun(raw, start, first, true);
    if (run.length < MIN_DECODED_BYTES) continue;
    builder.literal(raw.subarray(added, start));
    builder.beginRun(first);
    for (const piece of run.pieces) builder.run(piece);
    builder.endRun();
    added = run.end;
    runs += 1;
  }
  builder.literal(raw.subarray(added));
  return runs;
}

function givesBack(payload: Buffer, blobs: ReadonlyMap<BlobHash, Buffer>, raw: Buffer): boolean {
  const message = readMessagePayload(payload);
  if (message === undefined) return false;
  const source = rebuild(message, (hash) => blobs.get(hash) ?? Buffer.alloc(0));
  return source.equals(raw);
}

/** Never needed as far as anybody knows; here so that a mistake above costs room and not a message. */
function keepLiteral(raw: Buffer, id: MessageId): SplitSource {
  const blobs = new Map<BlobHash, Buffer>();
  const builder = new RecipeBuilder({ blob: (hash, bytes) => blobs.set(hash, bytes) });
  builder.literal(raw);
  return { payload: messagePayload(builder, id, raw.length), blobs };
}

/** How much of the source lies in memory at a time. */
export interface WindowSize {
  readonly bytes: number;
  /** A run is judged only with this many bytes of it in the window. Lines that are longer stay literal. */
  readonly judged: number;
}

const WINDOW: WindowSize = { bytes: 1024 * 1024, judged: 256 * 1024 };

interface FileSplitSink {
  blob(hash: BlobHash, bytes: Buffer): void;
  /** Called between windows: waits until the blobs passed so far need no longer be held. */
  drain(): Promise<void>;
}

interface SplitFile {
  readonly id: MessageId;
  readonly size: number;
  readonly payload: Buffer;
}

/**
 * Splits a raw source that lies in a file, window by window: memory does not depend on its size. The outcome is that of
 * `splitSource`, but for lines of more than 256 KiB. What readers will rebuild is hashed on the way and compared with the
 * source's own hash; if they differed, the source would be stored undecoded.
 */
export async function splitSourceFile(
  files: FileLayer,
  path: string,
  sink: FileSplitSink,
  window: WindowSize = WINDOW,
): Promise<SplitFile> {
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
): Promise<SplitFile & { readonly rebuilt: string }> {
  const whole = createHash('sha256');
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
    whole.update(window.subarray(carried, carried + got));
    read += got;
    const filled = carried + got;
    const used = splitter.take(window.subarray(0, filled), read >= size);
    window.copyWithin(0, used, filled);
    carried = filled - used;
    await sink.drain();
  }
  const id = whole.digest('hex');
  const payload = messagePayload(builder, id, read);
  return { id, size: read, payload, rebuilt: rebuilt.digest('hex') };
}

/** Passes a source that comes in windows to a builder; what a window leaves undecided comes again with the next. */
class WindowSplitter {
  /** The shape of a run that continues into the next window, which then begins at a line end. */
  #open: LineShape | undefined;
  /** True when a run may start at the first byte of the window. */
  #startsHere = true;

  constructor(
    private readonly builder: RecipeBuilder,
    /** Undefined when nothing is to be decoded. */
    private readonly judged: number | undefined,
  ) {}

  /** Returns how many bytes of the window are settled: all of them when it is the final one. */
  take(window: Buffer, final: boolean): number {
    let added = 0;
    if (this.#open !== undefined) {
      const run = continueRun(window, this.#open, final);
      this.#addRun(this.#open, run);
      // Without another line, the line end that the window begins with belongs to what follows.
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
    const settled = final ? window.length : Math.max(added, window.length - UNPROBED_BYTES);
    this.#literal(window, added, settled);
    return settled;
  }

  /** Tells the run at `start`, if there is one, and what lies before it; returns how far the window is added then. */
  #tryRun(window: Buffer, added: number, start: number, longest: number, final: boolean): number {
    const first = firstLine(window, start, final);
    if (first === undefined || first === 'more' || first.lineLength > longest) return added;
    const run = readRun(window, start, first, final);
    if (run.length < MIN_DECODED_BYTES) return added;
    this.#literal(window, added, start);
    this.builder.beginRun(first);
    this.#addRun(first, run);
    return run.end;
  }

  #addRun(shape: LineShape, { pieces, closed }: ReadRun): void {
    for (const piece of pieces) this.builder.run(piece);
    this.#open = closed ? undefined : shape;
    if (closed) this.builder.endRun();
  }

  #literal(window: Buffer, from: number, to: number): void {
    // A copy: the window's memory is used again.
    if (to > from) this.builder.literal(Buffer.from(window.subarray(from, to)));
  }
}
