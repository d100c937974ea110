import { type Clock, sleep } from '../core/concurrency.ts';
import { objectError } from './errors.ts';
import type { S3Store } from './s3-store.ts';

/** Limits traffic in bytes per second. All users of a connection share an instance. */
export class ByteRate {
  /** Time when all admitted bytes will have passed, milliseconds since 1970. */
  #busyUntil = 0;

  /** @param bytesPerSecond undefined for no limit */
  constructor(
    private readonly bytesPerSecond: number | undefined,
    private readonly clock: Clock,
  ) {}

  /** Number of bytes to admit at once: a tenth of a second's worth. */
  get piece(): number {
    if (this.bytesPerSecond === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(1, Math.min(64 * 1024, Math.floor(this.bytesPerSecond / 10)));
  }

  /** Returns the minimum transfer time for a number of bytes, in milliseconds. */
  msFor(bytes: number): number {
    return this.bytesPerSecond === undefined ? 0 : (bytes / this.bytesPerSecond) * 1000;
  }

  /** Waits until a number of bytes may pass. @throws the signal's reason */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.bytesPerSecond === undefined || bytes === 0) return;
    const now = this.clock.now();
    // Limits the wait even if the clock was set back.
    const starts = Math.max(now, Math.min(this.#busyUntil, now + this.msFor(64 * 1024 * 1024)));
    this.#busyUntil = starts + this.msFor(bytes);
    if (starts > now) await sleep(this.clock, starts - now, signal);
  }
}

/** Passes bytes through. @throws object-length if their number differs from `length`; the signal's reason */
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

/** Our longest name is shorter, and file systems allow 255 bytes. */
const MAX_CHARACTERS = 240;
const PLAIN = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/;
/** Parts cannot start with a dot, which excludes `.`, `..` and hidden files. */
const DOTTED = /^[a-z0-9-][a-z0-9.-]*(?:\/[a-z0-9-][a-z0-9.-]*)*$/;

/** Returns whether a name is valid for storing an object. */
export function isObjectName(name: string): boolean {
  return name.length <= MAX_CHARACTERS && DOTTED.test(name);
}

/** Returns whether a listed name can be ours. Excludes names with dots, because a cleanup may remove listed objects. */
export function isPlainName(name: string): boolean {
  return name.length <= MAX_CHARACTERS && PLAIN.test(name);
}

/** Refuses an invalid name before it is used in a path or URL. @throws TypeError, because it is a bug */
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
  /** Milliseconds since 1970. Before that, not even the owner can delete the object. Needs `StoreCapabilities.locks`. */
  readonly lockUntil?: number;
  /** In governance mode, users with a special permission can delete locked objects. Defaults to compliance. */
  readonly lockMode?: 'compliance' | 'governance';
}

/** Capabilities confirmed by a test, not merely claimed by the store. */
export interface StoreCapabilities {
  /** The store keeps deleted and overwritten objects until `delete` removes all versions. */
  readonly keepsVersions: boolean;
  /** A lock was written and read back. */
  readonly locks: boolean;
}

export interface GetOptions {
  readonly signal: AbortSignal;
  /** A version from `versions`. Defaults to the newest. */
  readonly version?: string | undefined;
}

/**
 * Stores objects by name. Names consist of lower-case letters, digits, hyphens and slashes. In a bucket, they can also
 * contain dots, except at the start of a part. Listings omit all other names.
 */
export interface ObjectStore {
  /** `s3://bucket/prefix` or the directory, without secrets. */
  readonly label: string;

  /**
   * Atomically stores or replaces an object. It becomes visible once it is complete, and a failure leaves nothing
   * behind.
   * @param bytes are read once; retries send the same bytes from memory
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
   * Yields an object's bytes. If the connection breaks, resumes unless the object has changed.
   * @throws object-missing; object-changed
   */
  get(name: string, options: GetOptions): AsyncIterable<Buffer>;

  /**
   * Locks all versions of an object in compliance mode, except delete markers. A lock cannot be shortened.
   * @param until milliseconds since 1970
   * @throws store-unable; object-missing; object-lock-dropped
   */
  lock(name: string, until: number, signal: AbortSignal): Promise<void>;

  /** Returns an object's versions, newest first, without delete markers. Empty if the store keeps none. */
  versions(name: string, signal: AbortSignal): Promise<readonly string[]>;

  head(name: string, signal: AbortSignal): Promise<ObjectFact | undefined>;

  /** Yields all objects whose names start with `prefix`, in byte order. */
  list(prefix: string, signal: AbortSignal): AsyncIterable<ObjectFact>;

  /** Deletes all versions of an object, if it exists. @throws object-locked */
  delete(name: string, signal: AbortSignal): Promise<void>;

  /** Tests the store on the first call. */
  abilities(signal: AbortSignal): Promise<StoreCapabilities>;

  close(): Promise<void>;
}

export interface Upload {
  readonly name: string;
  /** ID of the upload, assigned by the server. */
  readonly uploadId: string;
}

/**
 * A store with separate steps for an upload, so that objects can be recorded elsewhere before the first byte is sent.
 * An object exists once its upload is complete. An aborted upload cannot be completed.
 */
export type UploadingStore = ObjectStore &
  Pick<S3Store, 'beginUpload' | 'sendParts' | 'completeUpload' | 'giveUpUpload'>;
