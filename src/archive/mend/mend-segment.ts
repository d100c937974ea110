import { logDamaged } from '../../errors/archive.ts';
import { type FileLayer, writeAll } from '../files/file-layer.ts';
import {
  encodeSegmentHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
} from '../format/headers.ts';
import { formatPath, segmentPath } from '../format/layout.ts';
import {
  type CommitRecord,
  commitHash,
  decodeCommit,
  Identities,
  RECORD_KIND,
} from '../format/records.ts';
import { purgedByFooter } from '../format/sealed-footer.ts';
import { allowsZstd, allowZstd } from '../read/format-file.ts';
import { type ChainState, provenEnd } from '../read/segment-batches.ts';
import { listSegments, type OpenSegment } from '../read/segment-files.ts';
import { segmentRecords } from '../read/segment-records.ts';
import { publish, writing } from '../write/hot-segment.ts';
import { SealedFileWriter, type SealedRecord } from '../write/sealed-file.ts';

/** Gives a payload by its SHA-256, from wherever there is one. */
export type FindPayload = (hash: Buffer, kind: number) => Buffer | undefined;

/** Whether a record, of a batch with this commit number, was forgotten on purpose: its payload is not written again. */
export type IsForgotten = (record: SealedRecord, commit: number) => boolean;

/** How far a file of another folder is believed. */
export interface Believed {
  /** Whether a commit there leads to one that is known here. */
  readonly isProven: (commit: ChainState) => boolean;
  /** The last commit that is known here: behind it, only proven ones are taken. */
  readonly last: number;
}

export interface MendOptions {
  readonly dir: string;
  readonly segment: number;
  readonly files: FileLayer;
  /** The same segment of the same archive in one or more files: other generations, other copies. */
  readonly sources: readonly OpenSegment[];
  /** Those of them that are of other folders. What they say was purged is not believed. */
  readonly foreign?: ReadonlyMap<OpenSegment, Believed>;
  readonly find: FindPayload;
  readonly isForgotten?: IsForgotten;
  /** Ordinals that files which are no sources, their headers being damaged, say were purged. */
  readonly purged?: ReadonlySet<number>;
  /** Where the segment ends, exactly: taken from the header of the next one. */
  readonly end?: ChainState | undefined;
  /** A commit that a catalog or checkpoint has seen: the segment holds it, or begins after it. Number 0 for none. */
  readonly reach: ChainState | undefined;
}

/**
 * Writes the next generation of a damaged segment from everything that is left of it: batch by batch from whichever
 * file has it whole, with payloads found elsewhere by their hash. What one of our files says was purged stays purged,
 * whatever the others still have. The new file takes its name only when it was read back and its chain proves that
 * every record is the one that was written. Nothing else is changed: the records are compressed with zstd only where
 * FORMAT allows that already.
 *
 * @returns the generation, or undefined when some batch is whole nowhere, or the chain leads elsewhere than to `end` and
 *   `reach`, or ends with a batch that nothing proves: then nothing was written
 * @throws `disk-full`, `log-write-failed`, `log-sync-failed`
 */
export async function mendSegment(options: MendOptions): Promise<number | undefined> {
  const { dir, segment, files, sources } = options;
  const [first] = sources;
  if (first === undefined) return undefined;
  const codec = allowsZstd(files, dir) ? 'zstd' : 'zlib';
  // Durable as well: what another process wrote may not be yet.
  if (codec === 'zstd') await writing(formatPath(dir), 0, () => allowZstd(files, dir));
  const generation = Math.max(...(listSegments(files, dir).get(segment) ?? [1])) + 1;
  const path = segmentPath(dir, { segment, generation });
  const whole = await publish(files, path, 0, {
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
      const wrong = () => logDamaged({ file: temporary, segment, offset: 0, reason: 'bytes' });
      const last = provenEnd(files, { segment, generation }, temporary, true, wrong);
      if (last < ((options.end ?? options.reach)?.number ?? 0)) throw wrong();
      return true;
    },
  });
  return whole ? generation : undefined;
}

