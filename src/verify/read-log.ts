import type { FileLayer } from '../archive/file-system.ts';
import { genesisHash, isCount, SEGMENT_HEADER_BYTES, segmentPath } from '../archive/format.ts';
import { type LogReader, openLogReader } from '../archive/log-reader.ts';
import { readAroundBadSectors } from '../archive/mend-segment.ts';
import type { ExpectedCommit } from '../archive/recovery.ts';
import { listSegments, type SegmentListing } from '../archive/segment-files.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import type { SettledCounts } from '../catalog/comparison.ts';
import type { SegmentDamage } from '../catalog/findings.ts';
import type { ComparedBatch } from '../catalog/fold.ts';
import { type BlobPositions, openBlobPositions } from '../catalog/messages.ts';
import { MailkeepError } from '../core/errors.ts';
import type { BlobHash } from '../core/types.ts';
import type { SegmentChecker, SegmentReport } from './check-segment.ts';

/** A commit recorded in the catalog or a checkpoint, which the log must contain. */
export interface ConfirmedCommit extends Pick<ExpectedCommit, 'number' | 'hash'> {
  readonly by: 'catalog' | 'checkpoint';
  readonly archiveId?: string;
}

interface LogListener {
  batches(batches: readonly ComparedBatch[]): void;
  damage(damage: SegmentDamage): void;
  message(report: Extract<SegmentReport, { what: 'unsound' | 'deferred' }>): void;
  vouched(
    commit: ConfirmedCommit,
    reason: 'ends-early' | 'diverged' | 'other-archive',
    lastNumber: number,
  ): void;
  progress?(progress: VerifyProgress): void;
}

export interface VerifyProgress {
  readonly segments: number;
  readonly of: number;
  readonly rawBytes: number;
}

export interface LogTotals {
  readonly archiveId: string | null;
  readonly last: ChainState | null;
  readonly segments: number;
  readonly records: number;
  readonly messages: number;
  readonly rawBytes: number;
  readonly fileBytes: number;
  /** Data after the last commit, from a writer that is active or was interrupted. */
  readonly tail: Omit<Extract<SegmentReport, { what: 'tail' }>, 'what'> | null;
}

export const NOTHING_READ: LogTotals = {
  ...{ archiveId: null, last: null, segments: 0, records: 0, messages: 0 },
  ...{ rawBytes: 0, fileBytes: 0, tail: null },
};

export interface LogReading {
  readonly dir: string;
  readonly files: FileLayer;
  readonly checker: SegmentChecker;
  readonly full: boolean;
  readonly settleUpTo?: number | undefined;
  readonly vouched: readonly ConfirmedCommit[];
  readonly listener: LogListener;
  readonly signal: AbortSignal;
}

/**
 * Reads every log file, several segments at a time, and reports the content in log order. Changes nothing and needs no
 * lock. Later appends are left for the next run.
 *
 * @returns `settled`: records that were not passed to the listener, because the catalog has matching rows
 */
export async function readLog(options: LogReading) {
  const { dir, files, checker, full, settleUpTo, listener, signal } = options;
  const listing = listSegments(files, dir);
  const segments = [...listing.keys()];
  const reading = new Reading(dir, options.vouched, listener);
  const highest = Math.max(0, ...options.vouched.map(({ number }) => number));
  const started = new Map<number, AsyncIterable<SegmentReport>>();
  const start = (index: number): void => {
    const segment = segments[index];
    if (segment === undefined || started.has(index)) return;
    const job = {
      ...{ dir, segment, last: index === segments.length - 1, seen: highest, full },
      ...(settleUpTo !== undefined && { settleUpTo }),
    };
    started.set(index, checker.check(job));
  };
  for (const [index, segment] of segments.entries()) {
    signal.throwIfAborted();
    // Start one more than the width, so that no thread is idle while this one processes reports.
    for (let ahead = 0; ahead <= checker.width; ahead += 1) start(index + ahead);
    reading.begin(segment);
    for await (const report of started.get(index) ?? []) reading.take(report);
    started.delete(index);
    if (full) await reading.spares(checker, segment, listing);
    const { rawBytes } = reading.totals;
    listener.progress?.({ segments: index + 1, of: segments.length, rawBytes });
  }
  return reading.finish();
}

class Reading {
  readonly totals: { -readonly [Total in keyof LogTotals]: LogTotals[Total] } = { ...NOTHING_READ };
  #settled: SettledCounts = { messages: 0, blobs: 0 };
  readonly #vouched: Set<ConfirmedCommit>;
  readonly #diverged: ConfirmedCommit[] = [];
  /** Undefined at the start and after a lost segment; any header is then accepted. */
  #chain: ChainState | undefined;
  #previous = 0;
  #segment = 0;
  #generation = 0;

  constructor(
    private readonly dir: string,
    vouched: readonly ConfirmedCommit[],
    private readonly listener: LogListener,
  ) {
    this.#vouched = new Set(vouched.filter(({ number }) => number > 0));
  }

  begin(segment: number): void {
    for (let lost = this.#previous + 1; lost < segment; lost += 1) {
      const file = segmentPath(this.dir, { segment: lost, generation: 1 });
      const place = { file, segment: lost, generation: 1, offset: 0, end: 0 };
      this.listener.damage({ ...place, reason: 'segment-missing' });
      this.#chain = undefined;
    }
    this.#previous = segment;
    this.#segment = segment;
    this.#generation = 0;
    this.totals.segments += 1;
  }

