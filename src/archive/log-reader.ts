import { createHash, hash as digest } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { errnoName, MailkeepError } from '../core/errors.ts';
import type { BlobHash, MessageId } from '../core/types.ts';
import { archiveError, type DamageReason } from './errors.ts';
import { type FileLayer, readFully, realFiles } from './file-system.ts';
import {
  type CommitRecord,
  type CommittedBatch,
  decodeCommit,
  type Fact,
  genesisHash,
  type Locator,
  logFolder,
  type Position,
  RECORD_HEADER_BYTES,
  RECORD_KIND,
  type RecordMeaning,
  readRecordHeader,
  SEGMENT_HEADER_BYTES,
  STORED_KIND,
  segmentPath,
} from './format.ts';
import {
  inflatePayload,
  interpretRecord,
  type MessagePayload,
  RecipeMismatch,
  readFact,
  readMessagePayload,
  rebuildPieces,
  rebuildSource,
} from './payload.ts';
import {
  checkFormat,
  type ExpectedCommit,
  readBatchesToEnd,
  requireExpectedCommit,
} from './recovery.ts';
import { decodeInner, headerAt, type SealedIndex } from './sealed-footer.ts';
import {
  listGenerations,
  listSegments,
  type OpenSegment,
  segmentDamage,
  tryOpenSegment,
  withSegment,
} from './segment-files.ts';
import {
  type ChainState,
  FileWindow,
  type Problem,
  type ReadBatch,
  type RecordReading,
  SegmentCache,
  segmentBatches,
  walkRecords,
  walkToEnd,
} from './segment-reader.ts';

/** Returns the positions of the facts in a segment's nth commit, or undefined if n is too large. Counts from 0. */
type CommitsOf = (n: number) => readonly Position[] | undefined;

/** Finds a commit's facts: the records directly before it. Walks each part of an unsealed file only once. */
class CommitFacts {
  readonly #commitIndexes = new WeakMap<OpenSegment, CommitsOf>();

  constructor(
    private readonly dir: string,
    private readonly segments: SegmentCache,
  ) {}

  /**
   * Returns a commit's facts in log order, except purged ones.
   *
   * @throws `log-damaged` if the log does not contain the commit or a fact is unreadable
   */
  read(commit: number): Fact[] {
    const segment = this.#segmentOf(commit);
    const opened = this.segments.opened(segment);
    const positions = this.#commitsOf(opened)(commit - opened.header.previousNumber - 1);
    if (positions === undefined) throw segmentDamage(opened, SEGMENT_HEADER_BYTES, 'commit');
    return positions.flatMap((position) => {
      const record = this.segments.fetch(position);
      if (record.state === 'purged') return [];
      const fact =
        record.state === 'present' ? readFact(record.payload.toString('utf8')) : undefined;
      if (fact === undefined) throw segmentDamage(opened, position.offset, 'fact');
      return [fact];
    });
  }

  /** Returns the last segment that starts before a commit. */
  #segmentOf(commit: number): number {
    const numbers = this.segments.numbers();
    let [low, high] = [0, numbers.length];
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      const { header } = this.segments.opened(numbers[middle] ?? 0);
      if (header.previousNumber < commit) low = middle;
      else high = middle;
    }
    const segment = numbers[low];
    if (segment === undefined)
      throw archiveError('log-damaged', {
        file: logFolder(this.dir),
        segment: 1,
        offset: 0,
        reason: 'segment-missing',
      });
    return segment;
  }

  #commitsOf(opened: OpenSegment): CommitsOf {
    let commits = this.#commitIndexes.get(opened);
    if (commits === undefined) {
      commits =
        opened.sealed === undefined
          ? indexCommits(opened)
          : sealedCommits(opened.header.segment, opened.sealed.index);
      this.#commitIndexes.set(opened, commits);
    }
    return commits;
  }
}

function sealedCommits(segment: number, index: SealedIndex): CommitsOf {
  const ordinals = index.ordinalsOf(STORED_KIND.commit);
  return (n) => {
    const commit = ordinals[n];
    if (commit === undefined) return undefined;
    let first = commit;
    while (first > 0 && index.kindOf(first - 1) === STORED_KIND.fact) first -= 1;
    // Sealed files are read by ordinal, so the offset does not matter.
    return Array.from({ length: commit - first }, (_, i) => {
      return { segment, ordinal: first + i, offset: 0 };
    });
  };
}

