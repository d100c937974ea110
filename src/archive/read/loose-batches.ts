import { logDamaged } from '../../errors/archive.ts';
import type { RecordSpace } from '../format/headers.ts';
import { type ChainState, type Standing, segmentBatches } from './segment-batches.ts';

/** Batches in memory, as they stand in generation 1 of their segment, and the place that they are valid at. */
export interface LooseBatches {
  readonly bytes: Buffer;
  readonly space: RecordSpace;
  /** Of the first record. */
  readonly at: Standing;
  /** The commit before the first batch. */
  readonly after: ChainState;
}

export interface ProvenCommit extends ChainState {
  /** The place of the record behind it. */
  readonly end: Standing;
}

/**
 * Returns the commits of batches in memory. Every byte is checked: records, hashes of payloads, and the chain.
 *
 * @param origin where the bytes come from, as an error names it
 * @throws `log-damaged` unless the bytes are intact batches that follow each other, and nothing else
 */
export function provenCommits(
  origin: string,
  { bytes, space, at, after }: LooseBatches,
): readonly ProvenCommit[] {
  const { segment } = space;
  const name = { segment, generation: 1 };
  const header = { ...space, ...name, previousNumber: after.number, previousHash: after.hash };
  const file = {
    size: () => at.offset + bytes.length,
    read: (target: Uint8Array, position: number) => {
      const from = position - at.offset;
      const piece = bytes.subarray(from, from + target.length);
      target.set(piece);
      return piece.length;
    },
  };
  const reading = { digest: true };
  const commits: ProvenCommit[] = [];
  const read = { file, name, header, sealed: undefined };
  for (const item of segmentBatches(read, reading, () => undefined, at)) {
    const [problem] = item.problems;
    if (problem !== undefined || item.what === 'remainder') {
      const { offset, reason } = problem ?? { offset: at.offset, reason: 'bytes' };
      throw logDamaged({ file: origin, segment, offset, reason });
    }
    const { number, hash, ordinal } = item.commit;
    commits.push({ number, hash, end: { offset: item.end, ordinal: ordinal + 1 } });
  }
  return commits;
}
