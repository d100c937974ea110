import { crc32 } from 'node:zlib';
import { errnoName, type MailkeepError } from '../core/errors.ts';
import type { DamageReason } from './errors.ts';
import { type FileLayer, type LogFile, type ReadFile, readFully } from './file-system.ts';
import {
  CODEC,
  type CommitRecord,
  commitHash,
  decodeCommit,
  FLAG_PURGED,
  Identities,
  type Position,
  RECORD_HEADER_BYTES,
  RECORD_ID_OFFSET,
  RECORD_KIND,
  type RecordHeader,
  type RecordSpace,
  readRecordHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentFile,
  STORED_KIND,
  sha256,
} from './format.ts';
import { inflatePayload, releasePayload } from './payload.ts';
import { decodeInner, innerLength, TRAILER_BYTES } from './sealed-footer.ts';
import {
  listSegments,
  type OpenSegment,
  openCurrentGeneration,
  openSegment,
  type SegmentListing,
} from './segment-files.ts';

const WINDOW_BYTES = 4 * 1024 * 1024;

export class FileWindow {
  readonly length: number;
  #memory: Buffer;
  #start = 0;
  #filled = 0;

  constructor(private readonly file: ReadFile) {
    this.length = file.size();
    this.#memory = Buffer.allocUnsafe(Math.min(WINDOW_BYTES, this.length));
  }