/** Indexes the commits of an unsealed segment, and walks new records when a later commit is requested. */
function indexCommits({ file, header: space }: OpenSegment): CommitsOf {
  const commits: (readonly Position[])[] = [];
  let end = { offset: SEGMENT_HEADER_BYTES, ordinal: 0 };
  const walk = (): void => {
    let { ordinal } = end;
    let facts: Position[] = [];
    for (const record of walkRecords(new FileWindow(file), space, end.offset)) {
      // Commits after damage or unfinished work cannot be counted.
      if (record.kind === 'gap') return;
      const { header, offset } = record;
      if (header.kind === STORED_KIND.fact) facts.push({ segment: space.segment, ordinal, offset });
      ordinal += 1;
      if (header.kind !== STORED_KIND.commit) continue;
      commits.push(facts);
      facts = [];
      end = { offset: offset + RECORD_HEADER_BYTES + header.storedLength, ordinal };
    }
  };
  return (n) => {
    if (n >= commits.length) walk();
    return commits[n];
  };
}

interface LogReaderOptions {
  readonly dir: string;
  readonly locator: Locator;
  readonly files?: FileLayer;
}

interface ReadSource {
  readonly bytes: Buffer;
  readonly cut: boolean;
}

export type LogReader = Omit<CachedReader, 'keepBlock'>;

/** @throws `archive-missing`, `archive-format-newer`, `archive-format-unreadable` */
export function openLogReader(options: LogReaderOptions): CachedReader {
  const { dir, locator, files = realFiles } = options;
  checkFormat(files, dir);
  return new CachedReader(dir, new SegmentCache(files, dir), locator);
}

/**
 * Reads messages and blobs by hash, even while a writer runs and segments are sealed. Verifies that complete sources
 * and blobs have the requested hash. Do not write to the returned buffers, which may be views of shared memory. Every
 * method throws `bytes-unknown` if the locator has no position, `bytes-purged` if the bytes were removed on purpose,
 * and `message-damaged` or `blob-damaged` if they differ from what was stored.
 */
class CachedReader {
  readonly #facts: CommitFacts;

  constructor(
    dir: string,
    private readonly segments: SegmentCache,
    private readonly locator: Locator,
  ) {
    this.#facts = new CommitFacts(dir, segments);
  }

  readMessage(id: MessageId): Buffer {
    return this.#withRetry(() => this.#rebuildWhole(id, this.#message(id)));
  }

  /** Streams a raw source of any size. The source is verified only once the stream has ended without an error. */
  async *streamMessage(id: MessageId): AsyncGenerator<Buffer, void, undefined> {
    const hasher = createHash('sha256');
    const pieces = rebuildPieces(
      this.#withRetry(() => this.#message(id)),
      this.#blobSource,
    );
    for (;;) {
      const next = this.#rebuild(id, () => pieces.next());
      if (next.done === true) break;
      hasher.update(next.value);
      yield next.value;
    }
    if (hasher.digest('hex') !== id)
      throw archiveError('message-damaged', { message: id, reason: 'hash' });
  }

  /** Returns the first `maxBytes` bytes of a source. Verifies the hash only if they are the whole source. */
  readSource(id: MessageId, maxBytes: number): ReadSource {
    return this.#withRetry(() => {
      const payload = this.#message(id);
      return payload.recipe.size <= maxBytes
        ? { bytes: this.#rebuildWhole(id, payload), cut: false }
        : { bytes: this.#beginning(id, payload, maxBytes), cut: true };
    });
  }

