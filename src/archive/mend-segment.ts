import { hash as digest } from 'node:crypto';
import { basename } from 'node:path';
import { crc32 } from 'node:zlib';
import { errnoName } from '../core/errors.ts';
import { archiveError } from './errors.ts';
import {
  type FileLayer,
  type LogFile,
  openRegular,
  overlayFiles,
  readFully,
  writeAll,
} from './file-system.ts';
import {
  type CommitRecord,
  commitHash,
  decodeCommit,
  decodeSegmentHeader,
  encodeSegmentHeader,
  formatPath,
  Identities,
  parseSegmentName,
  RECORD_HEADER_BYTES,
  RECORD_KIND,
  type RecordHeader,
  type RecordSpace,
  readRecordHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentFile,
  type SegmentHeader,
  segmentPath,
} from './format.ts';
import { convertWriteErrors, publishFile } from './hot-segment.ts';
import { inflatePayload } from './payload.ts';
import { allowsZstd, allowZstd } from './recovery.ts';
import { SealedFileWriter, type SealedRecord } from './seal.ts';
import { purgedOrdinals } from './sealed-footer.ts';
import { listGenerations, type OpenSegment } from './segment-files.ts';
import {
  type ChainState,
  FileWindow,
  segmentRecords,
  verifyWrittenSegment,
  walkRecords,
} from './segment-reader.ts';

/** Finds a payload by its SHA-256. */
type FindPayload = (hash: Buffer, kind: number) => Buffer | undefined;

/** Reports whether a record in a commit was deliberately forgotten, so that its payload must not be written again. */
export type ForgottenCheck = (record: SealedRecord, commit: number) => boolean;

export interface FileTrust {
  /** Reports whether a commit leads to one known from the log, the catalog, or a signed checkpoint or manifest. */
  readonly isProven: (commit: ChainState) => boolean;
  /** Number of the last known commit. Later commits must be proven. */
  readonly last: number;
}

interface MendOptions {
  readonly dir: string;
  readonly segment: number;
  readonly files: FileLayer;
  /** Files of the same segment: other generations, or other copies of the archive. */
  readonly sources: readonly OpenSegment[];
  /** Sources from other directories, whose purge marks are not trusted. */
  readonly foreign?: ReadonlyMap<OpenSegment, FileTrust>;
  readonly find: FindPayload;
  readonly isForgotten?: ForgottenCheck;
  /** Ordinals marked as purged in files whose headers are damaged. */
  readonly purged?: ReadonlySet<number>;
  /** The end of the segment according to the next segment's header. */
  readonly end?: ChainState | undefined;
  /** A commit recorded by a catalog or checkpoint, or number 0. The segment contains it or starts after it. */
  readonly reach: ChainState | undefined;
}

/**
 * Rebuilds a damaged segment from its readable batches and writes it as the next generation. Takes each batch from any
 * file in which it is intact, and finds lost payloads elsewhere by hash. Payloads that a local file marks as purged
 * remain purged. Renames the new file once it has been read back and every record verified against the chain. Uses zstd
 * only if FORMAT already allows it.
 *
 * @returns the generation, or undefined if nothing was written: some batch is intact in none of the files, or the chain
 * does not lead to `end` and `reach` or ends with an unproven batch
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`
 */
