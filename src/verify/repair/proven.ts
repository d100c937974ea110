import type { FileLayer } from '../../archive/files/file-layer.ts';
import { readMessagePayload } from '../../archive/format/recipe.ts';
import { type CommittedBatch, RECORD_KIND } from '../../archive/format/records.ts';
import type { Believed, IsForgotten } from '../../archive/mend/mend-segment.ts';
import type { ExpectedCommit } from '../../archive/read/recovery.ts';
import { type ScanEvent, scanLog } from '../../archive/read/scan-log.ts';
import type { ChainState } from '../../archive/read/segment-batches.ts';
import { listSegments, openSegment } from '../../archive/read/segment-files.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import { signedHere } from './archive-identity.ts';

export interface ProofOptions {
  readonly dir: string;
  readonly files: FileLayer;
  /** Other folders of the same archive. */
  readonly copies: readonly string[];
  /** Segments that are about to be mended. */
  readonly segments: ReadonlySet<number>;
  /** The last commit that a catalog has seen. */
  readonly expected: ExpectedCommit | undefined;
  /** Commits that a key of this archive has signed, in manifests of copies. */
  readonly vouched: readonly ChainState[];
  /** In hex, where it is known. */
  readonly archiveId: string | undefined;
  /** All that the copies say is believed: their owner says so. */
  readonly trustsCopies: boolean;
}

/** A copy with commits that nothing here proves. */
export interface UnprovenCopy {
  readonly copy: string;
  /** Its last commit, and the last one that is known here. */
  readonly number: number;
  readonly known: number;
}

/** What can be believed about an archive whose log is damaged. */
export interface Proof {
  /** Says what was forgotten on purpose, and until which commit: what was stored again behind it is mail. */
  readonly isForgotten: IsForgotten;
  /** How far copies are believed. */
  readonly believed: Believed;
  readonly unproven: readonly UnprovenCopy[];
}

/**
 * Reads the log and its copies, and finds out which commits of the copies lead to one that is known here: by the log,
 * the catalog, or a checkpoint or manifest that this archive's own key signed. The hash of a commit covers all before it. Whoever
 * can write to a copy can append to it, and say there that mail was purged: behind the last known commit, a copy proves
 * nothing.
 */
export async function proveCopies(options: ProofOptions): Promise<Proof> {
  const { dir, files, copies, segments, trustsCopies } = options;
  const known = new KnownCommits(options);
  const purges = new Purges();
  for await (const { batch } of batchesIn(files, dir)) {
    purges.add(batch);
    known.reach(batch.commit);
  }
  const proven = new Set<string>();
  const unproven: UnprovenCopy[] = [];
  for (const copy of copies) {
    let last: ChainState = { number: 0, hash: '' };
    let [waiting, hashes]: [CommittedBatch[], string[]] = [[], []];
    for await (const { batch, sound } of batchesIn(files, copy)) {
      const { commit, previousHash } = batch;
      // Behind a gap, nothing shows that what stood before it belongs to the same chain.
      if (!sound || previousHash !== last.hash) [waiting, hashes] = [[], []];
      last = commit;
      if (!sound && !trustsCopies) continue;
      if (purges.areIn(batch)) waiting.push(batch);
      const isWanted = batch.records.some(({ position }) => segments.has(position.segment));
      if (isWanted || batch.records.length === 0) hashes.push(commit.hash);
      if (!trustsCopies && !known.has(commit)) continue;
      for (const one of waiting) purges.add(one);
      for (const hash of hashes) proven.add(hash);
      [waiting, hashes] = [[], []];
    }
    if (!trustsCopies && last.number > known.last && !known.has(last)) {
      unproven.push({ copy, number: last.number, known: known.last });
    }
  }
  const believed: Believed = trustsCopies
    ? { isProven: () => true, last: Number.POSITIVE_INFINITY }
    : { isProven: ({ hash }) => proven.has(hash), last: known.last };
  return { isForgotten: purges.isForgotten, believed, unproven };
}

/** The commits that are known here: each proves all before it. */
class KnownCommits {
  readonly #hashes = new Map<number, string>();
  #reached: ChainState | undefined;

  constructor({ dir, files, copies, expected, vouched, archiveId }: ProofOptions) {
    if (expected !== undefined) this.#add(expected);
    for (const commit of vouched) this.#add(commit);
    for (const [segment, generations] of listSegments(files, dir)) {
      for (const generation of generations) {
        const opened = openSegment(files, dir, { segment, generation });
        if (opened === undefined) continue;
        opened.file.close();
        const { previousNumber, previousHash } = opened.header;
        this.#add({ number: previousNumber, hash: previousHash });
      }
    }
    for (const folder of [dir, ...copies]) {
      for (const statement of signedHere(dir, folder))
        if (archiveId === undefined || statement.archiveId === archiveId) this.#add(statement);
    }
  }

  /** Takes note of the last commit of the log that was read so far. */
  reach(commit: ChainState): void {
    this.#reached = commit;
  }

  /** The highest number among them; 0 for none. */
  get last(): number {
    return Math.max(0, this.#reached?.number ?? 0, ...this.#hashes.keys());
  }

  has({ number, hash }: ChainState): boolean {
    return number > 0 && (this.#hashes.get(number) === hash || this.#reached?.hash === hash);
  }

  #add({ number, hash }: ChainState): void {
    if (number > 0) this.#hashes.set(number, hash);
  }
}

/** What was forgotten on purpose, by the name of each message and blob, and until which commit. */
class Purges {
  readonly #until = new Map<string, number>();

  areIn({ records }: CommittedBatch): boolean {
    return records.some((record) => record.kind === 'fact' && record.fact.fact === 'purged');
  }

  add({ commit: { number }, records }: CommittedBatch): void {
    for (const record of records) {
      if (record.kind !== 'fact' || record.fact.fact !== 'purged') continue;
      const { message, blobs = [], again = false } = record.fact;
      if (again) continue;
      for (const name of [`message ${message}`, ...blobs.map((blob) => `blob ${blob}`)]) {
        this.#until.set(name, Math.max(number, this.#until.get(name) ?? 0));
      }
    }
  }

  readonly isForgotten: IsForgotten = ({ kind, hash, payload }, commit) => {
    if (this.#until.size === 0) return false;
    let name: string | undefined;
    if (kind === RECORD_KIND.blob) name = `blob ${hash.toString('hex')}`;
    else if (kind === RECORD_KIND.message && payload !== undefined) {
      name = `message ${readMessagePayload(payload)?.recipe.sha256}`;
    }
    return name !== undefined && commit < (this.#until.get(name) ?? 0);
  };
}

/**
 * Reads what batches there are; damage is passed over. Reads nothing from a folder whose FORMAT is damaged: what its
 * files mark as purged is known without it.
 */
async function* batchesIn(
  files: FileLayer,
  dir: string,
): AsyncGenerator<Extract<ScanEvent, { what: 'batch' }>, void, undefined> {
  try {
    for await (const event of scanLog({ dir, files })) if (event.what === 'batch') yield event;
  } catch (error) {
    if (!hasCode(error, 'archive-format-unreadable')) throw error;
  }
}