  /** Returns a view that remains valid until the next call. It is shorter at the end of the file. */
  view(offset: number, length: number): Buffer {
    const end = Math.min(offset + length, this.length);
    if (end <= offset) return this.#memory.subarray(0, 0);
    if (offset < this.#start || end > this.#start + this.#filled) this.#load(offset, end - offset);
    const from = offset - this.#start;
    return this.#memory.subarray(from, Math.min(from + end - offset, this.#filled));
  }

  #load(offset: number, length: number): void {
    const before = this.#memory;
    if (length > before.length) this.#memory = Buffer.allocUnsafe(length);
    // Loaded bytes are kept, so that a forward walk never reads a byte twice.
    const overlap = this.#start + this.#filled - offset;
    const keep = offset >= this.#start && overlap > 0 ? overlap : 0;
    if (keep > 0) before.copy(this.#memory, 0, offset - this.#start, this.#filled);
    this.#start = offset;
    const room = this.#memory.subarray(keep, Math.min(this.#memory.length, this.length - offset));
    this.#filled = keep + readFully(this.file, room, offset + keep);
  }
}

interface WalkedRecord {
  readonly kind: 'record';
  readonly offset: number;
  readonly header: RecordHeader;
  /** A view of the stored payload, valid until the next step. Undefined if its CRC does not match. */
  readonly stored: Buffer | undefined;
}

/** Bytes up to the next intact record header or the end of the file. */
interface WalkedGap {
  readonly kind: 'gap';
  readonly offset: number;
  readonly end: number;
}

export function* walkRecords(
  window: FileWindow,
  space: RecordSpace,
  offset: number,
): Generator<WalkedRecord | WalkedGap, void, undefined> {
  let at = offset;
  while (at < window.length) {
    const header = readRecordHeader(window.view(at, RECORD_HEADER_BYTES), 0, space, at);
    const end = header === undefined ? 0 : at + RECORD_HEADER_BYTES + header.storedLength;
    if (header === undefined || end > window.length) {
      const next = findRecord(window, space, at + 1);
      yield { kind: 'gap', offset: at, end: next };
      at = next;
      continue;
    }
    const stored = window.view(at + RECORD_HEADER_BYTES, header.storedLength);
    const isIntact = stored.length === header.storedLength && crc32(stored) === header.crc;
    yield { kind: 'record', offset: at, header, stored: isIntact ? stored : undefined };
    at = end;
  }
}

/** Returns the offset of the first intact record header at or after `offset`, or the end of the file. */
function findRecord(window: FileWindow, space: RecordSpace, offset: number): number {
  let at = offset;
  while (at + RECORD_HEADER_BYTES <= window.length) {
    const bytes = window.view(at, WINDOW_BYTES);
    const id = bytes.indexOf(space.archiveId, RECORD_ID_OFFSET);
    if (id === -1) {
      // If this view truncates an ID, the next view contains the whole ID.
      at += Math.max(1, bytes.length - RECORD_HEADER_BYTES + 1);
      continue;
    }
    const found = at + id - RECORD_ID_OFFSET;
    const header = readRecordHeader(window.view(found, RECORD_HEADER_BYTES), 0, space, found);
    if (
      header !== undefined &&
      found + RECORD_HEADER_BYTES + header.storedLength <= window.length
    ) {
      return found;
    }
    at = found + 1;
  }
  return window.length;
}

export interface LogicalRecord {
  readonly what: 'record';
  readonly kind: number;
  readonly rawLength: number;
  readonly hash: Buffer;
  /** A view that remains valid until the next record is requested. Undefined if purged or damaged. */
  readonly payload: Buffer | undefined;
  readonly state: 'present' | 'purged' | 'damaged';
  readonly offset: number;
  readonly end: number;
}

/** A range without readable records. The number of lost records is unknown. */
export interface UnreadableBytes {
  readonly what: 'lost';
  readonly reason: DamageReason;
  readonly offset: number;
  readonly end: number;
}

export interface RecordReading {
  /** Verifies the SHA-256 of every payload. If false, only CRCs are checked. */
  readonly digest: boolean;
  /** Skips the SHA-256 of whole blocks, which the hashes of their records and the commit chain already cover. */
  readonly chained?: boolean;
  /**
   * Frees inflated payloads when the next record is requested. No view of them may be in use by then. The garbage
   * collector would let them grow to about 64 MB. Touching fresh memory takes a third as long as inflating a block.
   */
  readonly releases?: boolean;
  /** Receives each intact block and its offset when the next record is requested, and takes ownership of its memory. */
  readonly inflated?: ((offset: number, block: Buffer) => void) | undefined;
}

interface ReadSegment extends Pick<OpenSegment, 'name' | 'header' | 'sealed'> {
  readonly file: ReadFile;
}

/** Yields the records in a segment's file, in one sequential read. */
export function* segmentRecords(
  segment: ReadSegment,
  reading: RecordReading,
): Generator<LogicalRecord | UnreadableBytes, void, undefined> {
  const window = new FileWindow(segment.file);
  const sealed = segment.name.generation > 1;
  let footer = false;
  for (const record of walkRecords(window, segment.header, SEGMENT_HEADER_BYTES)) {
    if (record.kind === 'gap') {
      const isTrailer = footer && record.end === window.length;
      if (!isTrailer) yield { what: 'lost', reason: 'bytes', ...span(record.offset, record.end) };
      else if (record.end - record.offset !== TRAILER_BYTES || segment.sealed === undefined) {
        yield { what: 'lost', reason: 'footer', ...span(record.offset, record.end) };
      }
      continue;
    }
    const { header, stored, offset } = record;
    const place = span(offset, offset + 64 + header.storedLength);
    if (header.kind === STORED_KIND.footer) {
      footer = true;
      if (stored === undefined || segment.sealed?.offset !== offset) {
        yield { what: 'lost', reason: 'footer', ...place };
      }
    } else if (header.kind === STORED_KIND.block) {
      const block = stored === undefined ? undefined : inflatePayload(header, stored);
      const isIntact =
        block !== undefined &&
        (!reading.digest || reading.chained === true || sha256(block).equals(header.hash));
      // An uncompressed payload is a view of the window.
      const isInflated = block !== stored;
      if (isIntact) yield* blockRecords(block, place);
      else yield { what: 'lost', reason: 'payload', ...place };
      if (!isInflated) continue;
      if (isIntact && reading.inflated !== undefined) reading.inflated(offset, block);
      else if (reading.releases === true) releasePayload(block);
    } else {
      const identity = {
        what: 'record',
        kind: header.kind,
        rawLength: header.rawLength,
        hash: header.hash,
        ...place,
      } as const;
      if ((header.flags & FLAG_PURGED) !== 0) {
        yield { ...identity, payload: undefined, state: 'purged' };
        continue;
      }
      const payload = stored === undefined ? undefined : inflatePayload(header, stored);
      const isIntact =
        payload !== undefined && (!reading.digest || sha256(payload).equals(header.hash));
      yield isIntact
        ? { ...identity, payload, state: 'present' }
        : { ...identity, payload: undefined, state: 'damaged' };
      if (reading.releases === true && payload !== stored) releasePayload(payload);
    }
  }
  if (sealed && !footer) {
    yield { what: 'lost', reason: 'footer', ...span(window.length, window.length) };
  }
}

function* blockRecords(
  block: Buffer,
  place: { readonly offset: number; readonly end: number },
): Generator<LogicalRecord | UnreadableBytes, void, undefined> {
  let at = 0;
  const { offset, end } = place;
  while (at < block.length) {
    const inner = decodeInner(block, at);
    if (inner === undefined) {
      yield { what: 'lost', reason: 'payload', ...place };
      return;
    }
    const { kind, rawLength, payload } = inner;
    const hash = payload === undefined ? (inner.hash ?? Buffer.alloc(32)) : sha256(payload);
    const state = payload === undefined ? 'purged' : 'present';
    yield { what: 'record', kind, rawLength, hash, payload, state, offset, end };
    at += innerLength(rawLength, payload === undefined);
  }
}

function span(offset: number, end: number): { readonly offset: number; readonly end: number } {
  return { offset, end };
}

/** A damaged part of a segment. */
export interface Problem {
  readonly reason: DamageReason;
  readonly offset: number;
  readonly end: number;
  /** SHA-256 of the record's payload, if the record's header is intact. */
  readonly hash?: string;
}

/** The last commit of a chain, or number 0 and the genesis hash. */
export interface ChainState {
  readonly number: number;
  readonly hash: string;
}

export interface LocatedValue<T> {
  readonly value: T;
  readonly ordinal: number;
  /** Offset of the record in generation 1, even if another generation was read. */
  readonly offset: number;
}

export interface ReadBatch<T> {
  readonly what: 'batch';
  readonly commit: CommitRecord;
  /** The visitor's result for each record except the commit. */
  readonly records: readonly LocatedValue<T>[];
  /** Empty if the batch is verified. */
  readonly problems: readonly Problem[];
  readonly end: number;
}

/** Bytes after the last commit in a segment: unfinished work in the last segment, damage in any other. */
export interface Remainder {
  readonly what: 'remainder';
  readonly offset: number;
  readonly end: number;
  readonly problems: readonly Problem[];
}

/** A visitor's result for a record. Undefined if the visitor needs nothing from the record. */
export type VisitResult<T> = { readonly value: T } | { readonly problem: DamageReason } | undefined;

const FIRST: RecordPosition = { ordinal: 0, offset: SEGMENT_HEADER_BYTES };

/**
 * Yields the batches of a segment in order, and verifies each against the chain. A damaged batch contains only the
 * readable records whose position in the segment is known.
 *
 * @param visit called for each record with a payload, while the payload is in memory
 */
export function* segmentBatches<T>(
  segment: ReadSegment,
  reading: RecordReading,
  visit: (record: LogicalRecord & { readonly payload: Buffer }) => VisitResult<T>,
): Generator<ReadBatch<T> | Remainder, ChainState, undefined> {
  let chain: ChainState = {
    number: segment.header.previousNumber,
    hash: segment.header.previousHash,
  };
  let end = FIRST.offset;
  let collector = new BatchCollector<T>(FIRST);
  for (const record of segmentRecords(segment, reading)) {
    if (record.what === 'lost') {
      collector.lose(record);
      continue;
    }
    if (record.kind !== RECORD_KIND.commit) {
      collector.add(record, visit);
      continue;
    }
    const commit = record.payload === undefined ? undefined : decodeCommit(record.payload);
    if (commit === undefined) {
      collector.loseCommit(record);
      continue;
    }
    const batch = collector.close(commit, record, chain);
    chain = { number: commit.number, hash: commit.hash };
    end = record.end;
    collector = new BatchCollector<T>(positionAfter(commit, record.rawLength));
    yield batch;
  }
  const fileEnd = segment.sealed?.offset ?? segment.file.size();
  if (collector.touched || (segment.name.generation === 1 && fileEnd > end)) {
    yield { what: 'remainder', offset: end, end: fileEnd, problems: collector.problems };
  }
  return chain;
}

/** Reads a segment's records without their hashes, and returns its last commit. */
export function walkToEnd(segment: ReadSegment): ChainState {
  const batches = segmentBatches(segment, { digest: false }, () => undefined);
  let step = batches.next();
  while (step.done !== true) step = batches.next();
  return step.value;
}

/**
 * Reads every byte of a newly written segment file, and returns the number of its last commit.
 *
 * @param path may be temporary
 * @throws the error from `wrong` unless the file is intact, and sealed if `isSealed`
 */
export function verifyWrittenSegment(
  files: FileLayer,
  name: SegmentFile,
  path: string,
  isSealed: boolean,
  wrong: () => MailkeepError,
): number {
  const opened = openSegment(files, '', name, path);
  if (opened === undefined) throw wrong();
  try {
    if (isSealed && opened.sealed === undefined) throw wrong();
    let last = opened.header.previousNumber;
    const reading = { digest: true, releases: true };
    for (const item of segmentBatches(opened, reading, () => undefined)) {
      if (item.what === 'remainder' || item.problems.length > 0) throw wrong();
      last = item.commit.number;
    }
    return last;
  } finally {
    opened.file.close();
  }
}

/** A record's position in its segment, with its offset in generation 1. */
interface RecordPosition {
  readonly ordinal: number;
  readonly offset: number;
}

class BatchCollector<T> {
  readonly problems: Problem[] = [];
  readonly #identities = new Identities();
  /** Records before the first loss. */
  readonly #before: LocatedValue<T>[] = [];
  /** Records after the last loss, with positions relative to it. The position in the commit makes them absolute. */
  #after: LocatedValue<T>[] = [];
  #lost = false;
  /** Position of the next record, relative to the last loss. */
  #next: RecordPosition;

