import { archiveError } from '../archive/errors.ts';
import type { FileLayer } from '../archive/file-system.ts';
import { readFully } from '../archive/file-system.ts';
import { genesisHash, SEGMENT_HEADER_BYTES, segmentPath } from '../archive/format.ts';
import {
  checkFormat,
  type ExpectedCommit,
  findSegmentEnd,
  verifyLooseBatches,
} from '../archive/recovery.ts';
import {
  listSegments,
  type OpenSegment,
  openCurrentGeneration,
  type SegmentListing,
  segmentDamage,
} from '../archive/segment-files.ts';
import { type ChainState, type RecordPosition, segmentBatches } from '../archive/segment-reader.ts';
import { openSealed, type SealedFile } from './sealed-file.ts';

/** A commit in generation 1 of its segment, and where its batch is. */
export interface LooseCommit {
  readonly number: number;
  readonly hash: Buffer;
  readonly previousHash: Buffer;
  readonly time: number;
  /** Bytes of the segment, and the ordinal of the first record. */
  readonly at: number;
  readonly end: number;
  readonly firstOrdinal: number;
  /** Before the commit. */
  readonly records: number;
}

/** A segment that is not sealed. Its bytes are verified as they are read. */
export interface LooseSegment {
  readonly segment: number;
  readonly archiveId: Buffer;
  readonly previous: ChainState;
  readonly commits: readonly LooseCommit[];
  /** The place behind its last commit. */
  readonly end: RecordPosition;
  /** Returns the bytes of consecutive commits of it, verified. @throws `log-damaged` */
  read(commits: readonly LooseCommit[]): Buffer;
  close(): void;
}

export type LocalSegment =
  | { readonly is: 'sealed'; readonly sealed: SealedFile }
  | { readonly is: 'loose'; readonly loose: LooseSegment };

/** A log in a folder that nobody writes to meanwhile. */
export class LocalLog {
  private constructor(
    private readonly files: FileLayer,
    private readonly dir: string,
    private readonly listing: SegmentListing,
    readonly id: Buffer,
  ) {}

  /**
   * @throws archive-missing, archive-format-newer, archive-format-unreadable; `log-damaged` if it does not begin with its
   *   first segment
   */
  static open(files: FileLayer, dir: string): LocalLog {
    checkFormat(files, dir);
    const listing = listSegments(files, dir);
    const generations = listing.get(1);
    if (generations === undefined) throw missing(dir, 1);
    const first = openCurrentGeneration(files, dir, 1, generations);
    first.file.close();
    return new LocalLog(files, dir, listing, first.header.archiveId);
  }

  /** The numbers of its segments, in order. */
  get segments(): readonly number[] {
    return [...this.listing.keys()];
  }

  get genesis(): ChainState {
    return { number: 0, hash: genesisHash(this.id) };
  }

  /**
   * Opens a segment. A sealed one is read whole, and every hash of it is verified.
   *
   * @param after the commit before the segment
   * @param seen the commit that the catalog has reached: what is torn behind it was never acknowledged
   * @throws `log-damaged`, `log-ends-early`, `log-diverged`
   */
  async openSegment(
    segment: number,
    after: ChainState,
    seen: ExpectedCommit | undefined,
  ): Promise<LocalSegment> {
    const { files, dir, listing } = this;
    const generations = listing.get(segment);
    if (generations === undefined) throw missing(dir, segment);
    const opened = openCurrentGeneration(files, dir, segment, generations);
    try {
      this.#refuseOther(opened, after);
      if (opened.name.generation > 1) {
        const sealed = await openSealed(files, dir, opened.name);
        opened.file.close();
        return { is: 'sealed', sealed };
      }
      const isLast = segment === this.segments.at(-1);
      return { is: 'loose', loose: looseSegment(opened, isLast ? seen : undefined, isLast) };
    } catch (error) {
      opened.file.close();
      throw error;
    }
  }

  #refuseOther(opened: OpenSegment, after: ChainState): void {
    const { archiveId, previousNumber, previousHash } = opened.header;
    if (!archiveId.equals(this.id)) throw segmentDamage(opened, 0, 'diverged');
    const isNext = previousNumber === after.number && previousHash === after.hash;
    if (!isNext) throw segmentDamage(opened, 0, 'chain');
  }
}

function missing(dir: string, segment: number): Error {
  const file = segmentPath(dir, { segment, generation: 1 });
  return archiveError('log-damaged', { file, segment, offset: 0, reason: 'segment-missing' });
}

/** @param isLast whether it may end with what was never acknowledged */
function looseSegment(
  opened: OpenSegment,
  seen: ExpectedCommit | undefined,
  isLast: boolean,
): LooseSegment {
  const { header, file, path } = opened;
  const { segment, archiveId, previousNumber, previousHash } = header;
  const until = isLast ? findSegmentEnd(opened, seen).offset : file.size();
  const commits: LooseCommit[] = [];
  let end: RecordPosition = { offset: SEGMENT_HEADER_BYTES, ordinal: 0 };
  if (until > SEGMENT_HEADER_BYTES) {
    for (const item of segmentBatches(opened, { digest: false }, () => undefined)) {
      const [problem] = item.problems;
      if (item.what === 'remainder' || problem !== undefined) {
        throw segmentDamage(opened, problem?.offset ?? item.end, problem?.reason ?? 'commit');
      }
      const { number, hash, previous, time, records, ordinal } = item.commit;
      commits.push({
        ...{ number, time, records, at: end.offset, end: item.end, firstOrdinal: end.ordinal },
        ...{ hash: Buffer.from(hash, 'hex'), previousHash: Buffer.from(previous, 'hex') },
      });
      end = { offset: item.end, ordinal: ordinal + 1 };
      if (end.offset >= until) break;
    }
  }
  if (end.offset !== until) throw segmentDamage(opened, end.offset, 'commit');
  return {
    ...{ segment, archiveId, commits, end },
    previous: { number: previousNumber, hash: previousHash },
    read(wanted) {
      const [first] = wanted;
      const last = wanted.at(-1);
      if (first === undefined || last === undefined) return Buffer.alloc(0);
      const bytes = Buffer.alloc(last.end - first.at);
      if (readFully(file, bytes, first.at) < bytes.length)
        throw segmentDamage(opened, first.at, 'bytes');
      const at = { offset: first.at, ordinal: first.firstOrdinal };
      const after = { number: first.number - 1, hash: first.previousHash.toString('hex') };
      verifyLooseBatches(path, { bytes, space: header, at, after });
      return bytes;
    },
    close: () => file.close(),
  };
}
