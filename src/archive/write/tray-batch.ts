import { hash as digest } from 'node:crypto';
import type { BlobHash, MessageId } from '../../mail/words.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { type Fact, isFact } from '../format/facts.ts';
import { BLOB_BYTES } from '../format/recipe.ts';
import type { CommittedBatch, FoldedRecord, RecordMeaning } from '../format/records.ts';
import { type AddedSource, Batch, type BatchPlace, type IsStored, LocalBatch } from './batch.ts';

const FIRST_BYTES = 1024 * 1024;
/** A batch is closed at 4 MiB; a source that closes it is seldom larger than half of that, but may have 8 MiB. */
const USUAL_BYTES = 6 * 1024 * 1024;

/**
 * Memory shared with the log thread, which takes the bytes of one batch at a time. It grows with its largest batch, and
 * beyond the usual for one to which large sources came: that memory is given up after it.
 */
export class Tray {
  #memory = new SharedArrayBuffer(FIRST_BYTES, { maxByteLength: USUAL_BYTES });
  #used = 0;

  get memory(): SharedArrayBuffer {
    return this.#memory;
  }

  /** Copies bytes in and returns where they lie. */
  put(bytes: Buffer): number {
    const at = this.#used;
    const end = at + bytes.length;
    if (end > this.#memory.byteLength) this.#grow(end);
    new Uint8Array(this.#memory, at, bytes.length).set(bytes);
    this.#used = end;
    return at;
  }

  /** Takes the next batch: what lies in it may be overwritten. Returns false for memory that is too large to be kept. */
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

/** Bytes in a tray. `source` is split by the thread, `payload` is a message's record already. */
export interface TrayEntry {
  readonly is: 'source' | 'payload' | 'blob';
  /** Of a message, or of the blob. */
  readonly hash: string;
  /** Bytes of the message's source; of the blob. */
  readonly size: number;
  readonly at: number;
  readonly length: number;
}

/** What the log thread needs to write a batch. */
export interface AppendJob {
  readonly path: string;
  readonly place: BatchPlace;
  readonly memory: SharedArrayBuffer;
  readonly entries: readonly TrayEntry[];
  /** Facts as JSON, one a line. */
  readonly facts: string;
}

/** What was written: the commit, the blobs that were new, and where each record of the batch begins. */
export interface Appended {
  readonly commit: CommittedBatch['commit'];
  readonly blobs: readonly (readonly [hash: BlobHash, size: number])[];
  readonly offsets: Float64Array;
  readonly bytes: number;
  readonly nextOrdinal: number;
}

interface TrayMessage {
  readonly id: MessageId;
  readonly size: number;
  readonly isBlobStored: IsStored;
}

/** A batch whose bytes lie in a tray: the log thread splits them, hashes them and writes them. */
export class TrayBatch extends Batch {
  readonly #messages = new Map<MessageId, TrayMessage>();
  readonly #entries: TrayEntry[] = [];
  readonly #facts: Fact[] = [];
  #lines = '';

  constructor(
    files: FileLayer,
    readonly tray: Tray,
  ) {
    super(files);
  }

  addSource(raw: Buffer, id: MessageId, isBlobStored: IsStored = () => false): AddedSource {
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
    // Its blobs went out before, in batches of their own.
    this.#message(id, size, () => true);
  }

  /** Returns what the thread needs to write this batch. */
  job(path: string, place: BatchPlace): AppendJob {
    return { path, place, memory: this.tray.memory, entries: this.#entries, facts: this.#lines };
  }

  /** Returns the same batch for writing it without the thread, which may have ended since this one was begun. */
  local(): LocalBatch {
    const { memory } = this.tray;
    const job = { memory, entries: this.#entries, facts: this.#lines };
    return localBatch(this.files, job, (blob, message) => this.#isStored(blob, message));
  }

  /** Answers the thread's question: which of these blobs, each with a message that has it, are stored by now? */
  stored(blobs: readonly (readonly [hash: BlobHash, message: MessageId])[]): BlobHash[] {
    return blobs.flatMap(([hash, message]) => (this.#isStored(hash, message) ? [hash] : []));
  }

  /** Puts what the thread wrote together with what it meant, in the order of the log. */
  committed({ commit, blobs, offsets }: Appended, place: BatchPlace): CommittedBatch {
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

  #isStored(blob: BlobHash, message: MessageId): boolean {
    return this.#messages.get(message)?.isBlobStored(blob) === true;
  }

  #put(is: TrayEntry['is'], hash: string, size: number, bytes: Buffer): void {
    this.#entries.push({ is, hash, size, at: this.tray.put(bytes), length: bytes.length });
    this.count(bytes.length);
  }

  #message(id: MessageId, size: number, isBlobStored: IsStored): void {
    this.messages += 1;
    this.#messages.set(id, { id, size, isBlobStored });
  }
}

/** Makes a batch in this thread's memory of what lies in a tray. Its blobs lie in its own memory, its literals in the tray. */
export function localBatch(
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
