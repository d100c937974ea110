import { createHash, hash as digest } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { Readable } from 'node:stream';
import type { DamageReason } from '../archive/errors.ts';
import type { FileLayer } from '../archive/file-system.ts';
import {
  type Fact,
  type Position,
  RECORD_KIND,
  type RecordMeaning,
  type SegmentFile,
  segmentPath,
} from '../archive/format.ts';
import { openLogReader } from '../archive/log-reader.ts';
import { BadSectors, readAroundBadSectors } from '../archive/mend-segment.ts';
import {
  blobsOf,
  interpretRecord,
  type MessagePayload,
  RecipeMismatch,
  readMessagePayload,
  rebuildPieces,
} from '../archive/payload.ts';
import { readBatchesToEnd } from '../archive/recovery.ts';
import { checkFooter } from '../archive/sealed-footer.ts';
import {
  listGenerations,
  listSegments,
  type OpenSegment,
  openSegment,
  tryOpenSegment,
} from '../archive/segment-files.ts';
import {
  type ChainState,
  type LocatedValue,
  type LogicalRecord,
  type Problem,
  type ReadBatch,
  Recent,
  segmentBatches,
  type VisitResult,
} from '../archive/segment-reader.ts';
import {
  type ComparedRecord,
  type MatchingRun,
  openSettledRows,
  type SettledCounts,
  type SettledRows,
} from '../catalog/comparison.ts';
import type { SegmentDamage } from '../catalog/findings.ts';
import type { ComparedBatch } from '../catalog/fold.ts';
import { checkStructure } from '../catalog/implied.ts';
import { errnoName, MailkeepError } from '../core/errors.ts';
import type { BlobHash, MessageId } from '../core/types.ts';
import { builtWorker, JobPool } from '../core/worker-thread.ts';

type Outcome = Extract<SegmentReport, { what: 'unsound' | 'deferred' }>;

/** Rebuilds and hashes messages as their records are read, provided that all their blobs are available. */
class MessageCheck {
  count = 0;
  rawBytes = 0;
  /** Size of the facts that are waiting to be handed over. */
  factBytes = 0;
  #outcomes: Outcome[] = [];
  #before = { count: 0, rawBytes: 0 };

  constructor(
    private readonly full: boolean,
    private readonly blobs: RecentBlobs,
  ) {}

  visit(record: LogicalRecord & { readonly payload: Buffer }): VisitResult<RecordMeaning> {
    const { kind, hash, payload } = record;
    if (kind === RECORD_KIND.blob && this.full) this.blobs.keep(hash.toString('hex'), payload);
    if (kind === RECORD_KIND.fact) this.factBytes += payload.length;
    if (kind !== RECORD_KIND.message) return interpretRecord(record);
    const message = readMessagePayload(payload);
    if (message === undefined) return { problem: 'recipe' };
    const { sha256: id, size } = message.recipe;
    this.count += 1;
    this.rawBytes += size;
    if (this.full) this.#rebuild(message);
    return { value: { kind: 'message', id, size } };
  }

  /** Returns the outcomes since the last call. */
  taken(): readonly Outcome[] {
    const outcomes = this.#outcomes;
    this.#outcomes = [];
    this.#before = { count: this.count, rawBytes: this.rawBytes };
    return outcomes;
  }

  /** Discards the outcomes since the last call to `taken`, because their records were never committed. */
  drop(): void {
    this.#outcomes = [];
    this.count = this.#before.count;
    this.rawBytes = this.#before.rawBytes;
  }

  #rebuild(message: MessagePayload): void {
    const { sha256: id, size, parts } = message.recipe;
    const hashes = parts.flatMap(blobsOf);
    const blobs = this.blobs.all(
      hashes,
      parts.reduce((sum, part) => sum + blobBytesOf(part), 0),
    );
    if (blobs === undefined) {
      this.#outcomes.push({ what: 'deferred', message: id, blobs: hashes });
      return;
    }
    try {
      if (sourceHash(message, size, blobs) === id) return;
      this.#outcomes.push({ what: 'unsound', message: id, reason: 'hash' });
    } catch (error) {
      if (!(error instanceof RecipeMismatch)) throw error;
      this.#outcomes.push({ what: 'unsound', message: id, reason: 'recipe' });
    }
  }
}

