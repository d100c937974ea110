import { z } from 'zod';
import type { Listing } from '../../mail/words.ts';
import {
  type FetchedFacts,
  learnSizes,
  NO_LESSONS,
  ruleOf,
  type SizeLessons,
  type SizeRule,
} from '../source-judgement.ts';
import type { Memory } from './ports.ts';

/** Scope of memory: what was learned about each host's listed sizes. */
const SIZE_LESSONS = 'size-lessons';

const lessonsShape = z.object({
  lf: z.int().nonnegative(),
  crlf: z.int().nonnegative(),
  offset: z.object({ bytes: z.int(), count: z.int().nonnegative() }),
});

/** Remembers, per host, by which rule listed sizes are off. */
export class HostRules {
  readonly #memory: Memory;
  readonly #host: string;
  #lessons: SizeLessons;

  constructor(memory: Memory, host: string) {
    this.#memory = memory;
    this.#host = host;
    const remembered = lessonsShape.safeParse(memory.get(SIZE_LESSONS, host));
    this.#lessons = remembered.success ? remembered.data : NO_LESSONS;
  }

  get rule(): SizeRule | null {
    return ruleOf(this.#lessons);
  }

  /** Learns from one message; `fetched` is undefined when its size was as listed. */
  learn(listing: Listing, fetched: FetchedFacts | undefined): void {
    const lessons = learnSizes(this.#lessons, listing, fetched);
    if (lessons === this.#lessons) return;
    this.#lessons = lessons;
    this.#memory.set(SIZE_LESSONS, this.#host, lessons);
  }
}