  take(report: SegmentReport): void {
    switch (report.what) {
      case 'batches':
        for (const { commit } of report.batches) this.#confirm(commit);
        this.listener.batches(report.batches);
        break;
      case 'damage':
        this.listener.damage(report.damage);
        if (report.damage.reason === 'segment-header') this.#chain = undefined;
        break;
      case 'tail': {
        const { segment, offset, bytes } = report;
        this.totals.tail = { segment, offset, bytes };
        break;
      }
      case 'begin':
        this.#begin(report);
        break;
      case 'end':
        this.#end(report);
        break;
      default:
        this.listener.message(report);
    }
  }

  /** Checks replaced generations. They are part of the log, so damage to them is reported as well. */
  async spares(checker: SegmentChecker, segment: number, listing: SegmentListing): Promise<void> {
    for (const generation of listing.get(segment) ?? []) {
      if (generation === this.#generation || this.#generation === 0) continue;
      const job = { dir: this.dir, segment, generation, last: false, seen: 0, full: true };
      for await (const report of checker.check(job))
        if (report.what === 'damage') this.take(report);
    }
  }

  finish() {
    const { archiveId, last } = this.totals;
    const lastNumber = last?.number ?? 0;
    const report = (commit: ConfirmedCommit, reason: 'ends-early' | 'diverged'): void => {
      const isOther = commit.archiveId !== undefined && commit.archiveId !== archiveId;
      this.listener.vouched(commit, isOther ? 'other-archive' : reason, lastNumber);
    };
    for (const commit of this.#diverged) report(commit, 'diverged');
    for (const commit of this.#vouched) report(commit, 'ends-early');
    return { totals: this.totals, settled: this.#settled };
  }

  #confirm({ number, hash }: ChainState): void {
    for (const commit of this.#vouched) {
      if (commit.number !== number) continue;
      this.#vouched.delete(commit);
      if (commit.hash !== hash) this.#diverged.push(commit);
    }
  }

  /** Called before the segment's batches, because batches after a gap must be folded differently. */
  #begin({ before, generation, archiveId }: Extract<SegmentReport, { what: 'begin' }>): void {
    this.#generation = generation;
    const expected =
      this.#segment === 1
        ? { number: 0, hash: genesisHash(Buffer.from(archiveId, 'hex')) }
        : this.#chain;
    const isNext =
      expected === undefined ||
      (expected.number === before.number && expected.hash === before.hash);
    const sameArchive = (this.totals.archiveId ?? archiveId) === archiveId;
    if (!isNext || !sameArchive) {
      const file = segmentPath(this.dir, { segment: this.#segment, generation });
      const place = { file, segment: this.#segment, generation, offset: 0 };
      this.listener.damage({ ...place, end: SEGMENT_HEADER_BYTES, reason: 'chain' });
    }
    this.totals.archiveId ??= archiveId;
    this.#confirm(before);
  }

  #end({ after, ...read }: Extract<SegmentReport, { what: 'end' }>): void {
    this.#chain = after;
    this.totals.last = after;
    for (const field of ['records', 'messages', 'rawBytes', 'fileBytes'] as const) {
      this.totals[field] += read[field];
    }
    const { messages, blobs } = this.#settled;
    this.#settled = {
      messages: messages + read.settled.messages,
      blobs: blobs + read.settled.blobs,
    };
  }
}

/**
 * Finds blobs by their positions in an archive's catalog. Positions are only hints: the bytes must match the hash. If
 * nothing is found, the caller waits until the log yields the blob.
 */
export class CatalogBlobs {
  #handles: { readonly positions: BlobPositions; readonly reader: LogReader } | undefined;
  #useless = false;

  constructor(
    private readonly files: FileLayer,
    private readonly dir: string,
  ) {}

  find(hash: BlobHash): Buffer | undefined {
    if (!this.#hasPosition(hash)) return undefined;
    try {
      return this.#handles?.reader.readBlob(hash);
    } catch (error) {
      if (error instanceof MailkeepError) return undefined;
      throw error;
    }
  }

  close(): void {
    this.#handles?.reader.close();
    this.#handles?.positions.close();
    this.#handles = undefined;
  }

  #hasPosition(hash: BlobHash): boolean {
    if (this.#useless) return false;
    try {
      this.#handles ??= this.#open();
      const hint = this.#handles.positions.of(hash);
      // A damaged row can contain anything, but reads require valid offsets.
      return hint !== undefined && [hint.segment, hint.ordinal, hint.offset].every(isCount);
    } catch (error) {
      // Missing, damaged or from another version: the comparison reports it.
      if (!(error instanceof MailkeepError)) throw error;
      this.#useless = true;
      return false;
    }
  }

  #open() {
    const { dir, files } = this;
    const positions = openBlobPositions(dir);
    try {
      const locator = { blob: positions.of, message: () => undefined };
      const reader = openLogReader({ dir, files: readAroundBadSectors(files), locator });
      return { positions, reader };
    } catch (error) {
      positions.close();
      throw error;
    }
  }
}
