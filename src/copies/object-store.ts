import { type Clock, sleep } from '../core/concurrency.ts';
import { objectError } from './errors.ts';

/** Keeps what goes over the network below a number of bytes a second. Everybody who shares the line shares one of these. */
export class ByteRate {
  /** When the bytes that were let through so far have had their time, in milliseconds since 1970. */
  #busyUntil = 0;

  /** @param bytesPerSecond undefined for no limit */
  constructor(
    private readonly bytesPerSecond: number | undefined,
    private readonly clock: Clock,
  ) {}

  /** How many bytes should be let through at a time: a tenth of a second of them. */
  get piece(): number {
    if (this.bytesPerSecond === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(1, Math.min(64 * 1024, Math.floor(this.bytesPerSecond / 10)));
  }

  /** Returns how long bytes need at least, in milliseconds. */
  msFor(bytes: number): number {
    return this.bytesPerSecond === undefined ? 0 : (bytes / this.bytesPerSecond) * 1000;
  }

  /** Waits until bytes may pass. @throws the signal's reason */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.bytesPerSecond === undefined || bytes === 0) return;
    const now = this.clock.now();
    // A clock that was set back must not stop everything.
    const starts = Math.max(now, Math.min(this.#busyUntil, now + this.msFor(64 * 1024 * 1024)));
    this.#busyUntil = starts + this.msFor(bytes);
    if (starts > now) await sleep(this.clock, starts - now, signal);
  }
}

/**
 * Yields the bytes of an object, and fails at its end if there were not as many as announced.
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

/** Every ceiling on what a server may say, and on how long it may take, in one place. */
const MIB = 1024 * 1024;

/** A page of 1,000 objects is about 500 kB. */
export const MOST_XML_BYTES = 8 * MIB;
export const MOST_HEADER_BYTES = 64 * 1024;
/** Objects up to this length are sent in one request, larger ones in parts of it. */
export const PART_BYTES = 8 * MIB;
/** What is to be new is sent in one request, because servers that refuse existing objects may not do so for parts. */
export const MOST_NEW_BYTES = 64 * MIB;
/** Of the S3 protocol. */
export const MOST_PARTS = 10_000;
/** Pages of a listing in a row that list nothing. */
export const MOST_EMPTY_PAGES = 100;

/** How long an answer may take. All in milliseconds. */
export interface Timeouts {
  readonly connect: number;
  /** Until the answer begins, in addition to the time that the request's bytes need at `SLOWEST_BYTES_PER_MS`. */
  readonly answer: number;
  /** Silence within the answer, while somebody waits for its bytes. */
  readonly idle: number;
}

export const TIMEOUTS: Timeouts = { connect: 10_000, answer: 60_000, idle: 60_000 };

/** 16 kB/s. */
export const SLOWEST_BYTES_PER_MS = 16;

/** Longer names are nobody's here, and too long for a folder. */
const MOST_CHARACTERS = 240;
const PLAIN = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/;
/** A dot may be anywhere but in front: no part is `.` or `..`, or a hidden file. */
const DOTTED = /^[a-z0-9-][a-z0-9.-]*(?:\/[a-z0-9-][a-z0-9.-]*)*$/;

/** Returns whether an object of ours could be stored under a name. */
export function isObjectName(name: string): boolean {
  return name.length <= MOST_CHARACTERS && DOTTED.test(name);
}

/**
 * Returns whether a name could be one of ours in a folder, or in a list of a bucket. What has a dot in its name is left to
 * others there: what is listed and not known may be removed.
 */
export function isPlainName(name: string): boolean {
  return name.length <= MOST_CHARACTERS && PLAIN.test(name);
}

/**
 * Refuses a name that is no object's, before it becomes part of a path or an address.
 *
 * @throws TypeError, because names are made by this program
 */
export function checkObjectName(name: string, isName: (name: string) => boolean): void {
  if (!isName(name)) throw new TypeError(`no name of an object: ${JSON.stringify(name)}`);
}

export interface ObjectFact {
  readonly name: string;
  /** In bytes. */
  readonly length: number;
  /** When it was stored, in milliseconds since 1970, by the store's clock. */
  readonly modified: number;
}

export interface PutOptions {
  readonly signal: AbortSignal;
  /** Refuse an object of this name: only for stores that can (see `Abilities.refusesExisting`), and up to 64 MiB. */
  readonly onlyNew?: boolean;
  /** Milliseconds since 1970: nobody can delete the object until then, not even its owner. Only for stores that can. */
  readonly lockUntil?: number;
  /** In governance mode, users with a special permission can delete a locked object; compliance by default. */
  readonly lockMode?: 'compliance' | 'governance';
}

/** What a store was seen to do when it was asked; nothing is taken from its promises. */
export interface Abilities {
  /** `put` with `onlyNew` fails for an object that exists, also if two do it at once. */
  readonly refusesExisting: boolean;
  /** Deleted and overwritten objects are kept until their versions are deleted, which `delete` does. */
  readonly keepsVersions: boolean;
  /** Objects can be locked: a lock was written and read back. */
  readonly locks: boolean;
}

export interface GetOptions {
  readonly signal: AbortSignal;
  /** One that `versions` returned; the newest by default. */
  readonly version?: string | undefined;
}

/**
 * Objects under names, each written once and complete. Names are of lower-case letters, digits, hyphens and slashes, and
 * in a bucket of dots as well, if none begins a part of the name. What a store lists under other names is not ours, and
 * left out.
 */
export interface ObjectStore {
  /** For people, never with secrets: `s3://bucket/prefix` or the folder. */
  readonly label: string;