  #rebuildWhole(id: MessageId, payload: MessagePayload): Buffer {
    const source = this.#rebuild(id, () => rebuildSource(payload, this.#blobSource));
    if (digest('sha256', source, 'hex') !== id)
      throw archiveError('message-damaged', { message: id, reason: 'hash' });
    return source;
  }

  #beginning(id: MessageId, payload: MessagePayload, maxBytes: number): Buffer {
    return this.#rebuild(id, () => {
      const bytes = Buffer.allocUnsafe(maxBytes);
      let at = 0;
      for (const piece of rebuildPieces(payload, this.#blobSource)) {
        at += piece.copy(bytes, at);
        if (at === maxBytes) break;
      }
      return bytes.subarray(0, at);
    });
  }

  readBlob(hash: BlobHash): Buffer {
    const position = this.locator.blob(hash);
    if (position === undefined) throw archiveError('bytes-unknown', { hash });
    return this.#withRetry(() => {
      const bytes = this.#present(position, hash, RECORD_KIND.blob);
      if (bytes === undefined) throw archiveError('blob-damaged', { blob: hash, reason: 'bytes' });
      if (digest('sha256', bytes, 'hex') !== hash)
        throw archiveError('blob-damaged', { blob: hash, reason: 'hash' });
      return bytes;
    });
  }

  sizeOf(id: MessageId): number {
    return this.#withRetry(() => this.#message(id)).recipe.size;
  }

  /**
   * Returns a commit's facts in log order, except purged ones.
   *
   * @throws `log-damaged` if the log does not contain the commit
   */
  factsOf(commit: number): readonly Fact[] {
    return this.#withRetry(() => this.#facts.read(commit));
  }

  /** Caches an inflated block from a scan, because most of its messages are read soon afterwards. */
  keepBlock(path: string, offset: number, block: Buffer): void {
    this.segments.keep(path, offset, block);
  }

  /** Closes files and discards cached directory listings, for example after a purge. */
  refresh(): void {
    this.segments.forget();
  }

  close(): void {
    this.segments.forget();
  }

  /** Reads a blob for a recipe. The log contains every such blob, so a missing position means damage. */
  readonly #blobSource = (hash: BlobHash): Buffer => {
    if (this.locator.blob(hash) === undefined)
      throw archiveError('blob-damaged', { blob: hash, reason: 'absent' });
    return this.readBlob(hash);
  };

  #message(id: MessageId): MessagePayload {
    const position = this.locator.message(id);
    if (position === undefined) throw archiveError('bytes-unknown', { hash: id });
    const bytes = this.#present(position, id, RECORD_KIND.message);
    if (bytes === undefined)
      throw archiveError('message-damaged', { message: id, reason: 'bytes' });
    const payload = readMessagePayload(bytes);
    if (payload?.recipe.sha256 !== id)
      throw archiveError('message-damaged', { message: id, reason: 'recipe' });
    return payload;
  }

  #present(position: Position, hash: string, kind: number): Buffer | undefined {
    const record = this.segments.fetch(position);
    if (record.state === 'purged') throw archiveError('bytes-purged', { hash });
    return record.state === 'present' && record.kind === kind ? record.payload : undefined;
  }

  #rebuild<T>(id: MessageId, act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw error instanceof RecipeMismatch
        ? archiveError('message-damaged', { message: id, reason: 'recipe' })
        : error;
    }
  }

  /** Retries once after a failure, because sealing or a purge may have replaced a file after it was looked up. */
  #withRetry<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      const isStale =
        errnoName(error) === 'ENOENT' ||
        (error instanceof MailkeepError && error.family === 'damage');
      if (!isStale) throw error;
      this.segments.forget();
      return act();
    }
  }
}

/** A damaged part of the log. */
export interface LogDamage extends Problem {
  readonly file: string;
  readonly segment: number;
}

export type ScanEvent =
  /** `sound` if every hash and the chain were verified. Otherwise, damage events precede the batch. */
  | { readonly what: 'batch'; readonly batch: CommittedBatch; readonly sound: boolean }
  | { readonly what: 'damage'; readonly damage: LogDamage }
  /** Bytes after the last commit, from a running or interrupted writer. They are not part of the archive. */
  | {
      readonly what: 'tail';
      readonly segment: number;
      readonly offset: number;
      readonly bytes: number;
    };

export interface ScanOptions {
  readonly dir: string;
  readonly files?: FileLayer;
  /** Starts after this commit. Older segments are not read. */
  readonly after?: ExpectedCommit | undefined;
  /** Highest commit in a catalog or checkpoint. Errors up to it are damage rather than a torn tail. */
  readonly seen?: number | undefined;
  /** Receives each inflated block before its records' batch, and takes ownership of its memory. */
  readonly inflated?: ((path: string, offset: number, block: Buffer) => void) | undefined;
}

/**
 * Reads the log in order and verifies CRCs, the SHA-256 of every record and the chain of commits. Needs no lock. After
 * damage, continues with all readable records whose position is known. The log counts as damaged if it ends before
 * `after` (`ends-early`) or has a different commit with that number (`diverged`).
 *
 * @throws `archive-missing`, `archive-format-newer`, `archive-format-unreadable`; system read errors
 */