export async function mendSegment(options: MendOptions): Promise<number | undefined> {
  const { dir, segment, files, sources } = options;
  const [first] = sources;
  if (first === undefined) return undefined;
  const codec = allowsZstd(files, dir) ? 'zstd' : 'zlib';
  // If another process wrote FORMAT, the file may not be on disk yet.
  if (codec === 'zstd') await convertWriteErrors(formatPath(dir), 0, () => allowZstd(files, dir));
  const generation = Math.max(1, ...listGenerations(files, dir, segment)) + 1;
  const path = segmentPath(dir, { segment, generation });
  const isComplete = await publishFile(files, path, 0, {
    async write(target) {
      const header: SegmentHeader = { ...first.header, generation };
      await writeAll(target, encodeSegmentHeader(header), 0);
      const writer = new SealedFileWriter(target, header, SEGMENT_HEADER_BYTES, codec);
      for (const batch of mendedBatches(options)) {
        if (batch === undefined) return false;
        for (const record of batch) await writer.add(record);
      }
      await writer.end();
      return true;
    },
    check(temporary, complete) {
      if (!complete) return false;
      const wrong = () =>
        archiveError('log-damaged', { file: temporary, segment, offset: 0, reason: 'bytes' });
      const last = verifyWrittenSegment(files, { segment, generation }, temporary, true, wrong);
      if (last < ((options.end ?? options.reach)?.number ?? 0)) throw wrong();
      return true;
    },
  });
  return isComplete ? generation : undefined;
}

/** Yields the batches in order with their commits. Yields undefined and stops if no source has the next one. */
function* mendedBatches({
  sources,
  foreign = new Map(),
  find,
  end,
  reach,
  isForgotten = () => false,
  purged: purgedElsewhere = new Set(),
}: MendOptions): Generator<readonly SealedRecord[] | undefined, void, undefined> {
  const localSources = sources.filter((source) => !foreign.has(source));
  const purged = findPurged(localSources, purgedElsewhere);
  const [first] = sources;
  let number = first?.header.previousNumber ?? 0;
  let hash = first?.header.previousHash ?? '';
  let ordinal = 0;
  /** True if the last batch is local or leads to a known commit. */
  let isProven = true;
  const ends = [end, reach].filter((commit) => commit !== undefined && commit.number > 0);
  /** Detects a diverged log, whose chain is also valid. */
  const isForked = (): boolean => ends.some((one) => one?.number === number && one.hash !== hash);
  const walks = sources.map((source) => trustedBatches(source, find, foreign.get(source)));
  let heads = walks.map((walk) => walk.next().value);
  for (;;) {
    // Skips batches that were taken from another source.
    heads = heads.map((head, i) => {
      let at = head;
      while (at !== undefined && at.commit.number <= number) at = walks[i]?.next().value;
      return at;
    });
    const next = heads
      .filter((head) => head?.commit.number === number + 1 && head.whole(hash))
      .reduce(
        (best, head) => (best === undefined || (!best.isProven && head?.isProven) ? head : best),
        undefined,
      );
    if (next === undefined || isForked()) break;
    const twins = heads.filter(
      (head) => head?.commit.hash === next.commit.hash && head.whole(hash),
    );
    yield next.records.map((record, at) => {
      const isPurged =
        twins.some((twin) => twin?.isOurs === true && twin.records[at]?.payload === undefined) ||
        purged.has(ordinal + at, record) ||
        isForgotten(record, next.commit.number);
      const [payload] = isPurged ? [] : twins.flatMap((twin) => twin?.records[at]?.payload ?? []);
      return { ...record, payload };
    });
    ordinal += next.records.length;
    ({ number, hash } = next.commit);
    isProven = next.isProven || ends.some((one) => one?.number === number && one.hash === hash);
  }
  const hasMore = heads.some((head) => head !== undefined);
  const isShort = reach !== undefined && reach.number > number;
  const endsElsewhere = end === undefined ? isShort : end.number !== number;
  const isEmpty = ordinal === 0 && localSources.length === 0;
  if (endsElsewhere || hasMore || isForked() || !isProven || isEmpty) yield undefined;
}

/**
 * Finds the records that a local file marks as purged, by ordinal in its footer and by hash in its records. Facts are
 * identified only by ordinal, because two facts with identical bytes can concern different messages.
 */
