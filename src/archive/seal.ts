import { hash as digest } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { hasCode, isDamage, MailkeepError } from '../core/errors.ts';
import { builtWorker, type HeapLimits, JobPool } from '../core/worker-thread.ts';
import { archiveError } from './errors.ts';
import { type FileLayer, type LogFile, realFiles, writeAll } from './file-system.ts';
import {
  CODEC,
  encodeSegmentHeader,
  formatPath,
  Identities,
  logFolder,
  RECORD_HEADER_BYTES,
  type RecordSpace,
  SEGMENT_HEADER_BYTES,
  type SegmentFile,
  STORED_KIND,
  segmentPath,
  writeRecordHeader,
} from './format.ts';
import { convertSyncErrors, convertWriteErrors, publishFile } from './hot-segment.ts';
import { type ArchiveCodec, compressPayload, DEFAULT_CODEC } from './payload.ts';
import { allowZstd } from './recovery.ts';
import {
  type Container,
  encodeFooter,
  encodeInner,
  encodeTrailer,
  headerAt,
  innerLength,
  PURGED_BIT,
} from './sealed-footer.ts';
import {
  isSealed,
  listGenerations,
  listSegments,
  type OpenSegment,
  openCurrentGeneration,
  openSegment,
  segmentDamage,
  withSegment,
} from './segment-files.ts';
import { type LogicalRecord, segmentRecords, type UnreadableBytes } from './segment-reader.ts';

/**
 * Removes generations that a sealed one replaced at least `keepMs` ago, and returns their paths. The caller holds the
 * archive's lock.
 */
export async function dropOldGenerations(options: {
  readonly dir: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly files?: FileLayer;
  readonly keepMs: number;
  readonly except?: ReadonlySet<number>;
}): Promise<string[]> {
  const { dir, now, files = realFiles, keepMs, except } = options;
  const dropped: string[] = [];
  for (const [segment, generations] of listSegments(files, dir)) {
    if (except?.has(segment) === true) continue;
    const sealed = findSealed(files, dir, segment, generations);
    if (sealed === undefined) continue;
    if (Math.floor(files.modifiedAt(segmentPath(dir, sealed))) > now - keepMs) continue;
    for (const generation of generations.filter((one) => one < sealed.generation)) {
      const path = segmentPath(dir, { segment, generation });
      await files.remove(path);
      dropped.push(path);
    }
  }
  if (dropped.length > 0) await files.syncFolder(logFolder(dir));
  return dropped;
}

/** Returns the sealed file in force if other generations exist; otherwise undefined. */
function findSealed(
  files: FileLayer,
  dir: string,
  segment: number,
  generations: readonly number[],
): SegmentFile | undefined {
  if (generations.length < 2) return undefined;
  try {
    const opened = withSegment(files, dir, segment, (one) => one, generations);
    return opened.sealed === undefined ? undefined : opened.name;
  } catch (error) {
    // If no generation is intact, each may contain bytes that the others lack.
    if (hasCode(error, 'log-damaged')) return undefined;
    throw error;
  }
}

export interface CompactableSegment {
  readonly segment: number;
  readonly bytes: number;
}

/**
 * Yields the sealed segments from `from` onwards that use another codec. Reads only headers and footers.
 *
 * @param damaged receives the errors of segments that cannot be read
 */
export function* listCompactable(
  files: FileLayer,
  dir: string,
  codec: ArchiveCodec,
  damaged: MailkeepError[],
  from = 1,
): Generator<CompactableSegment, void, undefined> {
  const bytesToRewrite = (opened: OpenSegment) =>
    usesOtherCodec(opened, codec) ? opened.file.size() : undefined;
  for (const [segment, generations] of listSegments(files, dir)) {
    if (segment < from) continue;
    try {
      const bytes = withSegment(files, dir, segment, bytesToRewrite, generations);
      if (bytes !== undefined) yield { segment, bytes };
    } catch (error) {
      if (!isDamage(error)) throw error;
      damaged.push(error);
    }
  }
}