type Part = MessagePayload['recipe']['parts'][number];

function blobBytesOf(part: Part): number {
  if (part[0] === 'raw') return 0;
  return part[0] === 'blob' ? part[1] : part[3];
}

/** Hashes a source. Returns undefined if the size differs. @throws RecipeMismatch */
function sourceHash(
  message: MessagePayload,
  size: number,
  blobs: ReadonlyMap<BlobHash, Buffer>,
): string | undefined {
  const [single] = message.recipe.parts;
  if (single?.[0] === 'raw' && single[1] === size && message.literal.length === size) {
    return digest('sha256', message.literal, 'hex');
  }
  const blob = (hash: BlobHash): Buffer => {
    const bytes = blobs.get(hash);
    if (bytes === undefined) throw new RecipeMismatch('a blob is not the one that was asked for');
    return bytes;
  };
  const hasher = createHash('sha256');
  let length = 0;
  for (const piece of rebuildPieces(message, blob)) {
    length += piece.length;
    // A short recipe can repeat a large blob many times.
    if (length > size) return undefined;
    hasher.update(piece);
  }
  return length === size ? hasher.digest('hex') : undefined;
}

/** Maximum total size of cached blobs in bytes. Most messages follow soon after their blobs. */
const KEPT_BYTES = 32 * 1024 * 1024;
const FETCHED_BYTES = 8 * 1024 * 1024;

/** Reads a blob from the rest of the log and checks its hash. */
export type FindBlob = (hash: BlobHash) => Buffer | undefined;

export class RecentBlobs {
  readonly #blobs = new Recent<BlobHash, Buffer>(KEPT_BYTES, ({ length }) => length);

  constructor(private readonly find: FindBlob = () => undefined) {}

