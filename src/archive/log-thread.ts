import { hash as digest } from 'node:crypto';
import type { ThreadEnded } from '../core/error-tables.ts';
import { deserializeError, serializeError, type TransferredError } from '../core/errors.ts';
import type { BlobHash, MessageId } from '../core/types.ts';
import {
  builtWorker,
  type HeapLimits,
  type ThreadEvents,
  WorkerThread,
} from '../core/worker-thread.ts';
import {
  type AddedSource,
  BATCH_BUFFER_BYTES,
  Batch,
  type BatchPosition,
  LocalBatch,
  type StoredCheck,
  serializeBatch,
} from './batch.ts';
import type { FileLayer, LogFile } from './file-system.ts';
import {
  type CommittedBatch,
  type Fact,
  type FoldedRecord,
  isFact,
  type RecordMeaning,
} from './format.ts';
import { writeDurably } from './hot-segment.ts';
import { BLOB_BYTES } from './payload.ts';

const FIRST_BYTES = 1024 * 1024;
/** A batch closes at 4 MiB. The source that closes it is rarely larger than 2 MiB, but can be up to 8 MiB. */
const USUAL_BYTES = 6 * 1024 * 1024;

/** Memory shared with the log thread. Holds the bytes of one batch at a time, and grows with the largest batch. */
class SharedBuffer {
  #memory = new SharedArrayBuffer(FIRST_BYTES, { maxByteLength: USUAL_BYTES });
  #used = 0;

  get memory(): SharedArrayBuffer {
    return this.#memory;
  }