  constructor(first: RecordPosition) {
    this.#next = first;
  }

  get touched(): boolean {
    return this.#identities.count > 0 || this.problems.length > 0;
  }

  add(
    record: LogicalRecord,
    visit: (record: LogicalRecord & { readonly payload: Buffer }) => VisitResult<T>,
  ): void {
    this.#identities.add(record.kind, record.rawLength, record.hash);
    const { offset, end } = record;
    const addProblem = (reason: DamageReason) =>
      this.problems.push({ reason, offset, end, hash: record.hash.toString('hex') });
    if (record.state === 'damaged') addProblem('payload');
    const result = hasPayload(record) ? visit(record) : undefined;
    if (result !== undefined && 'problem' in result) addProblem(result.problem);
    if (result !== undefined && 'value' in result) {
      const { value } = result;
      const { ordinal, offset: position } = this.#next;
      (this.#lost ? this.#after : this.#before).push({ value, ordinal, offset: position });
    }
    this.#next = positionAfter(this.#next, record.rawLength);
  }

  lose({ reason, offset, end }: UnreadableBytes): void {
    this.problems.push({ reason, offset, end });
    this.#lost = true;
    this.#after = [];
    this.#next = { ordinal: 0, offset: 0 };
  }

  /** Drops all collected records, because without a readable commit the batch has no time. */
  loseCommit({ offset, end }: LogicalRecord): void {
    this.#before.length = 0;
    this.lose({ what: 'lost', reason: 'commit', offset, end });
  }

  close(commit: CommitRecord, { offset, end }: LogicalRecord, chain: ChainState): ReadBatch<T> {
    const addProblem = (reason: DamageReason) => this.problems.push({ reason, offset, end });
    const { number, previous, time, hash } = commit;
    // If records are lost, the hash cannot be computed, but the commit's other fields must still match.
    if (number !== chain.number + 1) addProblem('order');
    else if (previous !== chain.hash) addProblem('chain');
    if (!this.#lost) {
      const isWhole =
        commit.ordinal === this.#next.ordinal &&
        commit.offset === this.#next.offset &&
        commit.records === this.#identities.count &&
        hash === commitHash(previous, number, time, this.#identities);
      if (!isWhole) addProblem('chain');
    }
    const ordinals = commit.ordinal - this.#next.ordinal;
    const offsets = commit.offset - this.#next.offset;
    const after = this.#after.map((record) => ({
      value: record.value,
      ordinal: record.ordinal + ordinals,
      offset: record.offset + offsets,
    }));
    const records = [...this.#before, ...after];
    return { what: 'batch', commit, records, problems: this.problems, end };
  }
}

function hasPayload(record: LogicalRecord): record is LogicalRecord & { readonly payload: Buffer } {
  return record.payload !== undefined;
}

/** Returns the position after a record. Generation 1 stores payloads uncompressed. */
function positionAfter({ ordinal, offset }: RecordPosition, rawLength: number): RecordPosition {
  return { ordinal: ordinal + 1, offset: offset + RECORD_HEADER_BYTES + rawLength };
}

/** Each open file is a segment of about 64 MiB. */
const OPEN_SEGMENTS = 32;
/** Enough for two batches of a first sync, which are read soon after they are folded. */
const CACHED_BYTES = 8 * 1024 * 1024;
/** Bytes to read along with a record's header; enough for most records. */
const FIRST_READ_BYTES = 16 * 1024;
/** Size of the reusable buffer for compressed records; large enough for a compressed block. */
const SCRATCH_BYTES = 512 * 1024;

type FetchedRecord =
  | { readonly state: 'present'; readonly kind: number; readonly payload: Buffer }
  | { readonly state: 'purged' }
  /** The record does not exist, or its CRC does not match. */
  | { readonly state: 'damaged' };

/** Reads records by position from the generation in force. Caches files, blocks and the directory listing. */
export class SegmentCache {
  #listing: SegmentListing | undefined;
  readonly #open = new Recent<number, OpenSegment>(
    OPEN_SEGMENTS,
    () => 1,
    ({ file }) => file.close(),
  );
  readonly #blocks = new Recent<string, Buffer>(
    CACHED_BYTES,
    ({ length }) => length,
    // Callers get copies, so a block can be freed. Left to the garbage collector, blocks and their input grew to 60 MB.
    releasePayload,
  );
  #scratch: Buffer | undefined;

  constructor(
    private readonly files: FileLayer,
    private readonly dir: string,
  ) {}

  /** Reads a record. Do not write to its payload, which may be a view of shared memory. */
  fetch({ segment, ordinal, offset }: Position): FetchedRecord {
    const opened = this.opened(segment);
    if (opened.sealed !== undefined) {
      const found = opened.sealed.index.find(ordinal);
      if (found === undefined) return { state: 'damaged' };
      return found.container.block
        ? this.#readFromBlock(opened, found.container.offset, found.inner)
        : this.#readSingle(opened, found.container.offset);
    }
    // Records in a sealed file without a footer can only be found by walking it, which a repair does.
    return opened.name.generation === 1 ? this.#readSingle(opened, offset) : { state: 'damaged' };
  }

  /** Caches an intact block from a segment's file and takes ownership of its memory. */
  keep(path: string, offset: number, block: Buffer): void {
    this.#blocks.set(keyOf(path, offset), block);
  }

  forget(): void {
    this.#listing = undefined;
    this.#open.clear();
    this.#blocks.clear();
  }

  numbers(): readonly number[] {
    this.#listing ??= listSegments(this.files, this.dir);
    return [...this.#listing.keys()];
  }

  /**
   * Returns the file in force for a segment. The cache will close it.
   *
   * @throws `log-damaged`; the system's error if the file has disappeared
   */
  opened(segment: number): OpenSegment {
    const open = this.#open.get(segment);
    if (open !== undefined) return open;
    if (!this.#listing?.has(segment)) this.#listing = listSegments(this.files, this.dir);
    const opened = openCurrentGeneration(this.files, this.dir, segment, this.#listing.get(segment));
    this.#open.set(segment, opened);
    return opened;
  }

  #readFromBlock(opened: OpenSegment, offset: number, inner: number): FetchedRecord {
    const key = keyOf(opened.path, offset);
    let block = this.#blocks.get(key);
    if (block === undefined) {
      const read = this.#readStored(opened, offset);
      if (read?.header.kind !== STORED_KIND.block) return { state: 'damaged' };
      block = inflatePayload(read.header, read.stored);
      if (block === undefined) return { state: 'damaged' };
      this.#blocks.set(key, block);
    }
    const record = decodeInner(block, inner);
    if (record === undefined) return { state: 'damaged' };
    const { kind, payload } = record;
    if (payload === undefined) return { state: 'purged' };
    // The block may be evicted and freed while the payload is in use, so the payload is copied.
    return { state: 'present', kind, payload: Buffer.from(payload) };
  }

  #readSingle(opened: OpenSegment, offset: number): FetchedRecord {
    const read = this.#readStored(opened, offset);
    if (read === undefined) return { state: 'damaged' };
    const { header, stored } = read;
    if ((header.flags & FLAG_PURGED) !== 0) return { state: 'purged' };
    const payload = inflatePayload(header, stored);
    return payload === undefined
      ? { state: 'damaged' }
      : { state: 'present', kind: header.kind, payload };
  }

  /**
   * Returns undefined unless there is a stored record with a matching CRC. Compressed bytes are valid until the next
   * call. Uncompressed bytes get their own memory, because the caller keeps them.
   */
  #readStored(
    { file, header: space }: OpenSegment,
    offset: number,
  ): { readonly header: RecordHeader; readonly stored: Buffer } | undefined {
    this.#scratch ??= Buffer.allocUnsafeSlow(SCRATCH_BYTES);
    const first = this.#scratch.subarray(0, FIRST_READ_BYTES);
    const got = first.subarray(0, readReadable(file, first, offset));
    const header = readRecordHeader(got, 0, space, offset);
    if (header === undefined) return undefined;
    const { storedLength } = header;
    const end = RECORD_HEADER_BYTES + storedLength;
    // The header's CRC covers this length, but a truncated file must not cause a large allocation.
    if (end > got.length && offset + end > file.size()) return undefined;
    const isKept = header.codec === CODEC.none || end > SCRATCH_BYTES;
    const stored = isKept
      ? Buffer.allocUnsafe(storedLength)
      : this.#scratch.subarray(RECORD_HEADER_BYTES, end);
    const head = Math.min(storedLength, got.length - RECORD_HEADER_BYTES);
    if (isKept) got.copy(stored, 0, RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + head);
    const tail = readReadable(file, stored.subarray(head), offset + RECORD_HEADER_BYTES + head);
    if (head + tail < storedLength) return undefined;
    return crc32(stored) === header.crc ? { header, stored } : undefined;
  }
}

