import { hash } from 'node:crypto';
import type { MessageId } from '../../core/types.ts';
import type { Expected } from '../../transfer/plan-export.ts';

/** A larger source has a request of its own. */
const SMALL_BYTES = 256 * 1024;

/** Sources of an answer: those that are missing have to be asked for one by one. */
export type Batch = ReadonlyMap<MessageId, Buffer>;

interface Group {
  readonly ids: ReadonlySet<MessageId>;
  /** Asks for the group, once. */
  fetch(): Promise<Batch>;
}

/**
 * Small sources that will be read soon, many of which come with one request. Nothing is asked for as long as nothing is read:
 * an export may have all of them already.
 */
export class ExpectedSources {
  #groups: Group[] = [];
  #isReading = false;

  /** @param ask asks for sources; never rejects */
  constructor(private readonly ask: (sources: readonly Expected[]) => Promise<Batch>) {}

  /** Notes the next sources. Those of the group before the last one are forgotten. */
  expect(sources: readonly Expected[]): void {
    const small = sources.filter(({ size }) => size <= SMALL_BYTES);
    let asked: Promise<Batch> | undefined;
    const group: Group = {
      ids: new Set(small.map(({ id }) => id)),
      fetch: () => {
        asked ??= this.ask(small);
        return asked;
      },
    };
    this.#groups = [...this.#groups.slice(-1), group];
    if (this.#isReading) void group.fetch();
    this.#isReading = false;
  }

  /** Returns a source that was expected; undefined where it has to be asked for. */
  async take(id: MessageId): Promise<Buffer | undefined> {
    const group = this.#groups.find(({ ids }) => ids.has(id));
    if (group === undefined) return undefined;
    this.#isReading = true;
    return (await group.fetch()).get(id);
  }
}

/** Stands for the length of a source that is not in an answer. */
const ABSENT = 0xff_ff_ff_ff;

/** Returns a source as it stands in an answer: its length (32 bits, big-endian), then its bytes. */
export function batchItem(source: Buffer | undefined): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(source?.length ?? ABSENT);
  return source === undefined ? length : Buffer.concat([length, source]);
}

/** Returns the sources of an answer that are what was asked for. */
export function batchOf(asked: readonly Expected[], answer: Buffer): Batch {
  const batch = new Map<MessageId, Buffer>();
  let at = 0;
  for (const { id } of asked) {
    if (at + 4 > answer.length) break;
    const length = answer.readUInt32BE(at);
    at += 4;
    if (length === ABSENT) continue;
    const source = answer.subarray(at, at + length);
    at += length;
    if (hash('sha256', source, 'hex') === id) batch.set(id, source);
  }
  return batch;
}