  put(bytes: Buffer): number {
    const at = this.#used;
    const end = at + bytes.length;
    if (end > this.#memory.byteLength) this.#grow(end);
    new Uint8Array(this.#memory, at, bytes.length).set(bytes);
    this.#used = end;
    return at;
  }

  /** Empties the buffer. Returns false if its memory is too large to keep. */
  clear(): boolean {
    this.#used = 0;
    return this.#memory.byteLength <= USUAL_BYTES;
  }

  #grow(bytes: number): void {
    const { byteLength, maxByteLength } = this.#memory;
    if (bytes <= maxByteLength) {
      this.#memory.grow(Math.min(maxByteLength, Math.max(bytes, 2 * byteLength)));
      return;
    }
    const larger = new SharedArrayBuffer(bytes, { maxByteLength: 2 * bytes });
    new Uint8Array(larger).set(new Uint8Array(this.#memory, 0, this.#used));
    this.#memory = larger;
  }
}

/** Bytes in a shared buffer. A `payload` is the record of a message that has already been split. */
interface TrayEntry {
  readonly is: 'source' | 'payload' | 'blob';
  readonly hash: string;
  readonly size: number;
  readonly at: number;
  readonly length: number;
}

interface AppendJob {
  readonly path: string;
  readonly place: BatchPosition;
  readonly memory: SharedArrayBuffer;
  readonly entries: readonly TrayEntry[];
  /** JSON, one fact per line. */
  readonly facts: string;
}

interface Appended {
  readonly commit: CommittedBatch['commit'];
  readonly blobs: readonly (readonly [hash: BlobHash, size: number])[];
  /** One offset per record. */
  readonly offsets: Float64Array;
  readonly bytes: number;
  readonly nextOrdinal: number;
}

interface TrayMessage {
  readonly id: MessageId;
  readonly size: number;
  readonly isBlobStored: StoredCheck;
}

/** A batch that the log thread splits, hashes and writes. */
export class SharedBufferBatch extends Batch {
  readonly #messages = new Map<MessageId, TrayMessage>();
  readonly #entries: TrayEntry[] = [];
  readonly #facts: Fact[] = [];
  #lines = '';

  constructor(
    files: FileLayer,
    readonly buffer: SharedBuffer,
  ) {
    super(files);
  }

  addSource(raw: Buffer, id: MessageId, isBlobStored: StoredCheck = () => false): AddedSource {
    this.requireOpen();
    if (!this.#messages.has(id)) {
      this.#put('source', id, raw.length, raw);
      this.#message(id, raw.length, isBlobStored);
    }
    return { id, size: raw.length };
  }

  addBlob(bytes: Buffer): BlobHash {
    if (bytes.length > BLOB_BYTES) throw new RangeError('a blob holds at most 4 MiB');
    this.requireOpen();
    const hash = digest('sha256', bytes, 'hex');
    this.#put('blob', hash, bytes.length, bytes);
    return hash;
  }

  addFact(fact: Fact): void {
    this.requireOpen();
    if (!isFact(fact)) throw new TypeError(`a fact of the wrong shape: ${Object(fact).fact}`);
    const line = JSON.stringify(fact);
    this.count(Buffer.byteLength(line));
    this.#lines += `${line}\n`;
    this.#facts.push(fact);
  }

  addMessage(id: MessageId, size: number, payload: Buffer): void {
    this.requireOpen();
    if (this.#messages.has(id)) return;
    this.#put('payload', id, size, payload);
    // Its blobs were committed in separate batches.
    this.#message(id, size, () => true);
  }

  job(path: string, place: BatchPosition): AppendJob {
    return { path, place, memory: this.buffer.memory, entries: this.#entries, facts: this.#lines };
  }

  /** Returns the same batch for use on this thread, in case the log thread has exited. */
  local(): LocalBatch {
    const { memory } = this.buffer;
    const job = { memory, entries: this.#entries, facts: this.#lines };
    return localBatch(this.files, job, (blob, message) => this.#archiveHas(blob, message));
  }

  stored(blobs: readonly (readonly [hash: BlobHash, message: MessageId])[]): BlobHash[] {
    return blobs.flatMap(([hash, message]) => (this.#archiveHas(hash, message) ? [hash] : []));
  }

  /** Combines the thread's result with the records' content, in log order. */
  committed({ commit, blobs, offsets }: Appended, place: BatchPosition): CommittedBatch {
    const records: FoldedRecord[] = [];
    const add = (meaning: RecordMeaning): void => {
      const ordinal = place.ordinal + records.length;
      const offset = offsets[records.length] ?? Number.NaN;
      records.push({ ...meaning, position: { segment: place.space.segment, ordinal, offset } });
    };
    for (const [hash, size] of blobs) add({ kind: 'blob', hash, size });
    for (const { id, size } of this.#messages.values()) add({ kind: 'message', id, size });
    for (const fact of this.#facts) add({ kind: 'fact', fact });
    if (records.length !== offsets.length) {
      throw new Error(`the log thread wrote ${offsets.length} of ${records.length} records`);
    }
    return { commit, previousHash: place.chain.hash, records };
  }

  #archiveHas(blob: BlobHash, message: MessageId): boolean {
    return this.#messages.get(message)?.isBlobStored(blob) === true;
  }

  #put(is: TrayEntry['is'], hash: string, size: number, bytes: Buffer): void {
    this.#entries.push({ is, hash, size, at: this.buffer.put(bytes), length: bytes.length });
    this.count(bytes.length);
  }

  #message(id: MessageId, size: number, isBlobStored: StoredCheck): void {
    this.messages += 1;
    this.#messages.set(id, { id, size, isBlobStored });
  }
}

/** Builds a batch from a shared buffer. Literals remain in the buffer. */
function localBatch(
  files: FileLayer,
  { memory, entries, facts }: Pick<AppendJob, 'memory' | 'entries' | 'facts'>,
  isBlobStored: (blob: BlobHash, message: MessageId) => boolean,
): LocalBatch {
  const batch = new LocalBatch(files);
  for (const { is, hash, size, at, length } of entries) {
    const bytes = Buffer.from(memory, at, length);
    if (is === 'source') batch.addSource(bytes, hash, (blob) => isBlobStored(blob, hash));
    else if (is === 'payload') batch.addMessage(hash, size, bytes);
    else batch.addNamedBlob(hash, bytes);
  }
  for (const line of facts.split('\n')) if (line !== '') batch.addCheckedFact(JSON.parse(line));
  return batch;
}

export type ToLogThread =
  | { readonly append: AppendJob }
  | { readonly stored: readonly BlobHash[] }
  /** Closes the open segment. */
  | { readonly letGo: true };

export type FromLogThread =
  /** Asks which blobs are stored. */
  | { readonly ask: readonly (readonly [hash: BlobHash, message: MessageId])[] }
  | { readonly appended: Appended }
  | { readonly thrown: TransferredError };

/** Heap limits. The bytes of a batch are outside V8's heap. */
const HEAP: HeapLimits = { oldGenerationMb: 256, youngGenerationMb: 24 };

export type LogLink = Pick<
  WorkerThread<ToLogThread, FromLogThread>,
  'started' | 'ending' | 'post' | 'ref' | 'unref' | 'end'
>;

function startThread(events: ThreadEvents<FromLogThread>): LogLink {
  const settings = { name: 'mailkeep-log', file: builtWorker('log-worker'), heap: HEAP };
  return new WorkerThread<ToLogThread, FromLogThread>(settings, events);
}

interface Running {
  readonly batch: SharedBufferBatch;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The thread that splits sources, serialises batches and writes them to the log, one at a time. Keeps one segment open.
 * Does not track the chain, so the caller supplies each batch's position.
 */
export class LogThread {
  readonly #thread: LogLink;
  readonly #buffers: SharedBuffer[] = [];
  #running: Running | undefined;
  #end: ThreadEnded | undefined;

  /** @param start replaces the thread in tests */
  constructor(start: (events: ThreadEvents<FromLogThread>) => LogLink = startThread) {
    this.#thread = start({
      message: (message) => this.#receive(message),
      ended: (end) => {
        this.#end = end;
        this.#settle(({ reject }) => reject(end));
      },
    });
    this.#thread.unref();
  }

  /** True once the thread has loaded. Until then, writing on this thread is faster. */
  get ready(): boolean {
    return this.#thread.started && !this.#thread.ending;
  }

  newBatch(files: FileLayer): SharedBufferBatch {
    return new SharedBufferBatch(files, this.#buffers.pop() ?? new SharedBuffer());
  }

  /**
   * Makes a batch durable at its position in a segment.
   *
   * @throws `disk-full`, `log-write-failed`, `log-sync-failed`; `thread-ended` if all, part or none of the batch may be
   * in the log
   */
  append(batch: SharedBufferBatch, path: string, place: BatchPosition): Promise<Appended> {
    if (this.#end !== undefined) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      this.#running = { batch, resolve, reject };
      this.#thread.ref();
      this.#thread.post({ append: batch.job(path, place) });
    });
  }

  takeBack({ buffer }: SharedBufferBatch): void {
    if (buffer.clear()) this.#buffers.push(buffer);
  }

  /** Closes the segment that the thread has open, so that the file can be removed. */
  letGo(): void {
    this.#thread.post({ letGo: true });
  }

  end(): Promise<void> {
    return this.#thread.end();
  }

  #receive(message: FromLogThread): void {
    if ('ask' in message) {
      try {
        this.#thread.post({ stored: this.#running?.batch.stored(message.ask) ?? [] });
      } catch (error) {
        // If the reply is missing, the thread discards the batch, so only this batch fails.
        this.#settle(({ reject }) => reject(error));
      }
    } else if ('appended' in message) this.#settle(({ resolve }) => resolve(message.appended));
    else this.#settle(({ reject }) => reject(deserializeError(message.thrown)));
  }

  #settle(act: (running: Running) => void): void {
    const running = this.#running;
    this.#running = undefined;
    this.#thread.unref();
    if (running !== undefined) act(running);
  }
}

/** Returns a handler for messages from a `LogThread` that writes the batches to the log. */
export function serveLogThread(
  files: FileLayer,
  send: (message: FromLogThread) => void,
): (message: ToLogThread) => void {
  const segment = new OpenSegment(files);
  let resolveReply: (stored: readonly BlobHash[]) => void = () => {};
  let memory: Buffer = Buffer.alloc(0);

  /** Asks which of a batch's blobs the archive already has. */
  const ask = (blobs: readonly (readonly [BlobHash, MessageId])[]): Promise<ReadonlySet<string>> =>
    new Promise((resolve) => {
      resolveReply = (stored) => resolve(new Set(stored));
      send({ ask: blobs });
    });

  const append = async (job: AppendJob): Promise<Appended> => {
    const stored = new Set<string>();
    const batch = localBatch(files, job, (hash) => stored.has(hash));
    const blobs = [...batch.unsureBlobs()];
    if (blobs.length > 0) for (const hash of await ask(blobs)) stored.add(hash);
    const { path } = job;
    const { space } = job.place;
    // Messages between threads turn a Buffer into a plain Uint8Array.
    const place = { ...job.place, space: { ...space, archiveId: Buffer.from(space.archiveId) } };
    const result = serializeBatch(batch, place, memory);
    if (result.memory.length <= BATCH_BUFFER_BYTES) memory = result.memory;
    const { bytes, committed, nextOrdinal } = result;
    await writeDurably(path, () => segment.file(path), bytes, place.offset);
    return {
      commit: committed.commit,
      blobs: committed.records.flatMap((record) =>
        record.kind === 'blob' ? [[record.hash, record.size] as const] : [],
      ),
      offsets: Float64Array.from(committed.records, ({ position }) => position.offset),
      bytes: bytes.length,
      nextOrdinal,
    };
  };

  return (message) => {
    if ('stored' in message) resolveReply(message.stored);
    else if ('letGo' in message) segment.close();
    else {
      append(message.append).then(
        (appended) => send({ appended }),
        (error: unknown) => send({ thrown: serializeError(error) }),
      );
    }
  };
}

class OpenSegment {
  #open: { readonly path: string; readonly file: LogFile } | undefined;

  constructor(private readonly files: FileLayer) {}

  file(path: string): LogFile {
    if (this.#open?.path !== path) {
      this.close();
      this.#open = { path, file: this.files.open(path, 'write') };
    }
    return this.#open.file;
  }

  close(): void {
    this.#open?.file.close();
    this.#open = undefined;
  }
}
