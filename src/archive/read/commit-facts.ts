import { logDamaged, segmentElsewhere } from '../../errors/archive.ts';
import type { Fact } from '../format/facts.ts';
import { RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, STORED_KIND } from '../format/headers.ts';
import { logFolder } from '../format/layout.ts';
import type { Position } from '../format/records.ts';
import type { SealedIndex } from '../format/sealed-footer.ts';
import { readFact } from './fold-record.ts';
import type { SegmentCache } from './segment-cache.ts';
import { damageIn, type OpenSegment } from './segment-files.ts';
import { FileWindow, walkRecords } from './segment-records.ts';

/** The facts of the commits of one segment, by position; the commit that follows the segment's header is the first. */
interface CommitsOf {
  /** Returns where the facts of its n-th commit stand, from 0; undefined where it has no such commit. */
  at(n: number): readonly Position[] | undefined;
}

/**
 * Finds the facts of a commit. They stand right before it, so that the kinds of the records are enough: a sealed file has
 * them in its footer, the unsealed one is walked, each stretch of it once.
 */
export class CommitFacts {
  readonly #known = new WeakMap<OpenSegment, CommitsOf>();

  constructor(
    private readonly dir: string,
    private readonly segments: SegmentCache,
  ) {}

  /**
   * Returns the facts of a commit in the order of the log; those that were purged are left out.
   *
   * @throws `log-damaged` where the log has no such commit, or a fact cannot be read; `segment-elsewhere`
   */
  read(commit: number): Fact[] {
    const segment = this.#segmentOf(commit);
    const opened = this.segments.opened(segment);
    const positions = this.#commitsOf(opened).at(commit - opened.header.previousNumber - 1);
    if (positions === undefined) throw damageIn(opened, SEGMENT_HEADER_BYTES, 'commit');
    return positions.flatMap((position) => {
      const record = this.segments.fetch(position);
      if (record.state === 'purged') return [];
      const fact =
        record.state === 'present' ? readFact(record.payload.toString('utf8')) : undefined;
      if (fact === undefined) throw damageIn(opened, position.offset, 'fact');
      return [fact];
    });
  }

  /** The last segment that begins before a commit. Segments that are elsewhere are asked for only if it may be in them. */
  #segmentOf(commit: number): number {
    const numbers = this.segments.numbers();
    let [low, high] = [0, numbers.length];
    for (;;) {
      const middle = this.#nearMiddle(numbers, low, high);
      if (middle === undefined) break;
      const { header } = this.segments.opened(numbers[middle] ?? 0);
      if (header.previousNumber < commit) low = middle;
      else high = middle;
    }
    const found = numbers[low];
    if (found !== undefined && high - low > 1 && !this.#has(found, commit)) {
      throw segmentElsewhere(numbers[(low + high) >>> 1] ?? found);
    }
    if (found === undefined)
      throw logDamaged({
        file: logFolder(this.dir),
        segment: 1,
        offset: 0,
        reason: 'segment-missing',
      });
    return found;
  }

  /** The index nearest to the middle between two others of a segment that is present; undefined where none is. */
  #nearMiddle(numbers: readonly number[], low: number, high: number): number | undefined {
    const middle = (low + high) >>> 1;
    for (let distance = 0; distance < high - low; distance += 1) {
      for (const index of [middle - distance, middle + distance]) {
        const segment = index > low && index < high ? numbers[index] : undefined;
        if (segment !== undefined && this.segments.isPresent(segment)) return index;
      }
    }
    return undefined;
  }

  #has(segment: number, commit: number): boolean {
    if (!this.segments.isPresent(segment)) return false;
    const opened = this.segments.opened(segment);
    return this.#commitsOf(opened).at(commit - opened.header.previousNumber - 1) !== undefined;
  }

  #commitsOf(opened: OpenSegment): CommitsOf {
    let commits = this.#known.get(opened);
    if (commits === undefined) {
      commits =
        opened.sealed === undefined
          ? new WalkedCommits(opened)
          : new SealedCommits(opened.header.segment, opened.sealed.index);
      this.#known.set(opened, commits);
    }
    return commits;
  }
}

class SealedCommits implements CommitsOf {
  readonly #ordinals: readonly number[];

  constructor(
    private readonly segment: number,
    private readonly index: SealedIndex,
  ) {
    this.#ordinals = index.ordinalsOf(STORED_KIND.commit);
  }

  at(n: number): Position[] | undefined {
    const commit = this.#ordinals[n];
    if (commit === undefined) return undefined;
    let first = commit;
    while (first > 0 && this.index.kindOf(first - 1) === STORED_KIND.fact) first -= 1;
    // A sealed file is read by ordinals alone.
    return Array.from({ length: commit - first }, (_, i) => ({
      segment: this.segment,
      ordinal: first + i,
      offset: 0,
    }));
  }
}

/** Of the segment that is being written: what was added since is walked when a commit is asked for that is not known. */
class WalkedCommits implements CommitsOf {
  readonly #commits: (readonly Position[])[] = [];
  /** Behind the last commit. */
  #offset = SEGMENT_HEADER_BYTES;
  #ordinal = 0;

  constructor(private readonly opened: OpenSegment) {}

  at(n: number): readonly Position[] | undefined {
    if (n >= this.#commits.length) this.#walk();
    return this.#commits[n];
  }

  #walk(): void {
    const { file, header: space } = this.opened;
    let ordinal = this.#ordinal;
    let facts: Position[] = [];
    for (const walked of walkRecords(new FileWindow(file), space, this.#offset)) {
      // Unfinished work, or damage: no commit behind it can be counted.
      if (walked.kind === 'gap') return;
      const { header, offset } = walked;
      if (header.kind === STORED_KIND.fact) facts.push({ segment: space.segment, ordinal, offset });
      ordinal += 1;
      if (header.kind !== STORED_KIND.commit) continue;
      this.#commits.push(facts);
      facts = [];
      this.#ordinal = ordinal;
      this.#offset = offset + RECORD_HEADER_BYTES + header.storedLength;
    }
  }
}
