import { archiveError, logWriteFailed } from '../../src/archive/errors.ts';
import { genesisHash, SEGMENT_HEADER_BYTES } from '../../src/archive/format.ts';
import type {
  AppendedCommit,
  AppendPosition,
  Durability,
  NextSegment,
} from '../../src/archive/hot-segment.ts';
import type { LogEnd, MissingBytes } from '../../src/archive/recovery.ts';

interface Accepted {
  readonly bytes: Buffer;
  readonly commit: AppendedCommit;
  readonly place: AppendPosition;
}

/** What happens to the next act: nothing odd, nothing at all, or an answer that is lost on its way. */
export type Trouble = 'none' | 'refused' | 'answer-lost' | 'request-lost' | 'away';

/**
 * A log that is kept in memory and acknowledges what it took, from one writer at a time: a session that began before the
 * latest one is refused, however late its requests arrive.
 */
export class AcknowledgingLog {
  readonly accepted: Accepted[] = [];
  #segments: { readonly segment: number; readonly previous: LogEnd['hot']['previous'] }[];
  #session = 0;
  #trouble: Trouble = 'none';
  #held: Promise<void> | undefined;

  constructor(readonly archiveId: Buffer) {
    this.#segments = [{ segment: 1, previous: { number: 0, hash: genesisHash(archiveId) } }];
  }

  /** Begins a session, which fences the one before. */
  begin(): Durability {
    this.#session += 1;
    const session = this.#session;
    return {
      append: (bytes, commit, place) =>
        this.#act(session, commit.number, () => this.#append(bytes, commit, place)),
      roll: (next) => this.#act(session, next.segment, () => this.#roll(next)),
    };
  }

  /** Has the next act meet with trouble. */
  meet(trouble: Trouble): void {
    this.#trouble = trouble;
  }

  /** Holds the acts that come from now on, and returns what lets them continue. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    return () => {
      this.#held = undefined;
      resolve();
    };
  }

  /** Loses the last commits, as a failover to a replica that was behind does. */
  loseCommits(count: number): void {
    this.accepted.splice(Math.max(0, this.accepted.length - count), count);
    const last = this.accepted.at(-1);
    const number = last?.commit.number ?? 0;
    this.#segments = this.#segments.filter(
      ({ segment, previous }) => segment === 1 || previous.number <= number,
    );
  }

  get end(): LogEnd {
    const last = this.accepted.at(-1)?.commit;
    const segments = this.#segments.map(({ segment, previous }) => {
      const end = this.#in(segment).at(-1);
      const offset = end === undefined ? SEGMENT_HEADER_BYTES : end.place.offset + end.bytes.length;
      return { segment, previous, offset, ordinal: end?.place.nextOrdinal ?? 0 };
    });
    const hot = segments.at(-1);
    if (hot === undefined) throw new Error('a log without a segment');
    return {
      archiveId: this.archiveId,
      commit: last ?? { number: 0, hash: genesisHash(this.archiveId), time: 0 },
      hot,
      closed: segments.slice(0, -1),
    };
  }

  /** The bytes of a segment behind its header. */
  bytesOf(segment: number): Buffer {
    return Buffer.concat(this.#in(segment).map(({ bytes }) => bytes));
  }

  /** Returns what is missing, in pieces that end anywhere; the segment where another chain led to its beginning. */
  *supply({ segment, from, until }: MissingBytes): Generator<Buffer> {
    const bytes = this.bytesOf(segment).subarray(
      from - SEGMENT_HEADER_BYTES,
      until - SEGMENT_HEADER_BYTES,
    );
    for (let at = 0; at < bytes.length; at += 777) yield bytes.subarray(at, at + 777);
  }

  /** The error of an act that was refused. */
  static refused(number: number) {
    return archiveError('log-fenced', { commit: number, reason: 'refused' });
  }

  #in(segment: number): Accepted[] {
    return this.accepted.filter(({ place }) => place.segment === segment);
  }

  async #act(session: number, number: number, act: () => boolean): Promise<void> {
    await this.#held;
    const trouble = this.#trouble;
    this.#trouble = 'none';
    if (trouble === 'away') throw logWriteFailed('the log', new Error('away'));
    if (trouble === 'request-lost') throw new Error('no answer');
    if (trouble === 'refused' || session !== this.#session || !act()) {
      throw AcknowledgingLog.refused(number);
    }
    if (trouble === 'answer-lost') throw new Error('no answer');
  }

  #append(bytes: Buffer, commit: AppendedCommit, place: AppendPosition): boolean {
    const { commit: last, hot } = this.end;
    const follows =
      commit.number === last.number + 1 &&
      commit.previousHash === last.hash &&
      place.segment === hot.segment &&
      place.offset === hot.offset &&
      place.ordinal === hot.ordinal;
    // The memory belongs to the writer.
    if (follows) this.accepted.push({ bytes: Buffer.from(bytes), commit, place });
    return follows;
  }

  #roll({ segment, previous }: NextSegment): boolean {
    const { commit, hot } = this.end;
    const follows = segment === hot.segment + 1 && previous.hash === commit.hash;
    if (follows) this.#segments.push({ segment, previous });
    return follows;
  }
}
