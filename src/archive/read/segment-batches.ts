import type { DamageReason } from '../../errors/archive.ts';
import type { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES } from '../format/headers.ts';
import type { SegmentFile } from '../format/layout.ts';
import {
  type CommitRecord,
  commitHash,
  decodeCommit,
  Identities,
  RECORD_KIND,
} from '../format/records.ts';
import { openSegment } from './segment-files.ts';
import {
  type LogicalRecord,
  type LostBytes,
  type ReadSegment,
  type RecordReading,
  segmentRecords,
} from './segment-records.ts';

/** Something in a segment that is not as it was written. */
export interface Problem {
  readonly reason: DamageReason;
  readonly offset: number;
  readonly end: number;
  /** The hash in the record's header, if the header could be read but not the payload. */
  readonly hash?: string;
}

/** How far a chain of commits has come: number 0 and the genesis hash before the first. */
export interface ChainState {
  readonly number: number;
  readonly hash: string;
}

export interface PlacedValue<T> {
  readonly value: T;
  readonly ordinal: number;
  /** Where the record begins in generation 1 of the segment, whichever generation was read. */
  readonly offset: number;
}

export interface ReadBatch<T> {
  readonly what: 'batch';
  readonly commit: CommitRecord;
  /** What the visitor made of each record; the commit itself is not among them. */
  readonly records: readonly PlacedValue<T>[];
  /** Everything that is wrong with the batch; it is proven whole only when there is nothing. */
  readonly problems: readonly Problem[];
  /** Where the commit's record ends. */
  readonly end: number;
}

/** What follows the last commit of a segment: unfinished work or damage, depending on the segment's position. */
export interface Remainder {
  readonly what: 'remainder';
  /** Where the last commit's record ends. */
  readonly offset: number;
  readonly end: number;
  readonly problems: readonly Problem[];
}

/** What a visitor makes of a record: a value, nothing (purged), or the reason why it is damaged. */
export type Visited<T> = { readonly value: T } | { readonly problem: DamageReason } | undefined;

const FIRST: Standing = { ordinal: 0, offset: SEGMENT_HEADER_BYTES };

/**
 * The batches of a segment in order, each checked against the chain. A batch with damage comes all the same, with what
 * could be read of it: records whose place in the segment is certain.
 *
 * @param visit is called while the record's payload is in memory, for records with a payload only
 * @param from the place of the first batch; the header then names the commit before it
 */
export function* segmentBatches<T>(
  segment: ReadSegment,
  reading: RecordReading,
  visit: (record: LogicalRecord & { readonly payload: Buffer }) => Visited<T>,
  from: Standing = FIRST,
): Generator<ReadBatch<T> | Remainder, ChainState, undefined> {
  let chain: ChainState = {
    number: segment.header.previousNumber,
    hash: segment.header.previousHash,
  };
  let end = from.offset;
  let gathering = new Gathering<T>(from);
  for (const record of segmentRecords(segment, reading, from.offset)) {
    if (record.what === 'lost') {
      gathering.lose(record);
      continue;
    }
    if (record.kind !== RECORD_KIND.commit) {
      gathering.add(record, visit);
      continue;
    }
    const commit = record.payload === undefined ? undefined : decodeCommit(record.payload);
    if (commit === undefined) {
      gathering.loseCommit(record);
      continue;
    }
    const batch = gathering.close(commit, record, chain);
    chain = { number: commit.number, hash: commit.hash };
    end = record.end;
    gathering = new Gathering<T>(behind(commit, record.rawLength));
    yield batch;
  }
  const fileEnd = segment.sealed?.offset ?? segment.file.size();
  if (gathering.touched || (segment.name.generation === 1 && fileEnd > end)) {
    yield { what: 'remainder', offset: end, end: fileEnd, problems: gathering.problems };
  }
  return chain;
}

/**
 * Reads a file of a segment that was just written, every byte, and returns the number of its last commit.
 *
 * @param path where it is now, under whatever name
 * @throws what `wrong` makes, unless the file is intact, and sealed where it should be
 */
export function provenEnd(
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

/** Where a record stands in its segment, by count and by bytes of generation 1. */
export interface Standing {
  readonly ordinal: number;
  readonly offset: number;
}

/** The records since the last commit. */
class Gathering<T> {
  readonly problems: Problem[] = [];
  readonly #identities = new Identities();
  /** Records that stand before the first loss. */
  readonly #before: PlacedValue<T>[] = [];
  /** Records behind the last loss, counted from there: the commit says its own standing, and so theirs. */
  #after: PlacedValue<T>[] = [];
  #lost = false;
  /** Of the next record; from zero again behind each loss. */
  #next: Standing;

  constructor(first: Standing) {
    this.#next = first;
  }

  get touched(): boolean {
    return this.#identities.count > 0 || this.problems.length > 0;
  }

  add(
    record: LogicalRecord,
    visit: (record: LogicalRecord & { readonly payload: Buffer }) => Visited<T>,
  ): void {
    this.#identities.add(record.kind, record.rawLength, record.hash);
    const { offset, end } = record;
    const wrong = (reason: DamageReason) =>
      this.problems.push({ reason, offset, end, hash: record.hash.toString('hex') });
    if (record.state === 'damaged') wrong('payload');
    const visited = hasPayload(record) ? visit(record) : undefined;
    if (visited !== undefined && 'problem' in visited) wrong(visited.problem);
    if (visited !== undefined && 'value' in visited) {
      const { value } = visited;
      const { ordinal, offset: standing } = this.#next;
      (this.#lost ? this.#after : this.#before).push({ value, ordinal, offset: standing });
    }
    this.#next = behind(this.#next, record.rawLength);
  }

  lose({ reason, offset, end }: LostBytes): void {
    this.problems.push({ reason, offset, end });
    this.#lost = true;
    this.#after = [];
    this.#next = { ordinal: 0, offset: 0 };
  }

  /** A commit that cannot be read takes its batch's time with it: nothing gathered so far can be handed on. */
  loseCommit({ offset, end }: LogicalRecord): void {
    this.#before.length = 0;
    this.lose({ what: 'lost', reason: 'commit', offset, end });
  }

  close(commit: CommitRecord, { offset, end }: LogicalRecord, chain: ChainState): ReadBatch<T> {
    const wrong = (reason: DamageReason) => this.problems.push({ reason, offset, end });
    const { number, previous, time, hash } = commit;
    // With records lost, the hash cannot be computed; what the commit says of itself still has to fit.
    if (number !== chain.number + 1) wrong('order');
    else if (previous !== chain.hash) wrong('chain');
    if (!this.#lost) {
      const whole =
        commit.ordinal === this.#next.ordinal &&
        commit.offset === this.#next.offset &&
        commit.records === this.#identities.count &&
        hash === commitHash(previous, number, time, this.#identities);
      if (!whole) wrong('chain');
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

/** Where the record behind one of this raw length stands: generation 1 stores every payload as it is. */
function behind({ ordinal, offset }: Standing, rawLength: number): Standing {
  return { ordinal: ordinal + 1, offset: offset + RECORD_HEADER_BYTES + rawLength };
}
