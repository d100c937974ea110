import { median } from './figures.ts';
import { type Invocation, timeProgram } from './process-cost.ts';

/** Rounds of a cold command line; each program once a round, so that a noisy moment meets all of them. */
const COLD_ROUNDS = 15;

/** Median wall time of each program in milliseconds, in their order; a first round warms the page cache. */
export function coldLatencies(programs: readonly Invocation[]): number[] {
  const walls = programs.map((): number[] => []);
  for (let round = 0; round <= COLD_ROUNDS; round++) {
    for (const [i, program] of programs.entries()) {
      const { wallMs } = timeProgram(program);
      if (round > 0) walls[i]?.push(wallMs);
    }
  }
  return walls.map(median);
}
