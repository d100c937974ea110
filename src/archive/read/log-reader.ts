import { createHash, hash as digest } from 'node:crypto';
import { blobDamaged, bytesPurged, bytesUnknown, messageDamaged } from '../../errors/archive.ts';
import { errnoName, MailkeepError } from '../../errors/mailkeep-error.ts';
import type { BlobHash, MessageId } from '../../mail/words.ts';
import type { FileLayer } from '../files/file-layer.ts';
import { realFiles } from '../files/real-files.ts';
import type { Fact } from '../format/facts.ts';
import {
  type MessagePayload,
  RecipeMismatch,
  readMessagePayload,
  rebuild,
  rebuildPieces,
} from '../format/recipe.ts';
import { type Locator, type Position, RECORD_KIND } from '../format/records.ts';
import { CommitFacts } from './commit-facts.ts';
import { checkFormat } from './format-file.ts';
import { SegmentCache } from './segment-cache.ts';
import type { SegmentStore } from './segment-store.ts';

export interface LogReaderOptions {
  readonly dir: string;
  readonly locator: Locator;
  readonly files?: FileLayer;
  /** Where segments are that are not in the folder; without it, all are. */
  readonly segments?: SegmentStore;
}

export interface ReadSource {
  readonly bytes: Buffer;
  /** True when the source continues after these bytes. */
  readonly cut: boolean;
}

/**
 * Reads messages and blobs by their hash, also while a writer runs and segments are sealed. Complete bytes that it
 * returns have the requested hash. Buffers it returns may be views of shared memory: do not write to them.
 *
 * Every method throws `bytes-unknown` when the locator has no position, `bytes-purged` when the bytes were removed on
 * purpose, `message-damaged` or `blob-damaged` when they are not what was stored, and `segment-elsewhere` when a segment
 * has to be fetched first: see `fetching`.
 */
export interface LogReader {
  readMessage(id: MessageId): Buffer;
  /** The pieces of a raw source of any size; the whole is proven only when it ends without an error. */
  streamMessage(id: MessageId): AsyncGenerator<Buffer, void, undefined>;
  /** The first `maxBytes` bytes of a source; its hash is compared only when that is all of it. */
  readSource(id: MessageId, maxBytes: number): ReadSource;
  readBlob(hash: BlobHash): Buffer;
  /** Bytes of the raw source, from its recipe. */
  sizeOf(id: MessageId): number;
  /**
   * The facts of a commit in the order of the log, without those that were purged.
   *
   * @throws `log-damaged` where the log has no such commit
   */
  factsOf(commit: number): readonly Fact[];
  /** Lets go of files and of what is known of the folder: after a purge, for instance. */
  refresh(): void;
  close(): void;
}

/** A reader of its own, for whoever scans the log as well. */
interface OwnLogReader extends LogReader {
  /**
   * Saves reading and inflating a block again that a scan of the same log has just inflated: most messages of a block
   * are read soon after their batch. A few are kept at a time.
   */
  keepBlock(path: string, offset: number, block: Buffer): void;
}

/** @throws `archive-missing`, `archive-format-newer`, `archive-format-unreadable` */
export function openLogReader(options: LogReaderOptions): OwnLogReader {
  const { dir, locator, files = realFiles, segments } = options;
  checkFormat(files, dir);
  return new CachedReader(dir, new SegmentCache(files, dir, undefined, segments), locator);
}

class CachedReader implements OwnLogReader {
  readonly #facts: CommitFacts;

  constructor(
    dir: string,
    private readonly segments: SegmentCache,
    private readonly locator: Locator,
  ) {
    this.#facts = new CommitFacts(dir, segments);
  }

  readMessage(id: MessageId): Buffer {
    return this.#twice(() => this.#whole(id, this.#message(id)));
  }