  keep(hash: BlobHash, payload: Buffer): void {
    if (payload.length > KEPT_BYTES || this.#blobs.get(hash) !== undefined) return;
    this.#blobs.set(hash, Buffer.from(payload));
  }

  /** Returns the blobs if all are cached or found. @param length total bytes of the blobs */
  all(hashes: readonly BlobHash[], length: number): ReadonlyMap<BlobHash, Buffer> | undefined {
    const found = new Map<BlobHash, Buffer>();
    for (const hash of hashes) {
      const bytes = this.#blobs.get(hash) ?? (length > FETCHED_BYTES ? undefined : this.find(hash));
      if (bytes === undefined) return undefined;
      this.keep(hash, bytes);
      found.set(hash, bytes);
    }
    return found;
  }
}

/** Records per batch: enough for one transaction of the concurrent fold. */
const RECORDS = 1_000;
/** Maximum size of a batch's facts in bytes. */
const FACT_BYTES = 8 * 1024 * 1024;

/**
 * Reads a whole segment file and checks its headers and CRCs. `full` also checks every SHA-256, the footer, and every
 * message whose bytes are in this segment or in `blobs`. `settling` omits data that the catalog already contains.
 */
export function* checkSegment(
  files: FileLayer,
  job: SegmentJob,
  blobs = new RecentBlobs(),
  fastComparison?: FastComparison,
): Generator<SegmentReport, void, undefined> {
  const bad = new BadSectors();
  const opened = open(readAroundBadSectors(files, bad), job);
  if (opened === 'gone') return;
  if (opened === undefined) {
    const { dir, segment } = job;
    const [highest = 1] = listGenerations(files, dir, segment);
    const generation = job.generation ?? highest;
    const file = segmentPath(dir, { segment, generation });
    const damage = { file, segment, generation, offset: 0, end: 0 };
    yield { what: 'damage', damage: { ...damage, reason: 'segment-header' } };
    return;
  }
  try {
    yield* check(opened, job, bad, blobs, fastComparison);
  } finally {
    opened.file.close();
  }
}

function open(files: FileLayer, { dir, segment, generation }: SegmentJob) {
  if (generation === undefined)
    return tryOpenSegment(files, dir, segment, listSegments(files, dir));
  try {
    return openSegment(files, dir, { segment, generation });
  } catch (error) {
    // A replaced generation can be removed at any time.
    if (errnoName(error) === 'ENOENT') return 'gone';
    throw error;
  }
}

function* check(
  opened: OpenSegment,
  job: SegmentJob,
  bad: BadSectors,
  blobs: RecentBlobs,
  fastComparison: FastComparison | undefined,
): Generator<SegmentReport, void, undefined> {
  const { archiveId, previousNumber, previousHash } = opened.header;
  yield {
    what: 'begin',
    archiveId: archiveId.toString('hex'),
    before: { number: previousNumber, hash: previousHash },
    generation: opened.name.generation,
  };
  const messages = new MessageCheck(job.full, blobs);
  const { segment } = opened.name;
  let batches: ComparedBatch[] = [];
  let waiting = 0;
  let records = 0;
  const options = { digest: job.full, chained: true, releases: true };
  const visit = (record: LogicalRecord & { readonly payload: Buffer }) => messages.visit(record);
  const isWritten = job.last && opened.name.generation === 1;
  const walk = isWritten
    ? readBatchesToEnd(opened, job.seen, options, visit)
    : segmentBatches(opened, options, visit);
  let step = walk.next();
  for (; step.done !== true; step = walk.next()) {
    const item = step.value;
    // Zeros that replace unreadable sectors may have been commits.
    const tail =
      item.what === 'remainder' &&
      isWritten &&
      bad.stretches().every(({ end }) => end <= item.offset);
    for (const problem of tail ? [] : item.problems) yield damage(opened, problem);
    if (item.what === 'batch') {
      records = item.commit.ordinal + 1;
      const { number, time, hash, previous } = item.commit;
      const unsettled = fastComparison?.left(segment, item) ?? item.records;
      waiting += unsettled.length;
      batches.push({
        commit: { number, time, hash },
        previousHash: previous,
        records: unsettled.map((record) => toCompared(segment, record)),
      });
    }
    if (tail) messages.drop();
    yield* messages.taken();
    if (waiting >= RECORDS || messages.factBytes >= FACT_BYTES) {
      yield { what: 'batches', batches };
      batches = [];
      waiting = 0;
      messages.factBytes = 0;
    }
    if (item.what === 'batch') continue;
    const { offset, end } = item;
    if (tail) {
      yield { what: 'tail', segment, offset, bytes: end - offset };
    } else if (item.problems.length === 0) {
      yield damage(opened, { reason: 'commit', offset, end });
    }
  }
  if (batches.length > 0) yield { what: 'batches', batches };
  if (job.full) for (const problem of checkFooter(opened)) yield damage(opened, problem);
  for (const { offset, end } of bad.stretches()) {
    const readEnd = Math.min(end, opened.file.size());
    yield damage(opened, { reason: 'unreadable', offset, end: readEnd });
  }
  yield {
    what: 'end',
    after: step.value,
    records,
    messages: messages.count,
    rawBytes: messages.rawBytes,
    fileBytes: opened.file.size(),
    settled: fastComparison?.counts() ?? { messages: 0, blobs: 0 },
  };
}

function toCompared(segment: number, { value, ordinal, offset }: Placed): ComparedRecord {
  return value.kind === 'settled' ? value : { ...value, position: { segment, ordinal, offset } };
}

function damage(opened: OpenSegment, problem: Problem): SegmentReport {
  const { segment, generation } = opened.name;
  const ordinals = ordinalsIn(opened, problem);
  return {
    what: 'damage',
    damage: {
      file: opened.path,
      segment,
      generation,
      ...problem,
      ...(ordinals === undefined ? {} : { ordinals }),
    },
  };
}

function ordinalsIn(
  { sealed }: OpenSegment,
  { offset, end }: Problem,
): readonly [number, number] | undefined {
  if (sealed === undefined) return undefined;
  const { containers } = sealed.index;
  let ordinal = 0;
  let first: number | undefined;
  let last = -1;
  for (const [index, container] of containers.entries()) {
    const until = containers[index + 1]?.offset ?? sealed.offset;
    if (container.offset < end && until > offset) {
      first ??= ordinal;
      last = ordinal + container.records - 1;
    }
    ordinal += container.records;
  }
  return first === undefined ? undefined : [first, last];
}

/** Returns the structural errors in an archive's catalog file, or the reason why it is unreadable. */
export function structuralErrors(dir: string): readonly string[] {
  try {
    return checkStructure(dir);
  } catch (error) {
    if (!(error instanceof MailkeepError) || error.family !== 'damage') throw error;
    return [String(error.facts.reason ?? error.code)];
  }
}

/**
 * Rebuilds and hashes messages one at a time, by streaming. Returns the failures, which the caller reads again to find
 * the reason.
 *
 * @throws system errors while reading
 */
export async function rebuildMessages(
  files: FileLayer,
  { dir, messages, blobs }: MessagesJob,
): Promise<readonly MessageId[]> {
  const failures: MessageId[] = [];
  const reader = openLogReader({
    dir,
    files: readAroundBadSectors(files),
    locator: { message: (id) => messages.get(id), blob: (hash) => blobs.get(hash) },
  });
  try {
    for (const id of messages.keys()) {
      try {
        for await (const _piece of reader.streamMessage(id));
      } catch (error) {
        if (!(error instanceof MailkeepError)) throw error;
        failures.push(id);
      }
    }
  } finally {
    reader.close();
  }
  return failures;
}

/** Returns undefined if the catalog cannot be read. The later comparison reports the reason. */
export function tryCatalog<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return undefined;
  }
}

