import type { BlobHash } from '../mail/words.ts';

/** Bytes of blobs that are kept: most messages that need one come right behind it, or soon. */
const KEPT_BYTES = 32 * 1024 * 1024;
/** A message that needs more is rebuilt piece by piece in its turn. Bytes. */
const FETCHED_BYTES = 8 * 1024 * 1024;

/** Looks for a blob's bytes in the rest of the log; they have its hash when they come. */
export type FindBlob = (hash: BlobHash) => Buffer | undefined;

/** Blobs of the log in force, each with bytes that have its hash, in the order of their last use. */
export class RecentBlobs {
  readonly #blobs = new Map<BlobHash, Buffer>();
  #kept = 0;

  constructor(private readonly find: FindBlob = () => undefined) {}

  /** Keeps a copy. */
  keep(hash: BlobHash, payload: Buffer): void {
    if (payload.length > KEPT_BYTES || this.#blobs.has(hash)) return;
    this.#blobs.set(hash, Buffer.from(payload));
    this.#kept += payload.length;
    for (const [oldest, bytes] of this.#blobs) {
      if (this.#kept <= KEPT_BYTES) break;
      this.#blobs.delete(oldest);
      this.#kept -= bytes.length;
    }
  }

  /**
   * All of these blobs, or undefined when some are neither kept nor found.
   *
   * @param length how many bytes they are together
   */
  all(hashes: readonly BlobHash[], length: number): ReadonlyMap<BlobHash, Buffer> | undefined {
    const found = new Map<BlobHash, Buffer>();
    for (const hash of hashes) {
      const bytes = this.#get(hash) ?? (length > FETCHED_BYTES ? undefined : this.#fetch(hash));
      if (bytes === undefined) return undefined;
      found.set(hash, bytes);
    }
    return found;
  }

  #get(hash: BlobHash): Buffer | undefined {
    const bytes = this.#blobs.get(hash);
    if (bytes === undefined) return undefined;
    this.#blobs.delete(hash);
    this.#blobs.set(hash, bytes);
    return bytes;
  }

  #fetch(hash: BlobHash): Buffer | undefined {
    const bytes = this.find(hash);
    if (bytes !== undefined) this.keep(hash, bytes);
    return bytes;
  }
}