  async *streamMessage(id: MessageId): AsyncGenerator<Buffer, void, undefined> {
    const whole = createHash('sha256');
    const pieces = rebuildPieces(
      this.#twice(() => this.#message(id)),
      this.#blobSource,
    );
    for (;;) {
      const next = this.#rebuilding(id, () => pieces.next());
      if (next.done === true) break;
      whole.update(next.value);
      yield next.value;
    }
    if (whole.digest('hex') !== id) throw messageDamaged(id, 'hash');
  }

  readSource(id: MessageId, maxBytes: number): ReadSource {
    return this.#twice(() => {
      const payload = this.#message(id);
      return payload.recipe.size <= maxBytes
        ? { bytes: this.#whole(id, payload), cut: false }
        : { bytes: this.#beginning(id, payload, maxBytes), cut: true };
    });
  }

  #whole(id: MessageId, payload: MessagePayload): Buffer {
    const source = this.#rebuilding(id, () => rebuild(payload, this.#blobSource));
    if (digest('sha256', source, 'hex') !== id) throw messageDamaged(id, 'hash');
    return source;
  }

  #beginning(id: MessageId, payload: MessagePayload, maxBytes: number): Buffer {
    return this.#rebuilding(id, () => {
      const bytes = Buffer.allocUnsafe(maxBytes);
      let at = 0;
      for (const piece of rebuildPieces(payload, this.#blobSource)) {
        at += piece.copy(bytes, at);
        if (at === maxBytes) break;
      }
      return bytes.subarray(0, at);
    });
  }

  readBlob(hash: BlobHash): Buffer {
    const position = this.locator.blob(hash);
    if (position === undefined) throw bytesUnknown(hash);
    return this.#twice(() => {
      const bytes = this.#present(position, hash, RECORD_KIND.blob);
      if (bytes === undefined) throw blobDamaged(hash, 'bytes');
      if (digest('sha256', bytes, 'hex') !== hash) throw blobDamaged(hash, 'hash');
      return bytes;
    });
  }

  sizeOf(id: MessageId): number {
    return this.#twice(() => this.#message(id)).recipe.size;
  }

  factsOf(commit: number): readonly Fact[] {
    return this.#twice(() => this.#facts.read(commit));
  }

  keepBlock(path: string, offset: number, block: Buffer): void {
    this.segments.keep(path, offset, block);
  }

  refresh(): void {
    this.segments.forget();
  }

  close(): void {
    this.segments.forget();
  }

  /** A blob that a recipe needs: the log holds it, so a locator without it is damage of what was derived, or worse. */
  readonly #blobSource = (hash: BlobHash): Buffer => {
    if (this.locator.blob(hash) === undefined) throw blobDamaged(hash, 'absent');
    return this.readBlob(hash);
  };

  #message(id: MessageId): MessagePayload {
    const position = this.locator.message(id);
    if (position === undefined) throw bytesUnknown(id);
    const bytes = this.#present(position, id, RECORD_KIND.message);
    if (bytes === undefined) throw messageDamaged(id, 'bytes');
    const payload = readMessagePayload(bytes);
    if (payload?.recipe.sha256 !== id) throw messageDamaged(id, 'recipe');
    return payload;
  }

  #present(position: Position, hash: string, kind: number): Buffer | undefined {
    const record = this.segments.fetch(position);
    if (record.state === 'purged') throw bytesPurged(hash);
    return record.state === 'present' && record.kind === kind ? record.payload : undefined;
  }

  #rebuilding<T>(id: MessageId, act: () => T): T {
    try {
      return act();
    } catch (error) {
      throw error instanceof RecipeMismatch ? messageDamaged(id, 'recipe') : error;
    }
  }

  /** A sealing or a purge may have replaced a file since it was looked up: what fails is looked up once more. */
  #twice<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      const stale =
        errnoName(error) === 'ENOENT' ||
        (error instanceof MailkeepError && error.family === 'damage');
      if (!stale) throw error;
      this.segments.forget();
      return act();
    }
  }
}