export async function* scanLog(options: ScanOptions): AsyncGenerator<ScanEvent, void, undefined> {
  const { dir, files = realFiles } = options;
  checkFormat(files, dir);
  const listing = listSegments(files, dir);
  const numbers = [...listing.keys()];
  const after = options.after?.number === 0 ? undefined : options.after;
  let first = after === undefined ? 0 : (numbers[0] ?? 1);
  if (after !== undefined) {
    for (const segment of [...numbers].reverse()) {
      if (!startsBy(tryOpenSegment(files, dir, segment, listing), after.number)) continue;
      first = segment;
      break;
    }
  }
  const segments = numbers.filter((segment) => segment >= first);
  const seen = Math.max(after?.number ?? 0, options.seen ?? 0);
  const scan = new LogScan(after, seen, options.inflated);
  let previous = after === undefined ? 0 : first - 1;
  for (const segment of segments) {
    for (let lost = previous + 1; lost < segment; lost += 1) {
      yield scan.lost(segmentPath(dir, { segment: lost, generation: 1 }), lost, 'segment-missing');
    }
    previous = segment;
    const opened = tryOpenSegment(files, dir, segment, listing);
    if (opened === undefined) {
      const [generation] = listGenerations(files, dir, segment);
      const path = segmentPath(dir, { segment, generation: generation ?? 1 });
      const reason = generation === undefined ? 'segment-missing' : 'segment-header';
      yield scan.lost(path, segment, reason);
      continue;
    }
    try {
      yield* scan.segment(opened, segment === segments.at(-1));
    } finally {
      opened.file.close();
    }
  }
  if (!scan.reached) yield scan.lost(dir, segments.at(-1) ?? 0, 'ends-early');
}

/** Reports whether a segment may contain a commit or starts right after it. False if its header is unreadable. */
function startsBy(opened: OpenSegment | undefined, commit: number): boolean {
  opened?.file.close();
  return opened !== undefined && opened.header.previousNumber <= commit;
}

/** Checks that each segment continues the chain, and records whether the first commit was reached. */
class LogScan {
  /** Undefined initially and after a lost segment; the next header is then trusted. */
  #chain: ChainState | undefined;
  reached: boolean;

  constructor(
    private readonly after: ExpectedCommit | undefined,
    private readonly seen: number,
    private readonly inflated: ScanOptions['inflated'],
  ) {
    this.reached = after === undefined;
  }

  lost(file: string, segment: number, reason: DamageReason): ScanEvent {
    this.#chain = undefined;
    return { what: 'damage', damage: { file, segment, offset: 0, end: 0, reason } };
  }

  *segment(opened: OpenSegment, isLast: boolean): Generator<ScanEvent, void, undefined> {
    yield* this.#header(opened);
    const isWritten = isLast && opened.name.generation === 1;
    const { inflated } = this;
    const options: RecordReading = {
      digest: true,
      // `interpretRecord` never returns a view of a payload.
      releases: true,
      ...(inflated && { inflated: (offset, block) => inflated(opened.path, offset, block) }),
    };
    const batches = isWritten
      ? readBatchesToEnd(opened, this.seen, options, interpretRecord)
      : segmentBatches(opened, options, interpretRecord);
    for (const item of batches) {
      if (item.what === 'batch') {
        yield* this.#batch(opened, item);
        continue;
      }
      const { offset, end, problems } = item;
      if (isWritten) {
        yield { what: 'tail', segment: opened.name.segment, offset, bytes: end - offset };
      } else if (problems.length === 0) {
        yield damage(opened, { reason: 'commit', offset, end });
      } else {
        for (const problem of problems) yield damage(opened, problem);
      }
    }
  }

  *#header(opened: OpenSegment): Generator<ScanEvent, void, undefined> {
    const { segment, archiveId, previousNumber, previousHash } = opened.header;
    if (segment === 1) this.#chain = { number: 0, hash: genesisHash(archiveId) };
    const before = this.#chain;
    this.#chain = { number: previousNumber, hash: previousHash };
    const span = { offset: 0, end: SEGMENT_HEADER_BYTES };
    if (
      before !== undefined &&
      (before.number !== previousNumber || before.hash !== previousHash)
    ) {
      yield damage(opened, { reason: 'chain', ...span });
    }
    if (!this.reached && previousNumber === this.after?.number) {
      this.reached = true;
      if (previousHash !== this.after.hash) yield damage(opened, { reason: 'diverged', ...span });
    }
  }

  *#batch(
    opened: OpenSegment,
    { commit, records, problems, end }: ReadBatch<RecordMeaning>,
  ): Generator<ScanEvent, void, undefined> {
    const { number, time, hash, previous } = commit;
    this.#chain = { number, hash };
    if (this.after !== undefined && number <= this.after.number) {
      if (number < this.after.number) return;
      this.reached = true;
      if (hash !== this.after.hash) {
        yield damage(opened, { reason: 'diverged', offset: end, end });
      }
      return;
    }
    for (const problem of problems) yield damage(opened, problem);
    const { segment } = opened.name;
    const entries = records.map(({ value, ordinal, offset }) => ({
      ...value,
      position: { segment, ordinal, offset },
    }));
    const batch = { commit: { number, time, hash }, previousHash: previous, records: entries };
    yield { what: 'batch', batch, sound: problems.length === 0 };
  }
}