type Placed = LocatedValue<RecordMeaning | MatchingRun>;
type PlacedMessage = LocatedValue<Extract<RecordMeaning, { kind: 'message' }>>;

/**
 * Compares messages and blobs with the catalog as their records are read. Most messages arrived once and never changed,
 * so their catalog rows match. Comparing them here, on several threads, costs a fraction of folding them. All others
 * are returned for folding. The caller must ensure that the records it folds do not concern a settled message; see
 * `ImpliedCatalog.agrees`.
 */
export class FastComparison {
  #messages = 0;
  #blobs = 0;
  #rows: SettledRows | undefined;

  /** @param upTo the catalog's last commit */
  constructor(
    dir: string,
    private readonly upTo: number,
  ) {
    this.#rows = tryCatalog(() => openSettledRows(dir));
  }

  /** Returns the records to fold. Runs replace settled records at the position of their facts. */
  left(
    segment: number,
    { commit, records, problems }: ReadBatch<RecordMeaning>,
  ): readonly Placed[] {
    const rows = this.#rows;
    if (rows === undefined || commit.number > this.upTo || problems.length > 0) {
      return records;
    }
    const settle = new BatchSettling(rows, segment, commit.number);
    const unsettled = tryCatalog(() => rows.within(() => settle.left(records)));
    // The comparison of the other records reports why the catalog is unreadable.
    if (unsettled === undefined) this.close();
    if (unsettled === undefined) return records;
    this.#messages += settle.messages;
    this.#blobs += settle.blobs;
    return unsettled;
  }

  counts(): SettledCounts {
    const counts = { messages: this.#messages, blobs: this.#blobs };
    this.#messages = 0;
    this.#blobs = 0;
    return counts;
  }

  close(): void {
    this.#rows?.close();
    this.#rows = undefined;
  }
}

class BatchSettling {
  messages = 0;
  blobs = 0;
  readonly #output: Placed[] = [];
  readonly #arrived = new Map<string, PlacedMessage>();
  readonly #settled = new Set<Placed>();

