/**
 * Who is next. Lanes go by rank: what a person waits for, then new mail, then the backlog, then sweeps. Within
 * a lane the keys (mailboxes) take turns, so that a large mailbox does not hold up a small one, and within a key
 * it is first come, first served.
 */
export const LANES = ['hint', 'new-mail', 'backlog', 'sweep'] as const;
export type Lane = (typeof LANES)[number];

/** Every so many turns the lowest lane with anyone in it is served, so that none waits for ever. */
const TURNS_TO_LOWEST = 16;

/** Someone waiting in a lane. */
export interface Waiting<T> {
  readonly lane: Lane;
  readonly key: string;
  readonly item: T;
}

export class WaitingLines<T> {
  readonly #lanes: readonly Map<string, Waiting<T>[]>[] = LANES.map(() => new Map());
  #size = 0;
  #turns = 0;

  get size(): number {
    return this.#size;
  }

  add(waiting: Waiting<T>): void {
    const lane = this.#lane(waiting.lane);
    const line = lane.get(waiting.key);
    if (line === undefined) lane.set(waiting.key, [waiting]);
    else line.push(waiting);
    this.#size += 1;
  }

  /** Takes one out of its line wherever it stands. */
  remove(waiting: Waiting<T>): void {
    const lane = this.#lane(waiting.lane);
    const line = lane.get(waiting.key);
    const at = line?.indexOf(waiting) ?? -1;
    if (line === undefined || at < 0) return;
    line.splice(at, 1);
    if (line.length === 0) lane.delete(waiting.key);
    this.#size -= 1;
  }

  next(): Waiting<T> | undefined {
    this.#turns += 1;
    const lowestFirst = this.#turns % TURNS_TO_LOWEST === 0;
    for (let i = 0; i < this.#lanes.length; i += 1) {
      const lane = this.#lanes[lowestFirst ? this.#lanes.length - 1 - i : i];
      const entry = lane?.entries().next();
      if (lane === undefined || entry === undefined || entry.done === true) continue;
      const [key, line] = entry.value;
      const first = line.shift();
      lane.delete(key);
      // To the back of the round, behind the other keys.
      if (line.length > 0) lane.set(key, line);
      if (first === undefined) continue;
      this.#size -= 1;
      return first;
    }
    return undefined;
  }

  #lane(lane: Lane): Map<string, Waiting<T>[]> {
    const found = this.#lanes[LANES.indexOf(lane)];
    if (found === undefined) throw new RangeError(`no lane ${lane}`);
    return found;
  }
}
