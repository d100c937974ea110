import { type FlagSet, flagSet } from '../../mail/words.ts';

/** Flag sets as small numbers: a mailbox has many messages and few distinct sets. */
export class FlagTable {
  readonly #sets: FlagSet[] = [];
  readonly #ids = new Map<string, number>();

  idOf(flags: Iterable<string>): number {
    const set = flagSet(flags);
    const key = JSON.stringify(set);
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    const id = this.#sets.length;
    this.#sets.push(set);
    this.#ids.set(key, id);
    return id;
  }

  get(id: number): FlagSet {
    return this.#sets[id] ?? [];
  }
}