  constructor(
    private readonly rows: SettledRows,
    private readonly segment: number,
    private readonly commit: number,
  ) {}

  left(records: readonly LocatedValue<RecordMeaning>[]): readonly Placed[] {
    for (const record of records) this.#take(record);
    const { size } = this.#settled;
    return size === 0 ? this.#output : this.#output.filter((record) => !this.#settled.has(record));
  }

  #take({ value, ordinal, offset }: LocatedValue<RecordMeaning>): void {
    switch (value.kind) {
      case 'blob': {
        const position = { segment: this.segment, ordinal, offset };
        const state = this.rows.blob(value.hash, value.size, position);
        // A blob replaced by a later record has no row here. If that record is missing, the catalog has a surplus row.
        if (state === 'settled') this.blobs += 1;
        else if (state === undefined) this.#output.push({ value, ordinal, offset });
        return;
      }
      case 'message': {
        const message = { value, ordinal, offset };
        this.#arrived.set(value.id, message);
        this.#output.push(message);
        return;
      }
      case 'fact': {
        const run = this.#settle(value.fact);
        if (run === undefined) this.#output.push({ value, ordinal, offset });
        else this.#append(run, { ordinal, offset });
      }
    }
  }

  /** Settles a message that arrived in the same batch, if the catalog has matching rows. */
  #settle(fact: Fact): MatchingRun | undefined {
    // An accepted or assumed message has an additional event.
    if (fact.fact !== 'appeared' || fact.accepted !== undefined || fact.assumedFrom !== undefined) {
      return undefined;
    }
    const message = this.#arrived.get(fact.message);
    if (message === undefined) return undefined;
    const { ordinal, offset, value } = message;
    const position = { segment: this.segment, ordinal, offset };
    const folderId = this.rows.arrival(fact, value.size, position, this.commit);
    if (folderId === undefined) return undefined;
    this.#arrived.delete(fact.message);
    if (this.#output.at(-1) === message) this.#output.pop();
    else this.#settled.add(message);
    this.messages += 1;
    const { host, mailbox, folder, generation, uid, size } = fact;
    const place = { host, mailbox, folder, generation, uid };
    return { kind: 'settled', place, folderId, messages: 1, bytes: size };
  }

  #append(run: MatchingRun, at: Omit<Placed, 'value'>): void {
    const last = this.#output.at(-1);
    if (last?.value.kind === 'settled' && isSameFolder(last.value, run)) {
      this.#output[this.#output.length - 1] = { ...last, value: mergeRuns(last.value, run) };
    } else this.#output.push({ ...at, value: run });
  }
}

function isSameFolder(a: MatchingRun, b: MatchingRun): boolean {
  return (
    a.folderId === b.folderId &&
    a.place.generation === b.place.generation &&
    a.place.folder === b.place.folder &&
    a.place.mailbox === b.place.mailbox &&
    a.place.host === b.place.host
  );
}

function mergeRuns(a: MatchingRun, b: MatchingRun): MatchingRun {
  const { place } = a.place.uid > b.place.uid ? a : b;
  return { ...a, place, messages: a.messages + b.messages, bytes: a.bytes + b.bytes };
}

export type SegmentChecker = ReturnType<typeof threadedChecker>;

/** A log file to read. Plain data, so that it can be sent to another thread. */
export interface SegmentJob {
  readonly dir: string;
  readonly segment: number;
  readonly generation?: number;
  /** True for the last segment, where data after the last commit is unfinished work rather than damage. */
  readonly last: boolean;
  /** Highest commit recorded in a catalog or checkpoint. Any error up to this commit is damage. */
  readonly seen: number;
  /** Checks every SHA-256 and rebuilds every message; otherwise only CRCs. */
  readonly full: boolean;
  /** Settles messages up to this commit; see `FastComparison`. */
  readonly settleUpTo?: number;
}

