/** What a sampled open uid answers with, compared by Message-ID and date. */
export type SampleAnswer = 'same' | 'other' | 'missing';

/** Open uids that are asked before a new generation is declared; all of them if there are fewer. */
export const SAMPLE_SIZE = 20;
/** The share of the sample that has to answer with another message. */
export const DECLARED_AT = 0.8;

/**
 * `same`: nothing contradicts. `replaced`: a single uid shows another message; it is fetched. `new`: the origin
 * reassigned the uids. `doubtful`: in between; the folder is walked first.
 */
export type GenerationVerdict = 'same' | 'replaced' | 'new' | 'doubtful';

/** Weighs a sample of min(20, all) open uids. Uids that are missing neither contradict nor agree. */
export function judgeGeneration(sample: readonly SampleAnswer[]): GenerationVerdict {
  const other = sample.filter((answer) => answer === 'other').length;
  if (other === 0) return 'same';
  if (other >= DECLARED_AT * sample.length) return sample.length === 1 ? 'replaced' : 'new';
  return other === 1 ? 'replaced' : 'doubtful';
}

/** Returns the evenly spread positions of a sample among `count` items, ascending. */
export function samplePositions(count: number, size = SAMPLE_SIZE): number[] {
  if (count <= size) return Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: size }, (_, i) => Math.floor((i * (count - 1)) / (size - 1)));
}
