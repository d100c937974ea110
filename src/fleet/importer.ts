import { createHash } from 'node:crypto';
import { compressPayload } from '../archive/payload.ts';
import type { ChainState } from '../archive/segment-reader.ts';
import { hasCode } from '../core/errors.ts';
import type { TailBatch } from '../registry/commits.ts';
import { fleetError } from '../registry/errors.ts';
import {
  coverImported,
  finishImport,
  type ImportedEnd,
  type ImportedExtras,
  type ImportedRange,
  tailImported,
  trimImport,
} from '../registry/imports.ts';
import { resolve } from '../registry/leases.ts';
import type { Lease, Outcome } from '../registry/outcome.ts';
import { readArchive, type StoredCover } from '../registry/reading.ts';
import { coverWith } from './covering.ts';
import type { LooseCommit, LooseSegment } from './import-log.ts';
import type { ObjectNames } from './object-names.ts';
import { deflated } from './packing.ts';
import type { SealedFile } from './sealed-file.ts';
import { underLease } from './under-lease.ts';
import { type NewObject, type Uploading, uploadObject } from './uploads.ts';

export interface ImporterOptions {
  readonly uploading: Uploading;
  readonly names: ObjectNames;
  readonly logId: Buffer;
  /** As people know it, for errors. */
  readonly account: { readonly account: string; readonly tenant: string };
  /** What an earlier importer has stored. */
  readonly covers: readonly StoredCover[];
}

/** Bytes of commits in one chunk, before they are deflated. */
const CHUNK_RAW_BYTES = 16 * 1024 * 1024;
/** Times that an upload is made which was taken for abandoned, or an act whose outcome stays unknown. */
const MOST_TRIES = 3;

/** Stores the commits of an import, in the order of the log. What an earlier importer has stored alike is kept. */
export class Importer {
  uploaded = 0;
  kept = 0;
  /** What follows may be stored already. */
  #isKeeping = true;

  constructor(private readonly options: ImporterOptions) {}

