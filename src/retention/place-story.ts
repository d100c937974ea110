import type { Fact } from '../archive/format/facts.ts';
import { fingerprint } from '../mail/fingerprint.ts';
import type { BlobHash, MessageId } from '../mail/words.ts';
import type { RecordAt } from './walk-log.ts';

/** Facts about one message at a place, from its appearance to the next one's. */
interface Episode {
  owner: MessageId;
  readonly fingerprints: Set<string>;
  readonly records: RecordAt[];
}

/** Facts about attempts to fetch what was listed with one fingerprint. */
interface Attempts {
  readonly records: RecordAt[];
  readonly kept: Set<BlobHash>;
}

/** What of a place's facts goes, and which blobs are kept aside by the facts that stay. */
export interface StorySplit {
  readonly going: readonly RecordAt[];
  readonly stillKept: ReadonlySet<BlobHash>;
}

/**
 * The facts about one place in the order of the log: which of them speak of which message. A uid whose message was
 * replaced has more than one, and facts of the others stay.
 */
export class PlaceStory {
  readonly #episodes: Episode[] = [];
  readonly #attempts = new Map<string, Attempts>();
  #latest: Attempts | undefined;

  add(fact: Fact, { segment, ordinal }: RecordAt): void {
    const at = { segment, ordinal };
    switch (fact.fact) {
      case 'appeared': {
        const current = this.#episodes.at(-1);
        const print = fingerprint(fact.listing);
        if (current?.owner === fact.message) {
          current.fingerprints.add(print);
          current.records.push(at);
          return;
        }
        this.#episodes.push({
          owner: fact.message,
          fingerprints: new Set([print]),
          records: [at],
        });
        return;
      }
      case 'verified': {
        const current = this.#episodes.at(-1);
        if (current === undefined) return;
        current.owner = fact.message;
        current.records.push(at);
        return;
      }
      case 'flags':
      case 'ended':
      case 'reopened':
      case 'held':
        this.#episodes.at(-1)?.records.push(at);
        return;
      case 'quarantined': {
        const print = fingerprint(fact.listing);
        this.#latest = this.#attempts.get(print) ?? { records: [], kept: new Set() };
        this.#attempts.set(print, this.#latest);
        this.#latest.records.push(at);
        if (fact.kept !== undefined) this.#latest.kept.add(fact.kept);
        return;
      }
      case 'released':
      case 'acknowledged':
        this.#latest?.records.push(at);
        return;
      default:
    }
  }

  /** @param allAttempts what was in quarantine here is forgotten, whatever it was */
  split(isGoing: (id: MessageId) => boolean, allAttempts: boolean): StorySplit {
    const gone = this.#episodes.filter(({ owner }) => isGoing(owner));
    const prints = new Set(gone.flatMap(({ fingerprints }) => [...fingerprints]));
    const going = gone.flatMap(({ records }) => records);
    const stillKept = new Set<BlobHash>();
    for (const [print, { records, kept }] of this.#attempts) {
      if (allAttempts || prints.has(print)) going.push(...records);
      else for (const blob of kept) stillKept.add(blob);
    }
    return { going, stillKept };
  }
}