function damage({ path, name }: OpenSegment, problem: Problem): ScanEvent {
  return { what: 'damage', damage: { file: path, segment: name.segment, ...problem } };
}

/** A log's last commit (number 0 if there is none), with the archive's ID. */
export type LogHead = ReturnType<typeof readLogHead>;

/**
 * Reads the last segment and returns the log's last commit. Needs no lock.
 *
 * @param expected the catalog's last commit, which the log must contain
 * @throws `archive-missing` and other format errors; `log-damaged` if the last segment is damaged; `log-ends-early`
 */
export function readLogHead(dir: string, expected?: ExpectedCommit) {
  const files = realFiles;
  checkFormat(files, dir);
  const last = [...listSegments(files, dir).keys()].at(-1);
  const nothing = { file: logFolder(dir), segment: 1, offset: 0 };
  if (last === undefined)
    throw archiveError('log-damaged', { ...nothing, reason: 'segment-missing' });
  return withSegment(files, dir, last, (opened) => {
    const { path, header } = opened;
    let [number, hash] = [header.previousNumber, header.previousHash];
    for (const item of segmentBatches(opened, { digest: true }, () => undefined)) {
      if (item.what === 'remainder') break;
      const [problem] = item.problems;
      if (problem !== undefined) throw segmentDamage(opened, problem.offset, problem.reason);
      ({ number, hash } = item.commit);
    }
    requireExpectedCommit(path, expected, number);
    return { archiveId: header.archiveId.toString('hex'), number, hash };
  });
}

/** Enough for an unsealed segment's last commit record, which takes about 400 bytes. */
const LAST_BYTES = 4_096;

/**
 * Returns the number of the log's last commit, for read-only commands. Returns undefined if it is unreadable. Reads
 * only the last record and does not hash it, unless the last segment ends with unfinished work.
 */
export function lastCommitNumber(dir: string, files: FileLayer): number | undefined {
  try {
    const last = [...listSegments(files, dir).keys()].at(-1);
    if (last === undefined) return undefined;
    return withSegment(files, dir, last, (opened) => {
      if (opened.sealed !== undefined) {
        const { index, offset } = opened.sealed;
        return sealedCommit(opened, index, offset)?.number ?? walkToEnd(opened).number;
      }
      if (opened.file.size() === SEGMENT_HEADER_BYTES) return opened.header.previousNumber;
      return commitAtTheEnd(opened)?.number ?? walkToEnd(opened).number;
    });
  } catch (error) {
    if (error instanceof MailkeepError || errnoName(error) !== 'unknown') return undefined;
    throw error;
  }
}

/** Returns the commit at the end of the file. A header is valid at only one offset, so no false match is possible. */
function commitAtTheEnd({ file, header: space }: OpenSegment): CommitRecord | undefined {
  const size = file.size();
  const start = Math.max(SEGMENT_HEADER_BYTES, size - LAST_BYTES);
  const bytes = Buffer.alloc(size - start);
  const got = bytes.subarray(0, readFully(file, bytes, start));
  for (let at = got.length - RECORD_HEADER_BYTES; at >= 0; at -= 1) {
    const header = readRecordHeader(got, at, space, start + at);
    if (header === undefined) continue;
    const stored = got.subarray(at + RECORD_HEADER_BYTES);
    if (header.kind !== STORED_KIND.commit || header.storedLength !== stored.length) break;
    const payload = crc32(stored) === header.crc ? inflatePayload(header, stored) : undefined;
    return payload === undefined ? undefined : decodeCommit(payload);
  }
  return undefined;
}

/** Returns a sealed segment's last commit, or undefined if damaged. @param end offset of the footer */
export function sealedCommit(
  { file, header: space }: OpenSegment,
  index: SealedIndex,
  end: number,
): CommitRecord | undefined {
  const found = index.find(index.records - 1);
  if (found === undefined || found.container.offset >= end) return undefined;
  const { container, inner } = found;
  const header = headerAt({ file, header: space }, container.offset);
  const at = container.offset + RECORD_HEADER_BYTES;
  if (header === undefined || at + header.storedLength > end) return undefined;
  const stored = Buffer.alloc(header.storedLength);
  readFully(file, stored, at);
  const payload = crc32(stored) === header.crc ? inflatePayload(header, stored) : undefined;
  if (payload === undefined) return undefined;
  const record = container.block ? decodeInner(payload, inner) : { kind: header.kind, payload };
  if (record?.kind !== STORED_KIND.commit || record.payload === undefined) return undefined;
  return decodeCommit(record.payload);
}