function keyOf(path: string, offset: number): string {
  return `${path} ${offset}`;
}

/** Reads up to the first unreadable byte (EIO), so that only records after it count as damaged. */
function readReadable(file: LogFile, target: Uint8Array, position: number): number {
  let done = 0;
  try {
    while (done < target.length) {
      const got = file.read(target.subarray(done), position + done);
      if (got === 0) break;
      done += got;
    }
  } catch (error) {
    if (errnoName(error) !== 'EIO') throw error;
  }
  return done;
}

/** A least-recently-used cache with a limit on its total weight. Never evicts the newest value. */
export class Recent<K, V> {
  readonly #values = new Map<K, V>();
  #weight = 0;

  constructor(
    private readonly maxWeight: number,
    private readonly weigh: (value: V) => number,
    private readonly letGo: (value: V) => void = () => {},
  ) {}

  get(key: K): V | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    // Maps keep insertion order, so the first entry is the least recently used.
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    const before = this.#values.get(key);
    if (before !== undefined) {
      this.#values.delete(key);
      this.#weight -= this.weigh(before);
      this.letGo(before);
    }
    this.#values.set(key, value);
    this.#weight += this.weigh(value);
    for (const [oldest, old] of this.#values) {
      if (this.#weight <= this.maxWeight || oldest === key) break;
      this.#values.delete(oldest);
      this.#weight -= this.weigh(old);
      this.letGo(old);
    }
  }

  clear(): void {
    for (const value of this.#values.values()) this.letGo(value);
    this.#values.clear();
    this.#weight = 0;
  }
}
