import type { MailkeepError } from '../../errors/mailkeep-error.ts';
import type { Listing } from '../../mail/words.ts';
import {
  type FetchedFacts,
  learnSizes,
  MESSAGES_TO_LEARN,
  NO_LESSONS,
  ruleOf,
  type SizeLessons,
  type SizeRule,
} from '../source-judgement.ts';
import type { Memory } from './ports.ts';

/** Scope of memory: what was learned about each host's listed sizes. */
const SIZE_LESSONS = 'size-lessons';

/** Scope of memory: sources in a row with another Message-ID than listed, while their listing did not change. */
const ODD_IDS = 'odd-ids';

/** Learns, per host, by which rule listed sizes differ from the sources'. */
export class HostRules {
  #lessons: SizeLessons;
  #oddIds: number;

  constructor(
    private readonly memory: Memory,
    private readonly host: string,
  ) {
    this.#lessons = memory.get(SIZE_LESSONS, host) ?? NO_LESSONS;
    this.#oddIds = memory.get(ODD_IDS, host) ?? 0;
  }

  get rule(): SizeRule | null {
    return ruleOf(this.#lessons);
  }

  /** True for a host whose listings repeatedly show other Message-IDs than the sources. */
  get spellsIdsItsWay(): boolean {
    return this.#oddIds >= MESSAGES_TO_LEARN;
  }

  /** Learns from a source with another Message-ID than listed: is its uid still listed as before? */
  learnIds(listedStill: boolean): void {
    this.#oddIds = listedStill ? this.#oddIds + 1 : 0;
    this.memory.set(ODD_IDS, this.host, this.#oddIds);
  }

  /** Learns from one message; `fetched` is undefined when its size was as listed. */
  learn(listing: Listing, fetched: FetchedFacts | undefined): void {
    const lessons = learnSizes(this.#lessons, listing, fetched);
    if (lessons === this.#lessons) return;
    this.#lessons = lessons;
    this.memory.set(SIZE_LESSONS, this.host, lessons);
  }
}

/** Failures in a row after which the host is failing, and not one message after the other. */
const FAILURES_OF_A_HOST = 20;

/** Counts requests that failed in a row, whatever their errors. */
export class Trouble {
  #inARow = 0;

  /** @throws the error itself, when it is one of too many in a row */
  failed(error: MailkeepError): void {
    this.#inARow += 1;
    if (this.#inARow >= FAILURES_OF_A_HOST) throw error;
  }

  over(): void {
    this.#inARow = 0;
  }
}