  /**
   * Stores an object. Nothing is visible under the name before everything is there, and nothing is left if it fails.
   * An object of the name is replaced, unless `onlyNew` is set.
   *
   * @param length of all bytes
   * @param bytes read once; a request that is repeated sends the same bytes again from memory
   * @throws object-length if there are more or fewer bytes; object-exists; store-unable; object-lock-dropped (the
   *   object is stored then, without the lock)
   */
  put(
    name: string,
    length: number,
    bytes: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<void>;

  /**
   * Yields the bytes of an object. A connection that breaks is continued where it stopped, and only with the same
   * object.
   *
   * @throws object-missing; object-changed
   */
  get(name: string, options: GetOptions): AsyncIterable<Buffer>;

  /**
   * Locks an object until a time, in compliance mode, with all its versions that hold bytes; what is locked as long
   * already stays as it is. A lock cannot be shortened.
   *
   * @param until milliseconds since 1970
   * @throws store-unable; object-missing; object-lock-dropped
   */
  lock(name: string, until: number, signal: AbortSignal): Promise<void>;

  /** Returns the versions of an object that hold bytes, the newest first; none where the store keeps no versions. */
  versions(name: string, signal: AbortSignal): Promise<readonly string[]>;

  head(name: string, signal: AbortSignal): Promise<ObjectFact | undefined>;

  /** Yields all objects whose names begin with a text, in order of their names (by bytes). */
  list(prefix: string, signal: AbortSignal): AsyncIterable<ObjectFact>;

  /**
   * Deletes an object with all its versions. Does nothing if it is missing.
   *
   * @throws object-locked
   */
  delete(name: string, signal: AbortSignal): Promise<void>;

  /** Returns what the store can do; tried out at the first call. */
  abilities(signal: AbortSignal): Promise<Abilities>;

  /** Lets go of connections. */
  close(): Promise<void>;
}

export interface Upload {
  readonly name: string;
  /** The server's own name for it. */
  readonly uploadId: string;
}

/**
 * A store whose uploads are separate acts, for objects that have to be known elsewhere before the first byte is sent. The
 * object is there once the upload is completed. An upload that was given up cannot be completed.
 */
export interface UploadingStore extends ObjectStore {
  /**
   * Begins an upload, also of a small object.
   *
   * @param metadata kept with the object, by names of lower-case letters and hyphens
   */
  beginUpload(
    name: string,
    metadata: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Upload>;

  /**
   * Sends all bytes of an upload, and returns what the server calls their parts.
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
   * Asks for the object to be made of its parts. Resolves as well if an answer was lost and the server no longer knows the
   * upload, so it is no evidence that the object is there.
   */
  completeUpload(upload: Upload, parts: readonly string[], signal: AbortSignal): Promise<void>;

  /** Gives an upload up, with its parts. Does nothing if the server does not know it. */
  giveUpUpload(upload: Upload, signal: AbortSignal): Promise<void>;
}