  /** Stores a sealed segment. Throws as `finish`, and what `uploadObject` throws. */
  async sealed(file: SealedFile): Promise<void> {
    const { names, logId } = this.options;
    const { range, previous, length, sha256 } = file;
    const isAlike = (cover: StoredCover) => cover.bytes === length && cover.sha256.equals(sha256);
    const { segment, generation } = range;
    await this.#object({ ...range, previousHash: bytesOf(previous) }, isAlike, async () => ({
      ...{ kind: 'sealed', length, sha256, purges: 0 },
      name: (epoch) => names.sealed({ segment, generation }, range, epoch),
      bytes: () => file.bytes(),
      metadata: { logId, ...range },
    }));
  }

  /** Stores commits of a segment that is not sealed, as chunks. Throws as `sealed`. */
  async chunks(loose: LooseSegment): Promise<void> {
    const { names, logId } = this.options;
    const { segment } = loose;
    for (const commits of chunksOf(loose.commits)) {
      const [first] = commits;
      const last = commits.at(-1);
      if (first === undefined || last === undefined) continue;
      const range: ImportedRange = {
        ...{ first: first.number, last: last.number, lastHash: last.hash, segment, generation: 1 },
        ...{ at: first.at, previousHash: first.previousHash },
      };
      const raw = loose.read(commits);
      // The hash of its last commit says what is in it.
      await this.#object(
        range,
        () => true,
        async () => {
          const bytes = await deflated(raw);
          return {
            ...{ kind: 'chunk', length: bytes.length, purges: 0 },
            sha256: createHash('sha256').update(bytes).digest(),
            name: (epoch) => names.chunk(segment, range, epoch),
            async *bytes() {
              yield bytes;
            },
            metadata: { logId, ...range },
          };
        },
      );
    }
  }

  /** Stores commits of the open segment in PostgreSQL. Throws as `finish`. */
  async tail(loose: LooseSegment): Promise<void> {
    const raw = loose.read(loose.commits);
    const [first] = loose.commits;
    if (first === undefined) return;
    const batches: TailBatch[] = [];
    for (const commit of loose.commits) {
      const { number, hash, previousHash, time, at, end, firstOrdinal, records } = commit;
      const bytes = raw.subarray(at - first.at, end - first.at);
      const { codec, stored } = await compressPayload('zlib', bytes);
      batches.push({
        ...{ number, hash, previousHash, time, at, firstOrdinal, records, codec, bytes: stored },
        ...{ segment: loose.segment, rawBytes: bytes.length },
      });
    }
    this.#isKeeping = false;
    const { registry } = this.options.uploading.held;
    // Of an earlier importer, or of an attempt whose outcome is unknown.
    await this.#sure(async (lease) => {
      const trimmed = await trimImport(registry, lease, first.number - 1);
      return trimmed.outcome === 'fenced' ? trimmed : tailImported(registry, lease, batches);
    });
  }

  /** Removes what an earlier importer has stored behind the end of the log. Throws as `finish`. */
  async trim(after: number): Promise<void> {
    if (!this.#isKeeping) return;
    this.#isKeeping = false;
    const { registry } = this.options.uploading.held;
    await this.#sure((lease) => trimImport(registry, lease, after));
  }

  /**
   * Ends the import: the account can be claimed from then on.
   *
   * @throws fleet-import-lost if somebody else continued it or called it off; outcome-unknown, and the other errors of the
   *   registry
   */
  async finish(end: ImportedEnd, extras: ImportedExtras): Promise<void> {
    const { held } = this.options.uploading;
    await this.#sure(
      async (lease) => {
        const outcome = await finishImport(held.registry, lease, end, extras);
        const isSnapshot = outcome.outcome === 'fenced' && outcome.by === 'object';
        // Its snapshot was taken for abandoned: the first holder makes one without it.
        const { snapshot: _, ...others } = extras;
        return isSnapshot ? finishImport(held.registry, lease, end, others) : outcome;
      },
      () => this.#isFinished(end),
    );
  }

  async #object(
    range: ImportedRange,
    isAlike: (cover: StoredCover) => boolean,
    make: () => Promise<NewObject>,
  ): Promise<void> {
    const { covers, uploading } = this.options;
    const found = this.#isKeeping ? covers[this.kept] : undefined;
    if (found !== undefined && isSame(found, range) && isAlike(found)) {
      this.kept += 1;
      return;
    }
    await this.trim(range.first - 1);
    const object = await make();
    for (let tries = 1; ; tries += 1) {
      const outcome = await this.#uploadAndCover(range, object);
      if (outcome.outcome === 'committed') break;
      const isCollected = outcome.by === 'object' && uploading.held.lostBy === undefined;
      if (!isCollected || tries === MOST_TRIES) throw this.#lost();
    }
    this.uploaded += 1;
  }

  async #uploadAndCover(range: ImportedRange, object: NewObject): Promise<Outcome> {
    const { uploading } = this.options;
    const { held } = uploading;
    const result = await uploadObject(uploading, object);
    if (result.outcome === 'fenced') return result;
    const { uploaded } = result;
    return coverWith(held, uploaded, (lease) =>
      coverImported(held.registry, lease, uploaded, range),
    );
  }

  /**
   * Acts until the outcome is known. After an unknown one the lease gets another epoch, so that what is under way is refused.
   *
   * @param isDone is asked if that is refused because the lease is gone
   */
  async #sure(
    act: (lease: Lease) => Promise<Outcome>,
    isDone: () => Promise<boolean> = async () => false,
  ): Promise<void> {
    const { held } = this.options.uploading;
    for (let tries = 1; ; tries += 1) {
      try {
        const outcome = await underLease(held, act);
        if (outcome.outcome === 'committed') return;
        throw this.#lost();
      } catch (error) {
        if (!hasCode(error, 'outcome-unknown') || tries === MOST_TRIES) throw error;
      }
      const resolved = await resolve(held.registry, held.lease);
      if (resolved.outcome === 'committed') held.moved(resolved.head);
      else if (await isDone()) return;
      else throw this.#lost();
    }
  }

  async #isFinished({ headNumber, headHash }: ImportedEnd): Promise<boolean> {
    const { held } = this.options.uploading;
    const head = (await readArchive(held.registry, held.lease.archive))?.head;
    // A holder may have continued.
    if (head === undefined || head.holder === held.session) return false;
    return head.headNumber > headNumber || (headNumber > 0 && head.headHash.equals(headHash));
  }

  #lost(): Error {
    return fleetError('fleet-import-lost', this.options.account);
  }
}

function bytesOf({ hash }: ChainState): Buffer {
  return Buffer.from(hash, 'hex');
}

function isSame(cover: StoredCover, range: ImportedRange): boolean {
  return (
    cover.first === range.first &&
    cover.last === range.last &&
    cover.lastHash.equals(range.lastHash) &&
    cover.segment === range.segment &&
    cover.generation === range.generation &&
    cover.at === range.at
  );
}

/** Returns commits in groups that make one chunk each. The first one is in its group whatever its size. */
function* chunksOf(commits: readonly LooseCommit[]): Generator<readonly LooseCommit[]> {
  let group: LooseCommit[] = [];
  for (const commit of commits) {
    const [first] = group;
    if (first !== undefined && commit.end - first.at > CHUNK_RAW_BYTES) {
      yield group;
      group = [];
    }
    group.push(commit);
  }
  if (group.length > 0) yield group;
}
