import type { Fact } from '../archive/format/facts.ts';
import type { PlacedValue, ReadBatch } from '../archive/read/segment-batches.ts';
import {
  openSettledRows,
  type SettledCounts,
  type SettledRows,
  type SettledRun,
} from '../catalog/settled-rows.ts';
import type { Meaning } from './packed-batches.ts';
import { unlessTroubled } from './unless-troubled.ts';

type Placed = PlacedValue<Meaning | SettledRun>;
type PlacedMessage = PlacedValue<Extract<Meaning, { kind: 'message' }>>;

/**
 * Compares messages and blobs with the catalog while their records pass by. Most messages arrived once and nothing
 * happened to them since: the catalog has the rows of that, and comparing them here, on several threads, takes a
 * fraction of folding the message and comparing afterwards. All others are handed on to be folded.
 *
 * The catalog only chooses what is compared here. Whoever folds the rest has to make sure that nothing in it concerns a
 * message that was settled; see `ImpliedCatalog.agrees`.
 */
export class Settling {
  #messages = 0;
  #blobs = 0;
  #rows: SettledRows | undefined;

  /** @param upTo the commit that the catalog has reached */
  constructor(
    dir: string,
    private readonly upTo: number,
  ) {
    this.#rows = unlessTroubled(() => openSettledRows(dir));
  }

  /** The records of a batch that are to be folded, and runs of those that are settled where their facts were. */
  left(segment: number, { commit, records, problems }: ReadBatch<Meaning>): readonly Placed[] {
    const rows = this.#rows;
    if (rows === undefined || commit.number > this.upTo || problems.length > 0) {
      return records;
    }
    const settle = new BatchSettling(rows, segment, commit.number);
    const left = unlessTroubled(() => rows.within(() => settle.left(records)));
    // Whoever compares the rest reports what keeps the catalog from being read.
    if (left === undefined) this.close();
    if (left === undefined) return records;
    this.#messages += settle.messages;
    this.#blobs += settle.blobs;
    return left;
  }

  /** What was settled since this was last asked. */
  counts(): SettledCounts {
    const counts = { messages: this.#messages, blobs: this.#blobs };
    this.#messages = 0;
    this.#blobs = 0;
    return counts;
  }

  close(): void {
    this.#rows?.close();
    this.#rows = undefined;
  }
}

class BatchSettling {
  messages = 0;
  blobs = 0;
  readonly #left: Placed[] = [];
  /** Message records that no fact has used yet. */
  readonly #arrived = new Map<string, PlacedMessage>();
  /** Records that are among `#left` although they are settled. */
  readonly #settled = new Set<Placed>();

  constructor(
    private readonly rows: SettledRows,
    private readonly segment: number,
    private readonly commit: number,
  ) {}

  left(records: readonly PlacedValue<Meaning>[]): readonly Placed[] {
    for (const record of records) this.#take(record);
    const { size } = this.#settled;
    return size === 0 ? this.#left : this.#left.filter((record) => !this.#settled.has(record));
  }

  #take({ value, ordinal, offset }: PlacedValue<Meaning>): void {
    switch (value.kind) {
      case 'blob': {
        const position = { segment: this.segment, ordinal, offset };
        const state = this.rows.blob(value.hash, value.size, position);
        // One that a later record replaces has no row. If that record never comes, the catalog has a row too many.
        if (state === 'settled') this.blobs += 1;
        else if (state === undefined) this.#left.push({ value, ordinal, offset });
        return;
      }
      case 'message': {
        const message = { value, ordinal, offset };
        this.#arrived.set(value.id, message);
        this.#left.push(message);
        return;
      }
      case 'fact': {
        const run = this.#settle(value.fact);
        if (run === undefined) this.#left.push({ value, ordinal, offset });
        else this.#append(run, { ordinal, offset });
      }
    }
  }

  /** The fact of an arrival whose message came just before, in the same batch, if the catalog has its rows. */
  #settle(fact: Fact): SettledRun | undefined {
    // An accepted or assumed message has an event as well.
    if (fact.fact !== 'appeared' || fact.accepted !== undefined || fact.assumedFrom !== undefined) {
      return undefined;
    }
    const message = this.#arrived.get(fact.message);
    if (message === undefined) return undefined;
    const { ordinal, offset, value } = message;
    const position = { segment: this.segment, ordinal, offset };
    const folderId = this.rows.arrival(fact, value.size, position, this.commit);
    if (folderId === undefined) return undefined;
    this.#arrived.delete(fact.message);
    if (this.#left.at(-1) === message) this.#left.pop();
    else this.#settled.add(message);
    this.messages += 1;
    const { host, mailbox, folder, generation, uid, size } = fact;
    const place = { host, mailbox, folder, generation, uid };
    return { kind: 'settled', place, folderId, messages: 1, bytes: size };
  }

  #append(run: SettledRun, at: Omit<Placed, 'value'>): void {
    const last = this.#left.at(-1);
    if (last?.value.kind === 'settled' && isSameFolder(last.value, run)) {
      this.#left[this.#left.length - 1] = { ...last, value: joined(last.value, run) };
    } else this.#left.push({ ...at, value: run });
  }
}

function isSameFolder(a: SettledRun, b: SettledRun): boolean {
  return (
    a.folderId === b.folderId &&
    a.place.generation === b.place.generation &&
    a.place.folder === b.place.folder &&
    a.place.mailbox === b.place.mailbox &&
    a.place.host === b.place.host
  );
}

function joined(a: SettledRun, b: SettledRun): SettledRun {
  const { place } = a.place.uid > b.place.uid ? a : b;
  return { ...a, place, messages: a.messages + b.messages, bytes: a.bytes + b.bytes };
}