/**
 * Rewrites one sealed segment with `codec` and removes the replaced files. If it is interrupted, the
 * archive remains readable and a second call finishes the work. The caller holds the archive's lock.
 *
 * @throws `log-damaged` if the segment is damaged (it is left unchanged); `disk-full`, `log-write-failed`,
 * `log-sync-failed`
 */
export async function compactSegment(
  files: FileLayer,
  sealer: Sealer,
  job: { readonly dir: string; readonly segment: number; readonly codec: ArchiveCodec },
): Promise<SealedSegment> {
  const sealed = await sealer.seal(job);
  const { dir, segment } = job;
  // The disk may not have room for old files from several segments.
  await removeGenerations(files, dir, segment, sealed.generation);
  return sealed;
}

/** Durably removes generations before `first` and returns their paths. @throws `log-write-failed`, `log-sync-failed` */
export async function removeGenerations(
  files: FileLayer,
  dir: string,
  segment: number,
  first: number,
): Promise<string[]> {
  const removed: string[] = [];
  for (const generation of listGenerations(files, dir, segment)) {
    if (generation >= first) continue;
    const path = segmentPath(dir, { segment, generation });
    await convertWriteErrors(path, 0, () => files.remove(path));
    removed.push(path);
  }
  if (removed.length > 0)
    await convertSyncErrors(logFolder(dir), () => files.syncFolder(logFolder(dir)));
  return removed;
}

/** Returns false for unsealed segments, which are never compressed. */
function usesOtherCodec(segment: OpenSegment, codec: ArchiveCodec): boolean {
  const { sealed } = segment;
  if (sealed === undefined) return false;
  const places = [...sealed.index.containers.map(({ offset }) => offset), sealed.offset];
  return places.some((offset) => {
    const found = headerAt(segment, offset)?.codec;
    // A damaged header hides its codec. Sealing reports the damage later.
    return found === undefined || (found !== CODEC.none && found !== CODEC[codec]);
  });
}

interface Layout {
  /** Target size of a block of small records, before compression. */
  readonly blockBytes: number;
  /** Records of at least this size are stored outside blocks, so that reading one does not inflate a block. */
  readonly standaloneBytes: number;
}

/**
 * Larger blocks compress better but take longer to read: 0.5 ms for 512 KiB of zstd, 0.15 ms for 64 KiB of zlib. See
 * docs/performance.md.
 */
const LAYOUTS: Readonly<Record<ArchiveCodec, Layout>> = {
  zlib: { blockBytes: 64 * 1024, standaloneBytes: 64 * 1024 },
  zstd: { blockBytes: 512 * 1024, standaloneBytes: 256 * 1024 },
};

/** Maximum concurrent compressions on the thread pool. Half of the pool remains free for files and DNS lookups. */
const PENDING_JOBS = 2;
/** Bytes buffered before a write. */
const OUTPUT_BYTES = 1024 * 1024;

/** A record for a sealed file. A record without a payload is purged. */
export interface SealedRecord {
  readonly kind: number;
  readonly rawLength: number;
  readonly hash: Buffer;
  readonly payload: Buffer | undefined;
}

interface StoredRecord {
  readonly kind: number;
  readonly flags: number;
  readonly rawLength: number;
  readonly hash: Buffer;
  readonly codec: number;
  readonly stored: Buffer;
}

/** A block that is being compressed. */
interface Job {
  /** Number of records, or 0 for a standalone record. */
  readonly records: number;
  readonly job: Promise<StoredRecord>;
  /** The block's memory, reused afterwards. */
  readonly memory: Buffer | undefined;
}

/** Writes everything after a sealed file's header: blocks and standalone records, the footer, the trailer. */
export class SealedFileWriter {
  readonly #kinds: number[] = [];
  readonly #rawLengths: number[] = [];
  readonly #containers: Container[] = [];
  #block: Buffer | undefined;
  #blockBytes = 0;
  #blockRecords = 0;
  readonly #jobs: Job[] = [];
  readonly #spare: Buffer[] = [];
  #output: Buffer[] = [];
  #outputBytes = 0;
  /** Offset of the next record. */
  #offset: number;
  #written: number;

