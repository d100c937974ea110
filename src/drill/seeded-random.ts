import { hash } from 'node:crypto';

/** Numbers from 0 up to 1 that depend on the seed alone, so that a drill can be run again with the same messages. */
export function seededRandom(seed: number): () => number {
  let drawn = 0;
  return () => {
    drawn += 1;
    return hash('sha256', `mailkeep drill ${seed} ${drawn}`, 'buffer').readUIntBE(0, 6) / 2 ** 48;
  };
}