/** Batches in order, the commit with each; undefined for one that no source has whole. */
function* mendedBatches({
  sources,
  foreign = new Map(),
  find,
  end,
  reach,
  isForgotten = () => false,
  purged: purgedElsewhere = new Set(),
}: MendOptions): Generator<readonly SealedRecord[] | undefined, void, undefined> {
  const own = sources.filter((source) => !foreign.has(source));
  const purged = purgedIn(own, purgedElsewhere);
  const [first] = sources;
  let number = first?.header.previousNumber ?? 0;
  let hash = first?.header.previousHash ?? '';
  let ordinal = 0;
  /** Whether the last batch that was taken is one of ours, or leads to one. */
  let isProven = true;
  const known = [end, reach].filter((commit) => commit !== undefined && commit.number > 0);
  /** Of a log that went its own way: its chain holds as well as ours. */
  const isOther = (): boolean => known.some((one) => one?.number === number && one.hash !== hash);
  const walks = sources.map((source) => believedBatches(source, find, foreign.get(source)));
  let heads = walks.map((walk) => walk.next().value);
  for (;;) {
    // Every batch before this one was taken; what a source has twice or out of order is left behind.
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
    if (next === undefined || isOther()) break;
    const twins = heads.filter(
      (head) => head?.commit.hash === next.commit.hash && head.whole(hash),
    );
    yield next.records.map((record, at) => {
      const gone =
        twins.some((twin) => twin?.isOurs === true && twin.records[at]?.payload === undefined) ||
        purged.has(ordinal + at, record) ||
        isForgotten(record, next.commit.number);
      const [payload] = gone ? [] : twins.flatMap((twin) => twin?.records[at]?.payload ?? []);
      return { ...record, payload };
    });
    ordinal += next.records.length;
    ({ number, hash } = next.commit);
    isProven = next.isProven || known.some((one) => one?.number === number && one.hash === hash);
  }
  const more = heads.some((head) => head !== undefined);
  const short = reach !== undefined && reach.number > number;
  const elsewhere = end === undefined ? short : end.number !== number;
  const isEmpty = ordinal === 0 && own.length === 0;
  if (elsewhere || more || isOther() || !isProven || isEmpty) yield undefined;
}

interface PurgedRecords {
  has(ordinal: number, record: SealedRecord): boolean;
}

/**
 * Returns what any of our files marks as purged: its footer by ordinals, its records by their hashes. Facts are
 * identified by ordinals and by their batches only: two facts of the same bytes may be about two messages.
 */
function purgedIn(sources: readonly OpenSegment[], known: ReadonlySet<number>): PurgedRecords {
  const ordinals = new Set(known);
  const hashes = new Set<string>();
  const nameOf = (kind: number, hash: Buffer): string => `${kind} ${hash.toString('hex')}`;
  for (const source of sources) {
    for (const at of purgedByFooter(source.file, source.header)) ordinals.add(at);
    for (const record of segmentRecords(source, { digest: false })) {
      if (record.what !== 'record' || record.state !== 'purged') continue;
      if (record.kind !== RECORD_KIND.fact) hashes.add(nameOf(record.kind, record.hash));
    }
  }
  return {
    has: (ordinal, { kind, hash }) => ordinals.has(ordinal) || hashes.has(nameOf(kind, hash)),
  };
}

interface BelievedBatch extends RawBatch {
  readonly isOurs: boolean;
  /** It is one of ours, or leads to one. */
  readonly isProven: boolean;
}

/** The batches of a file, as far as it is believed. */
function* believedBatches(
  source: OpenSegment,
  find: FindPayload,
  foreign: Believed | undefined,
): Generator<BelievedBatch, undefined, undefined> {
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
  /** Whether the records are those that the commit was made of, in the chain behind `previous`. */
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
