import { type Clock, sleep } from '../core/concurrency.ts';
import { objectError } from './errors.ts';

/** Limits network traffic to a number of bytes per second. All users of a connection share one instance. */
export class ByteRate {
  /** When all admitted bytes will have passed, milliseconds since 1970. */
  #busyUntil = 0;

  /** @param bytesPerSecond undefined for no limit */
  constructor(
    private readonly bytesPerSecond: number | undefined,
    private readonly clock: Clock,
  ) {}

  /** Number of bytes to admit at a time: a tenth of a second's worth. */
  get piece(): number {
    if (this.bytesPerSecond === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(1, Math.min(64 * 1024, Math.floor(this.bytesPerSecond / 10)));
  }

  /** Returns the minimum time for this many bytes, in milliseconds. */
  msFor(bytes: number): number {
    return this.bytesPerSecond === undefined ? 0 : (bytes / this.bytesPerSecond) * 1000;
  }

  /** Waits until the bytes may pass. @throws the signal's reason */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.bytesPerSecond === undefined || bytes === 0) return;
    const now = this.clock.now();
    // If the clock was set back, the wait must still be bounded.
    const starts = Math.max(now, Math.min(this.#busyUntil, now + this.msFor(64 * 1024 * 1024)));
    this.#busyUntil = starts + this.msFor(bytes);
    if (starts > now) await sleep(this.clock, starts - now, signal);
  }
}

/** Passes bytes through. @throws object-length if there are more or fewer than announced; the signal's reason */
export async function* requireLength(
  facts: { readonly store: string; readonly name: string },
  announced: number,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let found = 0;
  for await (const chunk of bytes) {
    signal.throwIfAborted();
    found += chunk.length;
    if (found > announced) break;
    yield chunk;
  }
  if (found !== announced) throw objectError('object-length', { ...facts, announced, found });
}

/** No object of ours has a longer name, and file systems allow at most 255 bytes. */
const MAX_CHARACTERS = 240;
const PLAIN = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/;
/** A part cannot start with a dot, so none is `.`, `..` or a hidden file. */
const DOTTED = /^[a-z0-9-][a-z0-9.-]*(?:\/[a-z0-9-][a-z0-9.-]*)*$/;

/** Returns whether we may store an object under a name. */
export function isObjectName(name: string): boolean {
  return name.length <= MAX_CHARACTERS && DOTTED.test(name);
}

/** Returns whether a listed name may be ours. Names with dots are excluded, because a cleanup may remove what we list. */
export function isPlainName(name: string): boolean {
  return name.length <= MAX_CHARACTERS && PLAIN.test(name);
}

/** Refuses an invalid name before it becomes part of a path or URL. @throws TypeError: such a name is a bug */
export function checkObjectName(name: string, isName: (name: string) => boolean): void {
  if (!isName(name)) throw new TypeError(`no name of an object: ${JSON.stringify(name)}`);
}

export interface ObjectFact {
  readonly name: string;
  /** Bytes. */
  readonly length: number;
  /** Milliseconds since 1970, by the store's clock. */
  readonly modified: number;
}

export interface PutOptions {
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. Until then, not even the owner can delete the object. Needs `Abilities.locks`. */
  readonly lockUntil?: number;
  /** In governance mode, users with a special permission can delete a locked object. Defaults to compliance. */
  readonly lockMode?: 'compliance' | 'governance';
}

/** Abilities that were observed, not merely claimed by the store. */
export interface StoreAbilities {
  /** The store keeps deleted and overwritten objects until `delete` removes their versions. */
  readonly keepsVersions: boolean;
  /** A lock was written and read back. */
  readonly locks: boolean;
}

export interface GetOptions {
  readonly signal: AbortSignal;
  /** One of `versions`; defaults to the newest. */
  readonly version?: string | undefined;
}

/**
 * Stores objects by name. Names consist of lower-case letters, digits, hyphens and slashes. In a bucket, they may also
 * contain dots, except at the start of a part. Listings omit other names, which are not ours.
 */
export interface ObjectStore {
  /** `s3://bucket/prefix` or the directory, without secrets. */
  readonly label: string;

  /**
   * Stores or replaces an object atomically. It becomes visible only when complete, and a failure leaves nothing.
   *
   * @param bytes are read once; a repeated request sends the same bytes from memory
   * @throws object-length if `bytes` has a different length; store-unable; object-lock-dropped (the object is then
   * stored without the lock)
   */
  put(
    name: string,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<void>;

  /**
   * Yields the bytes of an object. After a broken connection, it resumes if the object is still the same.
   *
   * @throws object-missing; object-changed
   */
  get(name: string, options: GetOptions): AsyncIterable<Buffer>;

  /**
   * Locks all versions of an object except delete markers, in compliance mode. Locks cannot be shortened.
   *
   * @param until milliseconds since 1970
   * @throws store-unable; object-missing; object-lock-dropped
   */
  lock(name: string, until: number, signal: AbortSignal): Promise<void>;

  /** Returns the versions of an object, newest first, without delete markers. Empty if the store keeps none. */
  versions(name: string, signal: AbortSignal): Promise<readonly string[]>;

  head(name: string, signal: AbortSignal): Promise<ObjectFact | undefined>;

  /** Yields all objects whose names start with `prefix`, in byte order. */
  list(prefix: string, signal: AbortSignal): AsyncIterable<ObjectFact>;

  /** Deletes an object with all its versions, if it exists. @throws object-locked */
  delete(name: string, signal: AbortSignal): Promise<void>;

  /** The first call tests the store. */
  abilities(signal: AbortSignal): Promise<StoreAbilities>;

  close(): Promise<void>;
}

export interface Upload {
  readonly name: string;
  /** The server's ID for the upload. */
  readonly uploadId: string;
}

/**
 * A store with separate upload steps, for objects that must be recorded elsewhere before the first byte is sent. The
 * object exists once its upload is completed. An aborted upload cannot be completed.
 */
export interface UploadingStore extends ObjectStore {
  /** @param metadata is stored with the object; names consist of lower-case letters and hyphens */
  beginUpload(
    name: string,
    metadata: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Upload>;

  /**
   * Sends all bytes of an upload and returns the server's IDs of the parts.
   *
   * @param length at least 1
   * @throws object-length
   */
  sendParts(
    upload: Upload,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<readonly string[]>;

  /**
   * Asks the server to assemble the object. Also resolves if a response was lost and the server no longer has the
   * upload, so it does not prove that the object exists.
   */
  completeUpload(upload: Upload, parts: readonly string[], signal: AbortSignal): Promise<void>;

  /** Aborts an upload, if the server still has it, and drops its parts. */
  giveUpUpload(upload: Upload, signal: AbortSignal): Promise<void>;
}