function findPurged(sources: readonly OpenSegment[], knownOrdinals: ReadonlySet<number>) {
  const ordinals = new Set(knownOrdinals);
  const hashes = new Set<string>();
  const nameOf = (kind: number, hash: Buffer): string => `${kind} ${hash.toString('hex')}`;
  for (const source of sources) {
    for (const at of purgedOrdinals(source.file, source.header)) ordinals.add(at);
    for (const record of segmentRecords(source, { digest: false })) {
      if (record.what !== 'record' || record.state !== 'purged') continue;
      if (record.kind !== RECORD_KIND.fact) hashes.add(nameOf(record.kind, record.hash));
    }
  }
  return {
    has: (ordinal: number, { kind, hash }: SealedRecord): boolean =>
      ordinals.has(ordinal) || hashes.has(nameOf(kind, hash)),
  };
}

interface TrustedBatch extends RawBatch {
  readonly isOurs: boolean;
  /** True if the batch is local or leads to a known commit. */
  readonly isProven: boolean;
}

function* trustedBatches(
  source: OpenSegment,
  find: FindPayload,
  foreign: FileTrust | undefined,
): Generator<TrustedBatch, undefined, undefined> {
  for (const batch of rawBatches(source, find)) {
    const isProven = foreign === undefined || foreign.isProven(batch.commit);
    if (!isProven && batch.commit.number > foreign.last) return undefined;
    yield { ...batch, isOurs: foreign === undefined, isProven };
  }
  return undefined;
}

interface RawBatch {
  readonly commit: CommitRecord;
  readonly records: readonly SealedRecord[];
  /** Reports whether the records match the commit and it follows `previous` in the chain. */
  whole(previous: string): boolean;
}

function* rawBatches(
  source: OpenSegment,
  find: FindPayload,
): Generator<RawBatch, undefined, undefined> {
  let records: SealedRecord[] = [];
  let lost = false;
  for (const record of segmentRecords(source, { digest: true })) {
    if (record.what === 'lost') {
      lost = lost || record.reason !== 'footer';
      continue;
    }
    const { kind, rawLength, hash, state } = record;
    const found = state === 'damaged' ? find(hash, kind) : record.payload;
    const payload = found === undefined ? undefined : Buffer.from(found);
    lost = lost || (state === 'damaged' && payload === undefined);
    records.push({ kind, rawLength, hash, payload });
    if (kind !== RECORD_KIND.commit) continue;
    const commit = payload === undefined ? undefined : decodeCommit(payload);
    if (commit !== undefined) {
      const [taken, gap] = [records, lost];
      yield {
        commit,
        records: taken,
        whole: (previous) => !gap && proves(commit, taken, previous),
      };
    }
    records = [];
    lost = commit === undefined;
  }
  return undefined;
}

function proves(commit: CommitRecord, records: readonly SealedRecord[], previous: string): boolean {
  const identities = new Identities();
  for (const { kind, rawLength, hash } of records.slice(0, -1)) {
    identities.add(kind, rawLength, hash);
  }
  const { number, time, hash } = commit;
  return (
    commit.previous === previous &&
    commit.records === records.length - 1 &&
    hash === commitHash(previous, number, time, identities)
  );
}

/** Size of the smallest unit that a disk can fail to read. */
const SECTOR = 4_096;

/** Collects the unreadable sectors of the most recently opened file. */
export class BadSectors {
  readonly #sectors = new Set<number>();

  note(position: number): void {
    this.#sectors.add(Math.floor(position / SECTOR));
  }

  forget(): void {
    this.#sectors.clear();
  }