  /** @param codec zstd only if FORMAT allows it (see `allowZstd`) */
  constructor(
    private readonly file: LogFile,
    private readonly space: RecordSpace,
    offset: number,
    private readonly codec: ArchiveCodec,
  ) {
    this.#offset = offset;
    this.#written = offset;
  }

  /** Adds a record. Its payload can be changed once the promise resolves. */
  async add(record: SealedRecord): Promise<void> {
    const { kind, rawLength, payload, hash } = record;
    this.#kinds.push(payload === undefined ? kind | PURGED_BIT : kind);
    this.#rawLengths.push(rawLength);
    if (payload !== undefined && rawLength >= LAYOUTS[this.codec].standaloneBytes) {
      await this.#endBlock();
      // Compression may still be running when the caller reuses the payload's memory, so the payload is copied.
      await this.#queue(0, this.#compressed(kind, Buffer.from(payload), hash));
      return;
    }
    const length = innerLength(rawLength, payload === undefined);
    this.#block ??= this.#spare.pop() ?? Buffer.allocUnsafeSlow(this.#mostBlockBytes);
    for (const part of encodeInner(record)) {
      part.copy(this.#block, this.#blockBytes);
      this.#blockBytes += part.length;
    }
    if (this.#blockBytes > this.#block.length) throw new Error(`no room for ${length} bytes`);
    this.#blockRecords += 1;
    if (this.#blockBytes >= LAYOUTS[this.codec].blockBytes) await this.#endBlock();
  }

  /** Writes all remaining data, and returns the file's length. */
  async end(): Promise<number> {
    await this.#endBlock();
    while (this.#jobs.length > 0) await this.#settle();
    const footer = encodeFooter({
      kinds: Uint8Array.from(this.#kinds),
      rawLengths: Uint32Array.from(this.#rawLengths),
      containers: this.#containers,
    });
    const offset = this.#offset;
    const hash = digest('sha256', footer, 'buffer');
    this.#put(await this.#compressed(STORED_KIND.footer, footer, hash));
    this.#push(encodeTrailer(this.space, offset, this.#offset - offset));
    await this.#write();
    return this.#offset;
  }

  async #endBlock(): Promise<void> {
    const memory = this.#block;
    if (memory === undefined) return;
    const raw = memory.subarray(0, this.#blockBytes);
    const records = this.#blockRecords;
    this.#block = undefined;
    this.#blockBytes = 0;
    this.#blockRecords = 0;
    const hash = digest('sha256', raw, 'buffer');
    await this.#queue(records, this.#compressed(STORED_KIND.block, raw, hash), memory);
  }

  /** A block holds less than `blockBytes` until its last record, smaller than a standalone one, is added. */
  get #mostBlockBytes(): number {
    const { blockBytes, standaloneBytes } = LAYOUTS[this.codec];
    return blockBytes + innerLength(standaloneBytes, false);
  }

  async #queue(records: number, job: Promise<StoredRecord>, memory?: Buffer): Promise<void> {
    // Until `#settle` awaits the job, a failure must not be reported as unhandled.
    job.catch(() => undefined);
    this.#jobs.push({ records, job, memory });
    if (this.#jobs.length >= PENDING_JOBS) await this.#settle();
  }

  async #settle(): Promise<void> {
    const next = this.#jobs.shift();
    if (next === undefined) return;
    const { records } = next;
    this.#containers.push({
      offset: this.#offset,
      records: Math.max(records, 1),
      block: records > 0,
    });
    const record = await next.job;
    this.#put(record);
    // An incompressible block is stored unchanged, so its memory is needed until it is written.
    if (next.memory !== undefined && record.stored.buffer !== next.memory.buffer) {
      this.#spare.push(next.memory);
    }
    if (this.#outputBytes >= OUTPUT_BYTES) await this.#write();
  }

  #put({ kind, flags, rawLength, hash, codec, stored }: StoredRecord): void {
    const header = Buffer.allocUnsafe(RECORD_HEADER_BYTES);
    const storedLength = stored.length;
    const fields = { kind, codec, flags, rawLength, storedLength, hash, crc: crc32(stored) };
    writeRecordHeader(header, 0, fields, this.space, this.#offset);
    this.#push(header);
    this.#push(stored);
  }

  #push(bytes: Buffer): void {
    this.#output.push(bytes);
    this.#outputBytes += bytes.length;
    this.#offset += bytes.length;
  }

  async #write(): Promise<void> {
    const bytes = Buffer.concat(this.#output);
    this.#output = [];
    this.#outputBytes = 0;
    await writeAll(this.file, bytes, this.#written);
    this.#written += bytes.length;
  }

  async #compressed(kind: number, raw: Buffer, hash: Buffer): Promise<StoredRecord> {
    const { codec, stored } = await compressPayload(this.codec, raw);
    return { kind, flags: 0, rawLength: raw.length, hash, codec, stored };
  }
}

/** Bytes to read back before yielding to other work. Hashing them takes a few milliseconds. */
const TURN_BYTES = 4 * 1024 * 1024;

type Purge = (record: LogicalRecord, ordinal: number) => boolean;

interface SealOptions {
  readonly dir: string;
  /** A segment before the writer's current one. The caller holds the archive's lock. */
  readonly segment: number;
  readonly files?: FileLayer;
  /** The first use of zstd raises FORMAT to 2. */
  readonly codec?: ArchiveCodec;
  /**
   * Reports whether to remove a record's payload permanently. The record keeps its identity, so the chain remains
   * valid.
   */
  readonly purge?: Purge;
}

export interface SealedSegment {
  readonly segment: number;
  readonly generation: number;
  readonly records: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

/**
 * Writes the next generation of a segment. It contains the same records in the same order, with small ones in
 * compressed blocks, and a footer that indexes them by ordinal. The file is read back and verified before it is
 * renamed. If the process is killed, the old generation remains in force. It stays until `dropOldGenerations` runs.
 *
 * @throws `log-damaged` if the segment is damaged, which sealing would hide; `disk-full`, `log-write-failed`,
 * `log-sync-failed` if nothing has changed
 */
export async function sealSegment(options: SealOptions): Promise<SealedSegment> {
  const { dir, segment, files = realFiles, codec = DEFAULT_CODEC, purge = () => false } = options;
  const generations = listGenerations(files, dir, segment);
  const source = openCurrentGeneration(files, dir, segment, generations);
  const name = { segment, generation: Math.max(...generations) + 1 };
  const path = segmentPath(dir, name);
  try {
    if (codec === 'zstd') await convertWriteErrors(formatPath(dir), 0, () => allowZstd(files, dir));
    const { bytesAfter, copied } = await publishFile(files, path, source.file.size(), {
      write: (target) => copyRecords(source, target, { name, codec, purge }),
      check: (temporary, written) =>
        verifyRecords(openWritten(files, dir, name, temporary), written.copied),
    });
    return { ...name, records: copied.count, bytesBefore: source.file.size(), bytesAfter };
  } finally {
    source.file.close();
  }
}

async function copyRecords(
  source: OpenSegment,
  target: LogFile,
  how: { readonly name: SegmentFile; readonly codec: ArchiveCodec; readonly purge: Purge },
): Promise<{ readonly bytesAfter: number; readonly copied: Identities }> {
  const { codec, purge } = how;
  const { generation } = how.name;
  await writeAll(target, encodeSegmentHeader({ ...source.header, generation }), 0);
  const writer = new SealedFileWriter(target, source.header, SEGMENT_HEADER_BYTES, codec);
  const copied = new Identities();
  for (const record of segmentRecords(source, { digest: true, releases: true })) {
    const whole = check(source, record);
    const { kind, rawLength, hash, payload, state } = whole;
    const isPurged = state === 'purged' || purge(whole, copied.count);
    addIdentity(copied, whole, isPurged);
    await writer.add({ kind, rawLength, hash, payload: isPurged ? undefined : payload });
  }
  return { bytesAfter: await writer.end(), copied };
}

function addIdentity(
  identities: Identities,
  { kind, rawLength, hash }: LogicalRecord,
  isPurged: boolean,
): void {
  identities.add(isPurged ? kind | PURGED_BIT : kind, rawLength, hash);
}

function openWritten(files: FileLayer, dir: string, name: SegmentFile, path: string): OpenSegment {
  const opened = openSegment(files, dir, name, path);
  if (opened?.sealed !== undefined) return opened;
  opened?.file.close();
  throw archiveError('log-damaged', {
    file: path,
    segment: name.segment,
    offset: 0,
    reason: 'footer',
  });
}

/** Reads a whole file. @throws `log-damaged` unless it contains exactly these records, of which the same are purged */
async function verifyRecords(written: OpenSegment, expected: Identities): Promise<void> {
  try {
    const found = new Identities();
    let bytes = 0;
    for (const item of segmentRecords(written, { digest: true, releases: true })) {
      const record = check(written, item);
      addIdentity(found, record, record.state === 'purged');
      bytes += record.rawLength;
      if (bytes >= TURN_BYTES) {
        bytes = 0;
        await nextTurn();
      }
    }
    if (!found.bytes().equals(expected.bytes()))
      throw segmentDamage(written, written.file.size(), 'bytes');
  } finally {
    written.file.close();
  }
}

function check(segment: OpenSegment, record: LogicalRecord | UnreadableBytes): LogicalRecord {
  if (record.what === 'record' && record.state !== 'damaged') return record;
  throw segmentDamage(segment, record.offset, record.what === 'lost' ? record.reason : 'payload');
}

export interface SealJob {
  readonly dir: string;
  readonly segment: number;
  readonly codec: ArchiveCodec;
  /** Ordinals of the records whose payloads will be removed permanently. */
  readonly purged?: ReadonlySet<number>;
}

/** Rewrites one segment at a time. */
export interface Sealer {
  /** @throws the same errors as `sealSegment` */
  seal(job: SealJob): Promise<SealedSegment>;
  close(): Promise<void>;
}

export function sealerInProcess(files: FileLayer): Sealer {
  return {
    seal: ({ purged, ...job }) =>
      sealSegment({ ...job, files, purge: (_, ordinal) => purged?.has(ordinal) === true }),
    async close() {},
  };
}

/** Sealing uses little V8 heap. Without a limit, the young generation grows to 48 MB. */
const HEAP: HeapLimits = { oldGenerationMb: 256, youngGenerationMb: 6 };

/**
 * Returns a sealer that runs on its own thread, which starts with the first segment. Sealing 64 MiB takes a second or
 * more of processor time, during which this thread can answer requests.
 */
export function sealerOnThread(): Sealer {
  const pool = new JobPool<SealJob, SealedSegment>(1, {
    name: 'mailkeep-seal',
    file: builtWorker('seal-worker'),
    heap: HEAP,
  });
  return { seal: (job) => pool.run(job), close: () => pool.end() };
}

export interface SealResult {
  readonly sealed: readonly SealedSegment[];
  /** Errors for damaged segments, which are left unchanged. */
  readonly damaged: readonly MailkeepError[];
}

/** Seals every segment before the writer's current one. */
export async function sealClosedSegments(options: {
  readonly dir: string;
  readonly before: number;
  readonly files?: FileLayer;
  readonly codec?: ArchiveCodec;
  readonly sealer?: Sealer;
  readonly signal?: AbortSignal;
}): Promise<SealResult> {
  const { dir, before, files = realFiles, codec = DEFAULT_CODEC, signal } = options;
  const sealer = options.sealer ?? sealerInProcess(files);
  const sealed: SealedSegment[] = [];
  const damaged: MailkeepError[] = [];
  for (const [segment, generations] of listSegments(files, dir)) {
    if (segment >= before || signal?.aborted === true) break;
    try {
      if (!withSegment(files, dir, segment, isSealed, generations))
        sealed.push(await sealer.seal({ dir, segment, codec }));
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
      damaged.push(error);
    }
  }
  return { sealed, damaged };
}
