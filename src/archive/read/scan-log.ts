import type { DamageReason } from '../../errors/archive.ts';
import { errnoName, hasCode } from '../../errors/mailkeep-error.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import { genesisHash, SEGMENT_HEADER_BYTES } from '../format/headers.ts';
import { segmentPath } from '../format/layout.ts';
import type { CommittedBatch, RecordMeaning } from '../format/records.ts';
import { foldRecord } from './fold-record.ts';
import { checkFormat } from './format-file.ts';
import type { ExpectedCommit } from './recovery.ts';
import {
  type ChainState,
  type Problem,
  type ReadBatch,
  segmentBatches,
} from './segment-batches.ts';
import {
  listSegments,
  localSegments,
  type OpenSegment,
  openInForce,
  type SegmentListing,
  segmentNumbers,
} from './segment-files.ts';
import type { RecordReading } from './segment-records.ts';
import type { SegmentStore } from './segment-store.ts';
import { batchesToTheEnd } from './torn-batch.ts';

/** A place of the log where something is not as it was written. */
export interface LogDamage {
  readonly file: string;
  readonly segment: number;
  /** Bytes of the file that are concerned. */
  readonly offset: number;
  readonly end: number;
  readonly reason: DamageReason;
  /** SHA-256 of the record's payload, if the record can still be identified; for a blob this is its name. */
  readonly hash?: string;
}

/** What a scan meets, in the order of the log. */
export type ScanEvent =
  /** `sound`: proven whole, every hash and the chain; otherwise damage events stand before it. */
  | { readonly what: 'batch'; readonly batch: CommittedBatch; readonly sound: boolean }
  | { readonly what: 'damage'; readonly damage: LogDamage }
  /** Bytes behind the last commit: a writer is at work, or was cut off. They never were part of the archive. */
  | {
      readonly what: 'tail';
      readonly segment: number;
      readonly offset: number;
      readonly bytes: number;
    };

export interface ScanOptions {
  readonly dir: string;
  readonly files?: FileLayer;
  /** Where segments are that are not in the folder: they are fetched when it is their turn. Without it, all are there. */
  readonly segments?: SegmentStore | undefined;
  /** The commit after which to begin: older segments are not read. */
  readonly after?: ExpectedCommit | undefined;
  /** The highest commit number that a catalog or checkpoint has seen: errors up to it are damage, not a torn tail. */
  readonly seen?: number | undefined;
  /** Receives each inflated block before the batch that its records belong to: its memory is the receiver's from then on. */
  readonly inflated?: ((path: string, offset: number, block: Buffer) => void) | undefined;
}

/**
 * Reads the log in order and checks everything on the way: CRCs, the SHA-256 of every record, the chain of commits. It
 * needs no lock and changes nothing. It reports damage and continues behind it: all readable records come, each at a
 * position that is certain, and the caller decides whether to continue.
 *
 * With `after`, the first batch is the one behind that commit; a log that ends before it, or has another commit under
 * its number, is damage (`ends-early`, `diverged`).
 *
 * @throws `archive-missing`, `archive-format-newer`, `archive-format-unreadable`; system errors of reading; what fetching
 *   a segment throws
 */
export async function* scanLog(options: ScanOptions): AsyncGenerator<ScanEvent, void, undefined> {
  const { dir, files = realFiles, segments: store = localSegments } = options;
  checkFormat(files, dir);
  let listing = listSegments(files, dir);
  const numbers = segmentNumbers(listing, store);
  const bring = async (segment: number): Promise<void> => {
    await store.fetch([segment]);
    listing = listSegments(files, dir);
  };
  const after = options.after?.number === 0 ? undefined : options.after;
  let first = after === undefined ? 0 : (numbers[0] ?? 1);
  if (after !== undefined) {
    for (const segment of [...numbers].reverse()) {
      if (!store.present(segment)) await bring(segment);
      if (!beginsBy(files, dir, segment, listing, after.number)) continue;
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
    if (!store.present(segment)) await bring(segment);
    const opened = openAgain(files, dir, segment, listing);
    if (opened === undefined) {
      const generations = listing.get(segment);
      const path = segmentPath(dir, { segment, generation: generations?.[0] ?? 1 });
      const reason = generations === undefined ? 'segment-missing' : 'segment-header';
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

/** Whether a segment can hold a commit, or begins right behind it; not where its header cannot say. */
function beginsBy(
  files: FileLayer,
  dir: string,
  segment: number,
  listing: SegmentListing,
  commit: number,
): boolean {
  const opened = openAgain(files, dir, segment, listing);
  if (opened === undefined) return false;
  opened.file.close();
  return opened.header.previousNumber <= commit;
}

/** Opens a segment; a sealing may have replaced its file since the folder was listed. Undefined: no header is intact. */
export function openAgain(
  files: FileLayer,
  dir: string,
  segment: number,
  listing: SegmentListing,
): OpenSegment | undefined {
  try {
    try {
      return openInForce(files, dir, segment, listing.get(segment) ?? []);
    } catch (error) {
      if (errnoName(error) !== 'ENOENT') throw error;
      return openInForce(files, dir, segment, listSegments(files, dir).get(segment) ?? []);
    }
  } catch (error) {
    if (hasCode(error, 'log-damaged')) return undefined;
    throw error;
  }
}

/** Carries the chain from segment to segment, and knows whether the commit to begin behind was met. */
class LogScan {
  /** Undefined at the start and behind a lost segment: the next one's header is believed. */
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
    const reading: RecordReading = {
      digest: true,
      // Nothing that `foldRecord` returns is a view of a payload.
      releases: true,
      ...(inflated && { inflated: (offset, block) => inflated(opened.path, offset, block) }),
    };
    const batches = isWritten
      ? batchesToTheEnd(opened, this.seen, reading, foldRecord)
      : segmentBatches(opened, reading, foldRecord);
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
    const placed = records.map(({ value, ordinal, offset }) => ({
      ...value,
      position: { segment, ordinal, offset },
    }));
    const batch = { commit: { number, time, hash }, previousHash: previous, records: placed };
    yield { what: 'batch', batch, sound: problems.length === 0 };
  }
}

function damage({ path, name }: OpenSegment, problem: Problem): ScanEvent {
  return { what: 'damage', damage: { file: path, segment: name.segment, ...problem } };
}