  /** Returns the unreadable ranges in order, with adjacent sectors joined. */
  stretches() {
    const found: { offset: number; end: number }[] = [];
    for (const sector of [...this.#sectors].sort((a, b) => a - b)) {
      const offset = sector * SECTOR;
      const last = found.at(-1);
      if (last?.end === offset) last.end += SECTOR;
      else found.push({ offset, end: offset + SECTOR });
    }
    return found;
  }
}

/**
 * Returns a file layer that reads unreadable sectors (EIO) as zeros, so that checks detect them, and records them in
 * `bad`. The caller must report them, because zeros after the last commit look like unfinished work.
 */
export function readAroundBadSectors(files: FileLayer, bad = new BadSectors()): FileLayer {
  return overlayReads(files, (file) => {
    bad.forget();
    return overBadSectors(file, bad);
  });
}

/** Returns a file layer that reports unreadable bytes in a segment (EIO) as `log-damaged`. */
export function reportUnreadable(files: FileLayer): FileLayer {
  return overlayReads(files, (file, path) => (target, position) => {
    try {
      return file.read(target, position);
    } catch (error) {
      const name = parseSegmentName(basename(path));
      if (errnoName(error) !== 'EIO' || name === undefined) throw error;
      const { segment } = name;
      throw archiveError('log-damaged', {
        file: path,
        segment,
        offset: position,
        reason: 'unreadable',
      });
    }
  });
}

function overlayReads(
  files: FileLayer,
  createRead: (file: LogFile, path: string) => LogFile['read'],
): FileLayer {
  return overlayFiles(files, {
    open(path, access) {
      const file = files.open(path, access);
      if (access !== 'read') return file;
      return {
        read: createRead(file, path),
        size: () => file.size(),
        write: (bytes, position) => file.write(bytes, position),
        datasync: () => file.datasync(),
        truncate: (length) => file.truncate(length),
        close: () => file.close(),
      };
    },
  });
}

function overBadSectors(file: LogFile, bad: BadSectors): LogFile['read'] {
  const read = (target: Uint8Array, position: number): number => {
    try {
      return file.read(target, position);
    } catch (error) {
      if (errnoName(error) !== 'EIO') throw error;
    }
    const sectorRest = SECTOR - (position % SECTOR);
    const length = Math.max(0, Math.min(target.length, sectorRest, file.size() - position));
    // Reads the sectors before the bad one individually.
    if (length < target.length)
      return length === 0 ? 0 : read(target.subarray(0, length), position);
    target.fill(0);
    bad.note(position);
    return length;
  };
  return read;
}

/** CRC-32 table (polynomial 0xEDB88320, reflected). Entry b is the contribution of a final byte b. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

/**
 * Finds the single flipped bit that explains a wrong CRC-32. CRCs are linear: the change depends only on the bit's
 * distance from the end.
 */
function flippedBit(
  bytes: Buffer,
  expected: number,
): { readonly at: number; readonly mask: number } | undefined {
  const syndrome = (crc32(bytes) ^ expected) >>> 0;
  const deltas = Uint32Array.from({ length: 8 }, (_, bit) => TABLE[1 << bit] ?? 0);
  for (let at = bytes.length - 1; at >= 0; at -= 1) {
    for (let bit = 0; bit < 8; bit += 1) {
      const change = deltas[bit] ?? 0;
      if (change === syndrome) return { at, mask: 1 << bit };
      deltas[bit] = (change >>> 8) ^ (TABLE[change & 0xff] ?? 0);
    }
  }
  return undefined;
}

/** Flips the bits of a small buffer one at a time until `accepts` returns true. Leaves that bit flipped. */
function flipUntil(
  bytes: Buffer,
  accepts: () => boolean,
): { readonly at: number; readonly mask: number } | undefined {
  for (let at = 0; at < bytes.length; at += 1) {
    for (let mask = 1; mask < 256; mask *= 2) {
      bytes[at] = (bytes[at] ?? 0) ^ mask;
      if (accepts()) return { at, mask };
      bytes[at] = (bytes[at] ?? 0) ^ mask;
    }
  }
  return undefined;
}

/**
 * Opens a segment's file for reading and corrects flipped bits if its CRCs and hashes confirm them. Does not change the
 * file, and ignores its footer. Returns undefined if the header cannot be recovered. The caller closes the file.
 */
export function openStraightened(
  files: FileLayer,
  dir: string,
  name: SegmentFile,
): OpenSegment | undefined {
  const path = segmentPath(dir, name);
  const file = openRegular(files, path);
  if (file === undefined) return undefined;
  const patchedFile = new PatchedFile(file);
  const header = straightenHeader(patchedFile, name);
  if (header === undefined) {
    file.close();
    return undefined;
  }
  straightenRecords(patchedFile, header);
  return { file: patchedFile, name, path, header, sealed: undefined };
}

const refuseToWrite = () => Promise.reject(new Error('read only'));

class PatchedFile implements LogFile {
  readonly write = refuseToWrite;
  readonly datasync = refuseToWrite;
  readonly truncate = refuseToWrite;
  readonly #patches = new Map<number, number>();

