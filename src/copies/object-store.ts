import { type Clock, sleep } from '../core/concurrency.ts';
import { objectError } from './errors.ts';

/** Limits network traffic to a number of bytes per second. All users of a line share one instance. */
export class ByteRate {
  /** Time at which the bytes admitted so far will have passed, milliseconds since 1970. */
  #busyUntil = 0;

  /** @param bytesPerSecond undefined for no limit */
  constructor(
    private readonly bytesPerSecond: number | undefined,
    private readonly clock: Clock,
  ) {}

  /** Bytes to admit at a time: a tenth of a second's worth. */
  get piece(): number {
    if (this.bytesPerSecond === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(1, Math.min(64 * 1024, Math.floor(this.bytesPerSecond / 10)));
  }

  /** Returns the minimum time for some bytes, in milliseconds. */
  msFor(bytes: number): number {
    return this.bytesPerSecond === undefined ? 0 : (bytes / this.bytesPerSecond) * 1000;
  }

  /** Waits until bytes may pass. @throws the signal's reason */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.bytesPerSecond === undefined || bytes === 0) return;
    const now = this.clock.now();
    // Limits the wait if the clock was set back.
    const starts = Math.max(now, Math.min(this.#busyUntil, now + this.msFor(64 * 1024 * 1024)));
    this.#busyUntil = starts + this.msFor(bytes);
    if (starts > now) await sleep(this.clock, starts - now, signal);
  }
}

/**
 * Yields the bytes of an object, and fails at the end if their number differs from the announced one.
 *
 * @throws object-length; the signal's reason
 */
export async function* countedBytes(
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

/** All limits on server responses and their duration. */
const MIB = 1024 * 1024;

/** A page of 1,000 objects is about 500 kB. */
export const MAX_XML_BYTES = 8 * MIB;
export const MAX_HEADER_BYTES = 64 * 1024;
/** Objects up to this length are sent in one request, larger ones in parts. */
export const PART_BYTES = 8 * MIB;
/** `onlyNew` objects are sent in one request: some servers refuse existing objects only there, not for parts. */
export const MAX_NEW_BYTES = 64 * MIB;
/** Limit of the S3 protocol. */
export const MAX_PARTS = 10_000;
/** Maximum consecutive empty pages of a listing. */
export const MAX_EMPTY_PAGES = 100;

/** Limits on a response, in milliseconds. */
export interface Timeouts {
  readonly connect: number;
  /** Until the response starts, plus the time for the request's bytes at `MIN_BYTES_PER_MS`. */
  readonly answer: number;
  /** Silence within the response while a reader waits for bytes. */
  readonly idle: number;
}

export const TIMEOUTS: Timeouts = { connect: 10_000, answer: 60_000, idle: 60_000 };

/** 16 kB/s. */
export const MIN_BYTES_PER_MS = 16;

/** Longer names are not ours, and too long for a directory. */
const MAX_CHARACTERS = 240;
const PLAIN = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/;
/** A dot may be anywhere except at the start: no part is `.`, `..` or a hidden file. */
const DOTTED = /^[a-z0-9-][a-z0-9.-]*(?:\/[a-z0-9-][a-z0-9.-]*)*$/;

/** Returns whether an object of ours could be stored under a name. */
export function isObjectName(name: string): boolean {
  return name.length <= MAX_CHARACTERS && DOTTED.test(name);
}

/** Returns whether a listed name could be ours. Excludes dots: unknown objects that look like ours may be removed. */
export function isPlainName(name: string): boolean {
  return name.length <= MAX_CHARACTERS && PLAIN.test(name);
}

/**
 * Refuses an invalid object name before it becomes part of a path or URL.
 *
 * @throws TypeError, because this program makes the names
 */
export function checkObjectName(name: string, isName: (name: string) => boolean): void {
  if (!isName(name)) throw new TypeError(`no name of an object: ${JSON.stringify(name)}`);
}

export interface ObjectFact {
  readonly name: string;
  /** In bytes. */
  readonly length: number;
  /** By the store's clock, milliseconds since 1970. */
  readonly modified: number;
}

export interface PutOptions {
  readonly signal: AbortSignal;
  /** Refuse to replace an object: only for stores with `Abilities.refusesExisting`, up to 64 MiB. */
  readonly onlyNew?: boolean;
  /** Milliseconds since 1970: until then, not even the owner can delete the object. Only for stores with locks. */
  readonly lockUntil?: number;
  /** In governance mode, users with a special permission can delete a locked object; default compliance. */
  readonly lockMode?: 'compliance' | 'governance';
}

/** Observed abilities of a store, not its claims. */
export interface Abilities {
  /** `put` with `onlyNew` fails for an existing object, even with two concurrent calls. */
  readonly refusesExisting: boolean;
  /** The store keeps deleted and overwritten objects until their versions are deleted; `delete` does that. */
  readonly keepsVersions: boolean;
  /** Objects can be locked: a lock was written and read back. */
  readonly locks: boolean;
}

export interface GetOptions {
  readonly signal: AbortSignal;
  /** A result of `versions`; by default the newest. */
  readonly version?: string | undefined;
}

/**
 * Objects by name, each written once and complete. Names consist of lower-case letters, digits, hyphens and slashes; in
 * a bucket also dots, except at the start of a part. Other names in a listing are not ours, and are omitted.
 */
export interface ObjectStore {
  /** For people, without secrets: `s3://bucket/prefix` or the directory. */
  readonly label: string;

  /**
   * Stores an object atomically: it is visible only when complete, and a failure leaves nothing. Replaces an existing
   * object unless `onlyNew` is set.
   *
   * @param length of all bytes
   * @param bytes read once; a repeated request sends the same bytes from memory
   * @throws object-length if the number of bytes differs; object-exists; store-unable; object-lock-dropped (the object
   * is then stored without the lock)
   */
  put(
    name: string,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<void>;

  /**
   * Yields the bytes of an object. Resumes after a broken connection, but only with the same object.
   *
   * @throws object-missing; object-changed
   */
  get(name: string, options: GetOptions): AsyncIterable<Buffer>;

  /**
   * Locks all versions of an object that hold bytes until a time, in compliance mode. Longer locks stay: a lock cannot
   * be shortened.
   *
   * @param until milliseconds since 1970
   * @throws store-unable; object-missing; object-lock-dropped
   */
  lock(name: string, until: number, signal: AbortSignal): Promise<void>;

  /** Returns the versions of an object that hold bytes, newest first; none if the store keeps no versions. */
  versions(name: string, signal: AbortSignal): Promise<readonly string[]>;

  head(name: string, signal: AbortSignal): Promise<ObjectFact | undefined>;

  /** Yields all objects whose names start with `prefix`, sorted by the bytes of their names. */
  list(prefix: string, signal: AbortSignal): AsyncIterable<ObjectFact>;

  /**
   * Deletes an object with all its versions. Does nothing if it is missing.
   *
   * @throws object-locked
   */
  delete(name: string, signal: AbortSignal): Promise<void>;

  /** Returns the store's abilities, tested at the first call. */
  abilities(signal: AbortSignal): Promise<Abilities>;

  close(): Promise<void>;
}

export interface Upload {
  readonly name: string;
  /** The server's ID for it. */
  readonly uploadId: string;
}

/**
 * A store with separate upload steps, for objects that must be recorded elsewhere before the first byte is sent. The
 * object exists once the upload is completed. An aborted upload cannot be completed.
 */
export interface UploadingStore extends ObjectStore {
  /**
   * Starts an upload, even of a small object.
   *
   * @param metadata stored with the object; names of lower-case letters and hyphens
   */
  beginUpload(
    name: string,
    metadata: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Upload>;

  /**
   * Sends all bytes of an upload, and returns the server's IDs of their parts.
   *
   * @param length of all bytes: at least one
   * @throws object-length
   */
  sendParts(
    upload: Upload,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<readonly string[]>;

  /**
   * Requests the object to be assembled from its parts. Also resolves if a response was lost and the server no longer
   * has the upload, so it does not prove that the object exists.
   */
  completeUpload(upload: Upload, parts: readonly string[], signal: AbortSignal): Promise<void>;

  /** Aborts an upload and drops its parts. Does nothing if the server does not have it. */
  giveUpUpload(upload: Upload, signal: AbortSignal): Promise<void>;
}