/** Messages to rebuild from anywhere in the log. Plain data. */
export interface MessagesJob {
  readonly dir: string;
  readonly messages: ReadonlyMap<MessageId, Position | undefined>;
  readonly blobs: ReadonlyMap<BlobHash, Position>;
}

export type ThreadJob =
  | { readonly what: 'segment'; readonly job: SegmentJob }
  | { readonly what: 'messages'; readonly job: MessagesJob }
  | { readonly what: 'structure' | 'contradictions'; readonly dir: string }
  | { readonly what: 'intact'; readonly file: FileToProve };

interface FileToProve extends SegmentFile {
  readonly path: string;
  readonly sealed: boolean;
}

export type SegmentReport =
  /** Reported first, if the file can be opened. */
  | {
      readonly what: 'begin';
      readonly archiveId: string;
      readonly before: ChainState;
      readonly generation: number;
    }
  | { readonly what: 'batches'; readonly batches: readonly ComparedBatch[] }
  | { readonly what: 'damage'; readonly damage: SegmentDamage }
  | {
      readonly what: 'tail';
      readonly segment: number;
      readonly offset: number;
      readonly bytes: number;
    }
  | {
      readonly what: 'unsound';
      readonly message: MessageId;
      readonly reason: DamageReason | 'hash';
    }
  | {
      readonly what: 'deferred';
      readonly message: MessageId;
      readonly blobs: readonly BlobHash[];
    }
  /** Reported last, if the file can be opened. */
  | {
      readonly what: 'end';
      readonly after: ChainState;
      readonly records: number;
      readonly messages: number;
      readonly rawBytes: number;
      readonly fileBytes: number;
      readonly settled: SettledCounts;
    };

/** More threads would only wait for the disk, and each keeps a segment's results in memory. */
const MAX_THREADS = 4;

/** One thread for the catalog file, and one for the first segment. */
const NEEDED_THREADS = 2;

/**
 * Returns a checker that reads on worker threads. Two threads start immediately and load while the caller opens the
 * archive. Others start on demand.
 */
export function threadedChecker() {
  const { width, pool } = threads();
  pool.start(NEEDED_THREADS);
  return {
    width,
    check(job: SegmentJob): AsyncIterable<SegmentReport> {
      const reports = new Readable({ objectMode: true, read() {} });
      // The consumer receives the error later. Until then, it must not count as unhandled.
      reports.on('error', () => undefined);
      pool
        .run({ what: 'segment', job }, (report) => reports.push(report))
        .then(
          () => reports.push(null),
          (error: unknown) =>
            reports.destroy(error instanceof Error ? error : new Error(String(error))),
        );
      return reports;
    },
    rebuild: (job: MessagesJob) => pool.run({ what: 'messages', job }),
    structure: (dir: string) => pool.run({ what: 'structure', dir }),
    /** See `findContradictingTables`. */
    contradictions: (dir: string) => pool.run({ what: 'contradictions', dir }),
    close: () => pool.end(),
  };
}

export type SegmentProver = ReturnType<typeof threadedProver>;

/** @param atOnce number of threads to start before the first segments arrive; others start on demand */
export function threadedProver(atOnce = 0) {
  const { pool } = threads();
  if (atOnce > 0) pool.start(atOnce);
  return {
    /** Reads every byte of a file. @throws `log-damaged` unless it is intact, and sealed if required */
    async intact(file: FileToProve): Promise<void> {
      await pool.run({ what: 'intact', file });
    },
    close: () => pool.end(),
  };
}

function threads() {
  const width = Math.min(MAX_THREADS, availableParallelism());
  const pool = new JobPool<ThreadJob, readonly string[], SegmentReport>(width, {
    name: 'mailkeep-verify',
    file: builtWorker('verify-worker'),
  });
  return { width, pool };
}