  constructor(private readonly file: LogFile) {}

  turn(at: number, mask: number): void {
    this.#patches.set(at, (this.#patches.get(at) ?? 0) ^ mask);
  }

  read(target: Uint8Array, position: number): number {
    const got = this.file.read(target, position);
    for (const [at, mask] of this.#patches) {
      if (at >= position && at < position + got) {
        target[at - position] = (target[at - position] ?? 0) ^ mask;
      }
    }
    return got;
  }

  size(): number {
    return this.file.size();
  }

  close(): void {
    this.file.close();
  }
}

function straightenHeader(file: PatchedFile, name: SegmentFile): SegmentHeader | undefined {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
  if (readFully(file, bytes, 0) < SEGMENT_HEADER_BYTES) return undefined;
  const read = (): SegmentHeader | undefined => {
    const header = decodeSegmentHeader(bytes);
    const isExpected = header?.segment === name.segment && header.generation === name.generation;
    return isExpected ? header : undefined;
  };
  const intact = read();
  if (intact !== undefined) return intact;
  const flipped = flipUntil(bytes, () => read() !== undefined);
  if (flipped === undefined) return undefined;
  file.turn(flipped.at, flipped.mask);
  return read();
}

function straightenRecords(file: PatchedFile, space: RecordSpace): void {
  let from = SEGMENT_HEADER_BYTES;
  // After correcting a header, restart the walk, because its window still holds the old bytes.
  for (let isRestarting = true; isRestarting; ) {
    isRestarting = false;
    for (const record of walkRecords(new FileWindow(file), space, from)) {
      if (record.kind === 'gap') {
        if (!straightenRecordHeader(file, space, record.offset)) continue;
        from = record.offset;
        isRestarting = true;
        break;
      }
      if (record.stored === undefined) straightenPayload(file, record.header, record.offset);
    }
  }
}

function straightenRecordHeader(file: PatchedFile, space: RecordSpace, offset: number): boolean {
  const bytes = Buffer.alloc(RECORD_HEADER_BYTES);
  if (readFully(file, bytes, offset) < RECORD_HEADER_BYTES) return false;
  const flipped = flipUntil(bytes, () => {
    const header = readRecordHeader(bytes, 0, space, offset);
    if (header === undefined) return false;
    return offset + RECORD_HEADER_BYTES + header.storedLength <= file.size();
  });
  if (flipped === undefined) return false;
  file.turn(offset + flipped.at, flipped.mask);
  return true;
}

function straightenPayload(file: PatchedFile, header: RecordHeader, offset: number): void {
  const stored = Buffer.alloc(header.storedLength);
  const start = offset + RECORD_HEADER_BYTES;
  if (readFully(file, stored, start) < stored.length) return;
  const flipped = flippedBit(stored, header.crc);
  if (flipped === undefined) return;
  stored[flipped.at] = (stored[flipped.at] ?? 0) ^ flipped.mask;
  const payload = inflatePayload(header, stored);
  // A CRC can match by chance, but a hash cannot.
  if (payload === undefined || !digest('sha256', payload, 'buffer').equals(header.hash)) return;
  file.turn(start + flipped.at, flipped.mask);
}
