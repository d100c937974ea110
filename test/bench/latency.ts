import { median } from './figures.ts';
import { type PerTerm, perTerm, TERM_NAMES, type TermName } from './measurements.ts';
import { type Invocation, timeProgram } from './process-cost.ts';

/** Rounds of a cold command line; each program once a round, so that a noisy moment meets all of them. */
const COLD_ROUNDS = 15;

/** The searches of one program, each a command line. */
export type Searches = (term: TermName) => Invocation;

/** Median wall time of each search of each program, and of `node -e 0`; a first round warms the page cache. */
export function coldLatencies(programs: Readonly<Record<string, Searches>>): {
  readonly node: number;
  readonly programs: Readonly<Record<string, PerTerm<number>>>;
} {
  const walls = new Map<string, number[]>();
  const time = (key: string, invocation: Invocation): void => {
    walls.set(key, [...(walls.get(key) ?? []), timeProgram(invocation).wallMs]);
  };
  for (let round = 0; round <= COLD_ROUNDS; round++) {
    time('node', { command: process.execPath, args: ['-e', '0'] });
    for (const [name, search] of Object.entries(programs))
      for (const term of TERM_NAMES) time(`${name} ${term}`, search(term));
  }
  const middle = (key: string): number => median((walls.get(key) ?? []).slice(1));
  return {
    node: middle('node'),
    programs: Object.fromEntries(
      Object.keys(programs).map((name) => [name, perTerm((term) => middle(`${name} ${term}`))]),
    ),
  };
}
